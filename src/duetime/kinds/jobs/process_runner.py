"""Runner for tasks with isolation='process': each call gets its own process group, which can be killed as a whole."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
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
_NO_ANSWER = "its process returned an invalid answer"

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
        lines = LineBuffer(_MOST_HELD)
        answers: list[dict[str, Any]] = []

        def receive(data: bytes) -> None:
            """Take what the child reports: its progress, then one answer. Raises ProcessFailed."""
            for message in map(json_object, lines.feed(data)):
                if message is None:
                    raise ProcessFailed(_NO_ANSWER)
                if answers:
                    return
                if "progress" in message:
                    context.progress(clean_text(str(message["progress"])))
                else:
                    answers.append(message)
            if lines.skipped:
                raise ProcessFailed("its process answered with more than can be taken")

        request = _request(steps, context, last)
        process = GuardedCall(CHILD, request, ChildLease(lease, self._patience), receive)
        try:
            stopped = process.watch(lambda: self._stop_request(stop), lambda: bool(answers))
            if stopped is None or answers:
                process.wait(_LINGER, lambda: process.exited)
        finally:
            exited = process.exited
            status = process.close()
        if answers:
            return _result(answers[0])
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
