"""Conversion between query columns and the model, the same in every dialect."""

from __future__ import annotations

from typing import Any, NamedTuple

from duetime.engine.model import Definition, DueEntry, Progress, Run, RunId, Schedule, WorkerId
from duetime.engine.policy.claim import Entry
from duetime.engine.policy.finish import HeldRun

DEFINITION = len(Definition._fields)
RUN = len(Run._fields)
DUE = len(DueEntry._fields)


class LockedRun(NamedTuple):
    """The current state of a run that a worker claims to hold."""

    run: RunId
    status: str
    fence: int
    worker: WorkerId | None
    stop: int
    progress: Progress


# A named tuple's own `_make` costs twice as much as the tuple, and these are made tens of thousands of times a second.
_new = tuple.__new__


def schedule_of(row: tuple[Any, ...]) -> Schedule:
    return Schedule(_new(Definition, row[:DEFINITION]), _new(Progress, row[DEFINITION:]))


def entry_of(row: tuple[Any, ...]) -> Entry:
    due, definition, progress = row[:DUE], row[DUE : DUE + DEFINITION], row[DUE + DEFINITION :]
    return _new(Entry, (_new(DueEntry, due), _new(Definition, definition), _new(Progress, progress), None))


def held_of(row: tuple[Any, ...]) -> HeldRun:
    return HeldRun(_new(Run, row[:RUN]), *schedule_of(row[RUN:]))


def holding_of(row: tuple[Any, ...]) -> LockedRun:
    return _new(LockedRun, (*row[:5], _new(Progress, row[5:])))


def run_update(run: Run) -> tuple[Any, ...]:
    """Return the columns of a run that may change after its creation; only heartbeats write its report."""
    return (
        run.status, run.attempt, run.deaths, run.fence, run.worker, run.holder, run.started, run.finished,
        run.until, run.expires, run.result, run.error, run.stop, run.id,
    )  # fmt: skip


def definition_update(row: Definition) -> tuple[Any, ...]:
    return (
        row.name, row.subject, row.trigger, row.payload, row.policy, row.key, row.depth, row.version, row.updated,
        row.id,
    )  # fmt: skip
