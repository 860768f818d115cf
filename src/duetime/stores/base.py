"""The flow of every store transaction, shared by all dialects: lock and load, let policy decide, write."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar

from duetime.engine.clock import Instant
from duetime.engine.errors import Conflict, NotFound, Refused, WorkerGone
from duetime.engine.lazy_logger import lazy_logger
from duetime.engine.lazy_sequence import LazyMap
from duetime.engine.model import (
    LEASE,
    Cap,
    Left,
    RunId,
    Schedule,
    ScheduleId,
    ScheduleState,
    Used,
    WorkerId,
    left,
    reached,
)
from duetime.engine.policy.batches import Batch
from duetime.engine.policy.bulk import MANY, begin_all, drafts_in_columns, earliest_of
from duetime.engine.policy.catch_up import Answers
from duetime.engine.policy.changes import delete, edit
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.completions import split_completions
from duetime.engine.policy.decision import Change, Decision, RunDecider
from duetime.engine.policy.fair_share import Budget
from duetime.engine.policy.follow_ups import Messenger
from duetime.engine.policy.record import Excuses, Finished, plan_rescue
from duetime.engine.policy.rows import Completion, Draft, NewRows, RunEvent
from duetime.engine.store import Beat, ClaimRequest, Creation, Planned, RecordedAndClaimed, RunObserver
from duetime.engine.triggers.step_budget import within_transaction
from duetime.engine.value_class import NamedTuple
from duetime.stores.byte_limits import add_bytes, add_bytes_of
from duetime.stores.create import CreateRequest, NotAtOnce, add_living, add_revived, has_nul, join_requests, refuse_nul
from duetime.stores.events import EventsMixin
from duetime.stores.hooks import HooksMixin
from duetime.stores.reads import ReadsMixin
from duetime.stores.record_and_claim import (
    answers_of,
    apply,
    charge,
    fresh_of,
    given_back,
    key_of,
    known_by_key,
    not_beyond,
    settle,
    take,
)
from duetime.stores.run_logs import RunLogsMixin
from duetime.stores.shared_commit import SharedCommit
from duetime.stores.transaction import SOON, NeedsDecision, Taken, Transaction, is_soon

log = lazy_logger("duetime.store")

GONE = "it no longer exists"

MOST_LISTED = 2_000
"""Maximum number of runs that a heartbeat lists as not begun: far more than a worker claims ahead. The rest count as
begun."""
_new = tuple.__new__  # see `stores.transaction`
P = ParamSpec("P")
T = TypeVar("T")


def retry_on_conflict(transaction: Callable[P, T]) -> Callable[P, T]:
    """Retry once if another transaction used the same key first; the retry finds what that one created. Two workers
    that reach a limit at the same time create the same alert, and neither may lose its outcomes because of that."""

    @functools.wraps(transaction)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return transaction(*args, **kwargs)
        except Taken:
            return transaction(*args, **kwargs)

    return repeated


class ScheduleChange(NamedTuple):
    schedule: ScheduleId
    now: Instant
    decide: Callable[[Change], Decision[Any]]


def _raise_refusal(result: T | Refused) -> T:
    if isinstance(result, Refused):
        raise result
    return result


def _to_created(rows: NewRows) -> Creation:
    created: Creation = _new(Creation, (_new(Schedule, rows[:2]), True))
    return created


class BaseStore(ReadsMixin, EventsMixin, HooksMixin, RunLogsMixin, ABC):
    """The part of the store contract that does not depend on the database."""

    writes_overlap = False
    tidy_batch = 200

    def __init__(self, messenger: Messenger | None) -> None:
        self.messenger = messenger
        self._listeners: list[tuple[Callable[[], object], bool]] = []
        self._creates = SharedCommit(self._create_few, self._check_file)
        self._changes = SharedCommit(self._change_together)
        self._emits = SharedCommit(self._emit_together, self._check_file)
        self.events_wait = False
        self._trimmed = []
        self.observer: RunObserver | None = None
        self._unpaused = {}
        self._forget_workers()

    @abstractmethod
    def _insert_few(self, request: CreateRequest) -> Sequence[NewRows]:
        """Add to the totals and insert the drafts with one statement, which looks nothing up. Raise NotAtOnce if a
        total would exceed its limit or was counted too long ago, and Taken for a known key; in both cases, nothing is
        inserted."""

    def _check_file(self) -> None:
        """Raise StoreUnusable if the store is a file that was replaced while it was open."""

    def on_change(self, listener: Callable[[], object], *, only_soon: bool = False) -> Callable[[], None]:
        entry = listener, only_soon
        self._listeners.append(entry)
        return lambda: self._listeners.remove(entry)

    def _announce(self, *, soon: bool = True) -> None:
        """Call the listeners; with `soon`, something may be due within SOON. The change is already committed, so errors
        of the listeners must not reach the caller that committed it."""
        for listener, only_soon in list(self._listeners):
            if soon or not only_soon:
                try:
                    listener()
                except Exception:
                    log.exception("a listener for changes of the store failed")

    def tell_observer(self, events: Sequence[RunEvent]) -> None:
        if events and self.observer is not None:
            try:
                self.observer(events)
            except Exception:
                log.exception("the observer of runs failed")

    def create(
        self, drafts: Sequence[Draft], limits: Mapping[str, int] = {}, most_bytes: Mapping[str, int] = {}
    ) -> Sequence[Creation]:
        request = CreateRequest(drafts, limits, most_bytes)
        try:
            return self._creates.write(request) if request.is_few else self._create_many(request)
        except (NotAtOnce, Taken):
            return self._create_in_steps(request)

    def _create_few(self, requests: Sequence[CreateRequest]) -> list[Sequence[Creation]]:
        """Create everything that the requests ask for with one statement, if nothing has to be looked up or counted."""
        joined = join_requests(requests)
        drafts = joined.drafts
        if not joined.is_few or any(map(has_nul, drafts)):
            raise NotAtOnce
        rows = self._insert_few(joined)
        if self._listeners:
            self._announce(soon=earliest_of(rows) - drafts[0].definition.created <= SOON)
        created = map(_to_created, rows)
        return [[next(created) for _ in request.drafts] for request in requests]

    def _create_in_steps(self, request: CreateRequest) -> Sequence[Creation]:
        """Look up keys and count, then create."""
        try:
            return retry_on_conflict(self._create_many)(request, look_up=True)
        except Taken:
            raise Conflict("another schedule has this id already") from None

    def _create_many(self, request: CreateRequest, look_up: bool = False) -> Sequence[Creation]:
        """Create in one transaction. With `look_up`, a draft whose key is known creates nothing; without, it raises
        Taken."""
        limits, most_bytes = request.limits, request.most_bytes
        drafts = drafts_in_columns(request.drafts) if len(request.drafts) >= MANY else request.drafts
        now = drafts[0].definition.created if drafts else Instant(0)

        def create() -> Sequence[Creation]:
            with self._write() as tx:
                for owner in sorted(limits):
                    tx.lock_owner(owner)
                created = known_by_key(tx, drafts) if look_up else {}
                fresh = fresh_of(drafts, created) if look_up else drafts
                add_living(tx, fresh, limits)
                refuse_nul(fresh)
                add_bytes_of(tx, fresh, most_bytes)
                rows = begin_all(fresh, tx.new_schedule_ids(len(fresh)))
                tx.insert_schedules(rows)
                tx.announce()
            self._announce(soon=bool(rows) and earliest_of(rows) - now <= SOON)
            if not look_up:
                return LazyMap(rows, _to_created) if rows else []
            created |= {(row[0].owner, row[0].key): _to_created(row) for row in rows}
            return [created[key_of(draft)] for draft in drafts]

        return self._counting(now, create)

    def add_bytes(self, owner: str, number: int, limit: int, now: Instant) -> None:
        def add() -> None:
            with self._write() as tx:
                add_bytes(tx, owner, number, limit, now)

        self._counting(now, add)

    def change(self, schedule: ScheduleId, now: Instant, decide: Callable[[Change], Decision[T]]) -> T:
        """Change a schedule. Where only one transaction writes at a time, waiting callers share the next one."""
        request = ScheduleChange(schedule, now, decide)
        result: T | Refused = (
            self._change_together([request])[0] if self.writes_overlap else self._changes.write(request)
        )
        return _raise_refusal(result)

    @within_transaction
    @retry_on_conflict
    def _change_together(self, requests: Sequence[ScheduleChange]) -> list[Any]:
        """Change schedules for several callers. A refusal is the result of its request, because it must not undo what
        the transaction does for the others."""
        with self._write() as tx:
            carried = [self._change_in(tx, request) for request in requests]
        if any(isinstance(result, Schedule) and result.progress.state == ScheduleState.PAUSED for result, _ in carried):
            self._unpaused.clear()
        self.tell_observer(tx.events)
        soon = [due for result, due in carried if not isinstance(result, Refused)]
        if soon:
            self._announce(soon=any(soon))
        return [result for result, _ in carried]

    def _change_in(self, tx: Transaction, request: ScheduleChange) -> tuple[Any, bool]:
        schedule, now, decide = request
        before = tx.lock_schedule(schedule)
        return (NotFound(GONE), False) if before is None else self._decide_and_write(tx, before, now, decide)

    def carry_out(self, batch: Batch) -> list[Schedule]:
        try:
            results, events = self._counting(batch.now, partial(self._carry_out_batch, batch))
        except Taken:
            raise Conflict("another schedule was created with the same key meanwhile; try again") from None
        self.tell_observer(events)
        self._announce()
        return results

    @within_transaction
    def _carry_out_batch(self, batch: Batch) -> tuple[list[Schedule], Sequence[RunEvent]]:
        now, actor, drafts, edits, deletions, limits, most_bytes = batch
        rows: Sequence[NewRows] = []
        ids: list[ScheduleId] = []
        with self._write() as tx:
            # As when a single schedule is changed, its lock comes before that of its owner.
            stored = tx.lock_listeners(sorted(id for id in {*edits, *deletions, *batch.followed()} if id > 0))

            def write(id: ScheduleId, decide: Callable[[Change], Decision[T]]) -> T:
                if id not in stored:
                    raise NotFound(GONE)
                value, _ = self._decide_and_write(tx, stored[id], now, decide, actor)
                if isinstance(value, Refused):
                    value.args = (f"{stored[id].definition.name}: {value}",)
                    raise value
                return value

            for owner in sorted(limits):
                tx.lock_owner(owner)
            for id, remembered in deletions.items():
                write(id, partial(delete, remembered=remembered))
            if drafts:
                if known_by_key(tx, drafts):
                    raise Taken
                add_living(tx, drafts, limits)
                refuse_nul(drafts)
                add_bytes_of(tx, drafts, most_bytes)
                ids = tx.new_schedule_ids(len(drafts))
                rows = begin_all([batch.numbered(draft, ids) for draft in drafts], ids)
                tx.insert_schedules(rows)
            for place in batch.followed():
                tx.send("follow", place if place > 0 else ids[-1 - place])
            results = [_to_created(row).schedule for row in rows]
            results += [write(id, partial(edit, patch=batch.settled(patch, ids))) for id, patch in edits.items()]
            tx.announce()
        return results, tx.events

    def change_run(self, run: RunId, now: Instant, decide: RunDecider[T]) -> T:
        return _raise_refusal(self.change_runs([run], now, decide)[0])

    @within_transaction
    @retry_on_conflict
    def change_runs(self, runs: Sequence[RunId], now: Instant, decide: RunDecider[T]) -> list[T | Refused]:
        with self._write() as tx:
            results = [self._change_run_in(tx, run, now, decide) for run in runs]
        self.tell_observer(tx.events)
        if not all(isinstance(result, Refused) for result in results):  # a refusal changed nothing
            self._announce()
        return results

    def _change_run_in(self, tx: Transaction, run: RunId, now: Instant, decide: RunDecider[T]) -> T | Refused:
        seen = tx.run(run)
        schedule = None if seen is None else tx.lock_schedule(seen.schedule)
        current = None if schedule is None else tx.run(run)
        if schedule is None or current is None:
            return NotFound(GONE)
        return self._decide_and_write(tx, schedule, now, lambda change: decide(change, current))[0]

    def _decide_and_write(
        self,
        tx: Transaction,
        before: Schedule,
        now: Instant,
        decide: Callable[[Change], Decision[T]],
        actor: str | None = None,
    ) -> tuple[T | Refused, bool]:
        """Decide about a locked schedule, and write. Return the value or a refusal, and whether a worker has to check
        the queue at once: a schedule that is only withdrawn, for example, needs no worker."""
        try:
            writes, value = decide(Change(before, now, tx, tx.new_run_id, actor=actor))
        except Refused as refusal:
            return refusal.with_traceback(None), False  # which would keep the rows in memory
        if tx.insert_runs(writes.new_runs):
            return Conflict("this occurrence has a run already"), False
        add_revived(tx, before, writes)
        apply(tx, writes, now, self.messenger)
        tx.announce()
        sets_off = writes.new_runs or writes.runs or writes.follow_ups or writes.ended
        return value, bool(sets_off) or is_soon(writes.due_new, now)

    def beat(
        self, worker: WorkerId, now: Instant, reports: Mapping[RunId, str], not_begun: Sequence[RunId] | None = None
    ) -> Beat:
        listed = None if not_begun is None else ",".join(map(str, not_begun[:MOST_LISTED]))
        with self._write() as tx:
            beat = tx.beat(worker, now, reports, listed)
        if beat is None:
            raise WorkerGone
        return beat

    def register(self, name: str, lanes: Sequence[str], session: bool, now: Instant, lease: int = LEASE) -> WorkerId:
        with self._write() as tx:
            worker = WorkerId(tx.rows("insert_worker", name, ",".join(lanes), int(session), now, now, lease)[0][0])
        self._forget_workers()
        return worker

    def retire(self, worker: WorkerId) -> None:
        with self._write() as tx:
            tx.send("retire_worker", worker)
        self._forget_workers()

    def fits(self, schema: int) -> bool:
        known = self.known_schema
        return schema == known or schema > known >= int(self._named("floor")[0][0])

    def probe(self) -> None:
        with self._write():
            pass

    @retry_on_conflict
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
        limit = Budget(budget) if isinstance(budget, int) else budget
        completions, rest = split_completions(finished, known) if finished else ([], [])
        exchange = partial(self._record_and_claim, worker, now, wants, known, limit, answers, unrecorded)
        try:
            done = exchange(completions, rest, careful=False, planned=planned)
        except NeedsDecision:
            if planned is not None:
                raise
            return exchange([], finished, careful=True)
        if completions:
            return done._replace(answers=answers_of(finished, rest, done.answers))
        return done

    def _record_and_claim(
        self,
        worker: WorkerId,
        now: Instant,
        wants: Sequence[ClaimRequest],
        known: Mapping[RunId, Claim],
        limit: Budget | None,
        answers: Answers | None,
        unrecorded: Collection[ScheduleId],
        completions: Sequence[Completion],
        finished: Sequence[Finished],
        careful: bool,
        planned: Planned | None = None,
    ) -> RecordedAndClaimed:
        messenger = self.messenger
        with self._write() as tx:
            if completions and finished:
                tx.decided = [known[item.run].definition.id for item in finished if item.run in known]
            # Finished runs may make more work due, so due work is requested afterwards.
            if not tx.lock_worker(worker, completions, () if finished else wants, last=not finished and not wants):
                raise WorkerGone
            own_now, (now, wants) = now, not_beyond(tx.server_time(), now, wants)
            answers = answers if now == own_now else None  # they were computed for a time that has not come yet
            settled, soon = settle(tx, worker, now, finished, known, messenger) if finished else ([], False)
            claims, seen, postponed = (
                take(tx, worker, now, wants, limit, answers, messenger, unrecorded, careful) if wants else ([], 0, [])
            )
            if limit is not None:
                charge(tx, now, claims, given_back(finished, settled, known), limit.exempt)
            exchanged = RecordedAndClaimed(settled, claims, seen, postponed)
            if planned is not None:
                planned(exchanged)
        if tx.has_events:
            self.events_wait = True
        if tx.events:
            self.tell_observer(tx.events)
        if soon:  # otherwise, a worker would find it only at its next check, once a second
            self._announce()
        return exchanged

    @retry_on_conflict
    def rescue(self, dead: WorkerId, beat: int, now: Instant) -> int | None:
        with self._write() as tx:
            deleted = tx.rows("delete_dead_worker", dead, beat)
            if not deleted:  # it has sent a heartbeat since, or another process was faster
                return None
            held = tx.held_by(dead)
            listed = deleted[0][0] or ""  # the runs that its last heartbeat listed as not begun
            not_begun = [RunId(int(run)) for run in listed.split(",") if run.isdigit()]
            writes = plan_rescue(held, now, tx, Excuses(not_begun, tx.spared(not_begun)))
            apply(tx, writes, now, self.messenger)
            tx.announce()
        self.tell_observer(tx.events)
        self._announce()
        return len(held)

    def reserve(self, owner: str, day: Instant, caps: Sequence[Cap]) -> str | Left:
        with self._write() as tx:
            tx.lock_owner(owner)
            used = {row[0]: Used._make(row[1:]) for row in tx.rows("spent", owner, day)}
            full = reached(caps, used)
            if full is not None:
                return full
            tx.add_spent(owner, day, [cap.subject for cap in caps], Used(runs=1))
            return left(caps, used)

    def spend(self, owner: str, day: Instant, caps: Sequence[Cap], used: Used) -> None:
        with self._write() as tx:
            tx.lock_owner(owner)
            tx.add_spent(owner, day, [cap.subject for cap in caps], used)
