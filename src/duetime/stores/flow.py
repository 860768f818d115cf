"""The course of every transaction, once for all dialects: lock and load, let policy decide, write."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar

from duetime.core.clock import Instant
from duetime.core.errors import InvalidInput, WorkerGone
from duetime.core.ledger import Cap, Used, reached
from duetime.core.model import Attempt, DueEntry, Run, RunId, Schedule, ScheduleId, WorkerId, WorkerRow
from duetime.core.outcome import Returned
from duetime.core.policy.budget import hold_back, hour_of
from duetime.core.policy.changing import Change, Decision
from duetime.core.policy.claiming import Claim, Entry, plan_claims
from duetime.core.policy.creating import Draft, begin, quota_reached
from duetime.core.policy.ending import Held, Reader
from duetime.core.policy.settling import Answer, Finished, plan_rescue, plan_settlement
from duetime.core.policy.writes import Writes
from duetime.core.result import Err, Ok, Result
from duetime.core.store import Beat, Created, Exchange, Page, RunQuery, ScheduleQuery, Store, Want
from duetime.stores import coming
from duetime.stores.figures import FiguresReading
from duetime.stores.remotes import RemoteKeeping, RemoteRows
from duetime.stores.rows import Holding, held_of, schedule_of
from duetime.stores.search import NEVER, make_cursor, run_count, run_page, runs_by_due, schedule_count, schedule_page

OwnerKey = tuple[str, str]
P = ParamSpec("P")
T = TypeVar("T")


class Taken(Exception):
    """A key that has to be unique belongs to another schedule already."""


def looking_twice(transaction: Callable[P, T]) -> Callable[P, T]:
    """Where somebody else was faster with the same key, a second look finds what they made: two workers that reach a
    limit at once give the same alert, and neither may lose its outcomes over it."""

    @functools.wraps(transaction)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return transaction(*args, **kwargs)
        except Taken:
            return transaction(*args, **kwargs)

    return repeated


class Transaction(Reader, RemoteRows, Protocol):
    """One open write transaction. Locks of progress rows are taken in the order of their schedules."""

    def new_run_id(self) -> RunId: ...

    def new_schedule_ids(self, count: int) -> list[ScheduleId]: ...

    def lock_owner(self, owner: str) -> None:
        """Serialises creates of one owner, so that a quota is not overrun by two at once."""

    def count_living(self, owner: str, most: int) -> int: ...

    def by_keys(self, keys: Sequence[OwnerKey]) -> dict[OwnerKey, Schedule]: ...

    def lock_schedule(self, schedule: ScheduleId) -> Schedule | None: ...

    def lock_worker(self, worker: WorkerId) -> bool:
        """False when its row is gone. While it is locked, nobody can declare the worker dead."""

    def due_lanes(self, wants: Sequence[Want]) -> Collection[str]:
        """Those that hold something; a store that is near may name all of them."""

    def due_entries(self, want: Want) -> list[Entry]:
        """Locked; entries that another worker is just claiming are passed over."""

    def held(self, runs: Sequence[RunId]) -> dict[RunId, Held]: ...

    def holdings(self, runs: Sequence[RunId]) -> list[Holding]:
        """The same locks as `held`, and of the runs only what may have changed since they were claimed."""

    def held_by(self, worker: WorkerId) -> list[Held]: ...

    def run(self, run: RunId) -> Run | None: ...

    def insert_runs(self, runs: Sequence[Run]) -> list[Run]:
        """The runs whose occurrence has a row already; when there are any, nothing was inserted."""

    def insert_schedules(self, rows: Sequence[tuple[Any, Any, Any]]) -> None: ...

    def apply(self, writes: Writes, now: Instant) -> None:
        """Everything of `writes` but its new runs."""

    def usage(self, owner: str, hour: Instant) -> int: ...

    def use(self, owner: str, hour: Instant, runs: int) -> None: ...

    def spent(self, owner: str, day: Instant) -> dict[str, Used]: ...

    def add_spent(self, owner: str, day: Instant, subjects: Sequence[str], used: Used) -> None: ...

    def beat(self, worker: WorkerId, now: Instant, reports: Mapping[RunId, str]) -> bool: ...

    def stop_requests(self, worker: WorkerId) -> list[RunId]: ...

    def floor(self) -> int: ...

    def delete_worker(self, worker: WorkerId, beat: int) -> bool: ...

    def announce(self) -> None:
        """Other processes learn with the commit that something may have become due earlier."""


class FlowingStore(RemoteKeeping, FiguresReading, Store, ABC):
    """Everything of the store contract that is the same wherever the rows are kept."""

    _sql: ClassVar[Mapping[str, str]]
    """The dialect's named queries."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []

    @abstractmethod
    def _write(self) -> AbstractContextManager[Transaction]: ...

    @abstractmethod
    def _texts(self, values: Sequence[str]) -> str:
        """Several texts as one parameter."""

    @abstractmethod
    def _rows(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Reads, with `?` for parameters."""

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _announce(self) -> None:
        for listener in list(self._listeners):
            listener()

    def create(self, drafts: Sequence[Draft], limits: Mapping[str, int] = {}) -> Result[list[Created]]:
        try:
            return self._create(drafts, limits)
        except Taken:
            return Err("conflict", "another schedule has this id already")

    @looking_twice
    def _create(self, drafts: Sequence[Draft], limits: Mapping[str, int]) -> Result[list[Created]]:
        with self._write() as tx:
            for owner in sorted(limits):
                tx.lock_owner(owner)
            created = _known(tx, drafts)
            fresh = _fresh(drafts, created)
            refusal = _over_limit(tx, fresh, limits)
            if refusal is not None:
                return refusal
            _refuse_nul(fresh)
            ids = tx.new_schedule_ids(len(fresh))
            rows = [begin(draft, schedule) for draft, schedule in zip(fresh, ids, strict=True)]
            tx.insert_schedules(rows)
            tx.announce()
        for definition, progress, _ in rows:
            created[definition.owner, definition.key] = Created(Schedule(definition, progress), fresh=True)
        self._announce()
        return Ok([created[_key(draft)] for draft in drafts])

    @looking_twice
    def change(self, schedule: ScheduleId, now: Instant, decide: Callable[[Change], Decision]) -> Result[Any]:
        with self._write() as tx:
            found = tx.lock_schedule(schedule)
            if found is None:
                return Err("not_found")
            result = _carry_out(tx, decide(Change(found, now, tx, tx.new_run_id)), now)
            tx.announce()
        self._announce()
        return result

    @looking_twice
    def change_run(self, run: RunId, now: Instant, decide: Callable[[Change, Run], Decision]) -> Result[Any]:
        with self._write() as tx:
            seen = tx.run(run)
            schedule = None if seen is None else tx.lock_schedule(seen.schedule)
            current = None if schedule is None else tx.run(run)
            if schedule is None or current is None:
                return Err("not_found")
            result = _carry_out(tx, decide(Change(schedule, now, tx, tx.new_run_id), current), now)
            tx.announce()
        self._announce()
        return result

    def beat(self, worker: WorkerId, now: Instant, reports: Mapping[RunId, str]) -> Beat:
        with self._write() as tx:
            if not tx.beat(worker, now, reports):
                raise WorkerGone
            return Beat(tx.stop_requests(worker), tx.floor())

    @looking_twice
    def exchange(
        self,
        worker: WorkerId,
        now: Instant,
        finished: Sequence[Finished],
        wants: Sequence[Want],
        known: Mapping[RunId, Claim] = {},
        budget: int | None = None,
    ) -> Exchange:
        with self._write() as tx:
            if not tx.lock_worker(worker):
                raise WorkerGone
            answers = _settle(tx, worker, now, finished, known) if finished else []
            claims, seen = _take(tx, worker, now, wants, budget) if wants else ([], 0)
            if budget is not None:
                _charge(tx, now, claims, _given_back(finished, answers, known))
        return Exchange(answers, claims, seen)

    @looking_twice
    def rescue(self, dead: WorkerId, beat: int, now: Instant) -> int | None:
        with self._write() as tx:
            if not tx.delete_worker(dead, beat):
                return None
            held = tx.held_by(dead)
            _apply(tx, plan_rescue(held, now, tx), now)
            tx.announce()
        self._announce()
        return len(held)

    def reserve(self, owner: str, day: Instant, caps: Sequence[Cap]) -> str | None:
        with self._write() as tx:
            tx.lock_owner(owner)
            full = reached(caps, tx.spent(owner, day))
            if full is None:
                tx.add_spent(owner, day, [cap.subject for cap in caps], Used(runs=1))
            return full

    def spend(self, owner: str, day: Instant, caps: Sequence[Cap], used: Used) -> None:
        with self._write() as tx:
            tx.lock_owner(owner)
            tx.add_spent(owner, day, [cap.subject for cap in caps], used)

    def search(self, query: ScheduleQuery) -> Page[Schedule]:
        rows = [schedule_of(row) for row in self._rows(*schedule_page(query))]
        items = rows[: query.limit]
        cursor = None
        if len(rows) > query.limit:
            definition, progress = items[-1]
            moment = progress.next or progress.through or NEVER
            cursor = make_cursor(*((moment, definition.id) if query.by_time else (definition.id,)))
        if query.cursor is None and cursor is None:
            return Page(items, None, len(items))
        return Page(items, cursor, *self._counted(schedule_count(query), query.count_to))

    def coming(self, owner: str | None, lanes: Sequence[str], until: Instant | None, limit: int) -> list[Schedule]:
        if owner is not None and self._rows(coming.OWN, (owner, coming.FEW))[0][0] < coming.FEW:
            rows = self._rows(*coming.of_owner(owner, until, limit))
        else:
            rows = [row for lane in lanes for row in self._rows(*coming.in_lane(lane, owner, until, limit))]
        found = [schedule_of(row) for row in rows]
        return sorted(found, key=lambda each: (each.progress.next or NEVER, each.definition.id))[:limit]

    def runs(self, query: RunQuery) -> Page[Run]:
        rows = [Run._make(row) for row in self._rows(*run_page(query))]
        items = rows[: query.limit]
        cursor = None
        if len(rows) > query.limit:
            last = items[-1]
            cursor = make_cursor(*((last.due, last.id) if runs_by_due(query) else (last.id,)))
        if query.cursor is None and cursor is None:
            return Page(items, None, len(items))
        return Page(items, cursor, *self._counted(run_count(query), query.count_to))

    def _counted(self, counting: tuple[str, list[Any]], most: int) -> tuple[int, bool]:
        """How many there are, as far as somebody wants to know, and whether that is all of them."""
        found = self._rows(*counting)[0][0] if most else 1
        return min(found, most), found <= most

    def get(self, schedule: ScheduleId) -> Schedule | None:
        rows = self._named("schedule_by_id", schedule)
        return schedule_of(rows[0]) if rows else None

    def find(self, public_id: str) -> Schedule | None:
        rows = self._named("schedule_by_public_id", public_id)
        return schedule_of(rows[0]) if rows else None

    def by_key(self, owner: str, key: str) -> Schedule | None:
        rows = self._named("schedule_by_key", owner, key)
        return schedule_of(rows[0]) if rows else None

    def marks(self, owner: str, kind: str, subject: str) -> list[tuple[Any, ...]]:
        living = self._named("living_marks", owner, kind, subject)
        return [*living, *self._named("ended_mark", owner, kind, subject)]

    def ahead(self, now: Instant, limit: int) -> list[ScheduleId]:
        return [row[0] for row in self._named("schedules_ahead", now, limit)]

    def workers(self) -> list[WorkerRow]:
        return [WorkerRow._make(row) for row in self._named("workers")]

    def held(self, worker: WorkerId) -> list[Claim]:
        rows = [held_of(row) for row in self._named("held_by", worker)]
        return [Claim(held.run, held.definition, held.run.started or held.run.due) for held in rows]

    def earliest(self, lanes: Sequence[str]) -> DueEntry | None:
        """In one question for all lanes: a store may be a network away."""
        rows = self._named("earliest", self._texts(lanes))
        return min(map(DueEntry._make, rows), key=lambda entry: entry.at, default=None)

    def run(self, run: RunId) -> Run | None:
        rows = self._named("run_by_id", run)
        return Run._make(rows[0]) if rows else None

    def attempts(self, run: RunId) -> list[Attempt]:
        return [Attempt._make(row) for row in self._named("attempts_of", run)]

    def _named(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._rows(self._sql[name], values)


def _key(draft: Draft) -> OwnerKey:
    return draft.definition.owner, draft.definition.key


def _known(tx: Transaction, drafts: Sequence[Draft]) -> dict[OwnerKey, Created]:
    """What the drafts' keys made earlier, by a repeated request or by one whose acknowledgement was lost."""
    found = tx.by_keys([_key(draft) for draft in drafts])
    return {key: Created(schedule, fresh=False) for key, schedule in found.items()}


def _fresh(drafts: Sequence[Draft], known: Mapping[OwnerKey, Created]) -> list[Draft]:
    """The first draft of every key that made nothing yet."""
    firsts: dict[OwnerKey, Draft] = {}
    for draft in drafts:
        if _key(draft) not in known:
            firsts.setdefault(_key(draft), draft)
    return list(firsts.values())


def _refuse_nul(drafts: Sequence[Draft]) -> None:
    """One database would store them and the other cannot: what is accepted must not depend on that."""
    if any("\0" in value for draft in drafts for value in draft.definition if isinstance(value, str)):
        raise InvalidInput("text with NUL characters cannot be stored")


def _over_limit(tx: Transaction, fresh: Sequence[Draft], limits: Mapping[str, int]) -> Err | None:
    for owner, limit in limits.items():
        wanted = sum(1 for draft in fresh if draft.definition.owner == owner)
        if wanted and tx.count_living(owner, limit + 1) + wanted > limit:
            return quota_reached(limit)
    return None


def _carry_out(tx: Transaction, decision: Decision, now: Instant) -> Result[Any]:
    if isinstance(decision, Err):
        return decision
    writes, value = decision.value
    if tx.insert_runs(writes.new_runs):
        return Err("conflict", "this occurrence has a run already")
    _apply(tx, writes, now)
    return Ok(value)


def _apply(tx: Transaction, writes: Writes, now: Instant) -> None:
    """What follows a run begins in the transaction that ends it: neither is there without the other."""
    tx.apply(writes, now)
    fresh = _fresh(writes.follow_ups, _known(tx, writes.follow_ups)) if writes.follow_ups else []
    if fresh:  # an alert that was given today is known by its key, and not given again
        fresh.sort(key=_key)  # two that give the same ones never wait for each other in a circle
        ids = tx.new_schedule_ids(len(fresh))
        tx.insert_schedules([begin(draft, schedule) for draft, schedule in zip(fresh, ids, strict=True)])
        tx.announce()


def _settle(
    tx: Transaction, worker: WorkerId, now: Instant, finished: Sequence[Finished], known: Mapping[RunId, Claim]
) -> list[Answer]:
    runs = [item.run for item in finished]
    remembered = all(run in known for run in runs)
    held = _remembered(known, tx.holdings(runs)) if remembered else tx.held(runs)
    settlement = plan_settlement(held, finished, worker, now, tx)
    _apply(tx, settlement.writes, now)
    return settlement.answers


def _remembered(known: Mapping[RunId, Claim], holdings: Sequence[Holding]) -> dict[RunId, Held]:
    """What was claimed, with what may have changed since: a definition cannot, while one of its runs is active."""
    held = {}
    for holding in holdings:
        run, definition, _ = known[holding.run]
        if (run.status, run.fence, run.worker, run.stop) != holding[1:5]:
            run = run._replace(status=holding.status, fence=holding.fence, worker=holding.worker, stop=holding.stop)
        held[holding.run] = Held(run, definition, holding.progress)
    return held


def _take(
    tx: Transaction, worker: WorkerId, now: Instant, wants: Sequence[Want], budget: int | None
) -> tuple[list[Claim], int]:
    entries = _due_entries(tx, wants)
    seen = len(entries)
    if entries and budget is not None:
        entries = _affordable(tx, entries, budget, now)
    if not entries:
        return [], seen
    plan = plan_claims(entries, worker, now, tx.new_run_id, tx)
    conflicts = tx.insert_runs(plan.writes.new_runs)
    if conflicts:
        plan = plan_claims(entries, worker, now, tx.new_run_id, tx, _taken(tx, entries, conflicts))
        conflicts = tx.insert_runs(plan.writes.new_runs)
    if conflicts:
        raise RuntimeError(f"two runs for one occurrence were planned: {conflicts[0].schedule} at {conflicts[0].due}")
    _apply(tx, plan.writes, now)
    return plan.claims, seen


def _given_back(finished: Sequence[Finished], answers: Sequence[Answer], known: Mapping[RunId, Claim]) -> list[Claim]:
    """Runs that were claimed and not carried out: their owners have not had them."""
    pairs = zip(finished, answers, strict=True)
    return [
        known[item.run]
        for item, answer in pairs
        if answer is Answer.RECORDED and isinstance(item.outcome, Returned) and item.run in known
    ]


def _charge(tx: Transaction, now: Instant, claims: Sequence[Claim], given_back: Sequence[Claim]) -> None:
    """In the order of owners, so that two workers never wait for each other's rows in a circle."""
    runs = Counter(claim.definition.owner for claim in claims)
    runs.subtract(claim.definition.owner for claim in given_back)
    for owner in sorted(runs):
        if runs[owner]:
            tx.use(owner, hour_of(now), runs[owner])


def _affordable(tx: Transaction, entries: Sequence[Entry], budget: int, now: Instant) -> list[Entry]:
    """Owners are locked in order, so that two workers together do not spend more than one could."""
    used = {}
    for owner in sorted({entry.definition.owner for entry in entries}):
        tx.lock_owner(owner)
        used[owner] = tx.usage(owner, hour_of(now))
    admitted, writes = hold_back(entries, used, budget, now)
    tx.apply(writes, now)
    return admitted


def _due_entries(tx: Transaction, wants: Sequence[Want]) -> list[Entry]:
    """In the order of the wants; a lane that is wanted twice gives its entries once."""
    entries: dict[DueEntry, Entry] = {}
    taken: Counter[str] = Counter()
    lanes = tx.due_lanes(wants)
    for want in (want for want in wants if want.lane in lanes):
        used = sum(number for share, number in taken.items() if want.share and share.startswith(want.share))
        found = tx.due_entries(want._replace(limit=want.limit - used)) if used < want.limit else []
        taken[want.share] += len(found)
        entries.update((entry.due, entry) for entry in found)
    return list(entries.values())


def _taken(tx: Transaction, entries: Sequence[Entry], conflicts: Sequence[Run]) -> dict[ScheduleId, frozenset[Instant]]:
    """For the schedules in conflict, every occurrence from the next one on that has a row."""
    troubled = {run.schedule for run in conflicts}
    firsts = {entry.progress.schedule: entry.progress.next for entry in entries if entry.due.schedule in troubled}
    return {schedule: tx.taken_since(schedule, first) for schedule, first in firsts.items() if first is not None}
