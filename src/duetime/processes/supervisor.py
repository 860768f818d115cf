"""Supervises child processes that must end before the lease of their worker, whatever happens to the worker.

A `GuardedProcess` has its own session and group, which `guard.py` leads. Two pipes connect it with the worker:
- control: deadlines and requests to stop; it closes when this process dies;
- report: reports of the guard, or of the function that runs under it; it closes when the guard is gone.

The deadlines are on the boot clock, which all processes of a machine share. The worker extends them regularly while its
own lease lasts; the guard ends everything when the deadline has passed. So neither a worker that is stopped, nor one
that hangs, nor a machine that sleeps leaves a child behind that works alongside the worker that took over the run.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from duetime.engine.clock import Clock, SystemClock
from duetime.engine.worker.lease import Lease
from duetime.processes.child import ChildProcess, ProcessSpec, Sink

_GUARD = str(Path(__file__).with_name("guard.py"))
LONGEST_INTERVAL = 1.0
"""Maximum number of seconds between two messages to a child."""


def margin_of(seconds: float) -> float:
    """Return how many seconds before the end of a lease the children must have ended."""
    return min(1.0, seconds / 5)


class ChildLease:
    """The deadlines of a child. `patience` is how many seconds a child lives without a message, even if the lease is
    longer or there is none."""

    def __init__(self, lease: Lease | None, patience: float, clock: Clock | None = None) -> None:
        # Real processes live in real time, even if the schedules use a settable clock.
        self._clock = clock or SystemClock()
        self._lease, self._patience = lease, patience
        shortest = patience if lease is None else min(patience, lease.seconds / 2)
        self._interval = min(LONGEST_INTERVAL, shortest / 4)
        self._next = self._clock.boottime() + self._interval
        self._last_deadline = self._heard_deadline = self._until()

    @property
    def over(self) -> bool:
        """Return whether the last deadline that the child has certainly heard of has passed, so that it had to end."""
        return self._clock.boottime() >= self._heard_deadline

    def deadline(self) -> float:
        """Return the first deadline, with which a child is started."""
        return self._last_deadline

    def _until(self) -> float:
        """Return a deadline. The boot clock is read before the lease, so that a pause in between makes it earlier."""
        now = self._clock.boottime()
        if self._lease is None:
            return now + self._patience
        return now + min(self._patience, self._lease.left - margin_of(self._lease.seconds))

    def renewal(self) -> float | None:
        """Return a new deadline if it is time to send one and the lease still holds."""
        now = self._clock.boottime()
        if now < self._next:
            return None
        self._next = now + self._interval
        deadline = self._until()
        return None if deadline <= now else deadline

    def sent(self, deadline: float) -> None:
        """Note that a deadline was sent just now. If the one before had passed by then, as after a pause of this
        process, the child may have ended without hearing of it; only if it is there for the next one has it heard."""
        if self._clock.boottime() < self._last_deadline:
            self._heard_deadline = max(self._heard_deadline, deadline)
        self._last_deadline = max(self._last_deadline, deadline)


class ProcessLimits(NamedTuple):
    grace: float = 5.0
    """Seconds that a process has to end by itself after it was asked to."""
    patience: float = 30.0
    """Seconds that a process lives without hearing from its worker, unless the worker's lease ends earlier."""


LIMITS = ProcessLimits()


class ExitStatus(NamedTuple):
    """The way in which a command ended: with a code, by a signal, or without having been started. All fields are empty
    if it was stopped, or if its guard was killed with it."""

    code: int | None = None
    signal: int | None = None
    errno: int | None = None


class GuardedProcess(ChildProcess):
    """A process in a session of its own, which the guard leads."""

    def __init__(
        self, options: Sequence[str], mode: str, spec: ProcessSpec, lease: ChildLease, report: Sink, *more: int
    ) -> None:
        """`options` are those of the interpreter; `more` are further descriptors that the guard inherits."""
        if not hasattr(os, "fork"):
            raise OSError(errno.ENOSYS, "programs are supervised on Linux and macOS; on Windows, run Duetime in WSL")
        self._lease = lease
        control_read, self._control = os.pipe()
        try:
            self._report, report_write = os.pipe()
        except OSError:
            os.close(control_read)
            os.close(self._control)
            raise
        passed = (control_read, report_write, *more)
        argv = (sys.executable, *options, _GUARD, mode, str(lease.deadline()), *map(str, passed), *spec.argv)
        try:
            super().__init__(spec._replace(argv=argv), pass_fds=passed, start_new_session=True)
        except BaseException:
            os.close(self._control)
            os.close(self._report)
            raise
        finally:
            os.close(control_read)
            os.close(report_write)
        self._own += [self._control, self._report]
        os.set_blocking(self._control, False)
        self._read(self._report, report)

    @property
    def ended(self) -> bool:
        return self.exited or self._report not in self._sinks

    @property
    def expired(self) -> bool:
        """Return whether a deadline has passed, so that the guard had to end the process."""
        return self._lease.over

    def extend(self, deadline: float) -> None:
        self._send_control(f"{deadline}\n".encode())
        self._lease.sent(deadline)

    def kill(self) -> None:
        """Kill through the guard, which also knows the processes that left the group."""
        self._send_control(b"k\n")

    def renewal(self) -> float | None:
        return self._lease.renewal()

    def _send_control(self, message: bytes) -> None:
        with suppress(OSError):  # full or closed: in that case, the message is not needed
            os.write(self._control, message)

    def _signal_group(self, number: int) -> None:
        """Signal the group. As long as its leader is not reaped, no other group can have its id."""
        if not self._reaped:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _kill_all(self) -> None:
        self._signal_group(signal.SIGKILL)


class GuardedCommand(GuardedProcess):
    """A program with everything that it starts; on Linux, not even a daemon escapes."""

    kill_wait = 2.0

    def __init__(self, spec: ProcessSpec, lease: ChildLease, private: str) -> None:
        """`private`: a folder that the guard removes if no worker is left to do it."""
        self._reports = bytearray()
        guarded = spec._replace(argv=(private, *spec.argv))
        super().__init__(("-I", "-S"), "run", guarded, lease, self._reports.extend)

    @property
    def expired(self) -> bool:
        return super().expired and self.exit_status == ExitStatus()

    @property
    def exit_status(self) -> ExitStatus:
        """The first report counts, because the one that a command could not be started comes before that of its end."""
        words = bytes(self._reports).split()
        if len(words) < 2:
            return ExitStatus()
        return ExitStatus(**{{b"failed": "errno", b"signal": "signal"}.get(words[0], "code"): int(words[1])})

    def terminate(self) -> None:
        """Ask the whole group to end, because a shell would not pass the signal on."""
        self._signal_group(signal.SIGTERM)


class GuardedCall(GuardedProcess):
    """A Python function in an interpreter of its own. Its module has a `main`, which `guard.py` calls."""

    def __init__(
        self, module: str, request: bytes, lease: ChildLease, report: Sink, output: Sink | None = None
    ) -> None:
        life_read, self._life = os.pipe()
        try:
            # -P keeps the directory of guard.py off the import path.
            super().__init__(("-P",), "call", ProcessSpec((module,), request, output), lease, report, life_read)
        except BaseException:
            os.close(self._life)
            raise
        finally:
            os.close(life_read)
        self._own.append(self._life)

    def terminate(self) -> None:
        """Ask the function to end: it sees that it is cancelled."""
        self._send_control(b"c\n")
