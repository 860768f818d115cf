"""The history checker: compares what had to happen with what did happen, from the outside.

It knows the schedules by the definitions that were sent, the runs by what the HTTP API answers, the executions by
the side effects that tasks logged themselves, and the faults by the log of whoever caused them. It imports nothing
of Duetime: a mistake there cannot hide itself here. Instants are whole microseconds.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

SECOND = 1_000_000
LEAD = SECOND // 10
"""How far ahead of its instant an occurrence may be claimed."""
SETTLING = SECOND // 2
"""How long after an answered request something that was under way may still begin."""
LAPSING = SECOND // 4
"""How long after a fault a worker may still tell a run to stop: a beat that waited for the store renews little."""
SLOW = "slow"
"""A fault: a worker stood still for less than its lease. It explains a repeat, but never a failure."""
READING = 500
"""What two readings of one clock by two programs may differ by."""
LIVE = frozenset({"pending", "queued", "running", "waiting"})


@dataclass(frozen=True, slots=True)
class Definition:
    """A schedule as its creation was asked for and acknowledged, and what was done to it since."""

    id: str
    first: int
    period: int
    """Zero for what fires once."""
    last: int
    created: int = 0
    """When its creation was acknowledged: what lies before it need not be there."""
    overlap: str = "skip"
    catch_up: str = "once"
    at_most_once: bool = False
    max_attempts: int = 1
    max_runs: int | None = None
    backoff: int = 0
    fails: int = 0
    """Attempts that fail by intention, from the first one on."""
    paused: tuple[tuple[int, int], ...] = ()
    """From when its pausing was answered until its resuming was asked for."""
    cancelled: tuple[int, int] | None = None
    """When cancelling was asked for, and when it was answered."""

    edited: bool = False
    """Whether it got other rules meanwhile, the last of which fires at the same times."""

    def instants(self, until: int) -> list[int]:
        end = min(self.last, until)
        return list(range(self.first, end + 1, self.period)) if self.period else [self.first] * (self.first <= end)


class Row(NamedTuple):
    """A run as the API shows it."""

    run: int
    schedule: str
    cause: str
    due: int
    status: str
    attempt: int
    finished: int | None
    last: int | None
    number: int


class Execution(NamedTuple):
    """A call of a task, by its own log. `end` is None where nothing was logged any more."""

    run: int
    schedule: str
    due: int
    attempt: int
    process: int
    begin: int
    end: int | None
    how: str
    """completed, failed, stopped, or unknown."""


class Fault(NamedTuple):
    """A fault of a process, or with `process` 0 of the server of the store, from when to when."""

    kind: str
    process: int
    begin: int
    end: int


class Finding(NamedTuple):
    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class History:
    """The record of one experiment."""

    definitions: Sequence[Definition]
    rows: Sequence[Row]
    executions: Sequence[Execution]
    faults: Sequence[Fault]
    until: int
    """When the last look was taken: everything that was due by then has to be accounted for."""
    by_schedule: Mapping[str, list[Row]] = field(init=False)
    executed: Mapping[str, list[Execution]] = field(init=False)

    def __post_init__(self) -> None:
        rows: dict[str, list[Row]] = defaultdict(list)
        executed: dict[str, list[Execution]] = defaultdict(list)
        for row in self.rows:
            rows[row.schedule].append(row)
        for execution in sorted(self.executions, key=lambda execution: execution.begin):
            executed[execution.schedule].append(execution)
        object.__setattr__(self, "by_schedule", rows)
        object.__setattr__(self, "executed", executed)

    def disturbed(self, process: int | None, begin: int, end: int, *, but: str = "") -> bool:
        """Return whether a fault of this process (None: of any) or of the server lies in this time; one sort of fault
        may be left out."""
        return any(
            fault.begin <= end and fault.end >= begin
            for fault in self.faults
            if (process is None or fault.process in (process, 0)) and fault.kind != but
        )


def check(history: History) -> list[Finding]:
    """Return everything that contradicts the promises."""
    findings: list[Finding] = []
    for definition in history.definitions:
        rows, executions = history.by_schedule[definition.id], history.executed[definition.id]
        findings += _coverage(definition, rows, history)
        findings += _rows(definition, rows, history)
        findings += _timeliness(definition, executions, history)
        findings += _repeats(definition, executions, history)
        findings += _overlaps(definition, executions, history)
        findings += _outcomes(definition, rows, executions, history)
    return findings


def excused_by_chance(history: History) -> float:
    """Return the share of all executions for which a repeat would have counted as explained by a fault."""
    if not history.executions:
        return 0.0
    windows = ((one.process, one.begin - LEAD, one.end or one.begin) for one in history.executions)
    return sum(history.disturbed(*window) for window in windows) / len(history.executions)


# -- every occurrence has exactly one row -----------------------------------------------------------------------------


def _coverage(definition: Definition, rows: Sequence[Row], history: History) -> Iterable[Finding]:
    until = history.until if definition.cancelled is None else definition.cancelled[0]
    nominal = [at for at in definition.instants(until) if at > definition.created]
    triggered = [row for row in rows if row.cause == "trigger"]
    own = [row.due for row in triggered if row.last is None]
    ranges = [row for row in triggered if row.last is not None]
    if definition.max_runs is not None:
        nominal = nominal[: definition.max_runs]
    inside = {at for row in ranges for at in nominal if row.due <= at <= (row.last or 0)}
    for at in sorted(set(nominal) - set(own) - inside):
        yield Finding("lost", f"{definition.id} at {at} has no row")
    for at in sorted({at for at in own if own.count(at) > 1}):
        yield Finding("doubled", f"{definition.id} at {at} has more than one row")
    for at in sorted(set(own) - set(definition.instants(history.until + LEAD))):
        yield Finding("invented", f"{definition.id} has a row at {at}, where it is not due")
    for row in ranges:
        yield from _range(definition, row, set(own))


def _range(definition: Definition, row: Row, own: set[int]) -> Iterable[Finding]:
    inside = [at for at in definition.instants(row.last or 0) if at >= row.due and at not in own]
    if row.number != len(inside):
        yield Finding("count", f"{definition.id}: the range at {row.due} says {row.number} and has {len(inside)}")


def _rows(definition: Definition, rows: Sequence[Row], history: History) -> Iterable[Finding]:
    """Check that no run is left under way, and that every run that was not executed has a reason."""
    for row in rows:
        if row.status in LIVE:
            yield Finding("stuck", f"run {row.run} of {definition.id} is still {row.status}")
        ended = row.finished or history.until
        if row.status == "missed" and definition.catch_up == "all":
            yield Finding("missed", f"{definition.id} catches all up and missed {row.due}")
        elif row.status == "missed" and not history.disturbed(None, row.due - SECOND, ended):
            yield Finding("missed", f"{definition.id} missed {row.due} without a fault")
        elif row.status == "lost" and not history.disturbed(None, row.due - SECOND, ended):
            yield Finding("missed", f"{definition.id} lost {row.due} without a fault")
        elif row.status == "skipped" and not _may_skip(definition, row, history):
            yield Finding("skipped", f"{definition.id} skipped {row.due}, and no run was under way")


def _may_skip(definition: Definition, row: Row, history: History) -> bool:
    """Return whether a pause, an edit, a cancel or a run under way, which a fault may leave, explains a skip."""
    if (
        definition.paused
        or definition.cancelled
        or definition.edited
        or history.disturbed(None, row.due - 2 * SECOND, row.due)
    ):
        return True
    busy = history.executed[definition.id]
    return any(one.due < row.due <= (one.end or one.begin) + SETTLING for one in busy)


# -- executions come when they may, and not twice ---------------------------------------------------------------------


def _timeliness(definition: Definition, executions: Sequence[Execution], history: History) -> Iterable[Finding]:
    for one in executions:
        if one.begin < one.due - READING:
            yield Finding("early", f"run {one.run} of {definition.id} began {one.due - one.begin} µs early")
        for begin, end in definition.paused:
            if begin + SETTLING < one.begin < end and not history.disturbed(one.process, begin, one.begin):
                yield Finding("paused", f"run {one.run} of {definition.id} began while it was paused")
        if definition.cancelled is not None and one.begin > definition.cancelled[1] + SETTLING:
            yield Finding("cancelled", f"run {one.run} of {definition.id} began after it was cancelled")
    if definition.max_runs is not None and len({one.run for one in executions}) > definition.max_runs:
        yield Finding("max_runs", f"{definition.id} ran more often than {definition.max_runs} times")


def _repeats(definition: Definition, executions: Sequence[Execution], history: History) -> Iterable[Finding]:
    by_run: dict[int, list[Execution]] = defaultdict(list)
    for one in executions:
        by_run[one.run].append(one)
    for run, calls in by_run.items():
        if definition.at_most_once and len(calls) > 1:
            yield Finding("at most once", f"run {run} of {definition.id} ran {len(calls)} times")
        for before, after in itertools.pairwise(calls):
            yield from _repeat(definition, before, after, history)


def _repeat(definition: Definition, before: Execution, after: Execution, history: History) -> Iterable[Finding]:
    """Check that a repeated call retries a failure, or is explained by a fault between its claim and its record."""
    retried = before.how == "failed" and after.attempt > before.attempt
    since = before.begin - (LAPSING if before.how == "stopped" else LEAD)
    faulty = history.disturbed(before.process, since, after.begin)
    if not retried and not faulty:
        yield Finding("repeated", f"run {before.run} of {definition.id} was {before.how} and ran again")
    if retried and not faulty and before.end is not None and after.begin < before.end + definition.backoff // 2:
        yield Finding("retry", f"run {before.run} of {definition.id} was retried before its backoff")


def _overlaps(definition: Definition, executions: Sequence[Execution], history: History) -> Iterable[Finding]:
    if definition.overlap == "allow":
        return
    for before, after in itertools.pairwise(executions):
        over = before.end is None or after.begin >= before.end - READING
        if not over and before.run != after.run and not history.disturbed(before.process, before.begin, after.begin):
            yield Finding("overlap", f"runs {before.run} and {after.run} of {definition.id} ran at the same time")


# -- outcomes are those of the executions -----------------------------------------------------------------------------


def _outcomes(
    definition: Definition, rows: Sequence[Row], executions: Sequence[Execution], history: History
) -> Iterable[Finding]:
    by_run: dict[int, list[Execution]] = defaultdict(list)
    for one in executions:
        by_run[one.run].append(one)
    for row in rows:
        calls = by_run[row.run]
        if row.status == "completed" and not any(one.how == "completed" for one in calls):
            yield Finding("outcome", f"run {row.run} of {definition.id} is completed, and no execution was")
        if row.status == "failed":
            yield from _failed(definition, row, calls, history)
    known = {row.run for row in rows}
    for run in sorted(set(by_run) - known):
        yield Finding("outcome", f"run {run} of {definition.id} was executed and has no row")


def _failed(definition: Definition, row: Row, calls: Sequence[Execution], history: History) -> Iterable[Finding]:
    """Check that a run failed only when all its attempts did; faults may visibly end it earlier."""
    ended = row.finished or history.until
    if any(history.disturbed(one.process, one.begin - LEAD, ended, but=SLOW) for one in calls):
        return
    failures = sum(one.how == "failed" for one in calls)
    if failures < definition.max_attempts:
        yield Finding("retry", f"run {row.run} of {definition.id} failed after {failures} of {definition.max_attempts}")
    if failures > definition.max_attempts:
        yield Finding("retry", f"run {row.run} of {definition.id} failed {failures} times")
