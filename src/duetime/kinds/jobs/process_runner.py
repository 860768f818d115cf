"""Runner for tasks with isolation='process': each call gets its own process group, which can be killed as a whole."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from duetime.engine.clock import Clock, SystemClock
from duetime.engine.encoding import clean_text, encode_whole
from duetime.engine.kind import StopReason, StopSignal
from duetime.engine.worker.lease import Lease
from duetime.kinds.jobs.context import LONGEST, ProcessFailed, Stopped, TaskContext
from duetime.kinds.jobs.loading import locate
from duetime.kinds.jobs.registry import Task
from duetime.processes.child_lease import ChildLease

TICK = 0.05
"""Seconds between two checks of the stop signal."""
_MOST_HELD = 32 * 1024 * 1024
_CHILD = str(Path(__file__).with_name("process_child.py"))


class Tether:
    """A child process and the pipes that connect it to the worker."""

    def __init__(self, request: bytes) -> None:
        self._results, results_there = os.pipe()
        life_there, self._life = os.pipe()
        try:
            # -P keeps the directory of process_child.py off the import path.
            self._process = subprocess.Popen(
                [sys.executable, "-P", _CHILD, str(results_there), str(life_there)],
                stdin=subprocess.PIPE,
                stdout=_operators_output(),
                pass_fds=(results_there, life_there),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._results)
            os.close(self._life)
            raise
        finally:
            os.close(results_there)
            os.close(life_there)
        assert self._process.stdin is not None  # because of stdin=PIPE
        self._control = self._process.stdin.fileno()
        os.set_blocking(self._control, False)
        os.set_blocking(self._results, False)
        self._exit = _exit_descriptor(self._process.pid)
        self._unsent = bytearray(request)
        self._unread = bytearray()
        self._open = True
        self.exited = False

    @property
    def ended(self) -> bool:
        """Whether the child has exited or closed its results pipe."""
        return self.exited or not self._open

    def tell(self, note: bytes) -> None:
        if len(self._unsent) < _MOST_HELD:  # a child that never reads must not fill our memory
            self._unsent += note

    def hear(self, timeout: float) -> list[bytes]:
        """Wait at most `timeout` seconds, send pending input, and return the complete lines received."""
        poll = select.poll()
        if self._open:
            poll.register(self._results, select.POLLIN)
        if self._exit is not None and not self.exited:
            poll.register(self._exit, select.POLLIN)
        if self._unsent:
            poll.register(self._control, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poll.poll(timeout * 1000)}
        if self._control in ready:
            self._send()
        if self._exit in ready or (self._exit is None and self._process.poll() is not None):
            self.exited = True
        if self._open and (self._results in ready or self.exited):
            self._receive()
        return self._lines()

    def end(self) -> int:
        """Kill what is left of the process group and return the child's exit status."""
        # Where a pidfd reports the exit, the child is not reaped before this, so its pid still names its own group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        status = self._process.wait()
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        for descriptor in (self._results, self._life, self._exit):
            if descriptor is not None:
                os.close(descriptor)
        return status

    def _send(self) -> None:
        try:
            sent = os.write(self._control, self._unsent[:65536])
            del self._unsent[:sent]
        except BlockingIOError:
            pass  # the pipe is full: try again on the next call
        except OSError:
            self._unsent.clear()  # the child no longer reads; its exit status tells why

    def _receive(self) -> None:
        """Read from the results pipe; after the child has exited, read to the end to get its last messages."""
        while True:
            try:
                data = os.read(self._results, 65536)
            except BlockingIOError:
                return
            if not data:
                self._open = False
                return
            self._unread += data
            if len(self._unread) > _MOST_HELD:
                raise ProcessFailed("its process answered with more than can be taken")
            if not self.exited:
                return

    def _lines(self) -> list[bytes]:
        *lines, rest = self._unread.split(b"\n")
        if lines:
            self._unread = rest
        return [bytes(line) for line in lines]


def _exit_descriptor(process: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends, without reaping it."""
    if sys.platform == "linux":
        with suppress(OSError):  # an old kernel
            return os.pidfd_open(process)
    return None


def _operators_output() -> int:
    """Send a task's output to stderr, where the operator looks; the worker's stdout may carry a protocol."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2


MOST_PASSED = 4 * 1024 * 1024
"""Maximum bytes of arguments or of a result that are passed to or from a process; far less of a result is stored."""
_LINGER = 1.0
"""Seconds that a process has to exit by itself after it has answered, so that its exit handlers can run."""


Call = tuple[Task, Sequence[Any], dict[str, Any]]
"""A further step in the same process; the previous step's result is inserted as its first argument."""


class ProcessRunner:
    """Runs tasks in child processes. `grace`: seconds that a cancelled task has to end by itself. `patience`: seconds
    that a child lives without hearing from its worker, unless the worker's lease ends earlier."""

    def __init__(self, *, grace: float = 5.0, patience: float = 30.0) -> None:
        self._grace = grace
        self._patience = patience
        # Child processes run in real time, even if the schedules use a manually set clock.
        self._clock: Clock = SystemClock()
        self._closed = False

    def run(
        self,
        task: Task,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        context: TaskContext,
        stop: StopSignal,
        *,
        lease: Lease | None = None,
        last: bool = True,
        then: Sequence[Call] = (),
    ) -> str:
        """Return the result as JSON text: cut to what is stored if this is the `last` step, whole otherwise.

        Raises Stopped or ProcessFailed.
        """
        child = ChildLease(lease, self._patience, self._clock)
        tether = Tether(self._request(task, args, kwargs, context, last, child.deadline(), then))
        try:
            answer = self._converse(tether, child, stop, context.progress)
            self._linger(tether)
        finally:
            gone = tether.exited
            status = tether.end()
        if answer is None and child.over:  # its deadline passed, which is not the task's fault
            stop.set(StopReason.LEASE)
            raise Stopped
        if answer is None:
            raise ProcessFailed(_how_it_ended(status) if gone else "its process closed the way back to us")
        return _result(answer)

    def close(self) -> None:
        """Stop all running calls: each notices within a tick and kills its process."""
        self._closed = True

    def _request(
        self,
        task: Task,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        context: TaskContext,
        last: bool,
        deadline: float,
        then: Sequence[Call] = (),
    ) -> bytes:
        steps = [[list(given), {**named, **step.constants}] for step, given, named in ((task, args, kwargs), *then)]
        call = encode_whole(steps)
        if len(call) > MOST_PASSED:
            raise ProcessFailed(f"{task.name}: its arguments are too large for a process", permanent=True)
        about = {
            "path": sys.path,
            "task": task.name,
            "functions": [locate(step.function)._asdict() for step in (task, *(each[0] for each in then))],
            "last": last,
            "limit": MOST_PASSED,
            "deadline": deadline,
            "context": {
                "run_id": context.run_id,
                "attempt": context.attempt,
                "due": context.due.isoformat(),
                "name": context.name,
                "job_id": context.job_id,
                "owner": context.owner,
            },
        }
        return f"{json.dumps(about)}\n{call}\n".encode()

    def _converse(
        self, tether: Tether, child: ChildLease, stop: StopSignal, progress: Callable[[str], None]
    ) -> dict[str, Any] | None:
        """Return the child's answer, or None if it ended without one."""
        asked: float | None = None
        while True:
            ended = tether.ended
            for message in map(_read, tether.hear(TICK)):
                if "progress" not in message:
                    return message
                progress(clean_text(str(message["progress"])))
            if ended:
                return None
            now = self._clock.monotonic()
            if stop.reason is StopReason.CANCELLED and asked is None:
                asked = now
                tether.tell(b"c\n")
            deadline = child.renewal()  # before `stop` is checked: a lost lease may be renewed after the check
            if self._must_end(stop, asked, now):
                raise Stopped
            if deadline is not None:
                tether.tell(f"{deadline}\n".encode())

    def _must_end(self, stop: StopSignal, asked: float | None, now: float) -> bool:
        if asked is not None and not self._closed:
            return now - asked >= self._grace
        return self._closed or stop.is_set()

    def _linger(self, tether: Tether) -> None:
        deadline = self._clock.monotonic() + _LINGER
        while not tether.exited and self._clock.monotonic() < deadline:
            tether.hear(TICK)


def _read(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise ProcessFailed("its process answered with something that is no answer")
    return message


def _result(answer: dict[str, Any]) -> str:
    if isinstance(answer.get("result"), str):
        return str(answer["result"])
    retry = answer.get("retry")
    raise ProcessFailed(
        str(answer.get("error", "its process answered with something that is no answer")),
        permanent=answer.get("permanent") is True,
        retry=min(max(0.0, float(retry)), LONGEST) if isinstance(retry, int | float) else None,
        trace=str(answer.get("trace") or "") or None,
    )


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"its process ended without a result, with exit code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:  # real-time signals have no name
        name = f"signal {-status}"
    hint = " (the system may have run out of memory)" if name == "SIGKILL" else ""
    return f"its process was ended by {name}{hint}"
