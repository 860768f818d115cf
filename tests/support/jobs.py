"""Runs executed by a job kind, without a store or a worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from duetime.engine.clock import SECOND, Instant
from duetime.engine.kind import StopSignal, Work
from duetime.engine.model import Definition, Run, RunId, ScheduleId
from duetime.engine.policy.claim import Claim

DUE = Instant(1_770_000_000 * SECOND)


def make_work(
    task: str,
    *args: Any,
    stop: StopSignal | None = None,
    report: Callable[[str], None] = lambda text: None,
    policy: str = "{}",
    **kwargs: Any,
) -> Work:
    payload = json.dumps({"task": task, "args": list(args), "kwargs": kwargs})
    schedule = ScheduleId(7)
    definition = Definition(
        schedule, "job_7_1", "job", "ann", "nightly", task, "{}", payload, policy, 0, 1, "", "", DUE, DUE
    )
    run = Run(
        RunId(41), schedule, "trigger", DUE, "running", 2, 0, 1, None, None, DUE, None, None, None, None, None,
        None, 0, None, 1, "job", "ann", "nightly",
    )  # fmt: skip
    return Work(Claim(run, definition, DUE), stop or StopSignal(), report)
