"""The API for every interface: checks input, ownership and limits, then calls the store. Failures are values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from duetime.engine.actor import RUN, text_of
from duetime.engine.checkout import Checkout
from duetime.engine.clock import DAY, Clock, Instant
from duetime.engine.errors import DuetimeError, StoreUnavailable
from duetime.engine.fingerprint import fingerprint, is_same_request
from duetime.engine.kind import Caller, Kind
from duetime.engine.lazy_sequence import LazyMap
from duetime.engine.limits import Limits
from duetime.engine.model import LOCAL, OVER, Definition, Run, RunStatus, Schedule, ScheduleState, status_of
from duetime.engine.outcome import Alert
from duetime.engine.policy import changes as policy_changes
from duetime.engine.policy.decision import Change, Decision, RunDecider
from duetime.engine.policy.follow_ups import alert, drafts_of
from duetime.engine.policy.rows import Draft
from duetime.engine.queries import NO_RUN, NOT_FOUND, expected
from duetime.engine.result import Err, Ok, Result
from duetime.engine.scopes import DELETE, WRITE, check
from duetime.engine.store import Creation, Store
from duetime.engine.triggers import Trigger
from duetime.engine.validation import Changes, Drafter, NewSchedule

KEY_REUSED = Err(
    "key_reused",
    "this idempotency_key was used with other arguments; use another key, or the same arguments",
    {"field": "idempotency_key"},
)
_RUNS_PER_TRANSACTION = 50
"""Number of runs that one transaction changes."""
_REPEATED_EDITS = 100
"""How often an edit is repeated while others edit the same schedule; each time, another edit took effect."""
OPERATORS_OWN = "duetime:"
"""Prefix of the idempotency keys of schedules that belong to the operator, such as the heartbeat."""


_schedule_of = itemgetter(Creation._fields.index("schedule"))


class Scheduler(Checkout):
    notices: Sequence[tuple[str, str]] = ()
    """Codes and texts of notices for everybody who creates something in this process; set by whoever builds it."""

    def __init__(
        self, store: Store, kinds: Mapping[str, Kind], clock: Clock, *, zone: str = "UTC", limits: Limits | None = None
    ) -> None:
        super().__init__(store, kinds, clock, zone)
        self.drafter = Drafter(kinds, zone, limits or Limits())

    @property
    def limits(self) -> Limits:
        return self.drafter.limits

    def _check_rule(self, trigger: Trigger, now: Instant) -> None:
        self.drafter.check_rule(trigger, now)

    # -- creating -----------------------------------------------------------------------------------------------

    @expected
    def create(self, caller: Caller, new: NewSchedule) -> Result[Schedule]:
        created = self.create_all(caller, [new])
        return created if isinstance(created, Err) else Ok(created.value[0].schedule)

    def made_before(self, caller: Caller, new: NewSchedule) -> Result[Schedule] | None:
        """Return what the same request created under its key, an error if the key was used for another request, or None
        for a new key."""
        try:
            schedules = self._made_by_keys(caller, [new])
        except DuetimeError as error:
            return Err(error.code, error.message)
        return Ok(schedules.value[0]) if isinstance(schedules, Ok) else schedules

    def create_many(self, caller: Caller, news: Sequence[NewSchedule]) -> Result[Sequence[Schedule]]:
        """Create all or none, in one commit."""
        created = self.create_all(caller, news)
        return created if isinstance(created, Err) else Ok(LazyMap(created.value, _schedule_of))

    @expected
    def create_all(
        self, caller: Caller, news: Sequence[NewSchedule], *, any_request: bool = False
    ) -> Result[Sequence[Creation]]:
        """Create all or none, in one commit. `fresh` says which were created now and not earlier under their keys. With
        `any_request`, a known key returns what was created with it, whatever the request says now."""
        if caller.scopes:
            check(caller.scopes, WRITE, *(f"kind:{new.kind}" for new in news))
        known = None if any_request else self._made_by_keys(caller, news)
        if known is not None:
            return known if isinstance(known, Err) else Ok([Creation(schedule, False) for schedule in known.value])
        drafts = self.drafts(caller, news)
        if isinstance(drafts, Err):
            return drafts
        created = self._create(drafts.value, {caller.owner: self.limits.schedules}, self._most_bytes(caller.owner))
        if isinstance(created, Err) or any_request:
            return created
        for place, new in enumerate(news):
            if new.idempotency_key is None:
                continue  # what is not fresh can only be a create that is repeated here
            schedule, fresh = created.value[place]
            if not fresh and not is_same_request(schedule.definition.fingerprint, new, self.zone):
                return KEY_REUSED
        return created

    @expected
    def drafts(self, caller: Caller, news: Sequence[NewSchedule]) -> Result[Sequence[Draft]]:
        """Run every check of a create that needs no stored rows; also for schedules that an external service keeps."""
        for new in news if not caller.operator else ():
            if (new.idempotency_key or "").startswith(OPERATORS_OWN):
                return Err("invalid", f"idempotency_key: must not begin with {OPERATORS_OWN}; use another key")
        now = self.clock.now()
        if caller.depth > self.limits.depth and any(
            new.kind not in self.kinds or self.kinds[new.kind].counts_depth for new in news
        ):
            return self._too_deep(caller, now)
        drafts = self.drafter.drafts(caller, news, now, self.own_task(caller) if caller.depth else None)
        if caller.scopes:
            self.check_scopes(caller, WRITE, *(draft.definition for draft in drafts))
        return Ok(drafts)

    def own_task(self, caller: Caller) -> Schedule | None:
        """Return the schedule of the agent's run that calls; None for a token that is not a run's, and for an operator
        who imports what a run wrote, perhaps in another store."""
        type_, number, _ = caller.actor
        owner = Caller(caller.owner)  # whatever else the run may see
        is_run = type_ == RUN and number.isdecimal() and not caller.operator
        run = self.run(owner, int(number)) if is_run else None
        return None if run is None else self.schedule_of(owner, run)

    def _too_deep(self, caller: Caller, now: Instant) -> Err:
        """Refuse a run that schedules too deep, and alert the owner once a day, however often the run tries."""
        reason = f"an agent's run may schedule at most {self.limits.depth} deep; ask a person to do it"
        text = f"An agent's run tried to schedule a further one and was refused: {reason}."
        news = Alert(f"depth:{now // DAY}", "An agent keeps scheduling itself", text)
        self._create(drafts_of([alert(caller.owner, news)], self.store.messenger, now), {})
        return Err("depth", reason)

    def _made_by_keys(self, caller: Caller, news: Sequence[NewSchedule]) -> Result[list[Schedule]] | None:
        """Return what was created with the keys. This comes before any check, because the requested time may have
        passed by now."""
        schedules: list[Schedule] = []
        fingerprints: dict[str, str] = {}
        for new in news:
            if new.idempotency_key is None:
                continue
            key, own = self.drafter.key(new.idempotency_key, Instant(0)), fingerprint(new, self.zone)
            schedule = self.store.by_key(caller.owner, key)
            first = fingerprints.setdefault(key, own if schedule is None else schedule.definition.fingerprint)
            if first != own and not is_same_request(first, new, self.zone):
                return KEY_REUSED
            if schedule is not None:
                schedules.append(schedule)
        return Ok(schedules) if schedules and len(schedules) == len(news) else None

    def _most_bytes(self, owner: str) -> dict[str, int]:
        limit = self.limits.stored_bytes
        return {} if limit is None or owner == LOCAL else {owner: limit}

    def _create(
        self, drafts: Sequence[Draft], limits: Mapping[str, int], most_bytes: Mapping[str, int] = {}
    ) -> Result[Sequence[Creation]]:
        """Create, with one retry: every draft has a key, so a commit whose acknowledgement was lost is not repeated."""
        try:
            return self.store.create(drafts, limits, most_bytes)
        except StoreUnavailable:
            return self.store.create(drafts, limits, most_bytes)

    # -- changing -----------------------------------------------------------------------------------------------

    @expected
    def pause(
        self,
        caller: Caller,
        public_id: str | Schedule,
        kind: str | None = None,
        *,
        until: Instant | None = None,
        note: str | None = None,
        requested: Instant | None = None,
    ) -> Result[Schedule]:
        """Pause a schedule until it is resumed, or until an instant at which it resumes automatically. `requested`:
        when this was requested, if that was earlier; an end that has passed since then is no error."""
        self.drafter.check_pause(until, note, self.clock.now() if requested is None else requested)
        return self._change(caller, public_id, kind, lambda change: policy_changes.pause(change, until, note))

    def resume(self, caller: Caller, public_id: str | Schedule, kind: str | None = None) -> Result[Schedule]:
        return self._change(caller, public_id, kind, policy_changes.resume, sets_off=True)

    def cancel(self, caller: Caller, public_id: str | Schedule, kind: str | None = None) -> Result[Schedule]:
        return self._change(caller, public_id, kind, policy_changes.cancel, action=DELETE)

    def cancel_pending(
        self, caller: Caller, public_id: str, kind: str | None = None, *, stop_running: bool = False
    ) -> Result[Any]:
        """Cancel a schedule only if none of its runs has begun, decided under its lock; with `stop_running`, also if
        one has. A finished schedule cannot be cancelled again."""
        decide = _cancel_living if stop_running else _cancel_pending
        return self._change(caller, public_id, kind, decide, action=DELETE)

    def delete(self, caller: Caller, public_id: str | Schedule, kind: str | None = None) -> Result[Any]:
        def decide(change: Change) -> Decision:
            deleted = self.kinds.get(change.schedule.definition.kind)
            return policy_changes.delete(change, () if deleted is None else deleted.remembered)

        return self._change(caller, public_id, kind, decide, action=DELETE)

    def run_now(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Run]:
        return self._change(caller, public_id, kind, policy_changes.fire, sets_off=True, operators_own=True)

    @expected
    def run_with(self, caller: Caller, schedule: Schedule, payload: Mapping[str, Any]) -> Result[Run]:
        """Run a schedule now with another input, which is checked as at creation. The schedule keeps its own input."""
        definition = schedule.definition
        self.check_scopes(caller, WRITE, definition)
        text = self.drafter.input(caller, definition, payload)
        for owner, limit in self._most_bytes(definition.owner).items():
            added = self.store.add_bytes(owner, len(text.encode()), limit, self.clock.now())
            if isinstance(added, Err):
                return added
        return self._change(caller, schedule, None, lambda change: policy_changes.fire(change, text), sets_off=True)

    @expected
    def _change(
        self,
        caller: Caller,
        public_id: str | Schedule,
        kind: str | None,
        decide: Callable[[Change], Decision],
        *,
        sets_off: bool = False,
        operators_own: bool = False,
        action: str = WRITE,
    ) -> Result[Any]:
        """Change a schedule, given by its id or as this caller found it. `sets_off`: the change makes it run, so the
        caller's depth counts. `operators_own`: everybody may make this change, even if the schedule belongs to the
        operator."""
        schedule = public_id if isinstance(public_id, Schedule) else self.find(caller, public_id, kind)
        if schedule is None:
            return NOT_FOUND
        self.check_scopes(caller, action, schedule.definition)
        if not operators_own and (refused := operators_only(caller, schedule.definition)) is not None:
            return refused
        now, depth, actor = self.clock.now(), caller.depth if sets_off else 0, text_of(caller.actor)
        if depth > self.limits.depth:
            return self._too_deep(caller, now)
        return self.store.change(schedule.definition.id, now, lambda c: decide(c._replace(depth=depth, actor=actor)))

    @expected
    def edit(self, caller: Caller, public_id: str, changes: Changes, kind: str | None = None) -> Result[Schedule]:
        """Edit a schedule. Two concurrent edits both take effect, unless the caller names the version it has seen:
        values derived from stored ones are derived again if those changed meanwhile."""
        result = self._edit(caller, public_id, changes, kind)
        for _ in range(_REPEATED_EDITS):
            if changes.version is not None or not isinstance(result, Err) or result.code != "conflict":
                break
            result = self._edit(caller, public_id, changes, kind)
        return result

    def _edit(self, caller: Caller, public_id: str, changes: Changes, kind: str | None) -> Result[Schedule]:
        schedule = self.find(caller, public_id, kind)
        if schedule is None:
            return NOT_FOUND
        self.check_scopes(caller, WRITE, schedule.definition)
        if (refused := operators_only(caller, schedule.definition)) is not None:
            return refused
        patch = self.drafter.patch(caller, schedule, changes, self.clock.now())
        before = schedule.definition
        if patch.payload is not None and patch.subject is not None:
            self.check_scopes(caller, WRITE, before._replace(payload=patch.payload, subject=patch.subject))
        if patch.version is None and (patch.policy, patch.trigger) != (None, None):
            patch = patch._replace(version=before.version)
        texts = (before.payload, patch.payload), (before.policy, patch.policy)
        more = sum(len(new.encode()) - len(old.encode()) for old, new in texts if new is not None)
        for owner, limit in self._most_bytes(before.owner).items() if more > 0 else ():
            added = self.store.add_bytes(owner, more, limit, self.clock.now())
            if isinstance(added, Err):
                return added
        return self._change(caller, public_id, kind, lambda change: policy_changes.edit(change, patch), sets_off=True)

    @expected
    def retry(self, caller: Caller, run_id: int) -> Result[Run]:
        if caller.depth > self.limits.depth:
            return self._too_deep(caller, self.clock.now())
        return self._change_run(caller, run_id, _retry(caller))

    @expected
    def cancel_run(self, caller: Caller, run_id: int) -> Result[Run]:
        def decide(change: Change, run: Run) -> Decision:
            return operators_only(caller, change.schedule.definition) or policy_changes.cancel_run(change, run)

        return self._change_run(caller, run_id, decide, DELETE)

    @expected
    def replace_input(self, caller: Caller, run_id: int, payload: str) -> Result[Run]:
        """Replace the input of a run that waits for somebody to take it."""
        return self._change_run(caller, run_id, partial(policy_changes.replace_input, payload=payload))

    @expected
    def dismiss(self, caller: Caller, run_id: int, *, undo: bool = False) -> Result[Run]:
        """Mark a failed run as dealt with, or undo that. The run stays in the history, marked by `stop`."""
        return self._change_run(caller, run_id, partial(policy_changes.dismiss, undo=undo))

    @expected
    def retry_all(self, caller: Caller, runs: Sequence[Run]) -> Result[list[Result[Run]]]:
        """Retry runs that this caller found; runs of one schedule are retried in the order in which they were due. Each
        has its own result; the list is in the order of `ordered`."""
        if caller.depth > self.limits.depth:
            return self._too_deep(caller, self.clock.now())
        return Ok(self._change_all(caller, runs, _retry(caller)))

    @expected
    def dismiss_all(self, caller: Caller, runs: Sequence[Run], *, undo: bool = False) -> Result[list[Result[Run]]]:
        """Mark failed runs that this caller found as dealt with, or undo that."""
        return Ok(self._change_all(caller, runs, partial(policy_changes.dismiss, undo=undo)))

    @expected
    def mark_all(
        self, caller: Caller, runs: Sequence[Run], as_: int, *, undo: bool = False
    ) -> Result[list[Result[Run]]]:
        """Mark completed runs that the caller found, for example messages as read, or lower their marks."""
        return Ok(self._change_all(caller, runs, partial(policy_changes.mark, as_=as_, undo=undo)))

    def _change_all(self, caller: Caller, runs: Sequence[Run], decide: RunDecider) -> list[Result[Run]]:
        """Change many runs, a few per transaction, so that no transaction takes long."""
        self.check_runs(caller, runs)
        ids, now = [run.id for run in ordered(runs)], self.clock.now()
        batches = (ids[start : start + _RUNS_PER_TRANSACTION] for start in range(0, len(ids), _RUNS_PER_TRANSACTION))
        return [result for batch in batches for result in self.store.change_runs(batch, now, decide)]

    def _change_run(self, caller: Caller, run_id: int, decide: RunDecider, action: str = WRITE) -> Result[Run]:
        run = self.run(caller, run_id)
        self.check_runs(caller, [] if run is None else [run], action)
        return NO_RUN if run is None else self.store.change_run(run.id, self.clock.now(), decide)


def ordered(runs: Sequence[Run]) -> list[Run]:
    """Return runs in the order in which many are changed: by schedule, then by due instant."""
    return sorted(runs, key=lambda run: (run.schedule, run.due, run.id))


def _retry(caller: Caller) -> RunDecider:
    depth, actor = caller.depth, text_of(caller.actor)
    return lambda change, run: policy_changes.retry(change._replace(depth=depth, actor=actor), run)


def _cancel_living(change: Change) -> Decision:
    progress = change.schedule.progress
    over = progress.state in OVER
    return policy_changes.not_possible("cancelled", status_of(progress)) if over else policy_changes.cancel(change)


def operators_only(caller: Caller, definition: Definition) -> Err | None:
    """Return the reason why a caller may not change a schedule that belongs to the operator, or None."""
    if caller.operator or not definition.key.startswith(OPERATORS_OWN):
        return None
    return Err("operators_only", "it belongs to the operator, who can change it in the settings or on the command line")


def _cancel_pending(change: Change) -> Decision:
    """Cancel a schedule if nobody is working on it: a run that waits to be taken has not begun."""
    status = status_of(change.schedule.progress)
    live = change.reader.live_runs(change.schedule.definition.id) if status == "running" else []
    untouched = bool(live) and all(run.status != RunStatus.RUNNING and run.holder is None for run in live)
    if status in ("pending", ScheduleState.BROKEN) or untouched:
        return policy_changes.cancel(change)
    return policy_changes.not_possible("cancelled", status)
