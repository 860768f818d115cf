"""The guard of a child process: run as a program, never imported. It uses nothing but the standard library.

    guard.py run DEADLINE CONTROL REPORT PRIVATE COMMAND …
    guard.py call DEADLINE CONTROL REPORT LIFE MODULE

It ends everything that it guards as soon as the worker asks for it, is gone (its end of a pipe closes), or has sent no
later deadline in time: a worker that hangs may have lost its run to another one.

`run` starts a command and reports how it ended. On Linux it adopts processes that the command leaves behind, so that
not even a daemon escapes. `call` calls `main` of a module in this process, which leads a group that is killed as a
whole.

DEADLINE: on the boot clock, which all processes share and which goes on while they are stopped and the machine sleeps.
CONTROL: a descriptor on which the worker sends lines: later deadlines, `c` to cancel, `k` to end everything.
REPORT: a descriptor; `run` writes one line: `exit CODE`, `signal NUMBER`, `failed ERRNO`, or `ended` if it was stopped.
PRIVATE: a folder, which is removed here if no worker is left to do it. LIFE: a pipe that closes with the worker.
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
"""Rounds of killing; each one ends another generation of processes."""
_TICK = 0.05
"""Seconds between two checks of the deadline: a machine that wakes from sleep does not end longer waits."""
_PIPE = 65536
"""Number of bytes that a pipe holds: after a stop, everything that was sent meanwhile is read before the deadline is
checked."""
_KILL, _ABANDONED = "kill", "abandoned"
"""Reasons to end everything: the worker asked for it; the worker is gone or has not extended the deadline."""


def main() -> None:
    mode, deadline, *words = sys.argv[1:]
    control, report = int(words[0]), int(words[1])
    for descriptor in (control, report):
        os.set_inheritable(descriptor, False)
    if mode == "run":
        _run(Control(control, float(deadline)), report, words[2], words[3:])
    else:
        _call(Control(control, float(deadline)), report, int(words[2]), words[3])


class Control:
    """The channel from the worker, and the deadline."""

    def __init__(self, descriptor: int, deadline: float) -> None:
        self._descriptor = descriptor
        self._deadline = deadline
        self._partial = b""
        self._poll = select.poll()  # unlike `select`, this accepts descriptors beyond 1023
        self._poll.register(descriptor, select.POLLIN)
        self.cancel = _ignore

    def wake_on(self, descriptor: int) -> None:
        """End a wait early when the descriptor becomes readable."""
        self._poll.register(descriptor, select.POLLIN)

    def catch_up(self) -> str | None:
        """Return a reason not to begin. If this process started so slowly that the deadline has passed, a later one
        must have arrived."""
        reason = None
        while reason is None and _boottime() >= self._deadline:
            reason = self.wait()
        return reason

    def wait(self) -> str | None:
        """Wait up to a tick for a message; return the reason if everything has to end."""
        over = _boottime() >= self._deadline
        ready = {descriptor for descriptor, _ in self._poll.poll(0 if over else _TICK * 1000)}
        if self._descriptor not in ready:
            return _ABANDONED if over else None
        data = os.read(self._descriptor, _PIPE)
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            if line == b"k":
                return _KILL
            if line == b"c":
                self.cancel()
            else:
                self._deadline = max(self._deadline, float(line))
        return None if data else _ABANDONED


def _ignore() -> None:
    """Do nothing, because a command cannot be cancelled in this way."""


def _boottime() -> float:
    source = getattr(time, "CLOCK_BOOTTIME", None)
    # The same clock as the worker's, whose module this program must not import.
    return time.monotonic() if source is None else time.clock_gettime(source)  # noqa: TID251


# A function in this process.


def _call(control: Control, report: int, life: int, module: str) -> None:
    import importlib
    import json
    import threading

    os.set_inheritable(life, False)
    _kill_with(life)
    cancelled = threading.Event()
    control.cancel = cancelled.set
    if control.catch_up() is not None:
        _end_group()
    threading.Thread(target=_watch, args=(control,), name="duetime-watch", daemon=True).start()
    request, _, arguments = _read_input().partition(b"\n")
    if not arguments.endswith(b"\n"):
        _end_group()  # the worker died before it had sent everything
    parameters = json.loads(request)
    sys.path[:] = parameters["path"]
    importlib.import_module(module).main(parameters, json.loads(arguments), cancelled, report)


def _watch(control: Control) -> None:
    while control.wait() is None:
        pass
    _end_group()


def _read_input() -> bytes:
    """Return all of the standard input, which is empty from then on."""
    with open(os.dup(0), "rb") as stream:  # noqa: PTH123 - it has no path
        data = stream.read()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return data


def _kill_with(life: int) -> None:
    """Let the kernel kill the group when the other end closes, which works even while a task keeps Python busy."""
    try:
        import fcntl

        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    except (ImportError, AttributeError, OSError):
        pass  # only Linux has all of it; elsewhere the watcher thread has to suffice


def _end_group() -> None:
    if os.getpgrp() == os.getpid():  # never a group that another process leads
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


# A command with everything that it starts.


def _run(control: Control, report: int, private: str, argv: list[str]) -> None:
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # these signals are meant for the command, which is in the same group
    if control.catch_up() is not None:
        os.write(report, b"ended\n")
        _remove(private)
        return
    _prctl(_SET_CHILD_SUBREAPER, 1)
    wake = _signal_pipe(signal.SIGCHLD)
    control.wake_on(wake)
    command = _start(argv, report)
    _close_streams()
    reason, ended = None, None
    while reason is None and ended is None:
        reason = control.wait()
        ended = _reap(command, wake)
    abandoned = ended is None and reason == _ABANDONED
    _kill_all()
    try:
        os.write(report, ended or b"ended\n")
    except BrokenPipeError:
        abandoned = True
    if abandoned:
        _remove(private)
        os.killpg(0, signal.SIGKILL)  # including this process, because nobody waits for it


def _start(command: list[str], report: int) -> int:
    guard = os.getpid()
    process = os.fork()
    if process:
        return process
    try:
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(127)  # the guard died before the kernel was told
        # A program that is started inherits ignored signals; Python itself ignores the last two.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)  # noqa: S606 - no shell is what is wanted
    except OSError as error:
        os.write(report, b"failed %d\n" % (error.errno or 0))
    finally:
        os._exit(127)


def _reap(command: int, wake: int) -> bytes | None:
    """Reap all processes that have ended; return the report if the command is among them."""
    report = None
    try:
        os.read(wake, 4096)
    except BlockingIOError:
        return None  # nothing has ended
    try:
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return report
            if process == command:
                code = os.waitstatus_to_exitcode(status)
                report = b"exit %d\n" % code if code >= 0 else b"signal %d\n" % -code
    except ChildProcessError:
        return report


def _kill_all() -> None:
    """Kill child processes until there are none: the children of a child that died become our own. On systems other
    than Linux they do not, and only the group can be reached; the same holds if they are started faster than they are
    found."""
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
    """Return the ids of the child processes. None can be reused meanwhile, because only this process reaps them."""
    own = str(os.getpid())
    names = os.listdir("/proc")  # noqa: PTH208 - pathlib would slow the start
    return [int(name) for name in names if name.isdigit() and _parent_of(name) == own]


def _parent_of(process: str) -> str:
    try:
        with open(f"/proc/{process}/stat", encoding="latin-1") as file:  # noqa: PTH123 - as above
            return file.read().rpartition(")")[2].split()[1]
    except OSError:
        return ""


def _signal_pipe(number: int) -> int:
    """Return a descriptor from which the signal can be read whenever it has arrived."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(number, lambda *_: None)
    return reading


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    try:
        import ctypes
    except ImportError:
        return  # a Python without it: then only the group can be ended
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _close_streams() -> None:
    """Close our copies of the command's streams, because whoever reads them waits for their end."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
