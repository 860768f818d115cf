"""Starts child processes, writes to them, reads from them, stops them and kills them.

Only `step` waits, and nothing that a child writes, or does not read, can fill the memory.
"""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from duetime.engine import trace_context
from duetime.engine.clock import SystemClock

TICK = 0.05
"""Seconds between two checks whether a process has to stop."""
_CHUNK = 65536
_LAST_CHUNKS = 64
"""Number of chunks read from a stream at the end, because an escaped process may still be writing to it."""

Sink = Callable[[bytes], object]
"""Receives the pieces of an output as they arrive, and keeps only a bounded amount. An exception from it ends
`watch`."""


class ProcessSpec(NamedTuple):
    """The options with which a process is started. Without `stdout`, its output goes to the operator; with `stdout` but
    without `stderr`, both outputs are combined."""

    argv: Sequence[str] = ()
    input: bytes = b""
    stdout: Sink | None = None
    stderr: Sink | None = None
    env: Mapping[str, str] | None = None
    folder: str | Path | None = None
    """Working directory."""


class StopRequest(NamedTuple):
    reason: str
    grace: float = 0.0
    """Seconds until the process is killed; with 0, it is killed without being asked to end first."""


class ChildProcess:
    """A process in the group of this one, which ends with it."""

    kill_wait = 0.0
    """Seconds between `kill` and the end of `watch`, if the process does not end earlier."""

    def __init__(self, spec: ProcessSpec, **options: Any) -> None:
        """Raises OSError or ValueError if it cannot be started."""
        named = {name.upper(): value for name, value in trace_context.headers().items()}
        # Processes run in real time, even if the schedules use a settable clock.
        self._clock = SystemClock()
        self._process = subprocess.Popen(
            spec.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if spec.stdout else _operators_output(),
            stderr=subprocess.PIPE if spec.stderr else subprocess.STDOUT if spec.stdout else None,
            env={**(os.environ if spec.env is None else spec.env), **named} if named else spec.env,
            cwd=spec.folder,
            **options,
        )
        assert self._process.stdin is not None  # because of stdin=PIPE
        self._stdin = self._process.stdin
        os.set_blocking(self._stdin.fileno(), False)
        self._unsent = memoryview(spec.input)
        self._sinks: dict[int, Sink] = {}
        for stream, sink in ((self._process.stdout, spec.stdout), (self._process.stderr, spec.stderr)):
            if stream is not None and sink is not None:
                self._read(stream.fileno(), sink)
        self._pidfd = _exit_descriptor(self._process.pid)
        self._own = [] if self._pidfd is None else [self._pidfd]
        self._reaped = self.exited = False
        self._send()

    @property
    def ended(self) -> bool:
        return self.exited

    @property
    def silent(self) -> bool:
        """Return whether all outputs are closed by every process that could write to them."""
        return not self._sinks

    def step(self, timeout: float = TICK) -> None:
        """Wait for at most `timeout` seconds; send unsent input, and pass on the output that arrived."""
        poll = select.poll()  # unlike `select`, this accepts descriptors beyond 1023
        for descriptor in self._sinks:
            poll.register(descriptor, select.POLLIN)
        if self._pidfd is not None and not self.exited:
            poll.register(self._pidfd, select.POLLIN)
        if not self._stdin.closed:
            poll.register(self._stdin, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poll.poll(timeout * 1000)}
        if not self._stdin.closed and self._stdin.fileno() in ready:
            self._send()
        for descriptor in ready & self._sinks.keys():
            self._receive(descriptor)
        if not self.exited:
            self.exited = self._pidfd in ready if self._pidfd is not None else self._has_exited()

    def wait(self, seconds: float, is_done: Callable[[], bool]) -> None:
        """Step until `is_done`, or until the time is over."""
        deadline = self._clock.monotonic() + seconds
        while not is_done() and self._clock.monotonic() < deadline:
            self.step()

    def watch(
        self, stop_request: Callable[[], StopRequest | None], is_done: Callable[[], bool] = lambda: False
    ) -> str | None:
        """Step until the process has ended or `is_done`, which is called after each step. Return why the process was
        stopped, if it was: it is asked to end, killed after the grace period, and left to `close` if it still
        exists."""
        reason: str | None = None
        kill_at, killed = math.inf, False
        while not is_done() and not self.ended:
            self.step()
            deadline = self.renewal()  # computed before the request is read: a lost lease may be renewed after that
            now, request = self._clock.monotonic(), stop_request()
            if request is not None:
                if reason is None and request.grace > 0:
                    self.terminate()
                reason = reason or request.reason
                kill_at = min(kill_at, now + request.grace)
            if now >= kill_at and not killed:
                killed = True
                self.kill()
            if deadline is not None and not killed:
                self.extend(deadline)
            if now >= kill_at + self.kill_wait:
                break
        return reason

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> int:
        """Kill what is left, read its last output, and return its exit status."""
        self._kill_all()
        status = self._process.wait()
        try:
            for descriptor in tuple(self._sinks):
                for _ in range(_LAST_CHUNKS):
                    if not self._receive(descriptor):
                        break
        finally:
            for stream in (self._stdin, self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()
            for descriptor in self._own:
                os.close(descriptor)
        return status

    def renewal(self) -> float | None:
        """Return a later deadline if it is time to send one; without a guard, there is none."""
        return None

    def extend(self, deadline: float) -> None: ...

    def _kill_all(self) -> None:
        self._process.kill()

    def _read(self, descriptor: int, sink: Sink) -> None:
        os.set_blocking(descriptor, False)
        self._sinks[descriptor] = sink

    def _receive(self, descriptor: int) -> bool:
        """Read a chunk; return whether there may be more."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._sinks[descriptor](data)
        else:
            del self._sinks[descriptor]
        return bool(data)

    def _send(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._stdin.fileno(), self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            return  # the pipe is full: try again next time
        except OSError:
            self._unsent = self._unsent[:0]  # it stopped reading its input, which is not an error
        if not self._unsent:
            self._stdin.close()

    def _has_exited(self) -> bool:
        """Return whether the process has exited, if possible without reaping it, so that its id still identifies its
        own group."""
        if hasattr(os, "waitid"):
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        exited = self._process.poll() is not None
        if exited:
            self._kill_all()  # at once, and never again: the id may become that of another process
            self._reaped = True
        return exited


def _exit_descriptor(process: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends, without reaping it."""
    if sys.platform == "linux":
        with suppress(OSError):  # an old kernel
            return os.pidfd_open(process)
    return None


_LEAST_ROOM = 4096
"""Bytes that a descriptor takes without blocking if it can be written to."""


def show_operator(data: bytes) -> None:
    """Write output of a process where it would be if nobody read it. What finds no room is dropped, because whoever
    waited for that could not extend the deadlines of processes."""
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    view = memoryview(data)
    with suppress(OSError):
        while view and any(event & select.POLLOUT for _, event in poll.poll(0)):
            view = view[os.write(2, view[:_LEAST_ROOM]) :]


def _operators_output() -> int:
    """Send output to stderr, where the operator looks, because the worker's stdout may carry a protocol."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2


def signal_name(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:  # real-time signals have no name
        return f"signal {number}"
    return f"{name} (the system may have run out of memory)" if name == "SIGKILL" else name
