"""The one door for every face: checks, owns, limits, and hands over to the store. Expected failures are values."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, ParamSpec, TypeVar

from duetime.core.clock import SECOND, Clock, Instant
from duetime.core.errors import DuetimeError, InvalidInput, StoreUnavailable
from duetime.core.kind import Caller, Kind
from duetime.core.model import Attempt, Definition, Run, RunId, Schedule, ScheduleId, ScheduleState, WorkerRow
from duetime.core.policy import changing
from duetime.core.policy.changing import Change, Decision, Edit
from duetime.core.policy.creating import Draft
from duetime.core.policy.values import make_policy, policy_to_json
from duetime.core.result import Err, Ok, Result
from duetime.core.store import Created, Page, RunQuery, ScheduleQuery, Store
from duetime.core.triggers import (
    Trigger,
    build_trigger,
    describe,
    known_zone,
    trigger_from_json,
    trigger_to_json,
    warnings_for,
)

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one owner may have."""

    schedules: int = 10_000
    smallest_interval: int = 1 * SECOND
    payload_bytes: int = 256 * 1024
    name_length: int = 200
    key_length: int = 200
    depth: int = 3


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """What a caller asks for, unchecked."""

    kind: str
    name: str
    trigger_type: str
    trigger_config: Mapping[str, Any]
    payload: Mapping[str, Any]
    policy: Mapping[str, Any] = field(default_factory=dict)
    timezone: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What an edit asks for; None leaves a part as it is."""

    name: str | None = None
    trigger_type: str | None = None
    trigger_config: Mapping[str, Any] | None = None
    payload: Mapping[str, Any] | None = None
    policy: Mapping[str, Any] | None = None
    timezone: str | None = None
    next: Instant | None = None
    version: int | None = None


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
        self.limits = limits or Limits()
        self._nonce = uuid.uuid4().hex[:12]
        self._numbers = itertools.count()

    # -- making -------------------------------------------------------------------------------------------------

    @expected
    def create(self, caller: Caller, new: NewSchedule) -> Result[Schedule]:
        made = self.create_many(caller, [new])
        return made if isinstance(made, Err) else Ok(made.value[0])

    @expected
    def create_many(self, caller: Caller, news: Sequence[NewSchedule]) -> Result[list[Schedule]]:
        """All or none; one commit for all of them."""
        now = self.clock.now()
        if caller.depth > self.limits.depth:
            return Err("depth", f"an agent's run may schedule at most {self.limits.depth} deep; ask a person to do it")
        drafts = [self._draft(caller, new, now) for new in news]
        created = self._create(drafts, {caller.owner: self.limits.schedules})
        if isinstance(created, Err):
            return created
        for draft, (schedule, _) in zip(drafts, created.value, strict=True):
            if schedule.definition.fingerprint != draft.definition.fingerprint:
                message = "this idempotency_key was used with other arguments; use another key, or the same arguments"
                return Err("key_reused", message, {"field": "idempotency_key"})
        return Ok([schedule for schedule, _ in created.value])

    def _create(self, drafts: Sequence[Draft], limits: Mapping[str, int]) -> Result[list[Created]]:
        """Every draft has a key, so that a commit whose acknowledgement was lost can be asked for again."""
        try:
            return self.store.create(drafts, limits)
        except StoreUnavailable:
            return self.store.create(drafts, limits)

    def _draft(self, caller: Caller, new: NewSchedule, now: Instant) -> Draft:
        kind = self._kind(new.kind)
        name = self._text("name", new.name, self.limits.name_length)
        trigger = self._trigger(new.trigger_type, new.trigger_config, new.timezone, now)
        policy = make_policy(new.policy)
        prepared = kind.prepare(new.payload, caller)
        first = trigger.next_after(Instant(now - 1) if trigger.type == "once" else now)  # once may mean this instant
        if first is None:
            raise InvalidInput("trigger_config: it would never fire", field="trigger_config")
        definition = Definition(
            id=ScheduleId(0),
            public_id=kind.public_id(now),
            kind=new.kind,
            owner=caller.owner,
            name=name,
            subject=prepared.subject,
            trigger=trigger_to_json(trigger),
            payload=self._payload(prepared.payload),
            policy=policy_to_json(policy),
            depth=caller.depth,
            version=1,
            key=self._key(new.idempotency_key, now),
            fingerprint=_fingerprint(new),
            created=now,
            updated=now,
        )
        return Draft(definition, first)

    def _kind(self, name: str) -> Kind:
        if name not in self.kinds:
            raise InvalidInput(f"kind: there is no {name!r}; there are {', '.join(sorted(self.kinds))}", field="kind")
        return self.kinds[name]

    def _trigger(self, type_: str, config: Mapping[str, Any], zone: str | None, now: Instant) -> Trigger:
        trigger = build_trigger(type_, config, zone=known_zone(zone or self.zone).key, now=now)
        self._check_pace(trigger, now)
        return trigger

    def _check_pace(self, trigger: Trigger, now: Instant) -> None:
        """The smallest gap among the first few occurrences."""
        smallest = self.limits.smallest_interval
        before = trigger.next_after(now)
        for _ in range(5):
            following = None if before is None else trigger.next_after(before)
            if before is None or following is None:
                return
            if following - before < smallest:
                message = f"trigger_config: it fires more often than every {smallest / SECOND:g} s, which is the limit"
                raise InvalidInput(message, field="trigger_config")
            before = following

    def _payload(self, payload: Mapping[str, Any]) -> str:
        try:
            text = json.dumps(payload, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
            size = len(text.encode("utf-8"))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"payload: it is not plain JSON ({type(error).__name__})", field="payload") from error
        if size > self.limits.payload_bytes:
            raise InvalidInput(
                f"payload: it has {size} bytes, and the limit is {self.limits.payload_bytes};"
                " store the data elsewhere and pass a reference to it",
                field="payload",
            )
        return text

    def _text(self, name: str, value: str, longest: int) -> str:
        if not value.strip():
            raise InvalidInput(f"{name}: must not be empty", field=name)
        if len(value) > longest:
            raise InvalidInput(f"{name}: has {len(value)} characters, and the limit is {longest}", field=name)
        if "\x00" in value or not _encodable(value):
            raise InvalidInput(f"{name}: holds characters that are no text (NUL or lone surrogates)", field=name)
        return value

    def _key(self, given: str | None, now: Instant) -> str:
        if given is not None:
            return self._text("idempotency_key", given, self.limits.key_length)
        return f"~{now:016x}-{next(self._numbers):x}-{self._nonce}"

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

    def _by_public_id(self, public_id: str) -> Schedule | None:
        """Any string may be asked for; what no store can hold is nobody's id."""
        storable = len(public_id) <= 200 and "\x00" not in public_id and _encodable(public_id)
        return self.store.find(public_id) if storable else None

    @expected
    def search(self, caller: Caller, query: ScheduleQuery) -> Result[Page[Schedule]]:
        return Ok(self.store.search(query if caller.operator else replace(query, owner=caller.owner)))

    @expected
    def runs(self, caller: Caller, query: RunQuery) -> Result[Page[Run]]:
        return Ok(self.store.runs(query if caller.operator else replace(query, owner=caller.owner)))

    @expected
    def history(
        self, caller: Caller, public_id: str, *, limit: int = 20, cursor: str | None = None
    ) -> Result[Page[Run]]:
        """Readable after a delete too: the runs stay with their owner."""
        schedule = self._by_public_id(public_id)
        if schedule is None or not (caller.operator or schedule.definition.owner == caller.owner):
            return NOT_FOUND
        return self.runs(caller, RunQuery(schedule=schedule.definition.id, limit=limit, cursor=cursor))

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
        return self._change(caller, public_id, kind, changing.resume)

    def cancel(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Any]:
        return self._change(caller, public_id, kind, changing.cancel)

    def delete(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Any]:
        return self._change(caller, public_id, kind, changing.delete)

    def run_now(self, caller: Caller, public_id: str, kind: str | None = None) -> Result[Run]:
        return self._change(caller, public_id, kind, changing.fire)

    @expected
    def _change(
        self, caller: Caller, public_id: str, kind: str | None, decide: Callable[[Change], Decision]
    ) -> Result[Any]:
        schedule = self.find(caller, public_id, kind)
        if schedule is None:
            return NOT_FOUND
        return self.store.change(schedule.definition.id, self.clock.now(), decide)

    @expected
    def edit(self, caller: Caller, public_id: str, changes: Changes, kind: str | None = None) -> Result[Schedule]:
        schedule = self.find(caller, public_id, kind)
        if schedule is None:
            return NOT_FOUND
        now = self.clock.now()
        patch = self._patch(caller, schedule, changes, now)
        return self.store.change(schedule.definition.id, now, lambda change: changing.edit(change, patch))

    def _patch(self, caller: Caller, schedule: Schedule, changes: Changes, now: Instant) -> Edit:
        definition = schedule.definition
        payload, subject, trigger, policy = None, None, None, None
        if changes.payload is not None:
            prepared = self._kind(definition.kind).prepare(changes.payload, caller)
            payload, subject = self._payload(prepared.payload), prepared.subject
        if changes.trigger_type is not None:
            zone = changes.timezone or trigger_from_json(definition.trigger).timezone
            trigger = trigger_to_json(self._trigger(changes.trigger_type, changes.trigger_config or {}, zone, now))
        if changes.policy is not None:
            merged = {**json.loads(definition.policy), **changes.policy}
            policy = policy_to_json(make_policy(merged))
        name = None if changes.name is None else self._text("name", changes.name, self.limits.name_length)
        if changes.next is not None and changes.next <= now:
            raise InvalidInput("next: it is in the past", field="next")
        return Edit(name, subject, trigger, payload, policy, changes.next, changes.version)

    @expected
    def retry(self, caller: Caller, run_id: int) -> Result[Run]:
        return self._change_run(caller, run_id, changing.retry)

    @expected
    def cancel_run(self, caller: Caller, run_id: int) -> Result[Run]:
        return self._change_run(caller, run_id, changing.cancel_run)

    def _change_run(self, caller: Caller, run_id: int, decide: Callable[[Change, Run], Decision]) -> Result[Run]:
        run = self.run(caller, run_id)
        return NO_RUN if run is None else self.store.change_run(run.id, self.clock.now(), decide)


def upcoming(trigger: Trigger, after: Instant, count: int) -> list[Instant]:
    instants: list[Instant] = []
    following = trigger.next_after(after)
    while following is not None and len(instants) < count:
        instants.append(following)
        following = trigger.next_after(following)
    return instants


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _fingerprint(new: NewSchedule) -> str:
    """Of the arguments as they were given: a time such as `in 2 hours` is the same request a minute later."""
    parts = [new.kind, new.name, new.trigger_type, new.trigger_config, new.payload, new.policy, new.timezone]
    text = json.dumps(parts, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
