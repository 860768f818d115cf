"""Supervises an agent's process: run as a program, never imported. It uses nothing but the standard library.

It starts the command, reports how it ended, and ends everything that the command started as soon as the worker asks for
it, is gone (its end of a pipe closes), or has sent no later deadline in time: a worker that hangs may have lost its run
to another one. On Linux it adopts processes that the command leaves behind, so that not even a daemon escapes.

    process_supervisor.py CONTROL NEWS DEADLINE PRIVATE COMMAND …

CONTROL: a descriptor on which the worker sends later deadlines, one per line; `k` means to end everything. NEWS: a
descriptor for one line: `exit CODE`, `signal NUMBER`, `failed ERRNO`, or `ended` if it was stopped. DEADLINE: on the
boot clock, which goes on while processes are stopped and the machine sleeps. PRIVATE: the folder of this run, which is
removed here if no worker is left to do it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_ROUNDS = 100
"""Rounds of killing; each of them ends another generation of processes."""
_TICK = 0.05
"""Seconds between two checks of the deadline: a machine that wakes from sleep does not end longer waits."""
_PIPE = 65536
"""Bytes that a pipe holds: after a stop, all that was sent meanwhile is read before the deadline is judged."""


def main() -> None:
    control, news, deadline, private = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    for descriptor in (control, news):
        os.set_inheritable(descriptor, False)
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # they are meant for the command, which is in the same group
    if _is_too_late(control, deadline):
        os.write(news, b"ended\n")
        _remove(private)
        return
    _tell_the_kernel(_SET_CHILD_SUBREAPER, 1)
    wake = _wake_on(signal.SIGCHLD)
    command = _start(sys.argv[5:], news)
    _let_go_of_its_streams()
    last_word, orphaned = _watch(command, control, wake, deadline)
    _end_all()
    try:
        os.write(news, last_word or b"ended\n")
    except BrokenPipeError:
        orphaned = True
    if orphaned:
        _remove(private)
        os.killpg(0, signal.SIGKILL)  # this process too: nobody waits for it


def _is_too_late(control: int, deadline: float) -> bool:
    """Return whether the deadline is over and no later one was sent while this process started."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    return _boottime() >= deadline and not poll.poll(0)


def _watch(command: int, control: int, wake: int, deadline: float) -> tuple[bytes, bool]:
    """Return how the command ended, if it did, and whether the worker is gone."""
    poll = select.poll()  # unlike `select`, it takes descriptors beyond 1023
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    said = b""
    while True:
        over = _boottime() >= deadline
        ready = {descriptor for descriptor, _ in poll.poll(0 if over else _TICK * 1000)}
        if wake in ready:
            os.read(wake, 4096)
            if (ended := _reap(command)) is not None:
                return ended, False
        if control in ready:
            note = os.read(control, _PIPE)
            if not note:
                return b"", True
            if b"k" in note:
                return b"", False
            *told, said = (said + note).split(b"\n")
            deadline = max([deadline, *map(float, told)])
        elif over:
            return b"", True


def _boottime() -> float:
    source = getattr(time, "CLOCK_BOOTTIME", None)
    # The same clock as the worker's, which this program must not import.
    return time.monotonic() if source is None else time.clock_gettime(source)  # noqa: TID251


def _start(command: list[str], news: int) -> int:
    process = os.fork()
    if process:
        return process
    try:
        _tell_the_kernel(_SET_PDEATHSIG, signal.SIGKILL)
        # Ignored signals stay ignored in a program that is started; Python ignores the last two by itself.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)  # noqa: S606 - no shell is what is wanted
    except OSError as error:
        os.write(news, b"failed %d\n" % (error.errno or 0))
    finally:
        os._exit(127)


def _reap(command: int) -> bytes | None:
    """Reap whatever has ended; return the report if the command is among it."""
    last_word = None
    try:
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return last_word
            if process == command:
                code = os.waitstatus_to_exitcode(status)
                last_word = b"exit %d\n" % code if code >= 0 else b"signal %d\n" % -code
    except ChildProcessError:
        return last_word


def _end_all() -> None:
    """Kill child processes until there are none: those of a child that died become its own. Elsewhere than on Linux
    they do not, and only the group can be reached; likewise if they are started faster than they are found."""
    for _ in range(_ROUNDS if sys.platform == "linux" else 0):
        for child in _children():
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has already ended
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _children() -> list[int]:
    """Return the ids of the child processes. None can be reused meanwhile: only this process reaps them."""
    own = str(os.getpid())
    names = os.listdir("/proc")  # noqa: PTH208 - pathlib would slow the start
    return [int(name) for name in names if name.isdigit() and _parent_of(name) == own]


def _parent_of(process: str) -> str:
    try:
        with open(f"/proc/{process}/stat", encoding="latin-1") as file:  # noqa: PTH123 - as above
            return file.read().rpartition(")")[2].split()[1]
    except OSError:
        return ""


def _wake_on(*numbers: int) -> int:
    """Return a descriptor from which the numbers of arrived signals can be read."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    return reading


def _tell_the_kernel(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    try:
        import ctypes
    except ImportError:
        return  # a Python without it: then only the group can be ended
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _let_go_of_its_streams() -> None:
    """Close our copies of the command's streams, because whoever reads these waits for their end."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
