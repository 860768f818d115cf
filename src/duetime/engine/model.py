"""The data model as immutable values. Rows are named tuples, because a worker creates tens of thousands a second."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final, NewType

from duetime.engine.clock import SECOND, Instant
from duetime.engine.value_class import NamedTuple

ScheduleId = NewType("ScheduleId", int)
RunId = NewType("RunId", int)
WorkerId = NewType("WorkerId", int)

LEASE = 10 * SECOND

NO_RUN = RunId(0)
"""The run id of a trigger's own due entry: its run is created when the entry is claimed."""


class ScheduleState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    ENDED = "ended"
    CANCELLED = "cancelled"
    BROKEN = "broken"
    DELETED = "deleted"


class RunStatus(StrEnum):
    PENDING = "pending"  # has an entry in the due queue (started manually, retried or returned)
    QUEUED = "queued"  # waits behind another run of its schedule
    RUNNING = "running"  # held by a worker
    WAITING = "waiting"  # needs no worker until somebody takes it or its deadline passes
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    MISSED = "missed"  # its time passed while no worker could run it
    SKIPPED = "skipped"  # not run because of policy: overlap, pause, a full queue
    LOST = "lost"  # at-most-once work whose worker died: how much of it was done is unknown


OVER = frozenset({ScheduleState.ENDED, ScheduleState.CANCELLED, ScheduleState.DELETED})
"""States of a schedule that will not fire again."""

LIVE = frozenset({RunStatus.PENDING, RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING})
"""Statuses of a run that may still change."""
UNWELL = frozenset(RunStatus) - LIVE - {RunStatus.COMPLETED}
"""Statuses of a run that ended otherwise than it should. The stores have an index of such runs."""


class Trouble(StrEnum):
    """What is wrong with a schedule."""

    FAILED = "failed"  # a run failed for good or was lost
    MISSED = "missed"  # occurrences passed while no worker ran, and none of them was caught up
    UNTAKEN = "untaken"  # nobody took a prompt
    UNDELIVERED = "undelivered"  # a message was given up
    PAUSED = "paused"  # the schedule paused itself
    BROKEN = "broken"  # the schedule cannot be planned
    HELD = "held"  # its run cannot go on, because a cluster is away


DISMISSABLE = frozenset({RunStatus.FAILED, RunStatus.LOST, RunStatus.MISSED})
"""The runs that need attention until somebody dismisses them, or a later run completes."""
ACTIVE = frozenset({RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING})
"""Statuses that `Progress.active` counts: another run of the schedule would overlap with such a run."""


class Cause(StrEnum):
    TRIGGER = "trigger"
    MANUAL = "manual"


EVENT_NAME: Final = r"[A-Za-z_][A-Za-z0-9_.:/-]*"
"""The pattern of the names of events."""
MAX_EVENT_NAME_LENGTH: Final = 100
ENDED: Final = "~ended."
"""The beginning of the names of events about the ends of runs; the number of their schedule follows."""
FOLLOWED: Final = "followed"
"""The part of the configuration of a trigger that the scheduler adds: number, id and name of the schedule that is
followed."""
_EVENT_CAUSE: Final = "event:"


class Followed(NamedTuple):
    """A schedule that another follows, as it was when that was decided."""

    number: ScheduleId
    id: str
    name: str


def event_of(cause: str) -> int | None:
    """Return the number of the event that caused a run; None for any other cause."""
    number = cause.removeprefix(_EVENT_CAUSE)
    return int(number) if number != cause and number.isdecimal() else None


class EventRow(NamedTuple):
    """Something that happened, as its sender described it. What wrote it is data: it gives no orders."""

    id: int
    """0 before it is stored."""
    owner: str
    name: str
    key: str | None
    """A sender's own id: an event with a known one is not stored again."""
    at: Instant
    depth: int
    """Number of agent runs, or of tasks that an event started, between a person and this event."""
    data: str
    """JSON text."""
    reached: int | None = 0
    """The last schedule for which it was decided whether this event starts a run; None once that is so for all."""

    @property
    def cause(self) -> str:
        """The cause of the runs that it starts."""
        return f"{_EVENT_CAUSE}{self.id}"


class Definition(NamedTuple):
    """What to do and when: the rarely written half of a schedule. People change it; workers never do."""

    id: ScheduleId
    public_id: str
    kind: str
    owner: str
    name: str
    subject: str  # what the kind files it under: a task, a topic or an agent
    trigger: str
    payload: str
    policy: str
    depth: int  # number of agent runs between a person and this schedule
    version: int
    key: str
    fingerprint: str
    created: Instant
    updated: Instant
    author: str | None = None  # who wrote the payload last: see `engine.actor`
    resume_at: Instant | None = None  # when the pause ends automatically

    @property
    def short_id(self) -> str:
        """Return the id that people read and type: the first letter of the kind and the number, if it has one."""
        return f"{self.kind[0]}{self.id}" if self.id else self.public_id

    @property
    def reference(self) -> str:
        """Return the id in a form that no schedule of another store has, for files: every store has a number 1."""
        return f"{self.public_id}@{self.created}" if self.public_id.isdecimal() else self.public_id

    @property
    def written(self) -> Instant:
        """Return when its content was written: `created` unless it was edited, because a pause bumps `updated` too."""
        return self.created if self.version == 1 else self.updated


class Progress(NamedTuple):
    """The progress of a schedule: its frequently written half, whose row is the lock for the whole schedule."""

    schedule: ScheduleId
    owner: str
    kind: str
    state: str
    next: Instant | None  # the nominal instant of its due entry; NEVER if it waits for an event, see `next_of`
    through: Instant | None  # the last nominal instant that was claimed, missed or skipped
    run_count: int
    active: int
    queued: int
    gap: RunId | None  # the open row of skipped occurrences, to which further skips are added
    last_status: str | None
    last_run: Instant | None
    last_error: str | None
    failures: int  # consecutive
    note: str | None  # why it is broken, held or ended early
    untaken: int = 0  # how many of the active runs are waiting and not taken by anybody
    followed: int = 0  # 1 if another schedule may follow it: the ends of its runs are events. Only `follow` writes it


class Run(NamedTuple):
    """The record of one occurrence, or of a range of occurrences that did not run."""

    id: RunId
    schedule: ScheduleId
    cause: str
    due: Instant
    status: str
    attempt: int
    deaths: int  # worker processes that died while they held this run
    fence: int
    worker: WorkerId | None
    holder: str | None  # who took it while it was waiting
    started: Instant | None
    finished: Instant | None
    until: Instant | None  # deadline of a waiting run, or for repeated returns since the last real attempt
    # when its holder's lease ends; for a queued run, when it was requested during a pause; for a retry that waits for
    # the end of a pause, before when it must not start
    expires: Instant | None
    result: str | None
    error: str | None
    report: str | None  # the last progress report
    stop: int  # 1: asked to stop; for a failed or missed run: dismissed; for a message: READ or DISMISSED
    last: Instant | None  # last instant of a range (`due` is its first)
    number: int  # size of a range; a negative number means at least that many
    kind: str
    owner: str
    name: str

    @property
    def schedule_short_id(self) -> str:
        """Return the short id of its schedule, which may be deleted."""
        return f"{self.kind[0]}{self.schedule}"


def times_given_back(run: Run) -> int:
    """Return how often workers returned a run without an attempt: every claim increments its fence."""
    return max(0, run.fence - run.attempt)


def was_given_back(run: Run) -> bool:
    """Return whether a run is waiting because the worker that claimed it could not execute it; `error` says why."""
    return run.status == RunStatus.PENDING and not run.attempt and run.started is None and run.error is not None


READ, DISMISSED = 1, 2
"""Marks of a delivered message, which is a completed run."""


class Attempt(NamedTuple):
    run: RunId
    number: int
    started: Instant | None
    finished: Instant
    status: str
    error: str | None
    traceback: str | None = None  # redacted
    actor: str | None = None  # who retried the run after this attempt: see `engine.actor`
    retried: Instant | None = None  # when


def first_start(run: Run, attempts: Sequence[Attempt]) -> Instant | None:
    """Return when the first attempt of a run began, from which its lateness is counted."""
    return min((each.started for each in attempts if each.started is not None), default=run.started)


class DueEntry(NamedTuple):
    lane: str
    at: Instant
    schedule: ScheduleId
    run: RunId
    owner: str = ""  # the owner whose turn it uses in fair sharing


class WorkerRow(NamedTuple):
    id: WorkerId
    name: str
    lanes: str
    session: int  # 1: exists only while some client is open
    started: Instant
    beat: int
    seen: Instant
    lease: int = LEASE  # microseconds without a heartbeat after which it counts as dead


class Schedule(NamedTuple):
    """Both halves of a schedule, as interfaces see them."""

    definition: Definition
    progress: Progress


def is_busy(progress: Progress) -> bool:
    """Return whether a run of the schedule is in progress. A run that nobody has taken is not, as long as another
    occurrence follows it."""
    return progress.active > progress.untaken or (progress.active > 0 and progress.next is None)


def executed(progress: Progress) -> int:
    """Return how many occurrences were executed. A waiting run that nobody has taken does not count; a queued run does,
    because `queued` also includes runs that were counted before, such as dead letters that are retried."""
    return 0 if progress.last_run is None else progress.run_count - progress.untaken


_NOT_FAILED: Final = frozenset({RunStatus.COMPLETED, RunStatus.SKIPPED})
_ACTIVE: Final = ScheduleState.ACTIVE  # bound once: an enum lookup costs as much as a call


def status_of(progress: Progress) -> str:
    """Return the status of a schedule that users see. A recurring schedule is pending between two runs, and also while
    nobody has taken its latest occurrence. A paused schedule is paused even while one of its runs has not ended: that
    may be a retry that waits for the resume, and the state detail says whether something is running."""
    state = progress.state
    if is_busy(progress) and state in (ScheduleState.ACTIVE, ScheduleState.CANCELLED):
        return "running"
    if state == _ACTIVE:
        return "pending"
    if state == ScheduleState.ENDED:
        return "completed" if progress.last_status in _NOT_FAILED else "failed"
    return str(state)


def lane_of(kind: str, *, at_most_once: bool = False, suspect: bool = False) -> str:
    """Return the lane of the due queue. Suspects and at-most-once work, which is never claimed early, have lanes of
    their own. For work that needs a label, `kind` is that of `with_label`."""
    if suspect:
        return f"{kind}:solo"
    return f"{kind}:exact" if at_most_once else kind


def with_label(kind: str, label: str | None) -> str:
    """Return the name with which the lanes of a kind begin, for work that needs a worker with this label: `job@gpu`."""
    return kind if label is None else f"{kind}@{label}"


def kind_and_label(lane: str) -> tuple[str, str]:
    """Return the kind of a lane, and the label that a worker needs for it, which is empty for most."""
    kind, _, label = lane.partition(":")[0].partition("@")
    return kind, label


def run_holder(run: int, fence: int) -> str:
    """Return the holder that the token of a run identifies: this attempt of the run, and no later one."""
    return f"run_{run:08d}_{fence}"


_EXECUTOR: Final = "on:"


def executor_holder(name: str) -> str:
    """Return the holder of runs that were handed to an executor of the settings, such as a cluster."""
    return f"{_EXECUTOR}{name}"


def executor_of(run: Run) -> str | None:
    """Return the name of the executor that a waiting run was handed to; None for every other run."""
    if run.status != RunStatus.WAITING or run.holder is None or not run.holder.startswith(_EXECUTOR):
        return None
    return run.holder.removeprefix(_EXECUTOR)


HELD_BACK: Final = "held: "
"""The beginning of the error of a run whose executor is away. Queries look for it, too."""


def is_held_back(run: Run) -> bool:
    """Return whether a run waits because its executor is away."""
    return run.status == RunStatus.WAITING and (run.error or "").startswith(HELD_BACK)


class ExecutorRow(NamedTuple):
    """What the worker that tracks an executor last saw of it."""

    name: str
    type: str
    workers: int | None  # None: unknown
    problem: str | None  # why it cannot be reached
    seen: Instant


# Owners: who may use the agents and channels that the operator set up. For all other owners, they do not exist.

LOCAL = "local"
"""The user of this machine: the owner of what is created without a token, and the holder of what is taken without
one."""
EVERYBODY = "*"
"""Stands for all owners."""
ONLY_LOCAL = (LOCAL,)


def is_open_to(owners: Collection[str], owner: str) -> bool:
    """Return whether an owner is among the `owners` that a settings table names."""
    return owner in owners or EVERYBODY in owners


# Daily usage limits of an owner's agents, and what is left of them.

MICRO = 1_000_000
"""Dollars are counted in millionths, so that sums are exact."""


class Used(NamedTuple):
    runs: int = 0
    tokens: int = 0
    micros: int = 0


class Cap(NamedTuple):
    """A limit for one day; 0 means none."""

    subject: str
    """What the limit applies to: an owner as a whole, one agent or one schedule."""
    words: str
    """The name that users see, such as `the agent coder`."""
    limit: Used


class Left(NamedTuple):
    """What is left of the day's limits for a run that begins; None where nothing limits it."""

    tokens: int | None = None
    micros: int | None = None

    @property
    def dollars(self) -> float | None:
        return None if self.micros is None else self.micros / MICRO


NOTHING = Used()
UNLIMITED = Left()


def reached(caps: Sequence[Cap], used: Mapping[str, Used]) -> str | None:
    """Return a description of a limit that allows no further run; None if there is no such limit."""
    for cap in caps:
        so_far = used.get(cap.subject, NOTHING)
        for name, limit, count in zip(Used._fields, cap.limit, so_far, strict=True):
            if limit and count >= limit:
                amount = f"${limit / MICRO:g}" if name == "micros" else f"{limit} {name}"
                return f"{amount} a day for {cap.words}"
    return None


_REACHED = ("the limit of ", " is reached")


def limit_reached(limit: str) -> str:
    """Return the reason why runs are held back at a limit; `names_limit` recognizes it in the stored reason."""
    return limit.join(_REACHED)


def names_limit(reason: str | None) -> bool:
    """Return whether this is the reason of a run that waits because a limit is reached."""
    start, end = _REACHED
    return reason is not None and end in reason.lower().partition(start)[2]


def left(caps: Sequence[Cap], used: Mapping[str, Used]) -> Left:
    """Return what the tightest limit leaves. Runs that overlap each get the whole remainder."""
    tokens = [cap.limit.tokens - used.get(cap.subject, NOTHING).tokens for cap in caps if cap.limit.tokens]
    micros = [cap.limit.micros - used.get(cap.subject, NOTHING).micros for cap in caps if cap.limit.micros]
    return Left(min(tokens, default=None), min(micros, default=None))
