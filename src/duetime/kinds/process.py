"""Tasks with isolation='process': each call has a process group of its own, which can be killed as a whole."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from duetime.core.child_lease import ChildLease
from duetime.core.clock import Clock, SystemClock
from duetime.core.kind import StopReason, StopSignal
from duetime.core.lease import Lease
from duetime.kinds.context import TaskContext
from duetime.kinds.loading import locate
from duetime.kinds.registry import Task
from duetime.kinds.results import clean_text, encode_whole
from duetime.kinds.signals import LONGEST, ProcessFailed, Stopped
from duetime.kinds.tether import TICK, Tether

MOST_PASSED = 4 * 1024 * 1024
"""Bytes that travel to or from a process; what is stored of a result is far less."""
_LINGER = 1.0
"""Seconds for a process that has answered to end by itself: its exit handlers may want to run."""


Call = tuple[Task, Sequence[Any], dict[str, Any]]
"""A further step in the same process; its first argument is the result of the step before."""


class ProcessRunner:
    """`grace`: seconds that a cancelled task has to end by itself. `patience`: seconds a child lives unheard, where its
    worker's lease is not over before."""

    def __init__(self, *, grace: float = 5.0, patience: float = 30.0) -> None:
        self._grace = grace
        self._patience = patience
        # Real processes live in real time, also where the schedules run on a clock that is set by hand.
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
        """JSON text: cut to what is stored when it is the `last` step, whole otherwise.

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
        if answer is None and child.over:  # by its deadline, and so by no fault of its own
            stop.set(StopReason.LEASE)
            raise Stopped
        if answer is None:
            raise ProcessFailed(_how_it_ended(status) if gone else "its process closed the way back to us")
        return _result(answer)

    def close(self) -> None:
        """Every conversation notices within a tick and kills its process."""
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
        """The child's answer, or None when it ended without one."""
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
            deadline = child.renewal()  # before the look at `stop`: a lease that was lost may be renewed after that
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
