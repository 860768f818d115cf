"""Runner for tasks with isolation='process': each call gets its own process group, which can be killed as a whole."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from duetime.engine.encoding import clean_text, encode_whole, json_object
from duetime.engine.kind import StopReason, StopSignal
from duetime.engine.worker.lease import Lease
from duetime.kinds.jobs.context import LONGEST, ProcessFailed, Stopped, TaskContext
from duetime.kinds.jobs.loading import locate
from duetime.kinds.jobs.registry import Task
from duetime.processes.child import StopRequest, signal_name
from duetime.processes.output import LineBuffer
from duetime.processes.supervisor import ChildLease, GuardedCall

CHILD = "duetime.kinds.jobs.process_child"
_MOST_HELD = 32 * 1024 * 1024
MOST_PASSED = 4 * 1024 * 1024
"""Maximum bytes of arguments or of a result that are passed to or from a process; far less of a result is stored."""
_LINGER = 1.0
"""Seconds that a process has to exit by itself after it has answered, so that its exit handlers can run."""
_STOP = StopRequest("stopped")
_NO_ANSWER = "its process answered with something that is no answer"

Call = tuple[Task, Sequence[Any], dict[str, Any]]
"""A step. The result of the previous step in the same process is inserted as its first argument."""


class ProcessRunner:
    """Runs tasks in child processes. `grace`: seconds that a cancelled task has to end by itself. `patience`: seconds
    that a child lives without hearing from its worker, unless the worker's lease ends earlier."""

    def __init__(self, *, grace: float = 5.0, patience: float = 30.0) -> None:
        self._grace = grace
        self._patience = patience
        self._closed = False

    def run(
        self,
        steps: Sequence[Call],
        context: TaskContext,
        stop: StopSignal,
        *,
        lease: Lease | None = None,
        last: bool = True,
    ) -> str:
        """Return the result as JSON text: cut to what is stored if these are the `last` steps, whole otherwise.

        Raises Stopped or ProcessFailed.
        """
        messages = _Messages(context.progress)
        request = _request(steps, context, last)
        process = GuardedCall(CHILD, request, ChildLease(lease, self._patience), messages.receive)
        try:
            stopped = process.watch(lambda: self._stop_request(stop), messages.has_answer)
            if stopped is None or messages.has_answer():
                process.wait(_LINGER, lambda: process.exited)
        finally:
            exited = process.exited
            status = process.close()
        if messages.answer is not None:
            return _result(messages.answer)
        if stopped is None and not process.expired:
            raise ProcessFailed(_how_it_ended(status) if exited else "its process closed the way back to us")
        if stopped is None:  # its deadline passed, which is not the task's fault
            stop.set(StopReason.LEASE)
        raise Stopped

    def close(self) -> None:
        """Stop all running calls: each notices within a tick and kills its process."""
        self._closed = True

    def _stop_request(self, stop: StopSignal) -> StopRequest | None:
        if self._closed:
            return _STOP
        if stop.reason is StopReason.CANCELLED:
            return StopRequest("cancelled", self._grace)
        return _STOP if stop.is_set() else None


def _request(steps: Sequence[Call], context: TaskContext, last: bool) -> bytes:
    name = steps[0][0].name
    call = encode_whole([[list(args), {**kwargs, **task.constants}] for task, args, kwargs in steps])
    if len(call) > MOST_PASSED:
        raise ProcessFailed(f"{name}: its arguments are too large for a process", permanent=True)
    about = {
        "path": sys.path,
        "task": name,
        "functions": [locate(task.function)._asdict() for task, _, _ in steps],
        "last": last,
        "limit": MOST_PASSED,
        "context": {
            "due": context.due.isoformat(),
            **{name: getattr(context, name) for name in ("run_id", "attempt", "name", "job_id", "owner")},
        },
    }
    return f"{json.dumps(about)}\n{call}\n".encode()


class _Messages:
    """What a child reports: its progress, then one answer."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._lines = LineBuffer(_MOST_HELD)
        self.answer: dict[str, Any] | None = None

    def has_answer(self) -> bool:
        return self.answer is not None

    def receive(self, data: bytes) -> None:
        """Raises ProcessFailed."""
        for message in map(json_object, self._lines.feed(data)):
            if message is None:
                raise ProcessFailed(_NO_ANSWER)
            if self.answer is not None:
                return
            if "progress" in message:
                self._progress(clean_text(str(message["progress"])))
            else:
                self.answer = message
        if self._lines.skipped:
            raise ProcessFailed("its process answered with more than can be taken")


def _result(answer: dict[str, Any]) -> str:
    if isinstance(answer.get("result"), str):
        return str(answer["result"])
    retry = answer.get("retry")
    raise ProcessFailed(
        str(answer.get("error", _NO_ANSWER)),
        permanent=answer.get("permanent") is True,
        retry=min(max(0.0, float(retry)), LONGEST) if isinstance(retry, int | float) else None,
        trace=str(answer.get("trace") or "") or None,
    )


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"its process ended without a result, with exit code {status}"
    return f"its process was ended by {signal_name(-status)}"
