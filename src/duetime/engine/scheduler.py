"""The API for every interface: checks input, ownership and limits, then calls the store. Failures are values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from duetime.engine.checkout import Checkout
from duetime.engine.clock import DAY, Clock, Instant
from duetime.engine.errors import DuetimeError, StoreUnavailable
from duetime.engine.kind import Caller, Kind
from duetime.engine.model import LOCAL, Run, RunStatus, Schedule, ScheduleState, status_of
from duetime.engine.outcome import Alert
from duetime.engine.policy import changes as policy_changes
from duetime.engine.policy.changes import Change, Decision
from duetime.engine.policy.create import Draft
from duetime.engine.policy.follow_ups import alert, drafts_of
from duetime.engine.queries import NOT_FOUND, expected
from duetime.engine.result import Err, Ok, Result
from duetime.engine.store import Created, Store
from duetime.engine.validation import Changes, Drafter, Limits, NewSchedule, fingerprint

KEY_REUSED = Err(
    "key_reused",
    "this idempotency_key was used with other arguments; use another key, or the same arguments",
    {"field": "idempotency_key"},
)
NO_RUN = Err("not_found", "there is no such run")


class Scheduler(Checkout):
    def __init__(
        self,
        store: Store,
        kinds: Mapping[str, Kind],
        clock: Clock,
        *,
        zone: str = "UTC",
        limits: Limits | None = None,
    ) -> None:
        super().__init__(store, kinds, clock, zone)
        self.drafter = Drafter(kinds, zone, limits or Limits())

    @property
    def limits(self) -> Limits:
        return self.drafter.limits

    # -- creating -----------------------------------------------------------------------------------------------

    @expected
    def create(self, caller: Caller, new: NewSchedule) -> Result[Schedule]:
        made = self.create_many(caller, [new])
        return made if isinstance(made, Err) else Ok(made.value[0])

    def made_before(self, caller: Caller, new: NewSchedule) -> Result[Schedule] | None:
        """Return what the same request created under its key, an error for another request, or None for a new key."""
        try:
            made = self._made_by_keys(caller, [new])
        except DuetimeError as error:
            return Err(error.code, error.message)
        return Ok(made.value[0]) if isinstance(made, Ok) else made

    def create_many(self, caller: Caller, news: Sequence[NewSchedule]) -> Result[list[Schedule]]:
        """Create all or none, in one commit."""
        created = self.create_all(caller, news)
        return created if isinstance(created, Err) else Ok([schedule for schedule, _ in created.value])

    @expected
    def create_all(self, caller: Caller, news: Sequence[NewSchedule]) -> Result[list[Created]]:
        """Create all or none, in one commit. `fresh` tells which were created now and not earlier under their keys."""
        known = self._made_by_keys(caller, news)
        if known is not None:
            return known if isinstance(known, Err) else Ok([Created(schedule, False) for schedule in known.value])
        drafts = self.drafts(caller, news)
        if isinstance(drafts, Err):
            return drafts
        created = self._create(drafts.value, {caller.owner: self.limits.schedules}, self._most_bytes(caller.owner))
        if isinstance(created, Err):
            return created
        for draft, (schedule, _) in zip(drafts.value, created.value, strict=True):
            if schedule.definition.fingerprint != draft.definition.fingerprint:
                return KEY_REUSED
        return created

    @expected
    def create_unless_known(self, caller: Caller, news: Sequence[NewSchedule]) -> Result[list[Created]]:
        """Create schedules; a known key returns what it created, whatever is asked for now. `fresh` tells which."""
        drafts = self.drafts(caller, news)
        return (
            drafts
            if isinstance(drafts, Err)
            else self._create(drafts.value, {caller.owner: self.limits.schedules}, self._most_bytes(caller.owner))
        )

    @expected
    def drafts(self, caller: Caller, news: Sequence[NewSchedule]) -> Result[list[Draft]]:
        """Run every check of a create that needs no stored rows, also for schedules that are kept elsewhere."""
        now = self.clock.now()
        if caller.depth > self.limits.depth and any(self._counts_depth(new.kind) for new in news):
            return self._too_deep(caller, now)
        return Ok([self.drafter.draft(caller, new, now) for new in news])

    def _counts_depth(self, kind: str) -> bool:
        found = self.kinds.get(kind)
        return found is None or found.counts_depth

    def _too_deep(self, caller: Caller, now: Instant) -> Err:
        """Refuse a run that schedules too deep, and alert the owner: once a day, however often it is tried."""
        reason = f"an agent's run may schedule at most {self.limits.depth} deep; ask a person to do it"
        text = f"An agent's run tried to schedule a further one and was refused: {reason}."
        told = Alert(f"depth:{now // DAY}", "An agent keeps scheduling itself", text)
        self._create(drafts_of([alert(caller.owner, told)], self.store.messenger, now), {})
        return Err("depth", reason)

    def _made_by_keys(self, caller: Caller, news: Sequence[NewSchedule]) -> Result[list[Schedule]] | None:
        """Return what the keys created, looked up before any check: by now the requested time may have passed."""
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

    def _most_bytes(self, owner: str) -> dict[str, int]:
        limit = self.limits.stored_bytes
        return {} if limit is None or owner == LOCAL else {owner: limit}

    def _create(
        self, drafts: Sequence[Draft], limits: Mapping[str, int], most_bytes: Mapping[str, int] = {}
    ) -> Result[list[Created]]:
        """Create, with one retry: every draft has a key, so a commit whose acknowledgement was lost is not repeated."""
        try:
            return self.store.create(drafts, limits, most_bytes)
        except StoreUnavailable:
            return self.store.create(drafts, limits, most_bytes)

    # -- changing -----------------------------------------------------------------------------------------------

    def pause(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Any]:
        return self._change(caller, public_id, kind, policy_changes.pause)

    def resume(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Any]:
        return self._change(caller, public_id, kind, policy_changes.resume, sets_off=True)

    def cancel(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Any]:
        return self._change(caller, public_id, kind, policy_changes.cancel)

    def cancel_pending(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Any]:
        """Cancel only if nothing of it has begun, decided under its lock."""
        return self._change(caller, public_id, kind, _cancel_pending)

    def delete(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Any]:
        def decide(change: Change) -> Decision:
            deleted = self.kinds.get(change.schedule.definition.kind)
            return policy_changes.delete(change, () if deleted is None else deleted.remembered)

        return self._change(caller, public_id, kind, decide)

    def run_now(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Run]:
        return self._change(caller, public_id, kind, policy_changes.fire, sets_off=True)

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
        """Change a schedule. `sets_off`: the change makes it run, so the caller's depth counts for it."""
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
        full = self._add_bytes(schedule, patch.payload)
        if full is not None:
            return full
        return self._change(caller, public_id, kind, lambda change: policy_changes.edit(change, patch), sets_off=True)

    def _add_bytes(self, schedule: Schedule, payload: str | None) -> Err | None:
        """Count the bytes that an edit adds; return an error if the owner's limit is reached."""
        before = schedule.definition
        more = 0 if payload is None else len(payload.encode()) - len(before.payload.encode())
        for owner, limit in self._most_bytes(before.owner).items() if more > 0 else ():
            added = self.store.add_bytes(owner, more, limit, self.clock.now())
            if isinstance(added, Err):
                return added
        return None

    @expected
    def retry(self, caller: Caller, run_id: int) -> Result[Run]:
        if caller.depth > self.limits.depth:
            return self._too_deep(caller, self.clock.now())
        return self._change_run(
            caller, run_id, lambda c, seen: policy_changes.retry(c._replace(depth=caller.depth), seen)
        )

    @expected
    def cancel_run(self, caller: Caller, run_id: int) -> Result[Run]:
        return self._change_run(caller, run_id, policy_changes.cancel_run)

    @expected
    def dismiss(self, caller: Caller, run_id: int) -> Result[Run]:
        """Mark a failed run as dealt with: it stays in the history, marked by `stop`."""
        return self._change_run(caller, run_id, policy_changes.dismiss)

    def _change_run(self, caller: Caller, run_id: int, decide: Callable[[Change, Run], Decision]) -> Result[Run]:
        run = self.run(caller, run_id)
        return NO_RUN if run is None else self.store.change_run(run.id, self.clock.now(), decide)


def _cancel_pending(change: Change) -> Decision:
    """Cancel if nobody is working on it: a run that waits to be taken has not begun."""
    status = status_of(change.schedule.progress)
    live = change.reader.live_runs(change.schedule.definition.id) if status == "running" else []
    untouched = bool(live) and all(run.status != RunStatus.RUNNING and run.holder is None for run in live)
    if status in ("pending", ScheduleState.BROKEN) or untouched:
        return policy_changes.cancel(change)
    return policy_changes.not_possible("cancelled", status)
