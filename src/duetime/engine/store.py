"""The contract of a store. Mechanism only: every decision is made by `core.policy`, inside the store's transaction.

A starred method (*) is one write transaction; when it returns, what it wrote is on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from duetime.engine.clock import Instant
from duetime.engine.external_schedules import Remotes
from duetime.engine.fair_share import Turns
from duetime.engine.model import LEASE, Attempt, DueEntry, Run, RunId, Schedule, ScheduleId, WorkerId, WorkerRow
from duetime.engine.policy.changes import Change, Decision
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.create import Draft
from duetime.engine.policy.evaluation import Answers, Question
from duetime.engine.policy.rate_limit import Budget
from duetime.engine.policy.record import Answer, Finished
from duetime.engine.result import Result
from duetime.engine.store_revocations import Revocations
from duetime.engine.store_stats import Figures
from duetime.engine.triggers.base import BEFORE_ALL
from duetime.engine.usage import Cap, Left, Used

T = TypeVar("T")

COUNTED = 10_000
"""How far a list counts what matches, unless it is told otherwise: beyond, a page costs the same however many match."""
PAGE_BYTES = 2 * 1024 * 1024
"""How much one page of a list holds, whatever its limit: schedules and results may be large."""
EVERY_ONE = 2**62
"""For a list whose total has to be exact, whatever it costs."""


class Created(NamedTuple):
    schedule: Schedule
    fresh: bool  # False: the owner's key was known, and this is what it made


class ClaimRequest(NamedTuple):
    """A wish to claim: at most `limit` entries of `lane` that start by `until`."""

    lane: str
    limit: int
    until: Instant
    share: str = ""
    """Wants of one share draw on one limit: what one takes is gone for the next, and for those of a shorter name."""
    turns: Turns | None = None
    """How owners share the limit; None where the order of instants alone decides."""
    lead: int = 0
    """How much of `until` lies ahead of now. Within it, a schedule that has an active or queued run gives nothing: what
    becomes of its occurrence is decided at its instant."""
    server_bound: bool = False
    """True: nothing beyond the store's own clock and the lead, where the store has a clock, whatever `until` says."""


class Exchange(NamedTuple):
    answers: list[Answer]
    claims: list[Claim]
    seen: int = 0  # due entries that were dealt with, whether or not a run came of them
    postponed: Sequence[Question] = ()  # due entries whose triggers take more steps than a transaction has


class Beat(NamedTuple):
    stop: list[RunId]  # runs in this worker's hands that somebody asked to stop
    floor: int  # the oldest code, by schema version, that may still write


@dataclass(frozen=True, slots=True)
class ScheduleQuery:
    owner: str | None = None
    kind: str | None = None
    status: str | None = None
    """As people see it: pending, running, completed, failed, cancelled, paused, broken. `living`: all that may fire."""
    text: str | None = None  # part of the name
    subject: str | None = None
    due_from: Instant | None = None
    due_to: Instant | None = None
    changed_since: Instant | None = None  # made or changed by people at or after this instant
    by_time: bool = False  # in the order of the next instant, or of the last where there is none, instead of creation
    firing: bool = False  # only what will fire, in the order of starts; cheap however many there are
    newest_first: bool = False
    limit: int = 100
    cursor: str | None = None
    count_to: int = COUNTED  # 0: nobody asks how many there are
    most_bytes: int | None = None  # a page that has more ends early, with a cursor


@dataclass(frozen=True, slots=True)
class RunQuery:
    owner: str | None = None
    kind: str | None = None
    kinds: tuple[str, ...] = ()  # any of these
    schedule: ScheduleId | None = None
    status: str | None = None
    """As it is stored. `live`: all that may still change. `dead`: failed or lost, and nobody has dismissed it."""
    worker: WorkerId | None = None
    subject: str | None = None
    due_from: Instant | None = None
    due_to: Instant | None = None
    free_at: Instant | None = None  # waiting then in nobody's hands, and its schedule is active
    holder: str | None = None  # waiting in these hands
    depth_below: int | None = None  # its schedule is less deep than that
    above: RunId | None = None  # made after this one
    ids: tuple[RunId, ...] | None = None
    oldest_first: bool = False  # by due instant
    limit: int = 100
    cursor: str | None = None
    count_to: int = COUNTED
    most_bytes: int | None = None


class Page(NamedTuple, Generic[T]):
    items: list[T]
    cursor: str | None
    total: int
    total_exact: bool = True  # False: there are at least so many


@dataclass(frozen=True, slots=True)
class Health:
    schema: int
    schedules: int
    due: int
    overdue: int
    running: int
    oldest_due: Instant | None
    details: dict[str, Any]


class Store(Remotes, Revocations, Figures, Protocol):
    url: str
    known_schema: int  # the newest schema version that this code knows

    def migrate(self) -> None:
        """* Brings the schema up to this code's version; refuses one that is newer."""

    def create(
        self, drafts: Sequence[Draft], limits: Mapping[str, int] = {}, most_bytes: Mapping[str, int] = {}
    ) -> Result[list[Created]]:
        """* All or nothing. `limits` caps the living schedules of an owner, `most_bytes` what it stores."""

    def add_bytes(self, owner: str, number: int, limit: int, now: Instant) -> Result[None]:
        """* Counts what an owner stores in addition, unless that is more than it may."""

    def get(self, schedule: ScheduleId) -> Schedule | None: ...

    def find(self, public_id: str) -> Schedule | None: ...

    def by_key(self, owner: str, key: str) -> Schedule | None:
        """What an owner's key made, deleted or not."""

    def marks(self, owner: str, kind: str, subject: str) -> list[tuple[Any, ...]]:
        """Differs after everything that happens to the schedules filed under a subject. Narrow and bounded by the
        living ones, for whoever asks several times a second.
        """

    def search(self, query: ScheduleQuery) -> Page[Schedule]: ...

    def change(self, schedule: ScheduleId, now: Instant, decide: Callable[[Change], Decision]) -> Result[Any]:
        """* Locks the schedule's progress, decides, writes."""

    def change_run(self, run: RunId, now: Instant, decide: Callable[[Change, Run], Decision]) -> Result[Any]:
        """* The same for a decision about one run."""

    def ahead(self, now: Instant, limit: int) -> list[ScheduleId]:
        """Active schedules that were claimed through an instant beyond `now`: the clock had been ahead."""

    def register(self, name: str, lanes: Sequence[str], session: bool, now: Instant, lease: int = LEASE) -> WorkerId:
        """* A worker's row. Its id is never used again."""

    def beat(
        self,
        worker: WorkerId,
        now: Instant,
        reports: Mapping[RunId, str],
        not_begun: Sequence[RunId] | None = None,
    ) -> Beat:
        """* Shows that the worker lives, and which of the runs in its hands have not begun; None where that is unknown.
        Raises WorkerGone when others took it for dead."""

    def retire(self, worker: WorkerId) -> None:
        """* A clean leave; what the worker still holds is left to rescue."""

    def workers(self) -> list[WorkerRow]: ...

    def exchange(
        self,
        worker: WorkerId,
        now: Instant,
        finished: Sequence[Finished],
        wants: Sequence[ClaimRequest],
        known: Mapping[RunId, Claim] = {},
        budget: Budget | int | None = None,
        answers: Answers | None = None,
    ) -> Exchange:
        """* Records what finished, then claims what is due: one commit for both. Raises WorkerGone.

        `known` are claims that this worker still remembers: nothing of them but what may have changed is read again.
        `budget` is how many runs an owner may have in an hour; what is beyond it is held back.
        `answers` to what an earlier exchange postponed: triggers that take many steps are not evaluated under a lock.
        """

    def rescue(self, dead: WorkerId, beat: int, now: Instant) -> int | None:
        """* Gives a dead worker's runs back. None when its beat moved on, or somebody else was faster."""

    def probe(self) -> None:
        """* Writes nothing, and returns as soon as something could be written."""

    def held(self, worker: WorkerId) -> list[Claim]:
        """What the store believes to be in this worker's hands."""

    def earliest(
        self, lanes: Sequence[str], but: Collection[tuple[str, str]] = (), after: Instant = BEFORE_ALL
    ) -> DueEntry | None:
        """The entry that these lanes begin with, or begin with `after` an instant: when to look again, and what stands
        first.

        `but` names lanes and owners in them whose entries do not count; however many those are, they cost nothing.
        """

    def has_other_owners(self, owner: str, lanes: Sequence[str]) -> bool:
        """Whether anybody else has anything in these lanes of the queue, due now or later."""

    def run(self, run: RunId) -> Run | None: ...

    def runs(self, query: RunQuery) -> Page[Run]: ...

    def attempts(self, run: RunId) -> list[Attempt]: ...

    def reserve(self, owner: str, day: Instant, caps: Sequence[Cap]) -> str | Left:
        """* Counts one more run of a day under every cap, and says how much it may use; unless one of them is reached:
        then that one, in words."""

    def spend(self, owner: str, day: Instant, caps: Sequence[Cap], used: Used) -> None:
        """* Adds what a run used to every cap's count."""

    def prune(self, before: Instant, limit: int) -> int:
        """* Deletes at most `limit` runs that ended before an instant, schedules that are over and without runs, and
        records of one-offs that went out elsewhere.
        """

    def now(self) -> Instant | None:
        """The store's own clock, where it has one apart from this machine's."""

    def wait(self, timeout: float) -> bool:
        """Blocks until another process wrote (True) or the time is over. For one watching thread."""

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls back after every write of this process that may have made work due earlier, until told not to."""

    def health(self, now: Instant) -> Health: ...

    def backup(self, target: str, told: Callable[[float], None] = lambda done: None) -> None:
        """`told` hears from time to time which part is done, from 0 to 1."""

    def close(self) -> None: ...
