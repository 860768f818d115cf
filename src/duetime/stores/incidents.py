"""The part of every store that keeps incidents, and creates the messages about them."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

from duetime.engine.clock import Instant
from duetime.engine.encoding import json_object
from duetime.engine.model import Definition, Schedule, ScheduleId, Trouble, WorkerId
from duetime.engine.policy.bulk import begin_all
from duetime.engine.policy.follow_ups import NO_PAYLOAD, drafts_of
from duetime.engine.policy.incidents import (
    ALERT_PAUSE,
    GATHER_FOR,
    MAX_OPEN_CAUSES,
    OTHER_CAUSES,
    REMIND_AFTER,
    IncidentRow,
    describe,
    next_due,
    note_label,
    to_tell,
)
from duetime.engine.policy.options import ALERTS, AlertMode, policy_for_ending
from duetime.engine.policy.rows import (
    FurtherWrite,
    IncidentEvent,
    IncidentMark,
    InputsGone,
    MemoryWrite,
    OwnerMessage,
    Tombstone,
    Writes,
)
from duetime.engine.store_interfaces import Incidents
from duetime.stores.records import RecordsMixin
from duetime.stores.search import marks
from duetime.stores.transaction import Transaction, schedule_of

MOST_NOTED: Final = 200
"""Maximum number of incidents of work without a worker that one transaction notes."""
_MARKED: Final = {None: "", True: " AND i.resolved IS NOT NULL", False: " AND i.resolved IS NULL"}


def apply_further(
    tx: Transaction, writes: Sequence[FurtherWrite], now: Instant, worker: WorkerId | None = None
) -> None:
    """Write the rows that few decisions have, in a fixed order, so that two transactions cannot deadlock. `worker` is
    the worker that plans occurrences."""
    if worker is not None:
        writes = _without_sessions(tx, writes, worker)
    for each in sorted(writes, key=_place):
        if isinstance(each, IncidentEvent):
            is_gathered = each.trouble in (Trouble.MISSED, Trouble.HELD)
            due = None if each.alert == AlertMode.OFF else now + (GATHER_FOR if is_gathered else 0)
            # only errors have ever new causes, which must not hide that the schedule has stopped
            most = MAX_OPEN_CAUSES if each.trouble == Trouble.FAILED else 10 * MAX_OPEN_CAUSES
            tx.send(
                "note_incident", each.owner, each.schedule, each.trouble, each.schedule, each.cause, most,
                OTHER_CAUSES, each.cause, each.text, each.run, now, now, each.alert, due,
            )  # fmt: skip
        elif isinstance(each, IncidentMark) and each.is_open:
            tx.send("reopen_incidents", now + REMIND_AFTER, each.run, each.incident)
        elif isinstance(each, IncidentMark):
            tx.send("resolve_incidents", now, each.actor, each.run, each.incident)
        elif isinstance(each, MemoryWrite):
            tx.send(each.action, each.schedule, *each.values)
        elif isinstance(each, Tombstone):
            tx.send("insert_tombstone", *each)
        elif isinstance(each, InputsGone):
            tx.send("forget_inputs", each.schedule)
            tx.send("delete_logs_of_schedule", each.schedule)
            _forget_in_callbacks(tx, each.schedule)
        else:
            tx.send("delete_tombstone", each.schedule)


def _forget_in_callbacks(tx: Transaction, schedule: ScheduleId) -> None:
    """Drop the payload of a schedule from the callbacks about its runs; one that was not sent yet is sent without."""
    for callback, payload in tx.rows("callbacks_about", schedule):
        content = json_object(payload)
        if content is not None and isinstance(content.get("about"), dict):
            content["about"]["payload"] = NO_PAYLOAD
            tx.send("set_payload_of_schedule", json.dumps(content, ensure_ascii=False, separators=(",", ":")), callback)


def _place(write: FurtherWrite) -> tuple[str, int, str]:
    return type(write).__name__, write[0], write.cause if isinstance(write, IncidentEvent) else ""


def _just(now: Instant) -> tuple[int, int]:
    return now - ALERT_PAUSE + 1, now + ALERT_PAUSE


def _without_sessions(tx: Transaction, writes: Sequence[FurtherWrite], worker: WorkerId) -> Sequence[FurtherWrite]:
    """Leave out what was missed if the worker exists only while some client is open: it misses much on purpose."""
    missed = [each for each in writes if isinstance(each, IncidentEvent) and each.trouble == Trouble.MISSED]
    if missed and tx.rows("is_session", worker)[0][0]:
        return [each for each in writes if each not in missed]
    return writes


class IncidentsMixin(RecordsMixin, Incidents):
    @abstractmethod
    def _announce(self, *, soon: bool = True) -> None: ...

    def tell_incidents(self, now: Instant) -> int:
        if self.messenger is None:
            return 0
        over = self._named("incidents_over")
        if over:
            with self._write() as tx:
                tx.lock_alerts()
                for _, _, id, last, went_well in sorted(over):
                    tx.send("end_incident", now, went_well, now + GATHER_FOR, id, last)
        owners = [owner for (owner,) in self._named("owners_to_tell", now, *_just(now))]
        return sum(self._tell(owner, now) for owner in owners)

    def _tell(self, owner: str, now: Instant) -> int:
        with self._write() as tx:
            tx.lock_alerts()
            if tx.rows("is_just_told", owner, *_just(now)):
                return 0
            loud = []
            for *row, policy in tx.rows("incidents_to_tell", owner, now + GATHER_FOR):
                incident = IncidentRow(*row)._replace(policy=policy)
                if policy_for_ending(policy).alert == AlertMode.OFF:  # by an edit since
                    tx.send("silence_incident", incident.id)
                else:
                    loud.append(incident)
            incidents = to_tell(loud, now)
            if not incidents:  # another process was faster
                return 0
            drafts = drafts_of(self._messages(incidents, now), self.messenger, now)
            tx.insert_schedules(begin_all(drafts, tx.new_schedule_ids(len(drafts))))
            for each in sorted(incidents, key=lambda each: (each.schedule, each.cause)):
                again, due = int(each.last_told is not None), next_due(each, now)
                tx.send("told_incident", now, again, each.number, due, each.id)
            tx.announce()
        self._announce()
        return len(drafts)

    def _messages(self, incidents: Sequence[IncidentRow], now: Instant) -> list[OwnerMessage]:
        """Return one message for each topic: tags may send alerts elsewhere."""
        by_topic: dict[str, list[IncidentRow]] = {}
        for each in incidents:
            topic = ALERTS if self.messenger is None else self.messenger.topic_of_alerts(each.tags)
            by_topic.setdefault(topic, []).append(each)
        return [describe(group, now, self.messenger)._replace(topic=topic) for topic, group in by_topic.items()]

    def note_unreachable(self, labels: Mapping[str, str], before: Instant, now: Instant) -> None:
        values = self._texts(list(labels)), before, MOST_NOTED
        if not self._named("unreachable", *values):
            return
        with self._write() as tx:
            tx.lock_alerts()  # another process notes the same
            rows = {row[1]: row for row in tx.rows("unreachable", *values)}  # a schedule may be in two lanes
            writes = Writes()
            for lane, *row in rows.values():
                note_label(writes, Definition._make(row), labels[lane])
            apply_further(tx, writes.further, now)
        self._announce(soon=False)

    def deleted_schedules(self, owner: str, since: Instant, limit: int) -> list[Schedule]:
        return [schedule_of(row) for row in self._named("deleted_schedules", owner, since, limit)]

    def drop_tombstones(self, before: Instant) -> None:
        if self._named("is_tombstone_older", before):
            with self._write() as tx:
                tx.send("forget_memories", before)
                tx.send("forget_tombstones", before)

    def incidents(self, owner: str | None, limit: int, *, resolved: bool | None = None) -> list[IncidentRow]:
        of_owner, values = ("", ()) if owner is None else (" AND i.owner = ?", (owner,))
        needed = f"{self._sql['incidents_open']}{_MARKED[resolved]}{of_owner}"
        return self._incidents(f"{needed} ORDER BY i.id DESC LIMIT ?", [*values, limit])

    def incidents_of(self, schedules: Sequence[ScheduleId], incidents: Sequence[int] = ()) -> list[IncidentRow]:
        of, ids = ("i.schedule", sorted(set(schedules))) if schedules else ("i.id", sorted(set(incidents)))
        if not ids:
            return []
        return self._incidents(f"{self._sql['incidents_known']} AND {of} IN ({marks(ids)})", ids)

    def _incidents(self, statement: str, values: Sequence[object]) -> list[IncidentRow]:
        return [IncidentRow(*row) for row in self._rows(statement, values)]
