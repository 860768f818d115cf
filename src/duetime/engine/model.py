"""The nouns of Duetime as plain frozen values. Rows are named tuples: a worker makes tens of thousands a second."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, NewType

from duetime.engine.clock import SECOND, Instant

ScheduleId = NewType("ScheduleId", int)
RunId = NewType("RunId", int)
WorkerId = NewType("WorkerId", int)

LEASE = 10 * SECOND

NO_RUN = RunId(0)
"""The run of a due entry that is the trigger's own: its run is made when it is claimed."""


class ScheduleState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    ENDED = "ended"
    CANCELLED = "cancelled"
    BROKEN = "broken"
    DELETED = "deleted"


class RunStatus(StrEnum):
    PENDING = "pending"  # has an entry in the due queue (first start by hand, retry, given back)
    QUEUED = "queued"  # stands in line behind another run of its schedule
    RUNNING = "running"  # held by a worker
    WAITING = "waiting"  # needs no worker until somebody takes it or its time is up
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    MISSED = "missed"  # its time passed while nothing could run it
    SKIPPED = "skipped"  # policy said no: overlap, pause, a full line
    LOST = "lost"  # at-most-once work whose worker died: nobody knows how far it came


LIVE = frozenset({RunStatus.PENDING, RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING})
"""Statuses of a run that may still change."""

ACTIVE = frozenset({RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING})
"""Statuses that `Progress.active` counts: a run that another one of its schedule would overlap."""


class Cause(StrEnum):
    TRIGGER = "trigger"
    MANUAL = "manual"


class Definition(NamedTuple):
    """What to do and when: the cold half of a schedule, written by people and never by a worker."""

    id: ScheduleId
    public_id: str
    kind: str
    owner: str
    name: str
    subject: str  # what the kind files it under: a task, a topic, an agent
    trigger: str
    payload: str
    policy: str
    depth: int  # how many agent runs stand between a person and this schedule
    version: int
    key: str
    fingerprint: str
    created: Instant
    updated: Instant

    @property
    def written(self) -> Instant:
        """Since when its words stand: pausing and resuming change no word of one that was never edited."""
        return self.created if self.version == 1 else self.updated


class Progress(NamedTuple):
    """How far a schedule has come: the hot half, whose row is the lock of everything about the schedule."""

    schedule: ScheduleId
    owner: str
    kind: str
    state: str
    next: Instant | None  # the nominal instant that its due entry stands for
    through: Instant | None  # the last nominal instant that was claimed, missed or skipped
    run_count: int
    active: int
    queued: int
    gap: RunId | None  # the open row of skipped occurrences that further skips extend
    last_status: str | None
    last_run: Instant | None
    last_error: str | None
    failures: int  # in a row
    note: str | None  # why it is broken, held or ended early


class Run(NamedTuple):
    """The record of one occurrence, or of a range of occurrences that did not run."""

    id: RunId
    schedule: ScheduleId
    cause: str
    due: Instant
    status: str
    attempt: int
    deaths: int  # processes that died with this run in hand
    fence: int
    worker: WorkerId | None
    holder: str | None  # who took it while it was waiting
    started: Instant | None
    finished: Instant | None
    until: Instant | None  # when the patience ends: of a waiting run, or with give-backs since the last real attempt
    expires: Instant | None  # when its holder's time is up
    result: str | None
    error: str | None
    report: str | None  # the last progress report
    stop: int  # somebody asked it to stop
    last: Instant | None  # of a range: its last instant (`due` is its first)
    number: int  # of a range: how many; negative when there are at least that many
    kind: str
    owner: str
    name: str


class Attempt(NamedTuple):
    run: RunId
    number: int
    started: Instant | None
    finished: Instant
    status: str
    error: str | None


class DueEntry(NamedTuple):
    lane: str
    at: Instant
    schedule: ScheduleId
    run: RunId
    owner: str = ""  # whose turn it takes


class WorkerRow(NamedTuple):
    id: WorkerId
    name: str
    lanes: str
    session: int  # lives only as long as some client is open
    started: Instant
    beat: int
    seen: Instant
    lease: int = LEASE  # microseconds of silence after which it is dead


class Schedule(NamedTuple):
    """Both halves, as faces see them."""

    definition: Definition
    progress: Progress


def status_of(progress: Progress) -> str:
    """What people call the state of a schedule: a recurring one between two runs is pending."""
    state = progress.state
    if progress.active and state in (ScheduleState.ACTIVE, ScheduleState.PAUSED, ScheduleState.CANCELLED):
        return "running"
    if state == ScheduleState.ACTIVE:
        return "pending"
    if state == ScheduleState.ENDED:
        return "completed" if progress.last_status == RunStatus.COMPLETED else "failed"
    return str(state)


def lane_of(kind: str, *, at_most_once: bool = False, suspect: bool = False) -> str:
    """The lane of the due queue. Work that must not be claimed in advance, or not beside its like, has its own."""
    if suspect:
        return f"{kind}:solo"
    return f"{kind}:exact" if at_most_once else kind


def run_holder(run: int, fence: int) -> str:
    """Return the holder that a run's own token stands for: this attempt of the run, and no later one."""
    return f"run_{run:08d}_{fence}"
