"""The part of every store that reads schedules, runs, workers and the due queue, without a write transaction."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from duetime.engine.clock import Clock, Instant
from duetime.engine.model import Attempt, DueEntry, Run, RunId, Schedule, ScheduleId, Used, WorkerId, WorkerRow
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.gates import GateGift, gift_from, last_of
from duetime.engine.policy.rows import StoredMemory
from duetime.engine.store import Page, PauseOfAll, RunInput, RunQuery, RunStopRequest, ScheduleQuery, Store
from duetime.engine.triggers.base import BEFORE_ALL
from duetime.stores.byte_limits import read_page, run_bytes, schedule_bytes
from duetime.stores.run_search import run_count, run_counts, run_page, runs_by_due
from duetime.stores.search import Placed, firing, marks, place_of, schedule_count, schedule_page, whole_rows
from duetime.stores.transaction import first_of, held_of, schedule_of, value_of

RECENT_SECONDS = 1.0
MOST_REMEMBERED = 10_000
"""Number of owners of whom it is remembered that nothing is paused."""


class NamedQueries(Store, ABC):
    """Runs reads, given as an SQL statement or by the name of one."""

    _sql: ClassVar[Mapping[str, str]]
    """The dialect's named queries."""

    @abstractmethod
    def _rows(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run a read with `?` for parameters, and return its rows."""

    @abstractmethod
    def _texts(self, values: Sequence[str]) -> str:
        """Encode several texts as one query parameter."""

    def _named(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._rows(self._sql[name], values)


class ReadsMixin(NamedQueries):
    _clock: Clock
    _recent_workers: tuple[list[WorkerRow], float | None]
    _unpaused: dict[str, float]

    def spent(self, owner: str, since: Instant) -> list[tuple[Instant, str, Used]]:
        return [(row[0], row[1], Used._make(row[2:])) for row in self._named("spent_since", owner, since)]

    def search(self, query: ScheduleQuery) -> Page[Schedule]:
        read = partial(firing, self._rows) if query.firing else self._list_schedules
        items, cursor = read_page(query, read, schedule_bytes)
        if query.cursor is None and cursor is None:
            return Page(items, None, len(items))
        return Page(items, cursor, *self._count(schedule_count(query), query.count_to))

    def _list_schedules(self, query: ScheduleQuery) -> list[Placed]:
        schedules = [schedule_of(row) for row in self._rows(*schedule_page(query))]
        return [(place_of(query, schedule), schedule) for schedule in schedules]

    def runs(self, query: RunQuery) -> Page[Run]:
        items, cursor = read_page(query, self._list_runs, run_bytes)
        if query.cursor is None and cursor is None:
            return Page(items, None, len(items))
        return Page(items, cursor, *self._count(run_count(query), query.count_to))

    def run_counts(self, query: RunQuery) -> dict[str, int]:
        return {status: int(number) for status, number in self._rows(*run_counts(query))}

    def _list_runs(self, query: RunQuery) -> list[tuple[tuple[int, ...], Run]]:
        rows = [Run._make(row) for row in self._rows(*run_page(query))]
        return [((run.due, run.id) if runs_by_due(query) else (run.id,), run) for run in rows]

    def _count(self, counting: tuple[str, list[Any]], most: int) -> tuple[int, bool]:
        """Return the number of matches, counted up to `most`, and whether it is exact."""
        number = self._rows(*counting)[0][0] if most else 1
        return min(number, most), number <= most

    def get(self, schedule: ScheduleId) -> Schedule | None:
        return self._one("schedule_by_id", schedule)

    def schedules(self, ids: Sequence[ScheduleId]) -> dict[ScheduleId, Schedule]:
        if not ids:
            return {}
        chosen = f"s.id IN ({marks(ids)})"
        statement = f"SELECT s.*, p.* FROM schedules s JOIN progress p ON p.schedule = s.id WHERE {chosen}"  # noqa: S608
        schedules = [schedule_of(row) for row in self._rows(whole_rows(statement), ids)]
        return {each.definition.id: each for each in schedules}

    def find(self, public_id: str) -> Schedule | None:
        return self._one("schedule_by_public_id", public_id)

    def by_key(self, owner: str, key: str) -> Schedule | None:
        return self._one("schedule_by_key", owner, key)

    def by_key_prefix(self, owner: str, prefix: str) -> list[Schedule]:
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        return [schedule_of(row) for row in self._named("schedules_by_key_prefix", owner, prefix, end)]

    def _one(self, name: str, *values: Any) -> Schedule | None:
        return first_of(self._named(name, *values), schedule_of)

    def marks(self, owner: str, kind: str, subject: str) -> list[tuple[Any, ...]]:
        living = self._named("living_marks", owner, kind, subject)
        return [*living, *self._named("ended_mark", owner, kind, subject)]

    def ahead(self, now: Instant, limit: int, after: int = 0) -> list[ScheduleId]:
        return [row[0] for row in self._named("schedules_ahead", *(now,) * 5, after, limit)]

    def workers(self) -> list[WorkerRow]:
        return [WorkerRow._make(row) for row in self._named("workers")]

    def recent_workers(self) -> list[WorkerRow]:
        """Cache the workers for a second, or until a worker of this process is registered or removed."""
        workers, since = self._recent_workers
        now = self._clock.monotonic()
        if since is None or now - since >= RECENT_SECONDS:
            workers = self.workers()
            self._recent_workers = workers, now
        return workers

    def pause_of_all(self, owner: str) -> PauseOfAll | None:
        """Remember for a second, or until this process pauses a schedule, that nothing is paused."""
        now = self._clock.monotonic()
        if self._unpaused.get(owner, now) > now:
            return None
        rows = self._named("pause_of_all", owner, owner, owner, owner)
        if not rows:
            if len(self._unpaused) >= MOST_REMEMBERED:
                self._unpaused.clear()
            self._unpaused[owner] = now + RECENT_SECONDS
            return None
        since, until, paused, active, oldest = rows[0]
        others = oldest is not None and (oldest < since or active > paused)
        return None if others else PauseOfAll(until)

    def _forget_workers(self) -> None:
        self._recent_workers = ([], None)

    def held(self, worker: WorkerId) -> list[Claim]:
        rows = [held_of(row) for row in self._named("held_by", worker)]
        return [Claim(held.run, held.definition, held.run.started or held.run.due) for held in rows]

    def earliest(
        self, lanes: Sequence[str], but: Collection[tuple[str, str]] = (), after: Instant = BEFORE_ALL
    ) -> DueEntry | None:
        """Use one query for all lanes, because the store may be across a network."""
        if but:
            rows = self._named("earliest_but", self._texts(lanes), after, json.dumps(list(but)))
        else:
            rows = self._named("earliest", self._texts(lanes), after)
        return min(map(DueEntry._make, rows), key=lambda entry: entry.at, default=None)

    def look_ahead(self, lanes: Sequence[str]) -> tuple[DueEntry | None, bool]:
        rows = self._named("look_ahead", self._texts(lanes))
        entries = [DueEntry._make(row[:-1]) for row in rows if row[0] is not None]
        return min(entries, key=lambda entry: entry.at, default=None), bool(rows and rows[0][-1])

    def has_other_owners(self, owner: str, lanes: Sequence[str]) -> bool:
        return bool(self._named("other_owners", self._texts(lanes), owner, owner)[0][0])

    def run(self, run: RunId) -> Run | None:
        return first_of(self._named("run_by_id", run), Run._make)

    def starts_at(self, run: Run) -> Instant | None:
        return value_of(self._named("starts_at", run.schedule, run.id))

    def neighbours(self, run: Run) -> tuple[RunId | None, RunId | None]:
        place = run.schedule, run.due, run.id
        return value_of(self._named("run_before", *place)), value_of(self._named("run_after", *place))

    def traceback(self, run: RunId) -> str | None:
        return value_of(self._named("traceback_of_run", run))

    def run_input(self, run: RunId) -> RunInput:
        rows = self._named("input_of_run", run)
        return RunInput(*rows[0]) if rows else RunInput()

    def last_gift(self, schedule: ScheduleId, gate: str) -> GateGift:
        memory = StoredMemory(*next(iter(self._named("memory_of", schedule)), ()))
        return last_of(gate, memory, dict(self._named("gate_gifts", schedule)).values())

    def gate_gift(self, run: RunId) -> GateGift | None:
        return self.gifts_of_runs([run]).get(run)

    def gifts_of_runs(self, runs: Sequence[RunId]) -> dict[RunId, GateGift]:
        statement = f"SELECT id, gate FROM runs WHERE id IN ({marks(runs)}) AND gate IS NOT NULL"  # noqa: S608 - only marks
        return {RunId(run): gift_from(text) for run, text in self._rows(statement, list(runs))} if runs else {}

    def trace_of(self, run: RunId) -> str | None:
        return value_of(self._named("trace_of", run))

    def stop_requests(self, runs: Sequence[RunId]) -> dict[RunId, RunStopRequest]:
        if not runs:
            return {}
        where = f"id IN ({marks(runs)}) AND stop_request IS NOT NULL"
        statement = f"SELECT id, stop_request, deadline FROM runs WHERE {where}"  # noqa: S608 - only marks
        requests = {}
        for run, request, deadline in self._rows(statement, list(runs)):
            at, _, actor = request.partition(" ")
            requests[RunId(run)] = RunStopRequest(Instant(int(at)), actor or None, deadline)
        return requests

    def attempts(self, run: RunId) -> list[Attempt]:
        return [Attempt._make(row) for row in self._named("attempts_of", run)]
