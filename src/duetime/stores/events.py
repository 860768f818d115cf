"""The part of every store that keeps events, and turns them into runs of the schedules that listen to them.

Two transactions: one stores an event, after which its sender has an answer; then, workers decide about its listeners,
a bounded number in one transaction, in the order of the events. `EventRow.reached` says how far they are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

from duetime.engine.clock import MINUTE, SECOND, Instant
from duetime.engine.errors import InvalidInput, LimitReached
from duetime.engine.model import ENDED, EventRow, Run, Schedule, ScheduleId
from duetime.engine.policy.arrivals import Arrivals
from duetime.engine.store_interfaces import Events, SentEvent
from duetime.engine.triggers.base import Trigger
from duetime.engine.triggers.build import readable
from duetime.stores.byte_limits import add_bytes
from duetime.stores.incidents import IncidentsMixin
from duetime.stores.record_and_claim import apply, insert_events
from duetime.stores.search import Where
from duetime.stores.shared_commit import SharedCommit
from duetime.stores.transaction import Transaction, first_of, schedule_of
from duetime.stores.trim import BYTES_PER_EVENT, TrimMixin, delete_oldest_events

MAX_PER_MINUTE: Final = 20_000
"""Maximum number of events of one owner in a minute."""
MAX_EVENTS: Final = 100_000
"""Maximum number of events of one owner that are stored."""
TRIMMED_AT_ONCE: Final = 200
"""Number of events that are deleted when an owner has too many."""
MAX_DECISIONS: Final = 250
"""Maximum number of decisions in one transaction, so that nobody waits for it."""
MAX_OPEN: Final = 100
MAX_LISTENERS: Final = 1_000
"""Maximum number of events, and of listeners of one name, that one transaction reads."""
MAX_CHECKS: Final = 5_000
MAX_BYTES: Final = 1024 * 1024
"""Number of conditions that are checked, and of bytes of data, after which no further event is considered."""
Request = tuple[EventRow, int | None]
"""An event to store, and the maximum of bytes that its owner may store."""
Listener = tuple[ScheduleId, Trigger | None, Instant]
"""A schedule that listens, its trigger, which is None if it cannot be read, and when it was created."""
Pair = tuple[EventRow, ScheduleId]
"""An event, and a schedule that it starts."""


def names_for(name: str) -> str:
    """Return the names, as JSON, under which a schedule listens to an event of this name: its own, `github.*` and
    `*`."""
    parts = name.split(".")
    wider = [f"{'.'.join(parts[:end])}.*" for end in range(len(parts) - 1, 0, -1)]
    return json.dumps([name] if name.startswith(ENDED) else [name, *wider, "*"])


def _size_of(event: EventRow) -> int:
    return len(event.data.encode()) + BYTES_PER_EVENT


class EventsMixin(TrimMixin, IncidentsMixin, Events):
    _emits: SharedCommit[Request, SentEvent]

    def emit(self, event: EventRow, most_bytes: int | None = None) -> SentEvent:
        return self._emits.write((event, most_bytes))

    def _emit_together(self, requests: Sequence[Request]) -> list[SentEvent]:
        events = [event for event, _ in requests]
        now = events[0].at

        def write() -> list[SentEvent]:
            with self._write() as tx:
                for owner in sorted({event.owner for event in events}):
                    self._count_sent(tx, owner, [request for request in requests if request[0].owner == owner], now)
                tx.announce(at_once=True)
                stored = insert_events(tx, events)
                for (event, limit), each in zip(requests, stored, strict=True):
                    if each.duplicate and limit is not None:
                        tx.send("add_stored_bytes", event.owner, -_size_of(event))
                return stored

        stored = self._counting(now, write)
        if not all(each.duplicate for each in stored):
            self._announce()
        return stored

    def _count_sent(self, tx: Transaction, owner: str, requests: Sequence[Request], now: Instant) -> None:
        """Count events of one owner, whose row stays locked, so that they are stored in the order of their numbers."""
        limit = requests[0][1]
        if limit is not None:  # first, as where an owner's rows are trimmed: no two can wait for each other
            add_bytes(tx, owner, sum(_size_of(event) for event, _ in requests), limit, now)
        [(in_minute, total)] = tx.rows("count_events", owner, now // MINUTE, len(requests), len(requests))
        if in_minute > MAX_PER_MINUTE:
            message = f"the limit of {MAX_PER_MINUTE:,} events a minute is reached; send fewer, or wait a minute"
            raise LimitReached(message, code="too_many_requests", details={"limit": MAX_PER_MINUTE})
        if total > MAX_EVENTS and not delete_oldest_events(tx, owner, TRIMMED_AT_ONCE)[0]:
            message = f"{MAX_EVENTS:,} events are stored, and none has been dealt with; start a worker, then send again"
            raise LimitReached(message, code="too_many_requests", details={"limit": MAX_EVENTS})

    def prune_events(self, before: Instant, limit: int) -> int:
        if not self._named("old_events", before):
            return 0
        with self._write() as tx:
            owners = Counter(owner for (owner,) in tx.rows("delete_old_events", before, limit))
            for owner, number in sorted(owners.items()):  # as senders lock them
                tx.send("add_to_events", -number, owner)
        return owners.total()

    def follow(self, schedule: ScheduleId) -> None:
        with self._write() as tx:
            tx.send("follow", schedule)

    def rename_followed(self, schedule: Schedule) -> None:
        with self._write() as tx:
            for each in self.followers_of(schedule, MAX_LISTENERS):
                stored = {**json.loads(each.definition.trigger), "label": schedule.definition.name}
                text = json.dumps(stored, sort_keys=True, separators=(",", ":"))
                tx.send("replace_trigger", text, each.definition.id, each.definition.trigger)

    def followers_of(self, schedule: Schedule, limit: int) -> list[Schedule]:
        return self.listeners_of(schedule.definition.owner, f"{ENDED}{schedule.definition.id}", limit)

    def event(self, event: int) -> EventRow | None:
        return first_of(self._named("event_by_id", event), EventRow._make)

    def has_open_events(self) -> bool:
        return bool(self._named("has_open_events"))

    def event_names(self, owner: str, limit: int) -> dict[str, Instant]:
        return dict(self._named("event_names", owner, owner, owner, limit))

    def events_of(self, owner: str | None, limit: int, before: int = 0, name: str | None = None) -> list[EventRow]:
        where = Where()
        where.equal("owner", owner)
        where.equal("name", name)
        if before:
            where.add("id < ?", before)
        statement = f"SELECT {', '.join(EventRow._fields)} FROM events{where.sql()} ORDER BY id DESC LIMIT ?"  # noqa: S608
        return [EventRow._make(row) for row in self._rows(statement, [*where.values, limit])]

    def latest_events(self, owner: str, pattern: str) -> list[EventRow]:
        if not pattern.endswith("*"):
            return self.events_of(owner, 1, name=pattern)
        latest = self.event_names(owner, MAX_LISTENERS)
        names = [name for name in latest if name.startswith(pattern[:-1])]
        return self.events_of(owner, 1, name=max(names, key=latest.__getitem__)) if names else []

    def listeners_of(self, owner: str, name: str, limit: int) -> list[Schedule]:
        return [schedule_of(row) for row in self._named("waiting_schedules", owner, names_for(name), limit)]

    def runs_of_event(self, event: EventRow, limit: int) -> list[Run]:
        values = event.at, event.cause, event.owner, names_for(event.name), limit
        return [Run._make(row) for row in self._named("runs_of_event", *values)]

    # -- turning events into runs -------------------------------------------------------------------------------

    def expand_events(self, now: Instant) -> bool:
        with self._write() as tx:
            if not tx.lock_expansion():  # another process is at it
                return False
            events = [EventRow._make(row) for row in tx.rows("open_events", MAX_OPEN)]
            if not events:
                return False
            expansion = _Expansion(tx, now, SECOND if self.writes_overlap else 0)
            expansion.choose(events)
            self._decide(tx, now, expansion.pairs, expansion.unreadable)
            for place, event in expansion.reached:
                tx.send("set_reached", place, event)
            tx.announce()
        self.tell_observer(tx.events)
        self._announce()
        return True

    def _decide(self, tx: Transaction, now: Instant, pairs: Sequence[Pair], unreadable: Collection[ScheduleId]) -> None:
        """Decide about each pair in the order of events, and write the rows. Progress rows are locked by number."""
        schedules = tx.lock_listeners(sorted({schedule for _, schedule in pairs} | set(unreadable)))
        rows = [(schedules[schedule], event) for event, schedule in pairs if schedule in schedules]
        while True:
            arrivals = Arrivals(now, tx.new_run_id, tx)
            for schedule in unreadable:
                if schedule in schedules:
                    arrivals.set_aside(schedules[schedule], InvalidInput("its trigger cannot be read"))
            for listener, event in rows:
                arrivals.arrive(listener, event)
            conflicts = tx.insert_runs(arrivals.writes.new_runs)
            if not conflicts:
                apply(tx, arrivals.writes, now, self.messenger)
                return
            present = {(run.schedule, run.cause) for run in conflicts}
            rows = [row for row in rows if (row[0].definition.id, row[1].cause) not in present]


class _Expansion:
    """Chooses the events and the listeners about which one transaction decides."""

    def __init__(self, tx: Transaction, now: Instant, skew: int) -> None:
        """`skew`: how far the clock that dates events may be behind the one that dates schedules."""
        self._tx, self._now, self._skew = tx, now, skew
        self._known: dict[tuple[str, str], tuple[int, list[Listener]]] = {}
        self._checks = self._bytes = 0
        self.pairs: list[Pair] = []
        self.reached: list[tuple[int | None, int]] = []
        """How far each event is then."""
        self.unreadable: set[ScheduleId] = set()

    def choose(self, events: Sequence[EventRow]) -> None:
        """Choose from the beginning. An event that is not complete is the last one, because every schedule gets events
        in their order."""
        for event in events:
            place = self._add_pairs(event)
            self.reached.append((place, event.id))
            self._bytes += len(event.data)
            is_enough = len(self.pairs) >= MAX_DECISIONS or self._checks >= MAX_CHECKS or self._bytes >= MAX_BYTES
            if place is not None or is_enough:
                return

    def _add_pairs(self, event: EventRow) -> int | None:
        """Add the listeners of an event; return the last one that was considered, or None if that was the last."""
        from duetime.engine.triggers.event import EventTrigger, values_of  # few stores have events

        listeners, is_all = self._listeners(event)
        self._checks += len(listeners)
        data, place = None, event.reached
        with suppress(ValueError, RecursionError):  # it was edited in the database
            data = json.loads(event.data) if listeners else None
        look_up = values_of(data)
        for schedule, trigger, created in listeners:
            if len(self.pairs) >= MAX_DECISIONS:
                return place
            place = schedule
            if event.at + self._skew < created <= self._now:
                continue
            if trigger is None:
                self.unreadable.add(schedule)
            elif isinstance(trigger, EventTrigger) and trigger.matches(look_up):
                self.pairs.append((event, schedule))
        return None if is_all else place

    def _listeners(self, event: EventRow) -> tuple[list[Listener], bool]:
        """Return the listeners of an event that were not considered yet, and whether these are all. They are read once
        for all events of the same name."""
        key, after = (event.owner, event.name), event.reached or 0
        if key not in self._known or self._known[key][0] > after:  # an event before it had been considered for a part
            rows = self._tx.rows("listeners", event.owner, names_for(event.name), after, MAX_LISTENERS + 1)
            self._known[key] = after, [(schedule, readable(text), created) for schedule, text, created in rows]
        _, listeners = self._known[key]
        rest = [each for each in listeners[:MAX_LISTENERS] if each[0] > after]
        return rest, len(listeners) <= MAX_LISTENERS
