"""The contract of a store. A store is mechanism only: `engine.policy` makes every decision, inside the store's
transaction.

A starred method (*) is one write transaction; when it returns, its writes are on disk.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from duetime.engine.clock import Instant
from duetime.engine.errors import Refused
from duetime.engine.model import (
    LEASE,
    Attempt,
    Cap,
    DueEntry,
    Left,
    Run,
    RunId,
    Schedule,
    ScheduleId,
    Used,
    WorkerId,
    WorkerRow,
)
from duetime.engine.policy.batches import Batch
from duetime.engine.policy.catch_up import Answers, Question
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.decision import Change, Decision, RunDecider
from duetime.engine.policy.fair_share import Budget, Turns
from duetime.engine.policy.follow_ups import Messenger
from duetime.engine.policy.gates import GateGift
from duetime.engine.policy.record import Finished, Receipt
from duetime.engine.policy.rows import Draft, RunEvent
from duetime.engine.store_interfaces import (
    Events,
    Figures,
    Hooks,
    Incidents,
    Logs,
    Publication,
    Remotes,
    Revocations,
)
from duetime.engine.triggers.base import BEFORE_ALL
from duetime.engine.value_class import NamedTuple, dataclass

T = TypeVar("T")

COUNTED = 10_000
"""How far a list counts its matches by default, so that the cost of a page does not depend on how many match."""
PAGE_BYTES = 2 * 1024 * 1024
"""Maximum size in bytes of one page of a list, whatever its limit, because schedules and results may be large."""
EVERY_ONE = 2**62
"""The value of `count_to` for a list whose total must be exact, whatever the cost."""


class Creation(NamedTuple):
    schedule: Schedule
    fresh: bool  # False: the owner's key was known, and this is what was created with it


class PauseOfAll(NamedTuple):
    """A pause of all that an owner has scheduled."""

    until: Instant | None


class RunInput(NamedTuple):
    payload: str | None = None  # None: the run uses its schedule's
    actor: str | None = None  # who started the run manually: see `engine.actor`


class RunStopRequest(NamedTuple):
    at: Instant
    actor: str | None
    """Who asked the run to stop: see `engine.actor`."""
    deadline: Instant | None
    """When it is to stop, if that is later."""


class QueuePosition(NamedTuple):
    """A position in the order of a lane."""

    at: Instant
    schedule: ScheduleId


class ClaimRequest(NamedTuple):
    """A request to claim at most `limit` entries of `lane` that start by `until`."""

    lane: str
    limit: int
    until: Instant
    share: str = ""
    """Requests with the same share draw on one limit: what one claims is deducted from later ones of the same share,
    and from those whose share is a prefix of it."""
    turns: Turns | None = None
    """How owners share the limit; None if the order of instants alone decides."""
    lead: int = 0
    """How far `until` is ahead of now. Within that time, no entry is claimed of a schedule that has an active or queued
    run, because its overlap is decided at its instant."""
    server_bound: bool = False
    """True: whatever `until` says, claim nothing beyond the store's own clock, if it has one, plus the lead."""
    after: QueuePosition | None = None
    """Where to begin in the lane, if the order of instants alone decides: entries before that are already being
    claimed. A store with a single writer ignores it."""


class RecordedAndClaimed(NamedTuple):
    answers: list[Receipt]
    claims: list[Claim]
    seen: int = 0  # due entries that were processed, whether or not a run started
    postponed: Sequence[Question] = ()  # due entries whose triggers need more steps than a transaction has


Planned = Callable[[RecordedAndClaimed], None]
"""Called with what an exchange will have done once it is committed."""


class Beat(NamedTuple):
    stop: list[RunId]  # this worker's runs that were asked to stop
    floor: int  # the oldest schema version whose code may still write


@dataclass(frozen=True, slots=True)
class ScheduleQuery:
    owner: str | None = None
    kind: str | None = None
    kinds: tuple[str, ...] = ()  # any of these
    status: str | None = None
    """As users see it: pending, running, completed, failed, cancelled, paused, broken. Or by state: `active`, `resting`
    (paused or broken), `over` (will not fire again), `living` (may still fire)."""
    text: str | None = None  # part of the name
    name: str | None = None  # the whole name, whatever its case; one lookup in an index
    id_prefix: str | None = None  # the beginning of the public id; one lookup as well
    subject: str | None = None
    tagged: str | None = None  # with this tag
    due_from: Instant | None = None
    due_to: Instant | None = None
    changed_since: Instant | None = None  # created or changed by people at or after this instant
    by_time: bool = False  # by the next instant or, if it has none, the last; paused and broken schedules come last
    firing: bool = False  # only schedules that will fire, in the order of starts; cheap however many there are
    with_events: bool = False  # with `firing`: also schedules that wait for an event; they come last
    order_by: str = ""  # "name" or "last_run" instead of the order of creation; `newest_first` reverses it
    follow_ups: bool = True  # False: without the one-off messages that runs created when they ended
    newest_first: bool = False
    limit: int = 100
    cursor: str | None = None
    count_to: int = COUNTED  # 0: do not count
    most_bytes: int | None = None  # a page that reaches this size ends early, with a cursor


@dataclass(frozen=True, slots=True)
class RunQuery:
    owner: str | None = None
    kind: str | None = None
    kinds: tuple[str, ...] = ()  # any of these
    schedule: ScheduleId | None = None
    schedules: tuple[ScheduleId, ...] = ()  # any of these
    status: str | None = None
    """As stored. `live`: all that may still change. `dead`: failed or lost, and not dismissed."""
    statuses: tuple[str, ...] = ()  # any of these, as stored
    worker: WorkerId | None = None
    subject: str | None = None
    tagged: str | None = None  # its schedule has this tag now
    due_from: Instant | None = None
    due_to: Instant | None = None
    free_at: Instant | None = None  # waiting at this instant without a holder, while its schedule is active
    """With a subject, also find runs with an input of their own, which may be for somebody else."""
    holder: str | None = None  # waiting and taken by this holder
    depth_below: int | None = None  # its schedule's depth is below this
    above: RunId | None = None  # created after this one
    text: str = ""  # part of the name or error; ASCII letters in any case
    error: str = ""  # part of the error, which is stored redacted; ASCII letters in any case
    longer_than: tuple[int, Instant] | None = None
    """Took at least so many microseconds; or has run since this instant or longer, and has not ended."""
    shorter_than: int | None = None  # took at most so many microseconds
    in_result: str = ""  # part of the result, exactly as it is stored
    mark_below: int | None = None  # for messages: READ finds the unread ones, DISMISSED those that are not dismissed
    mark_from: int | None = None  # DISMISSED finds dismissed messages; for failed runs, 1 finds dismissed ones
    below: RunId | None = None  # created before this one
    has_most_runs: bool = False  # the owner has most of all runs, so that they are read in order and not by owner
    overlapping: tuple[Instant, Instant] | None = None  # ranges of skipped or missed occurrences that overlap this one
    ids: tuple[RunId, ...] | None = None
    oldest_first: bool = False  # by due instant
    ascending: bool = False  # by id instead of the latest first; across schedules
    limit: int = 100
    cursor: str | None = None
    count_to: int = COUNTED
    most_bytes: int | None = None


class Page(typing.NamedTuple, Generic[T]):
    items: list[T]
    cursor: str | None
    total: int
    total_exact: bool = True  # False: there are at least this many


@dataclass(frozen=True, slots=True)
class Health:
    schema: int
    schedules: int
    due: int
    overdue: int
    running: int
    oldest_due: Instant | None
    details: dict[str, Any]


class RunObserver(Protocol):
    """Is told of runs that begin and end, after the commit, if their policy asks for that."""

    def __call__(self, events: Sequence[RunEvent]) -> None:
        """Return at once: a transaction waits for this."""

    def close(self) -> None: ...


class Store(Remotes, Revocations, Publication, Figures, Incidents, Hooks, Events, Logs, Protocol):
    url: str
    known_schema: int  # the newest schema version that this code knows
    messenger: Messenger | None
    """The kind that delivers messages to owners; without one, nobody is told how runs end."""
    observer: RunObserver | None
    writes_overlap: bool
    """True if two transactions can write at the same time, so that a worker records and claims in two threads."""
    tidy_batch: int
    """How many rows of old history a worker deletes at a time, without keeping others waiting."""

    def tell_observer(self, events: Sequence[RunEvent]) -> None:
        """Tell the observer, if there is one, about runs after their commit. Its errors are logged."""

    def migrate(self) -> None:
        """* Upgrade the schema to this code's version; refuse a newer one that code of this age must not write to."""

    def create(
        self, drafts: Sequence[Draft], limits: Mapping[str, int] = {}, most_bytes: Mapping[str, int] = {}
    ) -> Sequence[Creation]:
        """* Create all or nothing. `limits` caps the number of schedules of an owner that may still fire, `most_bytes`
        its stored bytes. Raises LimitReached."""

    def add_bytes(self, owner: str, number: int, limit: int, now: Instant) -> None:
        """* Add to the number of bytes that an owner stores. Raises LimitReached."""

    def get(self, schedule: ScheduleId) -> Schedule | None: ...

    def schedules(self, ids: Sequence[ScheduleId]) -> dict[ScheduleId, Schedule]:
        """Return those of at most a few hundred schedules that are stored, in one query."""

    def find(self, public_id: str) -> Schedule | None: ...

    def by_key(self, owner: str, key: str) -> Schedule | None:
        """Return the schedule that has an owner's key. Deleting a schedule frees its key."""

    def by_key_prefix(self, owner: str, prefix: str) -> list[Schedule]:
        """Return the schedules of an owner whose keys begin with a text, in the order of the keys."""

    def marks(self, owner: str, kind: str, subject: str) -> list[tuple[Any, ...]]:
        """Return a value that differs after every change to the schedules of a subject. Its size is bounded by the
        number of schedules that may still fire, and it is small, for callers that poll several times a second."""

    def search(self, query: ScheduleQuery) -> Page[Schedule]: ...

    def change(self, schedule: ScheduleId, now: Instant, decide: Callable[[Change], Decision[T]]) -> T:
        """* Lock the schedule's progress, decide, write. Raises what `decide` raises, and NotFound."""

    def carry_out(self, batch: Batch) -> list[Schedule]:
        """* Delete, create and edit schedules, all or nothing. Return the new ones, and then those that were edited.
        Raises what a decision raises, LimitReached, NotFound, and Conflict if another schedule has one of the keys."""

    def change_run(self, run: RunId, now: Instant, decide: RunDecider[T]) -> T:
        """* Do the same for a decision about one run."""

    def change_runs(self, runs: Sequence[RunId], now: Instant, decide: RunDecider[T]) -> list[T | Refused]:
        """* Do the same for several runs in one commit. They must be in the order of their schedules' ids, so that no
        two transactions wait for each other. Each has its own result: a value or, because a refusal must not undo the
        others, a Refused that is returned and not raised."""

    def ahead(self, now: Instant, limit: int, after: int = 0) -> list[ScheduleId]:
        """Return, in order, the schedules after `after` about which something was decided for a time beyond `now`,
        because the clock was ahead; `rewind` decides again."""

    def register(self, name: str, lanes: Sequence[str], session: bool, now: Instant, lease: int = LEASE) -> WorkerId:
        """* Insert a worker's row. Its id is never reused."""

    def beat(
        self, worker: WorkerId, now: Instant, reports: Mapping[RunId, str], not_begun: Sequence[RunId] | None = None
    ) -> Beat:
        """* Record a heartbeat, and which of the worker's runs have not begun (None if that is unknown). Raises
        WorkerGone if others declared the worker dead."""

    def retire(self, worker: WorkerId) -> None:
        """* Remove a worker that stops cleanly; runs that it still holds are left to a rescue."""

    def workers(self) -> list[WorkerRow]: ...

    def recent_workers(self) -> list[WorkerRow]:
        """Return the workers as of at most a second ago; for warnings, which must not delay every create."""

    def pause_of_all(self, owner: str) -> PauseOfAll | None:
        """Return the pause of all that an owner has scheduled, except for fewer that were created since; None if
        something else is not paused. As of at most a second ago, unless it was changed by this process."""

    def record_and_claim(
        self,
        worker: WorkerId,
        now: Instant,
        finished: Sequence[Finished],
        wants: Sequence[ClaimRequest],
        known: Mapping[RunId, Claim] = {},
        budget: Budget | int | None = None,
        answers: Answers | None = None,
        unrecorded: Collection[ScheduleId] = (),
        planned: Planned | None = None,
    ) -> RecordedAndClaimed:
        """* Record finished runs, then claim what is due, in one commit. Raises WorkerGone.

        `known` are claims that this worker still has in memory: only what may have changed about them is read again.

        `budget` is how many runs an owner may have in an hour; entries beyond it are held back.

        `answers` belong to questions that an earlier exchange postponed: triggers that need many steps are not
        evaluated under a lock.

        `unrecorded` are schedules with a finished run that another thread of the worker is recording at this time:
        their due entries stay in the queue until then, because a claim would find that run still active.

        `planned` is called before the commit with what will have been done, unless the commit fails; from then on,
        another thread of the worker may claim. A claim that turns out to need a decision is then not repeated but
        raises.
        """

    def rescue(self, dead: WorkerId, beat: int, now: Instant) -> int | None:
        """* Release a dead worker's runs and return how many; None if its heartbeat has advanced or another worker was
        faster."""

    def probe(self) -> None:
        """* Write nothing, and return as soon as a write is possible."""

    def held(self, worker: WorkerId) -> list[Claim]:
        """Return the claims that the store attributes to this worker."""

    def earliest(
        self, lanes: Sequence[str], but: Collection[tuple[str, str]] = (), after: Instant = BEFORE_ALL
    ) -> DueEntry | None:
        """Return the first entry of these lanes, or the first one `after` an instant, which says when to check again
        and for what. `but` names pairs of lane and owner whose entries do not count; they cost nothing, however many
        there are."""

    def look_ahead(self, lanes: Sequence[str]) -> tuple[DueEntry | None, bool]:
        """Return the first entry of these lanes, and whether events wait to become runs."""

    def has_other_owners(self, owner: str, lanes: Sequence[str]) -> bool:
        """Return whether any other owner has entries in these lanes, due now or later."""

    def run(self, run: RunId) -> Run | None: ...

    def runs(self, query: RunQuery) -> Page[Run]: ...

    def run_counts(self, query: RunQuery) -> dict[str, int]:
        """Count the matching runs by status, at most `count_to` of them."""

    def attempts(self, run: RunId) -> list[Attempt]: ...

    def last_gift(self, schedule: ScheduleId, gate: str) -> GateGift:
        """Return what a gate is compared with: what it remembers, or gave to a run that has not ended."""

    def gate_gift(self, run: RunId) -> GateGift | None:
        """Return what its gate gave to a run."""

    def gifts_of_runs(self, runs: Sequence[RunId]) -> dict[RunId, GateGift]:
        """Return what their gates gave to these runs, of those that have one."""

    def trace_of(self, run: RunId) -> str | None:
        """Return the span of the request that started a run manually, if there is one."""

    def stop_requests(self, runs: Sequence[RunId]) -> dict[RunId, RunStopRequest]:
        """Return who asked these runs to stop, of those that somebody asked."""

    def starts_at(self, run: Run) -> Instant | None:
        """Return the earliest time at which a pending run starts; None if it has no entry in the due queue."""

    def neighbours(self, run: Run) -> tuple[RunId | None, RunId | None]:
        """Return the previous and the next run of its schedule, in the order in which they were due."""

    def traceback(self, run: RunId) -> str | None:
        """Return the traceback of a run that failed with an exception."""

    def run_input(self, run: RunId) -> RunInput:
        """Return the input of a run that was started with its own input, and who started it."""

    def reserve(self, owner: str, day: Instant, caps: Sequence[Cap]) -> str | Left:
        """* Count one more run of a day under every cap, and return how much it may use; if a cap is reached, return
        its description instead."""

    def spend(self, owner: str, day: Instant, caps: Sequence[Cap], used: Used) -> None:
        """* Add what a run used to the count of every cap."""

    def spent(self, owner: str, since: Instant) -> list[tuple[Instant, str, Used]]:
        """Return what an owner's runs have used since a day, by day and by the subject of the cap."""

    def prune(self, before: Instant, limit: int) -> int:
        """* Delete at most `limit` runs that ended before an instant, finished schedules without runs, and records of
        one-offs that an external service has sent."""

    def trim(self, most: int, now: Instant, limit: int) -> int:
        """* Delete at most `limit` of the oldest runs of owners other than `local` that store more than `most` bytes,
        until a tenth of that is free; return 0 when there is nothing more to do."""

    def now(self) -> Instant | None:
        """Return the store's own clock, if it has one apart from this machine's."""

    def wait(self, timeout: float) -> bool:
        """Block until another process has written (True) or the timeout passes. Only one thread may watch."""

    def stop_waiting(self) -> None:
        """End a wait that is in progress in another thread."""

    def on_change(self, listener: Callable[[], object], *, only_soon: bool = False) -> Callable[[], None]:
        """Call `listener` after every write of this process that may make work due earlier; return a function that
        stops this. With `only_soon`, leave out work that is due only in some seconds, because a worker checks the queue
        before then."""

    def health(self, now: Instant) -> Health: ...

    def backup(self, target: str, report: Callable[[float], None] = lambda done: None) -> None:
        """Copy the store to `target`. `report` is called now and then with the fraction that is done, from 0 to 1."""

    def close(self) -> None: ...
