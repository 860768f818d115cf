"""The API for every interface: checks input, ownership and limits, then calls the store. Refusals are raised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

from duetime.engine.actor import FILE_KEYS, RUN, text_of
from duetime.engine.checkout import Checkout
from duetime.engine.clock import DAY, Instant
from duetime.engine.encoding import encode_whole
from duetime.engine.errors import Conflict, InvalidInput, KeyReused, LimitReached, Refused, StoreUnavailable
from duetime.engine.fingerprint import fingerprint, is_same_request
from duetime.engine.kind import Caller
from duetime.engine.lazy_sequence import LazyMap
from duetime.engine.limits import MAX_EVENT_BYTES, Limits
from duetime.engine.model import (
    FOLLOWED,
    LOCAL,
    OVER,
    Definition,
    EventRow,
    Run,
    RunStatus,
    Schedule,
    ScheduleId,
    status_of,
)
from duetime.engine.outcome import Alert
from duetime.engine.policy import changes as policy_changes
from duetime.engine.policy.batches import Batch
from duetime.engine.policy.decision import Change, Decision, RunDecider
from duetime.engine.policy.follow_ups import alert, drafts_of
from duetime.engine.policy.incidents import IncidentRow
from duetime.engine.policy.rows import Draft
from duetime.engine.queries import no_run, no_schedule
from duetime.engine.scopes import DELETE, WRITE, check, group_of
from duetime.engine.store import Creation
from duetime.engine.store_interfaces import SentEvent
from duetime.engine.validation import Changes, NewSchedule

T = TypeVar("T")

_RUNS_PER_TRANSACTION = 50
"""Number of runs that one transaction changes."""
REPEATED_EDITS = 100
"""How often an edit is repeated while others edit the same schedule; each time, another edit took effect."""
OPERATORS_OWN = "duetime:"
"""Prefix of the idempotency keys of schedules that belong to the operator, such as the heartbeat."""


_schedule_of = itemgetter(Creation._fields.index("schedule"))


class Scheduler(Checkout):
    notices: Sequence[tuple[str, str]] = ()
    """Codes and texts of notices for everybody who creates something in this process; set by whoever builds it."""
    request_trace: Callable[[], str] = str
    """Returns the trace of the request in this context; empty without tracing."""

    @property
    def limits(self) -> Limits:
        return self.drafter.limits

    # -- creating -----------------------------------------------------------------------------------------------

    def create(self, caller: Caller, new: NewSchedule) -> Schedule:
        return self.create_all(caller, [new])[0].schedule

    def find_created(self, caller: Caller, new: NewSchedule) -> Schedule | None:
        """Return what the same request created under its key, or None for a new key. Raises `key_reused` if the key was
        used for another request."""
        schedules = self._find_created_by_keys(caller, [new])
        return None if schedules is None else schedules[0]

    def create_many(self, caller: Caller, news: Sequence[NewSchedule]) -> Sequence[Schedule]:
        """Create all or none, in one commit."""
        return LazyMap(self.create_all(caller, news), _schedule_of)

    def create_all(
        self, caller: Caller, news: Sequence[NewSchedule], *, any_request: bool = False
    ) -> Sequence[Creation]:
        """Create all or none, in one commit. `fresh` says which were created now and not earlier under their keys. With
        `any_request`, a known key returns what was created with it, whatever the request says now."""
        if caller.scopes:
            check(caller.scopes, WRITE, *(f"kind:{new.kind}" for new in news))
        known = None if any_request else self._find_created_by_keys(caller, news)
        if known is not None:
            return [Creation(schedule, False) for schedule in known]
        if any(new.trigger_type == "after" for new in news):
            news = [new._replace(trigger_config=self._follow(caller, new)) for new in news]
        drafts = self.drafts(caller, news)
        created = self._create(drafts, {caller.owner: self.limits.schedules}, self._most_bytes(caller.owner))
        if any_request:
            return created
        for place, new in enumerate(news):
            if new.idempotency_key is None:
                continue  # what is not fresh can only be a create that is repeated here
            schedule, fresh = created[place]
            if not fresh and not is_same_request(schedule.definition.fingerprint, new, self.zone):
                raise KeyReused
        return created

    def _follow(
        self, caller: Caller, request: NewSchedule | Changes, stored: Definition | None = None
    ) -> Mapping[str, Any]:
        """Return the configuration of a trigger with the schedule that it follows, if it follows one. From now on, the
        ends of runs of that one are events, so that what is then created misses none."""
        config = self.with_followed(caller, request.trigger_type, request.trigger_config or {}, stored)
        if request.trigger_type == "after":
            self.store.follow(config[FOLLOWED][0])
        return config

    def plan(self, caller: Caller, new: NewSchedule) -> Draft:
        """Draft a schedule that is created later, together with the one that it may follow."""
        config = new.trigger_config
        if new.trigger_type == "after":
            followed = 0, str(config.get("schedule")), str(config.get("name"))
            new = new._replace(trigger_config={**config, FOLLOWED: followed})
        return self.drafts(caller, [new])[0]

    def drafts(self, caller: Caller, news: Sequence[NewSchedule]) -> Sequence[Draft]:
        """Run every check of a create that needs no stored rows; also for schedules that an external service keeps."""
        for new in news if not caller.operator else ():
            if (new.idempotency_key or "").startswith((OPERATORS_OWN, FILE_KEYS)):
                raise InvalidInput(f"idempotency_key: must not begin with {OPERATORS_OWN} or {FILE_KEYS}; use another")
        now = self.clock.now()
        if caller.depth and any(new.kind not in self.kinds or self.kinds[new.kind].counts_depth for new in news):
            self._check_depth(caller, now)
        drafts = self.drafter.drafts(caller, news, now, self.own_task(caller) if caller.depth else None)
        if caller.scopes:
            self.check_scopes(caller, WRITE, *(draft.definition for draft in drafts))
        return drafts

    def own_task(self, caller: Caller) -> Schedule | None:
        """Return the schedule of the agent's run that calls; None for a token that is not a run's, and for an operator
        who imports what a run wrote, perhaps in another store."""
        type_, number, _ = caller.actor
        owner = Caller(caller.owner)  # whatever else the run may see
        is_run = type_ == RUN and number.isdecimal() and not caller.operator
        run = self.run(owner, int(number)) if is_run else None
        return None if run is None else self.schedule_of(owner, run)

    def _check_depth(self, caller: Caller, now: Instant) -> None:
        """Refuse a run that schedules too deep, and alert the owner once a day, however often the run tries."""
        if caller.depth <= self.limits.depth:
            return
        reason = f"an agent's run may schedule at most {self.limits.depth} deep; ask a person to do it"
        text = f"An agent's run tried to schedule a further one and was refused: {reason}."
        news = Alert(f"depth:{now // DAY}", "An agent keeps scheduling itself", text)
        self._create(drafts_of([alert(caller.owner, news)], self.store.messenger, now), {})
        raise LimitReached(reason, code="depth")

    def _find_created_by_keys(self, caller: Caller, news: Sequence[NewSchedule]) -> list[Schedule] | None:
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
                raise KeyReused
            if schedule is not None:
                schedules.append(schedule)
        return schedules if schedules and len(schedules) == len(news) else None

    def _most_bytes(self, owner: str) -> dict[str, int]:
        limit = self.limits.stored_bytes
        return {} if limit is None or owner == LOCAL else {owner: limit}

    def _create(
        self, drafts: Sequence[Draft], limits: Mapping[str, int], most_bytes: Mapping[str, int] = {}
    ) -> Sequence[Creation]:
        """Create, with one retry: every draft has a key, so a commit whose acknowledgement was lost is not repeated."""
        try:
            return self.store.create(drafts, limits, most_bytes)
        except StoreUnavailable:
            return self.store.create(drafts, limits, most_bytes)

    # -- events -------------------------------------------------------------------------------------------------

    def emit(
        self, caller: Caller, name: str, data: Any, key: str | None = None, *, is_persons: bool = False
    ) -> SentEvent:
        """Store an event of the caller's owner. An agent's run, and a token for some kinds or agents, may send only
        names that begin with `agent.`, so that it cannot start what may do more than itself. `is_persons`: a person
        wrote what the run does."""
        from duetime.engine.triggers.event import AGENTS, check_name  # few processes send events

        check(caller.scopes, WRITE)
        check_name(name)
        now = self.clock.now()
        is_run = caller.depth and not is_persons
        if (is_run or any(map(group_of, caller.scopes))) and not name.startswith(AGENTS):
            who, code = ("an agent's run", "run_token") if is_run else ("a token for some kinds or agents", "scope")
            problem = f"{who} may send only events whose names begin with {AGENTS}; send {AGENTS}{name}"
            raise Refused(f"event: {problem}", code=code, details={"field": "event"})
        self._check_depth(caller, now)
        text = encode_whole(data)
        if (size := len(text.encode())) > MAX_EVENT_BYTES:
            message = f"data: it has {size:,} bytes, and {MAX_EVENT_BYTES:,} are possible; send a reference to it"
            raise LimitReached(message, code="too_large", details={"field": "data"})
        key = self.drafter.key(key, now) if key is not None or self.request_trace() else None
        event = EventRow(0, caller.owner, name, key, now, caller.depth, text)
        return self.store.emit(event, self._most_bytes(caller.owner).get(caller.owner))

    # -- changing -----------------------------------------------------------------------------------------------

    def pause(
        self,
        caller: Caller,
        public_id: str | Schedule,
        kind: str | None = None,
        *,
        until: Instant | None = None,
        note: str | None = None,
        requested: Instant | None = None,
    ) -> Schedule:
        """Pause a schedule until it is resumed, or until an instant at which it resumes automatically. `requested`:
        when this was requested, if that was earlier; an end that has passed since then is no error."""
        self.drafter.check_pause(until, note, self.clock.now() if requested is None else requested)
        return self._change(caller, public_id, kind, lambda change: policy_changes.pause(change, until, note))

    def resume(self, caller: Caller, public_id: str | Schedule, kind: str | None = None) -> Schedule:
        return self._change(caller, public_id, kind, policy_changes.resume, sets_off=True)

    def cancel(self, caller: Caller, public_id: str | Schedule, kind: str | None = None) -> Schedule:
        return self._change(caller, public_id, kind, policy_changes.cancel, action=DELETE)

    def cancel_pending(
        self, caller: Caller, public_id: str, kind: str | None = None, *, stop_running: bool = False
    ) -> Schedule:
        """Cancel a schedule only if none of its runs has begun, decided under its lock; with `stop_running`, also if
        one has. A finished schedule cannot be cancelled again."""
        decide = partial(_cancel_pending, stop_running=stop_running)
        return self._change(caller, public_id, kind, decide, action=DELETE)

    def delete(
        self, caller: Caller, public_id: str | Schedule, kind: str | None = None, *, forever: bool = False
    ) -> None:
        """Delete a schedule. Unless that is `forever`, it can be restored for a day."""

        def decide(change: Change) -> Decision[None]:
            deleted = self.kinds.get(change.schedule.definition.kind)
            return policy_changes.delete(change, () if deleted is None else deleted.remembered, forever=forever)

        self._change(caller, public_id, kind, decide, action=DELETE)

    def restore(self, caller: Caller, schedule: Schedule) -> Schedule:
        """Restore a schedule that was cancelled or deleted, as this caller found it."""
        decide = partial(policy_changes.restore, max_schedules=self.limits.schedules)
        return self._change(caller, schedule, None, decide, sets_off=True)

    def run_now(self, caller: Caller, public_id: str, kind: str | None = None, *, force: bool = False) -> Run:
        """Run a schedule now. With `force`, its gate is not checked."""
        decide = partial(policy_changes.fire, force=force, trace=self.request_trace())
        return self._change(caller, public_id, kind, decide, sets_off=True, operators_own=True)

    def run_with(self, caller: Caller, schedule: Schedule, payload: Mapping[str, Any], *, force: bool = False) -> Run:
        """Run a schedule now with another input, which is checked as at creation. The schedule keeps its own input."""
        definition = schedule.definition
        self.check_scopes(caller, WRITE, definition)
        text = self.drafter.input(caller, definition, payload)
        for owner, limit in self._most_bytes(definition.owner).items():
            self.store.add_bytes(owner, len(text.encode()), limit, self.clock.now())
        decide = partial(policy_changes.fire, payload=text, force=force, trace=self.request_trace())
        return self._change(caller, schedule, None, decide, sets_off=True)

    def _change(
        self,
        caller: Caller,
        public_id: str | Schedule,
        kind: str | None,
        decide: Callable[[Change], Decision[T]],
        *,
        sets_off: bool = False,
        operators_own: bool = False,
        action: str = WRITE,
    ) -> T:
        """Change a schedule, given by its id or as this caller found it. `sets_off`: the change makes it run, so the
        caller's depth counts. `operators_own`: everybody may make this change, even if the schedule belongs to the
        operator."""
        schedule = public_id if isinstance(public_id, Schedule) else self.find(caller, public_id, kind)
        if schedule is None:
            raise no_schedule()
        self.check_scopes(caller, action, schedule.definition)
        if not operators_own:
            check_operator(caller, schedule.definition)
        now, depth, actor = self.clock.now(), caller.depth if sets_off else 0, text_of(caller.actor)
        if sets_off:
            self._check_depth(caller, now)
        return self.store.change(schedule.definition.id, now, lambda c: decide(c._replace(depth=depth, actor=actor)))

    def edit(self, caller: Caller, public_id: str, changes: Changes, kind: str | None = None) -> Schedule:
        """Edit a schedule. Two concurrent edits both take effect, unless the caller names the version it has seen:
        values derived from stored ones are derived again if those changed meanwhile."""
        for _ in range(REPEATED_EDITS):
            try:
                return self._edit(caller, public_id, changes, kind)
            except Conflict as conflict:
                if changes.version is not None or conflict.code != Conflict.code:
                    raise
        return self._edit(caller, public_id, changes, kind)

    def _edit(self, caller: Caller, public_id: str, changes: Changes, kind: str | None) -> Schedule:
        schedule = self.find(caller, public_id, kind)
        if schedule is None:
            raise no_schedule()
        self.check_scopes(caller, WRITE, schedule.definition)
        check_operator(caller, schedule.definition)
        before = schedule.definition
        if changes.trigger_type == "after":
            own = caller._replace(owner=before.owner)
            changes = replace(changes, trigger_config=self._follow(own, changes, before))
        patch = self.drafter.patch(caller, schedule, changes, self.clock.now())
        if patch.payload is not None and patch.subject is not None:
            self.check_scopes(caller, WRITE, before._replace(payload=patch.payload, subject=patch.subject))
        if patch.version is None and (patch.policy, patch.trigger) != (None, None):
            patch = patch._replace(version=before.version)
        texts = (before.payload, patch.payload), (before.policy, patch.policy)
        more = sum(len(new.encode()) - len(old.encode()) for old, new in texts if new is not None)
        for owner, limit in self._most_bytes(before.owner).items() if more > 0 else ():
            self.store.add_bytes(owner, more, limit, self.clock.now())
        edited = self._change(caller, public_id, kind, lambda change: policy_changes.edit(change, patch), sets_off=True)
        if edited.progress.followed and edited.definition.name != before.name:
            self.store.rename_followed(edited)
        return edited

    def carry_out(
        self,
        caller: Caller,
        drafts: Sequence[Draft],
        edits: Mapping[ScheduleId, policy_changes.Edit],
        deletions: Sequence[Definition],
    ) -> list[Schedule]:
        """Create, edit and delete what was planned for one owner; all or nothing. Return what was created."""
        gone = {each.id: self.kinds[each.kind].remembered if each.kind in self.kinds else () for each in deletions}
        limits, most_bytes = {caller.owner: self.limits.schedules}, self._most_bytes(caller.owner)
        batch = Batch(self.clock.now(), text_of(caller.actor), drafts, edits, gone, limits, most_bytes)
        results = self.store.carry_out(batch)
        for each in results[len(drafts) :]:
            if each.progress.followed and edits[each.definition.id].name is not None:
                self.store.rename_followed(each)
        return results[: len(drafts)]

    def retry(self, caller: Caller, run_id: int) -> Run:
        self._check_depth(caller, self.clock.now())
        return self._change_run(caller, run_id, policy_changes.retry)

    def cancel_run(self, caller: Caller, run_id: int, deadline: Instant | None = None) -> Run:
        """Stop a run, or let it stop at a deadline."""
        return self._change_run(caller, run_id, partial(_stop, caller, deadline), DELETE)

    def replace_input(self, caller: Caller, run_id: int, payload: str) -> Run:
        """Replace the input of a run that waits for somebody to take it."""
        return self._change_run(caller, run_id, partial(policy_changes.replace_input, payload=payload))

    def dismiss(self, caller: Caller, run_id: int, *, undo: bool = False) -> Run:
        """Mark a failed run as dealt with, or undo that. The run stays in the history, marked by `stop`."""
        return self._change_run(caller, run_id, partial(policy_changes.dismiss, undo=undo))

    def retry_all(self, caller: Caller, runs: Sequence[Run]) -> list[Run | Refused]:
        """Retry runs that this caller found; runs of one schedule are retried in the order in which they were due. Each
        has its own result, the run or why it was refused; the list is in the order of `ordered`."""
        self._check_depth(caller, self.clock.now())
        return self._change_all(caller, runs, policy_changes.retry)

    def dismiss_all(self, caller: Caller, runs: Sequence[Run], *, undo: bool = False) -> list[Run | Refused]:
        """Mark failed runs that this caller found as dealt with, or undo that."""
        return self._change_all(caller, runs, partial(policy_changes.dismiss, undo=undo))

    def cancel_runs(self, caller: Caller, runs: Sequence[Run]) -> list[Run | Refused]:
        """Stop runs that this caller found."""
        return self._change_all(caller, runs, partial(_stop, caller, None), DELETE)

    def mark_incident(self, caller: Caller, incident: IncidentRow, *, undo: bool = False) -> None:
        """Resolve an incident that this caller found, or reopen it."""
        schedule = self.store.get(incident.schedule)
        if schedule is not None:
            decide = partial(policy_changes.mark_incident, incident=incident.id, undo=undo)
            self._change(caller, schedule, None, decide, operators_own=True)

    def mark_all(self, caller: Caller, runs: Sequence[Run], as_: int, *, undo: bool = False) -> list[Run | Refused]:
        """Mark completed runs that the caller found, for example messages as read, or lower their marks."""
        return self._change_all(caller, runs, partial(policy_changes.mark, as_=as_, undo=undo))

    def _change_all(
        self, caller: Caller, runs: Sequence[Run], decide: RunDecider[Run], action: str = WRITE
    ) -> list[Run | Refused]:
        """Change many runs, a few per transaction, so that no transaction takes long."""
        self.check_runs(caller, runs, action)
        ids, now = [run.id for run in ordered(runs)], self.clock.now()
        batches = (ids[start : start + _RUNS_PER_TRANSACTION] for start in range(0, len(ids), _RUNS_PER_TRANSACTION))
        decide = _by(caller, decide)
        return [result for batch in batches for result in self.store.change_runs(batch, now, decide)]

    def _change_run(self, caller: Caller, run_id: int, decide: RunDecider[Run], action: str = WRITE) -> Run:
        run = self.run(caller, run_id)
        self.check_runs(caller, [] if run is None else [run], action)
        if run is None:
            raise no_run()
        return self.store.change_run(run.id, self.clock.now(), _by(caller, decide))


def ordered(runs: Sequence[Run]) -> list[Run]:
    """Return runs in the order in which many are changed: by schedule, then by due instant."""
    return sorted(runs, key=lambda run: (run.schedule, run.due, run.id))


def _by(caller: Caller, decide: RunDecider[Run]) -> RunDecider[Run]:
    """Return a decision that knows who made it."""
    depth, actor = caller.depth, text_of(caller.actor)
    return lambda change, run: decide(change._replace(depth=depth, actor=actor), run)


def _stop(caller: Caller, deadline: Instant | None, change: Change, run: Run) -> Decision[Run]:
    check_operator(caller, change.schedule.definition)
    if deadline is None:
        return policy_changes.cancel_run(change, run)
    return policy_changes.shorten_run(change, run, deadline)


def check_operator(caller: Caller, definition: Definition) -> None:
    """Refuse to let anybody but the operator change a schedule that belongs to the operator."""
    if not caller.operator and definition.key.startswith(OPERATORS_OWN):
        reason = "it belongs to the operator, who can change it in the settings or on the command line"
        raise Refused(reason, code="operators_only")


def _cancel_pending(change: Change, *, stop_running: bool) -> Decision[Schedule]:
    """Cancel a schedule if nobody is working on it: a run that waits to be taken has not begun. With `stop_running`,
    cancel it in any case, without reading its live runs, which may be many."""
    progress = change.schedule.progress
    status = status_of(progress)
    possible = status in ("pending", "broken") or (stop_running and progress.state not in OVER)
    if status == "running" and not possible:
        live = change.reader.live_runs(progress.schedule)
        possible = bool(live) and all(run.status != RunStatus.RUNNING and run.holder is None for run in live)
    if not possible:
        raise policy_changes.not_possible("cancelled", status)
    return policy_changes.cancel(change)
