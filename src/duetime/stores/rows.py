"""From the columns of a query to the model, the same in every dialect."""

from __future__ import annotations

from typing import Any

from duetime.core.model import Definition, Progress, Run, Schedule
from duetime.core.policy.ending import Held

DEFINITION = len(Definition._fields)
RUN = len(Run._fields)


def schedule_of(row: tuple[Any, ...]) -> Schedule:
    return Schedule(Definition._make(row[:DEFINITION]), Progress._make(row[DEFINITION:]))


def held_of(row: tuple[Any, ...]) -> Held:
    return Held(Run._make(row[:RUN]), *schedule_of(row[RUN:]))


def run_update(run: Run) -> tuple[Any, ...]:
    """What of a run may change after it was made; its report is written by beats alone."""
    return (
        run.status, run.attempt, run.deaths, run.fence, run.worker, run.holder, run.started, run.finished,
        run.until, run.expires, run.result, run.error, run.stop, run.id,
    )  # fmt: skip


def definition_update(row: Definition) -> tuple[Any, ...]:
    return (row.name, row.subject, row.trigger, row.payload, row.policy, row.version, row.updated, row.id)
