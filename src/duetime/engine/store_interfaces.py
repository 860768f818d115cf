"""Interfaces of a store besides schedules and runs: external schedules, revocations, hooks, and statistics of the whole
store."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Final, Protocol

from duetime.engine.clock import SECOND, Instant
from duetime.engine.model import Cause, EventRow, ExecutorRow, Run, RunId, Schedule, ScheduleId
from duetime.engine.policy.incidents import IncidentRow
from duetime.engine.value_class import NamedTuple, dataclass


class RemoteKind(StrEnum):
    SCHEDULE = "schedule"
    MESSAGE = "message"


class RemoteState(StrEnum):
    ASKED = "asked"  # a request to the service is in progress, or its process died during one
    UNSURE = "unsure"  # the request appears to have failed, but the service may have received it
    THERE = "there"  # the service has confirmed it
    PAUSED = "paused"


class Remote(NamedTuple):
    """The record of a schedule that an external service keeps. It is written before the service is called, so that a
    request whose response was lost can be repeated unchanged."""

    id: str
    owner: str
    kind: str
    topic: str
    trigger: str
    payload: str
    at: Instant | None
    """When a one-off fires; None for a recurring one."""
    remote: str | None
    """The service's own id for it, once known."""
    state: str
    key: str
    fingerprint: str
    created: Instant
    updated: Instant


class RemoteMark(NamedTuple):
    """The fields of a record that differ after a change."""

    id: str
    state: str
    updated: Instant
    at: Instant | None
    trigger: str


class Remotes(Protocol):
    """The part of a store that keeps these records. A starred method (*) is one write transaction."""

    def keep_remote(self, remote: Remote, limit: int) -> Remote:
        """* Insert a record, or return what was created with its owner's key. `limit` caps an owner's schedules, local
        and remote."""

    def repeat_remote(self, owner: str, fingerprint: str, since: Instant, now: Instant) -> Remote | None:
        """* Claim an unsure record with the same arguments to repeat its request, so that nobody else can claim it
        meanwhile."""

    def update_remote(self, remote: Remote) -> None:
        """* Update the time, the remote id and the state of a record."""

    def forget_remote(self, id: str) -> None:
        """* Delete a record, which frees its key."""

    def remote(self, id: str) -> Remote | None: ...

    def remote_by_key(self, owner: str, key: str) -> Remote | None: ...

    def remotes(self, owner: str, now: Instant, topic: str | None = None) -> list[Remote]:
        """Return an owner's records in order of creation, without one-offs whose time has passed."""

    def remote_marks(self, owner: str, topic: str, now: Instant) -> list[RemoteMark]:
        """Return the marks of these records; cheap, for callers that poll several times a second."""


class Revocation(NamedTuple):
    """The id of a token, session or link that is no longer valid."""

    id: str
    at: Instant
    expires: Instant
    """When it would have expired anyway; after that, this record is not needed."""


@dataclass(frozen=True, slots=True)
class HookRow:
    """An address at which another service reports events. The secret is empty until a person asks for one; the name is
    the first part of the names of its events; the latest deliveries, newest first, are JSON."""

    id: str
    owner: str
    name: str
    scheme: str
    secret: str = field(repr=False)
    created: Instant
    used: Instant | None
    deliveries: str


class Hooks(Protocol):
    """The part of a store that keeps hooks. A starred method (*) is one write transaction."""

    def insert_hook(self, hook: HookRow, limit: int) -> None:
        """* Raises Conflict if the owner has a hook of this name, and LimitReached if it has as many as it may."""

    def hook(self, id: str) -> HookRow | None: ...

    def hooks(self, owner: str | None, limit: int) -> list[HookRow]:
        """Return the hooks of an owner, or of all owners, in the order of their names."""

    def change_hook(self, id: str, change: Callable[[HookRow], HookRow]) -> HookRow:
        """* Change the secret, `used` and the deliveries of a hook under its lock. Raises NotFound."""

    def delete_hook(self, id: str) -> None:
        """* Delete a hook, if there is one."""


class Revocations(Protocol):
    """A starred method (*) is one write transaction."""

    def revoke(self, revocations: Sequence[Revocation], now: Instant) -> list[str]:
        """* Record revocations and return the ids that were not revoked before; delete those that expired before
        `now`."""

    def revoked(self, first: str, second: str) -> list[str]:
        """Return which of two ids are revoked."""

    def signing_generation(self, owner: str) -> int:
        """Return the generation of an owner's signing key, which every rotation raises."""

    def rotate_signing_key(self, owner: str, now: Instant, limit: int) -> int | None:
        """* Rotate the key and return its generation; None after `limit` rotations within an hour."""


BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Histogram bounds in seconds, ascending: a delay or duration counts under the first bound that it does not exceed."""
UNKNOWN: Final = -1
"""Replaces a bound if the run has not begun or has not ended."""
MAX_COUNTED_ROWS: Final = 10_000
"""The maximum that is counted here, because a store may hold millions and somebody asks every few seconds."""


class Tally(NamedTuple):
    """A number of similar runs, counted together."""

    kind: str
    status: str
    begun: int
    """1: the run has been started."""
    late: int
    took: int
    """Indexes into BOUNDS; its length if the last bound was exceeded."""
    number: int
    """Number of occurrences: a row may represent a range of missed ones."""
    late_for: int
    took_for: int
    """Sums in microseconds."""


class Publication(Protocol):
    """The part of a store through which the server publishes its settings to other processes. See
    `service.published`."""

    def publish(self, settings: str) -> None:
        """* Store this text in place of the last one."""

    def published(self) -> str | None:
        """Return the text that was published last; None if there is none."""

    def store_id(self) -> str:
        """Return the random id of this store, by which a cluster tells its runs from those of other stores."""

    def note_executor(self, row: ExecutorRow) -> None:
        """* Note how an executor of the settings is."""

    def executors(self) -> list[ExecutorRow]: ...


class Living(NamedTuple):
    """A run that may still change."""

    id: RunId
    kind: str
    status: str
    begun: int


class Trace(NamedTuple):
    """The fields of a run that a small chart of its schedule's history needs."""

    schedule: ScheduleId
    due: Instant
    status: str
    started: Instant | None
    finished: Instant | None


class Timing(NamedTuple):
    """The fields of a run that charts of durations and lateness need."""

    id: RunId
    due: Instant
    status: str
    cause: str
    started: Instant | None
    finished: Instant | None
    first: Instant | None  # the start of the first attempt

    @property
    def late(self) -> int | None:
        """How late the first attempt began; None if none did, or if the run was started manually."""
        return None if self.first is None or self.cause != Cause.TRIGGER else max(0, self.first - self.due)


class PeriodCount(NamedTuple):
    """The number of occurrences of a schedule with the same ending in one of several periods."""

    period: int
    """Index of the period."""
    status: str
    rows: int
    number: int
    """Number of occurrences: a row may represent a range of missed ones."""
    last: Instant | None
    """Last instant of a range of occurrences, which may be in a later period."""


class Figures(Protocol):
    """The part of a store that counts. The cost of every method is bounded, however much is stored."""

    def schema(self) -> int:
        """Return the store's schema version, which may be newer than what this code knows."""

    def fits(self, schema: int) -> bool:
        """Return whether this code may use the store: it has this code's schema, or a newer one that says so."""

    def public_ids(self, schedules: Sequence[ScheduleId], *, deleted: bool = True) -> dict[ScheduleId, str]:
        """Return the public ids of schedules; unless `deleted` is false, also of deleted ones as long as their runs are
        kept."""

    def latest_failures(self, schedules: Sequence[ScheduleId]) -> list[Run]:
        """Return the latest run of each of at most a few hundred schedules that failed, in one query."""

    def traces(self, schedules: Sequence[ScheduleId], each: int) -> list[Trace]:
        """Return the latest runs of each of at most a few hundred schedules, the latest first, in one query."""

    def timings(self, schedule: ScheduleId, limit: int) -> list[Timing]:
        """Return the latest runs of one schedule, the latest first."""

    def period_counts(self, schedule: ScheduleId, bounds: Sequence[Instant], each: int) -> list[PeriodCount]:
        """Count the runs of one schedule that were due between each two adjacent bounds; in a period with more than
        `each` runs, only the latest `each` are counted."""

    def endings(self, owner: str | None, limit: int) -> list[Timing]:
        """Return the latest runs of an owner, or of all owners, the latest first."""

    def first_run_due(self, instant: Instant) -> RunId:
        """Return approximately the first run that was due at an instant or later. The ids are nearly in the order of
        due instants, on which the binary search relies."""

    def latest_but(self, owner: str, kind: str, number: int) -> RunId:
        """Return the id of an owner's run, of a kind other than jobs, that has this many newer runs of its kind; 0 if
        there are fewer."""

    def newest_run(self) -> RunId:
        """Return the highest run id; 0 if there is none."""

    def newest_but(self, owner: str | None, number: int, below: RunId | None = None) -> RunId:
        """Return the id of the run of an owner, or of all owners, that has this many newer ones, up to the one before
        `below`; 0 if there are fewer."""

    def tally(self, above: RunId, upto: RunId, but: Sequence[RunId] = ()) -> list[Tally]:
        """Tally the runs with ids in (above, upto], except those in `but`, at most MAX_COUNTED_ROWS."""

    def living(self) -> list[Living]:
        """Return runs that may still change, at most MAX_COUNTED_ROWS."""

    def lanes(self) -> list[str]:
        """Return the lanes that have entries, at a cost that does not grow with their number."""

    def depths(self, lanes: Sequence[str], now: Instant) -> dict[str, int]:
        """Return the number of due entries by lane; at most MAX_COUNTED_ROWS of each."""


class SentEvent(NamedTuple):
    event_id: int
    duplicate: bool
    """Whether an event with its key was sent before, which has this number."""


class Events(Protocol):
    """The part of a store that keeps events and turns them into runs. A starred method (*) is one write transaction."""

    events_wait: bool
    """Whether the last exchange found events that wait to become runs."""

    def emit(self, event: EventRow, most_bytes: int | None = None) -> SentEvent:
        """* Store an event. Raises LimitReached."""

    def expand_events(self, now: Instant) -> bool:
        """* Turn events into runs, a bounded number; return False if there were none, or another process does that."""

    def follow(self, schedule: ScheduleId) -> None:
        """* Let the ends of a schedule's runs be events from now on."""

    def rename_followed(self, schedule: Schedule) -> None:
        """* Let the schedules that follow this one show its new name."""

    def followers_of(self, schedule: Schedule, limit: int) -> list[Schedule]:
        """Return the schedules that follow this one and may still run."""

    def has_open_events(self) -> bool:
        """Return whether events wait to become runs."""

    def event(self, event: int) -> EventRow | None: ...

    def events_of(self, owner: str | None, limit: int, before: int = 0, name: str | None = None) -> list[EventRow]:
        """Return the events of an owner, or of all owners, the latest first; those before one if it is not 0."""

    def latest_events(self, owner: str, pattern: str) -> list[EventRow]:
        """Return the latest event with a name, or with one that begins as a pattern such as `github.*` says."""

    def event_names(self, owner: str, limit: int) -> dict[str, Instant]:
        """Return the names under which an owner's events arrived, as long as these are stored, and when they last
        did."""

    def listeners_of(self, owner: str, name: str, limit: int) -> list[Schedule]:
        """Return the schedules of an owner that wait for events of this name, paused ones too."""

    def runs_of_event(self, event: EventRow, limit: int) -> list[Run]:
        """Return the runs that an event started, of schedules that still listen to it."""

    def prune_events(self, before: Instant, limit: int) -> int:
        """* Delete at most `limit` events from before an instant that no run needs; return their number."""


class Incidents(Protocol):
    """The part of a store that keeps incidents; see `policy.incidents`. A starred method (*) is one write
    transaction, or none if there is nothing to write."""

    def tell_incidents(self, now: Instant) -> int:
        """* End the incidents that are over, and create the messages that owners are to get now, one for each owner;
        return their number."""

    def note_unreachable(self, labels: Mapping[str, str], before: Instant, now: Instant) -> None:
        """* Note what has waited longest in each of some lanes, of each owner, if it was due before an instant: no
        worker has the label of the lane. A bounded number at a time; the rest is noted by the next calls."""

    def deleted_schedules(self, owner: str, since: Instant, limit: int) -> list[Schedule]:
        """Return what is left of the schedules that an owner deleted since an instant and can restore, the latest
        first."""

    def drop_tombstones(self, before: Instant) -> None:
        """* Drop what is kept of schedules that were deleted before an instant."""

    def incidents(self, owner: str | None, limit: int, *, resolved: bool | None = None) -> list[IncidentRow]:
        """Return the incidents of an owner, or of all owners, that are not over, the latest first: all of them, those
        that somebody has resolved, or the others."""

    def incidents_of(self, schedules: Sequence[ScheduleId], incidents: Sequence[int] = ()) -> list[IncidentRow]:
        """Return the incidents of some schedules, or those with these numbers, that no worker has ended."""


def tally_of(run: Run, first: Instant | None) -> Tally:
    """Tally one run as a store would count it; `first` is the start of its first attempt."""
    late = None if first is None else first - run.due
    took = run.finished - run.started if run.started is not None and run.finished is not None else None
    return Tally(
        run.kind,
        run.status,
        int(run.started is not None),
        _position(late),
        _position(took),
        abs(run.number),
        max(0, late or 0),
        max(0, took or 0),
    )


def _position(microseconds: int | None) -> int:
    return UNKNOWN if microseconds is None else bisect_left(BOUNDS, microseconds / SECOND)


class LogPart(NamedTuple):
    """Whole lines that an attempt of a run wrote, redacted."""

    run: RunId
    fence: int
    """The fence of the claim: an attempt that was given back has the same number when it begins again."""
    part: int
    """How many bytes the attempt had written before."""
    attempt: int
    at: Instant
    text: str

    @property
    def end(self) -> int:
        return self.part + len(self.text.encode())


class LogChange(NamedTuple):
    """New parts of the log of an attempt. Those from `dropped_from` to `dropped_to` give way to them."""

    parts: Sequence[LogPart]
    dropped_from: int = 0
    dropped_to: int = 0


class Logs(Protocol):
    def write_logs(self, changes: Sequence[LogChange]) -> None:
        """* Write what runs wrote, of those that still have the fence of their claim."""

    def logs(self, run: RunId, after: tuple[int, int], limit: int) -> list[LogPart]:
        """Return the parts of a run's log after one that is given by its fence and its number, in their order."""
