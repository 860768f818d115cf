"""The rows that decisions use and their builders, the backoff between attempts, and a hash that spreads work evenly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import lru_cache
from typing import Literal, TypeAlias

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import InvalidInput, LimitReached
from duetime.engine.model import (
    NO_RUN,
    Attempt,
    Cause,
    Definition,
    DueEntry,
    EventRow,
    Progress,
    Run,
    RunId,
    RunStatus,
    ScheduleId,
    ScheduleState,
    Trouble,
    WorkerId,
    lane_of,
    with_label,
)
from duetime.engine.policy.options import Policy, policy_from_json
from duetime.engine.triggers import Trigger, trigger_from_json
from duetime.engine.value_class import NamedTuple, dataclass

_MASK = (1 << 64) - 1


def spread(first: int, second: int, width: int) -> int:
    """Return a number in [0, width) that depends only on the inputs: a repeated claim must get the same instant."""
    if width <= 0:
        return 0
    mixed = (first * 0x9E3779B97F4A7C15 + second) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return (mixed ^ (mixed >> 31)) % width


def backoff(policy: Policy, run: int, failures: int, least: int = 0) -> int:
    """Return the delay before the next attempt: doubled with every failure up to a limit, and spread over its upper
    half; at least `least`."""
    doubled: int = min(policy.backoff_limit, policy.backoff << min(failures - 1, 40))
    half = doubled // 2
    return max(least, half + spread(run, failures, doubled - half + 1))


# Bound once: an enum lookup costs as much as a call, and every run needs these.
_RUNNING, _TRIGGER, _ACTIVE = RunStatus.RUNNING, Cause.TRIGGER, ScheduleState.ACTIVE
_new = tuple.__new__  # costs half as much as calling a named tuple
_KIND, _OWNER, _POLICY = map(Definition._fields.index, ("kind", "owner", "policy"))


class Span(NamedTuple):
    """A range of occurrences that did not run: the first, the last and their number. A negative number means at least
    that many."""

    first: Instant
    last: Instant
    number: int


def new_run(
    run: RunId,
    definition: Definition,
    due: Instant,
    status: str,
    *,
    cause: str = Cause.TRIGGER,
    finished: Instant | None = None,
    error: str | None = None,
    last: Instant | None = None,
    number: int = 1,
) -> Run:
    return Run(
        run, definition.id, cause, due, status, 0, 0, 0, None, None, None, finished, None, None, None, error, None, 0,
        last, number, definition.kind, definition.owner, definition.name,
    )  # fmt: skip


def claimed_run(run: RunId, definition: Definition, due: Instant, worker: WorkerId, started: Instant) -> Run:
    """Build the row of an occurrence that starts with its claim, as most do; positional arguments halve the cost."""
    return Run(
        run, definition.id, _TRIGGER, due, _RUNNING, 1, 0, 1, worker, None, started, None, None, None, None, None,
        None, 0, None, 1, definition.kind, definition.owner, definition.name,
    )  # fmt: skip


def span_run(run: RunId, definition: Definition, span: Span, status: str, reason: str, now: Instant) -> Run:
    return new_run(run, definition, span.first, status, finished=now, error=reason, last=span.last, number=span.number)


def start_of(definition: Definition, trigger: Trigger, due: Instant) -> Instant:
    """Return when an occurrence is to start: its nominal instant plus its share of the jitter."""
    return Instant(due + spread(definition.id, due, trigger.jitter)) if trigger.jitter else due


def earliest_start(definition: Definition, run: Run, now: Instant) -> Instant:
    """Return the instant before which a run must not start, however early it was claimed."""
    if run.cause != Cause.TRIGGER:  # requested for now: its instant was moved only to be unique
        return Instant(0)
    if run.due > now + SECOND:  # nothing is claimed that early, unless the clock was ahead
        return now
    try:
        return start_of(definition, trigger_from_json(definition.trigger), run.due)
    except InvalidInput:  # a run must be able to continue and to end, whatever the state of its trigger
        return run.due


def trigger_entry(definition: Definition, policy: Policy, due: Instant) -> DueEntry:
    trigger = trigger_from_json(definition.trigger)
    special = policy.at_most_once or policy.needs is not None
    lane = policy_lane(definition.kind, policy) if special else definition.kind
    at = start_of(definition, trigger, due) if trigger.jitter else due
    return _new(DueEntry, (lane, at, definition.id, NO_RUN, definition.owner))


def policy_lane(kind: str, policy: Policy, *, suspect: bool = False) -> str:
    return lane_of(with_label(kind, policy.needs), at_most_once=policy.at_most_once, suspect=suspect)


def run_entry(definition: Definition, policy: Policy, run: Run, at: Instant) -> DueEntry:
    """Build the due entry of a run. A run that was held by a process when it died is a suspect: workers hold few of
    these at a time."""
    lane = policy_lane(definition.kind, policy, suspect=run.deaths > 0)
    return DueEntry(lane, at, definition.id, run.id, definition.owner)


def ended(progress: Progress) -> Progress:
    """End an active schedule that has nothing left to run."""
    if progress.next is not None or progress.active or progress.queued:
        return progress
    if progress.state == ScheduleState.ACTIVE:
        return progress._replace(state=ScheduleState.ENDED, gap=None)
    return progress


class Draft(NamedTuple):
    """A validated schedule that has no id yet; `{id}` in its public id is a placeholder for that id."""

    definition: Definition
    first: Instant


NewRows: TypeAlias = tuple[Definition, Progress, DueEntry]


def begin(draft: Draft, schedule: ScheduleId) -> NewRows:
    template, first = draft
    public_id = template.public_id.replace("{id}", str(schedule))
    definition: Definition = _new(Definition, (schedule, public_id, *template[2:]))
    return definition, first_progress(definition, first), first_entry(draft, schedule)


def first_progress(definition: Definition, first: Instant | None) -> Progress:
    """Return the progress of a schedule before its first run."""
    progress: Progress = _new(
        Progress, (definition.id, definition.owner, definition.kind, _ACTIVE, first, *_NOTHING_YET)
    )
    return progress


_NOTHING_YET = (None, 0, 0, 0, None, None, None, None, 0, None, 0, 0)
"""The columns of progress from `through` on, before the first run."""


def first_entry(draft: Draft, schedule: ScheduleId) -> DueEntry:
    """Build the first due entry of a draft. Only jitter depends on the id, so the trigger is parsed only if it has
    jitter."""
    definition, first = draft
    if "jitter_us" in definition.trigger:
        return trigger_entry(definition._replace(id=schedule), policy_from_json(definition.policy), first)
    return _new(
        DueEntry, (first_lane(definition[_KIND], definition[_POLICY]), first, schedule, NO_RUN, definition[_OWNER])
    )


@lru_cache(maxsize=1024)
def first_lane(kind: str, policy: str) -> str:
    return policy_lane(kind, policy_from_json(policy))


def quota_reached(limit: int) -> LimitReached:
    message = f"the limit of {limit} schedules is reached; cancel or delete some that are no longer needed"
    return LimitReached(message, details={"limit": limit})


# The rows that a decision wants to have written. Stores apply them in one transaction and never interpret them.

NewId = Callable[[], RunId]


class Extension(NamedTuple):
    """Further occurrences that extend an open range row."""

    run: RunId
    last: Instant
    added: int


class Started(NamedTuple):
    """The progress of a schedule whose only due occurrence starts while nothing is active or queued."""

    next: Instant | None
    through: Instant
    schedule: ScheduleId


class Completion(NamedTuple):
    """The end of a completed run whose schedule has nothing queued and sends no message about it."""

    run: RunId
    fence: int
    schedule: ScheduleId
    started: Instant
    finished: Instant
    result: str | None


class OwnerMessage(NamedTuple):
    """A message to an owner. Its key is reserved, so that it is sent once."""

    owner: str
    key: str
    topic: str
    title: str
    text: str
    went_well: bool
    tags: tuple[str, ...] = ()
    """The tag of a run lets a reader look the run up: channels show tags or pass them on."""


FollowUp: TypeAlias = Draft | OwnerMessage


class RunEvent(NamedTuple):
    """A run that has begun or ended, for observers of the store. They learn of it after the commit, and at most once:
    a process that ends in between tells nobody."""

    definition: Definition
    run: Run


class IncidentEvent(NamedTuple):
    """Something that went wrong with a schedule. It opens an incident, or counts for the open one with its cause."""

    schedule: ScheduleId
    owner: str
    trouble: Trouble
    cause: str
    text: str
    run: RunId | None
    alert: str
    """When the owner is told: see `AlertMode`."""


class Tombstone(NamedTuple):
    """What a delete takes from a schedule, until it is restored or a day has passed."""

    schedule: ScheduleId
    payload: str
    key: str
    deleted: Instant


class IncidentMark(NamedTuple):
    """Incidents that somebody has resolved or, with `is_open`, reopened: one by its number, or all those whose latest
    run this is."""

    schedule: ScheduleId
    run: RunId
    incident: int
    is_open: bool
    actor: str | None


class TombstoneGone(NamedTuple):
    schedule: ScheduleId


class InputsGone(NamedTuple):
    """The inputs of the runs of a schedule, where they had their own, and what they wrote."""

    schedule: ScheduleId


class StoredMemory(NamedTuple):
    """What a schedule remembers: see `policy.gates`."""

    gate: str | None = None
    number: int = 0
    memory: str | None = None
    news: str | None = None
    """The digest of the outcome that was told last."""


class MemoryWrite(NamedTuple):
    """A change of what a schedule remembers."""

    schedule: ScheduleId
    action: Literal["remember_gate", "reset_gate", "remember_told", "forget_told", "delete_memory"]
    values: tuple[str | int, ...] = ()


FurtherWrite: TypeAlias = IncidentEvent | IncidentMark | Tombstone | TombstoneGone | InputsGone | MemoryWrite


class RunColumn(NamedTuple):
    """A column that few runs use and that is written only for those.

    `spared`: the number that `Excuses` reads the next time; the worker's death did not count against the run.
    `traceback`: that of the exception with which the run failed; None if the run starts again and an attempt keeps it.
    `payload`: the input of a new run that differs from its schedule's.
    `actor`: who started the run manually, and wrote its own input: see `engine.actor`.
    `stop_request`: when somebody asked the run to stop, and who: see `engine.store.RunStopRequest`.
    `deadline`: when the run is asked to stop by itself, because somebody shortened its time.
    `gate`: what its gate gave to the run: see `policy.gates.GateGift`.
    `trace`: the span of the request that started the run manually, if there is one: see `duetime.tracing`.
    """

    name: Literal["spared", "traceback", "payload", "actor", "stop_request", "deadline", "gate", "trace"]
    value: int | str | None
    run: RunId


@dataclass(slots=True)
class Writes:
    """Rows to write. Progress is keyed by schedule, because several decisions about one schedule in a batch build on
    each other."""

    new_runs: list[Run] = field(default_factory=list)
    runs: dict[RunId, Run] = field(default_factory=dict)
    extensions: list[Extension] = field(default_factory=list)
    progress: dict[ScheduleId, Progress] = field(default_factory=dict)
    started: dict[ScheduleId, tuple[Started, Progress]] = field(default_factory=dict)
    """The case of nearly all claims: written after `progress`, with fewer columns. Each entry includes the row as it
    was before."""
    definitions: list[Definition] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    due_gone: list[DueEntry] = field(default_factory=list)
    """Entries to remove from the queue; matched by schedule and run."""
    due_gone_of: list[ScheduleId] = field(default_factory=list)
    """Schedules whose entries are all removed from the queue."""
    due_new: list[DueEntry] = field(default_factory=list)
    columns: list[RunColumn] = field(default_factory=list)
    follow_ups: list[FollowUp] = field(default_factory=list)
    """Messages and callbacks that this decision sends, such as the message about the end of a run."""
    queues: dict[ScheduleId, list[Run]] = field(default_factory=dict)
    """Not written: stored queues from which this batch releases several runs, so that each queue is read once."""
    further: tuple[FurtherWrite, ...] = ()
    """Rows that few decisions write: what went wrong, and what a delete takes from a schedule."""
    events: tuple[RunEvent, ...] = ()
    """Not written: runs whose end is announced to observers after the commit."""
    ended: tuple[EventRow, ...] = ()
    """Ends of runs that another schedule may follow."""
    runs_gone: list[RunId] = field(default_factory=list)
    """Ranges to delete, because they turned out to be empty."""

    def move(self, entry: DueEntry) -> None:
        """Put an entry in the place of the one that the queue has for this run or trigger, at whatever time."""
        self.due_gone.append(entry)
        self.due_new.append(entry)

    def withdraw(self, schedule: ScheduleId) -> None:
        """Remove everything of this schedule from the queue, including entries that were added earlier in this
        batch. A retry keeps the time before which it must not start, as `park` says."""
        self.due_gone_of.append(schedule)
        for entry in self.due_new:
            run = self.runs.get(entry.run)
            if entry.schedule == schedule and run is not None and run.status == RunStatus.PENDING and run.attempt:
                self.runs[run.id] = run._replace(expires=entry.at)
        self.due_new = [entry for entry in self.due_new if entry.schedule != schedule]

    def add(self, other: Writes) -> None:
        """Add the rows of a decision about a schedule that has no rows here yet."""
        self.new_runs += other.new_runs
        self.runs |= other.runs
        self.progress |= other.progress
        self.definitions += other.definitions
        self.due_gone_of += other.due_gone_of
        self.due_new += other.due_new

    def progress_of(self, row: Progress) -> Progress:
        """Return a progress row as this batch has changed it so far."""
        if row.schedule in self.started:
            (following, through, schedule), before = self.started.pop(row.schedule)
            self.progress[schedule] = before._replace(
                next=following, through=through, run_count=before.run_count + 1, active=1, gap=None, note=None
            )
        return self.progress.get(row.schedule, row)
