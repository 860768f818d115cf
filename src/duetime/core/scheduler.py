"""The one door for every face: checks, owns, limits, and hands over to the store. Expected failures are values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, ParamSpec, TypeVar

from duetime.core.clock import DAY, MINUTE, Clock, Instant
from duetime.core.delivering import NOTIFICATION
from duetime.core.drafting import Changes, Drafter, Limits, NewSchedule, fingerprint
from duetime.core.errors import DuetimeError, StoreUnavailable
from duetime.core.kind import Caller, Kind
from duetime.core.model import (
    Attempt,
    Run,
    RunId,
    RunStatus,
    Schedule,
    ScheduleId,
    ScheduleState,
    WorkerRow,
    lane_of,
    status_of,
)
from duetime.core.outcome import Alert, Completed, Failed, Returned
from duetime.core.policy import changing, taking
from duetime.core.policy.changing import Change, Decision
from duetime.core.policy.creating import Draft
from duetime.core.policy.ending import Held
from duetime.core.policy.following import alert
from duetime.core.requesting import remembered
from duetime.core.result import Err, Ok, Result
from duetime.core.results import is_text
from duetime.core.store import COUNTED, Created, Page, RunQuery, ScheduleQuery, Store
from duetime.core.triggers import (
    Trigger,
    build_trigger,
    describe,
    known_zone,
    warnings_for,
)
from duetime.core.waking import run_holder

P = ParamSpec("P")
T = TypeVar("T")


class Preview(NamedTuple):
    english: str
    instants: list[Instant]
    warnings: list[str]


def expected(method: Callable[P, Result[T]]) -> Callable[P, Result[T]]:
    """Turns our own errors into `Err`, so that a face meets every refusal in one shape."""

    @functools.wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Result[T]:
        try:
            return method(*args, **kwargs)
        except DuetimeError as error:
            field_name = getattr(error, "field", None)
            return Err(error.code, error.message, {} if field_name is None else {"field": field_name})

    return guarded


KEY_REUSED = Err(
    "key_reused",
    "this idempotency_key was used with other arguments; use another key, or the same arguments",
    {"field": "idempotency_key"},
)
LEASE = 15 * MINUTE
"""How long a run that somebody took stays in their hands, unless its schedule says otherwise."""
NOT_FOUND = Err("not_found", "there is no such schedule")
NO_RUN = Err("not_found", "there is no such run")


class Scheduler:
    def __init__(
        self,
        store: Store,
        kinds: Mapping[str, Kind],
        clock: Clock,
        *,
        zone: str = "UTC",
        limits: Limits | None = None,
    ) -> None:
        self.store, self.kinds, self.clock, self.zone = store, kinds, clock, zone
        self.drafter = Drafter(kinds, zone, limits or Limits())

    @property
    def limits(self) -> Limits:
        return self.drafter.limits

    # -- making -------------------------------------------------------------------------------------------------

    @expected
    def create(self, caller: Caller, new: NewSchedule) -> Result[Schedule]:
        made = self.create_many(caller, [new])
        return made if isinstance(made, Err) else Ok(made.value[0])

    def made_before(self, caller: Caller, new: NewSchedule) -> Result[Schedule] | None:
        """What the same request made under its key, or the refusal of another one; None when the key is new."""
        try:
            made = self._made_by_keys(caller, [new])
        except DuetimeError as error:
            return Err(error.code, error.message)
        return Ok(made.value[0]) if isinstance(made, Ok) else made

    @expected
    def create_many(self, caller: Caller, news: Sequence[NewSchedule]) -> Result[list[Schedule]]:
        """All or none; one commit for all of them."""
        known = self._made_by_keys(caller, news)
        if known is not None:
            return known
        drafts = self.drafts(caller, news)
        if isinstance(drafts, Err):
            return drafts
        created = self._create(drafts.value, {caller.owner: self.limits.schedules})
        if isinstance(created, Err):
            return created
        for draft, (schedule, _) in zip(drafts.value, created.value, strict=True):
            if schedule.definition.fingerprint != draft.definition.fingerprint:
                return KEY_REUSED
        return Ok([schedule for schedule, _ in created.value])

    @expected
    def create_unless_known(self, caller: Caller, news: Sequence[NewSchedule]) -> Result[list[Created]]:
        """A key that is known means what it made, whatever is asked for now; each answer says whether it is new."""
        drafts = self.drafts(caller, news)
        return drafts if isinstance(drafts, Err) else self._create(drafts.value, {caller.owner: self.limits.schedules})

    @expected
    def drafts(self, caller: Caller, news: Sequence[NewSchedule]) -> Result[list[Draft]]:
        """Everything that a create checks besides what is there already, also for what is kept elsewhere."""
        now = self.clock.now()
        # A message to a person wakes no further agent: however deep, a run may always tell somebody.
        if caller.depth > self.limits.depth and any(new.kind != NOTIFICATION for new in news):
            return self._too_deep(caller, now)
        return Ok([self.drafter.draft(caller, new, now) for new in news])

    def _too_deep(self, caller: Caller, now: Instant) -> Err:
        """Runs that schedule runs end here, and the owner hears of it: once a day, however often it is tried."""
        reason = f"an agent's run may schedule at most {self.limits.depth} deep; ask a person to do it"
        text = f"An agent's run tried to schedule a further one and was refused: {reason}."
        told = Alert(f"depth:{now // DAY}", "An agent keeps scheduling itself", text)
        self._create([alert(caller.owner, told, now)], {})
        return Err("depth", reason)

    def _made_by_keys(self, caller: Caller, news: Sequence[NewSchedule]) -> Result[list[Schedule]] | None:
        """The first results, looked up before anything is checked: by now the time asked for may be over."""
        found: list[Schedule] = []
        asked: dict[str, str] = {}
        for new in news:
            if new.idempotency_key is None:
                continue
            key, said = self.drafter.key(new.idempotency_key, Instant(0)), fingerprint(new)
            schedule = self.store.by_key(caller.owner, key)
            first = asked.setdefault(key, said if schedule is None else schedule.definition.fingerprint)
            if first != said:
                return KEY_REUSED
            if schedule is not None:
                found.append(schedule)
        return Ok(found) if found and len(found) == len(news) else None

    def _create(self, drafts: Sequence[Draft], limits: Mapping[str, int]) -> Result[list[Created]]:
        """Every draft has a key, so that a commit whose acknowledgement was lost can be asked for again."""
        try:
            return self.store.create(drafts, limits)
        except StoreUnavailable:
            return self.store.create(drafts, limits)

    # -- reading ------------------------------------------------------------------------------------------------

    def find(self, caller: Caller, public_id: str, kind: str | None = None) -> Schedule | None:
        """What belongs to another owner is answered exactly as what does not exist."""
        schedule = self._by_public_id(public_id)
        if schedule is None or schedule.progress.state == ScheduleState.DELETED:
            return None
        definition = schedule.definition
        if kind is not None and definition.kind != kind:
            return None
        return schedule if caller.operator or definition.owner == caller.owner else None

    def find_by_key(self, caller: Caller, key: str, kind: str) -> Schedule | None:
        """What a key of the caller's owner made, unless it was deleted."""
        schedule = self.store.by_key(caller.owner, key)
        return None if schedule is None or schedule.definition.kind != kind else schedule

    def schedule_of(self, caller: Caller, run: Run, *, deleted: bool = False) -> Schedule | None:
        """What a run belongs to, unless it was deleted; `deleted`: also then, with what is left of it."""
        schedule = self.store.get(run.schedule) if caller.operator or run.owner == caller.owner else None
        gone = schedule is not None and schedule.progress.state == ScheduleState.DELETED
        return None if gone and not deleted else schedule

    def _by_public_id(self, public_id: str) -> Schedule | None:
        return self.store.find(public_id) if could_be_an_id(public_id) else None

    @expected
    def search(self, caller: Caller, query: ScheduleQuery) -> Result[Page[Schedule]]:
        return Ok(self.store.search(query if caller.operator else replace(query, owner=caller.owner)))

    def coming(self, caller: Caller, until: Instant | None, limit: int, owner: str | None = None) -> list[Schedule]:
        """What fires next, in time order. An operator sees all owners, or one of them."""
        whose = owner if caller.operator else caller.owner
        lanes = [lane_of(kind, at_most_once=exact) for kind in self.kinds for exact in (False, True)]
        return self.store.coming(whose, lanes, until, limit)

    def marks(self, caller: Caller, kind: str, subject: str) -> object:
        """Differs after everything that happens to the caller's schedules of a subject; cheap."""
        return self.store.marks(caller.owner, kind, subject)

    @expected
    def runs(self, caller: Caller, query: RunQuery) -> Result[Page[Run]]:
        return Ok(self.store.runs(query if caller.operator else replace(query, owner=caller.owner)))

    @expected
    def history(
        self, caller: Caller, public_id: str, *, limit: int = 20, cursor: str | None = None, count_to: int = COUNTED
    ) -> Result[Page[Run]]:
        """Readable after a delete too: the runs stay with their owner."""
        number = self.number_of(caller, public_id)
        if number is None:
            return NOT_FOUND
        return self.runs(caller, RunQuery(schedule=number, limit=limit, cursor=cursor, count_to=count_to))

    def number_of(self, caller: Caller, public_id: str) -> ScheduleId | None:
        """By which its runs know a schedule, deleted or not; None for what is another owner's."""
        schedule = self._by_public_id(public_id)
        own = schedule is not None and (caller.operator or schedule.definition.owner == caller.owner)
        return schedule.definition.id if schedule is not None and own else None

    def run(self, caller: Caller, run_id: int) -> Run | None:
        run = self.store.run(RunId(run_id)) if 0 < run_id < 2**63 else None
        return run if run is not None and (caller.operator or run.owner == caller.owner) else None

    def attempts(self, caller: Caller, run_id: int) -> list[Attempt]:
        return [] if self.run(caller, run_id) is None else self.store.attempts(RunId(run_id))

    @expected
    def preview(
        self, trigger_type: str, config: Mapping[str, Any], *, timezone: str | None = None, count: int = 5
    ) -> Result[Preview]:
        now = self.clock.now()
        trigger = build_trigger(trigger_type, config, zone=known_zone(timezone or self.zone).key, now=now)
        return Ok(Preview(describe(trigger), upcoming(trigger, now, count), warnings_for(trigger, now)))

    def workers(self) -> list[WorkerRow]:
        return self.store.workers()

    # -- changing -----------------------------------------------------------------------------------------------

    def pause(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Any]:
        return self._change(caller, public_id, kind, changing.pause)

    def resume(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Any]:
        return self._change(caller, public_id, kind, changing.resume, sets_off=True)

    def cancel(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Any]:
        return self._change(caller, public_id, kind, changing.cancel)

    def cancel_pending(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Any]:
        """Only while nothing of it has begun, decided under its lock."""
        return self._change(caller, public_id, kind, _cancel_pending)

    def delete(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Any]:
        return self._change(
            caller, public_id, kind, lambda change: changing.delete(change, remembered(change.schedule.definition))
        )

    def run_now(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Run]:
        return self._change(caller, public_id, kind, changing.fire, sets_off=True)

    @expected
    def _change(
        self,
        caller: Caller,
        public_id: str,
        kind: str | None,
        decide: Callable[[Change], Decision],
        *,
        sets_off: bool = False,
    ) -> Result[Any]:
        """`sets_off`: it runs by what the caller does, so that how deep the caller is counts for it."""
        schedule = self.find(caller, public_id, kind)
        if schedule is None:
            return NOT_FOUND
        now, depth = self.clock.now(), caller.depth if sets_off else 0
        if depth > self.limits.depth:
            return self._too_deep(caller, now)
        return self.store.change(schedule.definition.id, now, lambda change: decide(change._replace(depth=depth)))

    @expected
    def edit(self, caller: Caller, public_id: str, changes: Changes, kind: str | None = None) -> Result[Schedule]:
        schedule = self.find(caller, public_id, kind)
        if schedule is None:
            return NOT_FOUND
        patch = self.drafter.patch(caller, schedule, changes, self.clock.now())
        return self._change(caller, public_id, kind, lambda change: changing.edit(change, patch), sets_off=True)

    @expected
    def retry(self, caller: Caller, run_id: int) -> Result[Run]:
        if caller.depth > self.limits.depth:
            return self._too_deep(caller, self.clock.now())
        return self._change_run(caller, run_id, lambda c, seen: changing.retry(c._replace(depth=caller.depth), seen))

    @expected
    def cancel_run(self, caller: Caller, run_id: int) -> Result[Run]:
        return self._change_run(caller, run_id, changing.cancel_run)

    @expected
    def dismiss(self, caller: Caller, run_id: int) -> Result[Run]:
        """Somebody has dealt with a failed run: it stays in the history, marked by `stop`."""
        return self._change_run(caller, run_id, changing.dismiss)

    def _change_run(self, caller: Caller, run_id: int, decide: Callable[[Change, Run], Decision]) -> Result[Run]:
        run = self.run(caller, run_id)
        return NO_RUN if run is None else self.store.change_run(run.id, self.clock.now(), decide)

    # -- taking what waits ----------------------------------------------------------------------------------------

    @expected
    def take(
        self, caller: Caller, kind: str, subject: str | None = None, lease: int = LEASE, *, least: int = 0
    ) -> Result[Held | None]:
        """The oldest waiting run of the caller's owner, in the caller's hands until it expires; None when none waits.

        Two who ask at once see the same runs; the store lets one have each, and the other goes on to the next. An
        agent's run gets only what is less deep than what it schedules: runs that take what such runs stored, and store
        it anew, would have no end otherwise.
        """
        now = self.clock.now()
        query = RunQuery(
            owner=caller.owner, kind=kind, subject=subject, free_at=now, oldest_first=True, limit=20, count_to=0
        )

        def decide(change: Change, seen: Run) -> Decision:
            return taking.take(change._replace(depth=caller.depth), seen, caller.holder, lease, least)

        while True:
            page = self.store.runs(query)
            for run in page.items:
                taken = self.store.change_run(run.id, now, decide)
                if isinstance(taken, Ok):
                    return Ok(taken.value)
            if page.cursor is None:
                return Ok(None)
            query = replace(query, cursor=page.cursor)

    @expected
    def finish(
        self,
        caller: Caller,
        run_id: int,
        outcome: Completed | Failed | Returned,
        kind: str | None = None,
        *,
        hold: str | None = None,
    ) -> Result[Run]:
        """Not even an operator ends what somebody else has taken: whoever has it may be doing it right now."""
        run = self.run(caller._replace(operator=False), run_id)
        if run is None or (kind is not None and run.kind != kind):
            return taking.not_yours(run_id)
        now = self.clock.now()
        ended: Result[Run] = self.store.change_run(
            run.id, now, lambda c, seen: taking.finish(c, seen, caller.holder, outcome, hold)
        )
        if isinstance(ended, Ok) and caller.holder == run_holder(ended.value.id, ended.value.fence):
            self.give_back(caller, run.kind, taking.LEFT)  # its own run is over, and with it the token it works by
        return ended

    @expected
    def give_back(self, caller: Caller, kind: str, reason: str) -> Result[list[Run]]:
        """All that is in the caller's hands waits again, without an attempt counted. For a holder that ends: others
        need not wait for the end of its lease."""
        query = RunQuery(owner=caller.owner, kind=kind, holder=caller.holder, oldest_first=True, limit=1000, count_to=0)
        ended = [self.finish(caller, run.id, Returned(reason), kind) for run in self.store.runs(query).items]
        return Ok([each.value for each in ended if isinstance(each, Ok)])


def could_be_an_id(text: str) -> bool:
    """Any string may be asked for; what no store can hold is nobody's id."""
    return len(text) <= 200 and is_text(text)


def _cancel_pending(change: Change) -> Decision:
    """While nobody is at work on it: what waits to be taken has not begun."""
    status = status_of(change.schedule.progress)
    live = change.reader.live_runs(change.schedule.definition.id) if status == "running" else []
    untouched = bool(live) and all(run.status != RunStatus.RUNNING and run.holder is None for run in live)
    if status in ("pending", ScheduleState.BROKEN) or untouched:
        return changing.cancel(change)
    return changing.not_possible("cancelled", status)


def upcoming(trigger: Trigger, after: Instant, count: int) -> list[Instant]:
    instants: list[Instant] = []
    following = trigger.next_after(after)
    while following is not None and len(instants) < count:
        instants.append(following)
        following = trigger.next_after(following)
    return instants
