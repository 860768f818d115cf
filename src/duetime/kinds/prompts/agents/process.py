"""An agent's program in a session of its own, under a supervisor process (the leash), with its streams read live.

- standard input: what the program is given, then end of file;
- control: a later deadline from time to time; if our end closes because we died, the supervisor ends everything;
- news: one line that tells how the program ended; it closes when the supervisor is gone.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from duetime.engine.clock import Clock, SystemClock
from duetime.engine.kind import StopReason
from duetime.kinds.prompts.agent import Errand
from duetime.kinds.prompts.agents.environment import Secrets
from duetime.kinds.prompts.agents.output import Kept
from duetime.kinds.prompts.agents.transcript import Reader
from duetime.processes.child_lease import ChildLease

_LEASH = str(Path(__file__).with_name("process_supervisor.py"))
_CHUNK = 65536
_LAST_CHUNKS = 64
"""Chunks read from a stream at the end, which an escaped process may still be writing to."""


class Launch(NamedTuple):
    argv: Sequence[str]
    env: Mapping[str, str]
    folder: str
    """Working directory."""
    private: str
    """The folder of this run: removed by the supervisor if no worker is left to do it."""
    given: bytes
    """Standard input of the program."""
    deadline: float
    """Time on the boot clock at which it is ended, unless it is sent a later one."""


class Ended(NamedTuple):
    """How the program ended: with a code, by a signal, or not even started. Nothing is known if we ended it, or if its
    supervisor was ended with it."""

    code: int | None = None
    signal: int | None = None
    errno: int | None = None


class LeashedProcess:
    def __init__(self, launch: Launch) -> None:
        """Raises OSError if no process can be started."""
        control_there, self._control = os.pipe()
        self._news, news_there = os.pipe()
        held = (str(control_there), str(news_there), str(launch.deadline), launch.private)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _LEASH, *held, *launch.argv],
                env=dict(launch.env),
                cwd=launch.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(control_there, news_there),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._control)
            os.close(self._news)
            raise
        finally:
            os.close(control_there)
            os.close(news_there)
        assert self._process.stdin and self._process.stdout and self._process.stderr  # they were asked for
        self._given, self._out, self._err = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._unsent = memoryview(launch.given)
        self._reading = {self._out.fileno(), self._err.fileno(), self._news}
        for descriptor in (*self._reading, self._given.fileno(), self._control):
            os.set_blocking(descriptor, False)
        self._told = b""
        self._fresh: list[bytes] = []
        self.err = Kept()
        self._send()

    @property
    def pid(self) -> int:
        """Process id of the supervisor, which leads the session and the group."""
        return self._process.pid

    @property
    def gone(self) -> bool:
        return self._news not in self._reading

    @property
    def was_ended(self) -> bool:
        """Whether the supervisor is gone and has not reported that the program ended by itself."""
        return self.gone and _ended(self._told) == Ended()

    def hear(self, timeout: float) -> list[bytes]:
        """Wait for at most `timeout` seconds, send what is unsent, and return what came on the standard output."""
        poll = select.poll()
        for descriptor in self._reading:
            poll.register(descriptor, select.POLLIN)
        if not self._given.closed:
            poll.register(self._given, select.POLLOUT)
        for descriptor, _ in poll.poll(timeout * 1000):
            if descriptor in self._reading:
                self._receive(descriptor)
            else:
                self._send()
        fresh, self._fresh = self._fresh, []
        return fresh

    def live_until(self, deadline: float) -> None:
        self._say(f"{deadline}\n".encode())

    def ask_to_end(self) -> None:
        """Signal the whole group, because a shell would not pass the signal on."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill through the supervisor, which also knows processes that left the group."""
        self._say(b"k")

    def end(self) -> tuple[Ended, list[bytes]]:
        """Kill what is left of the group; return how the program ended, and the last of what it wrote."""
        # The supervisor has not been reaped yet, so its process id still means its own group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for descriptor in tuple(self._reading):
            for _ in range(_LAST_CHUNKS):
                if not self._receive(descriptor):
                    break
        for stream in (self._given, self._out, self._err):
            stream.close()
        os.close(self._control)
        os.close(self._news)
        return _ended(self._told), self._fresh

    def _receive(self, descriptor: int) -> bool:
        """Read a chunk; return whether there may be more."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._reading.discard(descriptor)
        elif descriptor == self._news:
            self._told += data
        elif descriptor == self._out.fileno():
            self._fresh.append(data)
        else:
            self.err.add(data)
        return bool(data)

    def _send(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._given.fileno(), self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            return  # the pipe is full: next time
        except OSError:
            self._unsent = self._unsent[:0]  # it stopped reading its input, which is not an error
        if not self._unsent:
            self._given.close()

    def _say(self, note: bytes) -> None:
        with suppress(OSError):  # full or gone: then the message is not needed
            os.write(self._control, note)


def _ended(told: bytes) -> Ended:
    """Parse the first report: that of a command that cannot be started comes before that of its end."""
    words = told.split()
    if len(words) < 2:
        return Ended()
    number = int(words[1])
    match words[0]:
        case b"failed":
            return Ended(errno=number)
        case b"signal":
            return Ended(signal=number)
        case _:
            return Ended(code=number)


# Supervision of a program until it has ended, by itself or because it was stopped.

_TICK = 0.05
"""Seconds between two checks of the stop signal."""
_NEWS = 1.0
"""Seconds between two reports of what the program is doing."""
_HURRIED = 0.5
"""Seconds of grace if the worker itself is about to end: it still has to record the outcome of the run."""
_LAST = 2.0
"""Seconds for the supervisor to end everything before it is killed with its group."""
_SHUTDOWN = "the worker stopped before it was done"
_STOPPED = {
    StopReason.CANCELLED: "stopped on request",
    StopReason.LEASE: "its worker lost its lease before it was done",
    StopReason.SHUTDOWN: _SHUTDOWN,
}


class TimeLimits(NamedTuple):
    grace: float = 5.0
    """Seconds for a program to end by itself once it was asked to."""
    unheard: float = 30.0
    """Seconds that a program lives without hearing from its worker, unless the lease ends before."""


TIME_LIMITS = TimeLimits()


def supervise(
    process: LeashedProcess,
    errand: Errand,
    reader: Reader,
    secrets: Secrets,
    limits: TimeLimits,
    is_closed: Callable[[], bool],
    clock: Clock | None = None,
) -> str | None:
    """Return why the program was stopped, if it was. The clock is real, even if that of the schedules is not."""
    clock = clock or SystemClock()
    began = reported = clock.monotonic()
    child = ChildLease(errand.lease, limits.unheard, clock)
    ending: _Ending | None = None
    while not process.gone:
        for data in process.hear(_TICK):
            reader.take(data)
        now = clock.monotonic()
        deadline = child.renewal()  # before the check of `stop`: a lost lease may be renewed after that
        if deadline is not None and errand.stop.reason is not StopReason.LEASE:
            process.live_until(deadline)
        if now - reported >= _NEWS and (news := reader.heard.news) is not None:
            reported = now
            errand.report(secrets.without(news))
            reader.heard.news = None
        if ending is None and (why := _why_end(errand, now - began, is_closed())) is not None:
            ending = _Ending(process, why, now + _grace(errand.stop.reason, limits))
        if ending is not None and ending.is_over(now):
            break
    if ending is None and child.over and process.was_ended:  # by its deadline, so by no fault of its own
        errand.stop.set(StopReason.LEASE)
        return _STOPPED[StopReason.LEASE]
    return ending.why if ending else None


def _why_end(errand: Errand, passed: float, closed: bool) -> str | None:
    if errand.stop.reason in _STOPPED:
        return _STOPPED[errand.stop.reason]
    if closed:
        return _SHUTDOWN
    if errand.stop.is_set() or passed >= errand.patience:
        return f"timed out after {errand.patience:g} s"
    return None


def _grace(reason: StopReason | None, limits: TimeLimits) -> float:
    if reason is StopReason.LEASE:
        return 0.0  # another worker may have the run by now
    return min(_HURRIED, limits.grace) if reason is StopReason.SHUTDOWN else limits.grace


class _Ending:
    """The stages of stopping a program: it is asked to end, killed through the supervisor, then killed with it."""

    def __init__(self, process: LeashedProcess, why: str, kill_at: float) -> None:
        self.why = why
        self._process = process
        self._kill_at = kill_at
        self._killed = False
        process.ask_to_end()

    def is_over(self, now: float) -> bool:
        if now >= self._kill_at and not self._killed:
            self._killed = True
            self._process.kill()
        return now >= self._kill_at + _LAST
