"""Validation of requests: every check of a create and of an edit."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import count, islice
from typing import Any

from duetime.engine.actor import text_of
from duetime.engine.clock import SECOND, Instant
from duetime.engine.encoding import json_object
from duetime.engine.errors import InvalidInput
from duetime.engine.fingerprint import fingerprint
from duetime.engine.kind import Caller, Kind, Prepared, gates_of
from duetime.engine.limits import Limits, RequestChecks
from duetime.engine.model import Definition, Schedule
from duetime.engine.narrowing import check_edit, check_new, check_payload, inherit
from duetime.engine.new_schedule import NewSchedule
from duetime.engine.policy.bulk import KEY, PUBLIC_ID, Column, Drafts
from duetime.engine.policy.catch_up import LEAD
from duetime.engine.policy.changes import Edit
from duetime.engine.policy.options import CatchUp, Overlap, Policy, policy_for_ending, policy_to_json
from duetime.engine.policy.rows import Draft
from duetime.engine.rule_edits import beginning, check_end, from_then_on, move_once
from duetime.engine.times.zones import past_problem
from duetime.engine.triggers import CronTrigger, Trigger, trigger_to_json
from duetime.engine.triggers.build import readable
from duetime.engine.value_class import NamedTuple, dataclass

__all__ = ["Changes", "Drafter", "NewSchedule"]

NOTE_LENGTH = 500
_new = tuple.__new__  # costs half as much as calling a named tuple


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes that an edit requests; None leaves a part as it is."""

    name: str | None = None
    trigger_type: str | None = None
    trigger_config: Mapping[str, Any] | None = None
    payload: Mapping[str, Any] | None = None
    policy: Mapping[str, Any] | None = None
    timezone: str | None = None
    next: Instant | None = None
    starting: Instant | None = None
    """When the new trigger replaces the old one; at once if absent."""
    version: int | None = None
    amid_runs: bool = False
    """Allow the edit while runs are active; only for runs that are independent of each other."""
    pending_only: bool = False
    """Refuse the edit while runs are active, even for a recurring schedule."""
    fingerprint: str | None = None
    """That of the request that the schedule now corresponds to, if its key identifies it."""


class Times(NamedTuple):
    """The trigger of a new schedule, also as text, and the first instant at which it fires."""

    trigger: Trigger
    text: str
    first: Instant


class Drafter(RequestChecks):
    """Validates requests and turns them into drafts and edits. Raises InvalidInput, naming the field."""

    def __init__(self, kinds: Mapping[str, Kind], zone: str, limits: Limits) -> None:
        super().__init__(kinds, zone, limits)
        nonce = os.urandom(6).hex()
        self.key_prefix: Callable[[Instant], str] = lambda now: f"~{now:016x}-{nonce}-"
        """Returns the beginning of keys that no caller chose. `duetime.tracing` adds the trace of the request."""
        self._numbers = count()
        self._usual_policies: dict[str, tuple[Policy, str]] = {}

    def drafts(
        self, caller: Caller, news: Sequence[NewSchedule], now: Instant, own: Schedule | None = None
    ) -> Sequence[Draft]:
        """Return the drafts of many requests. What several of them have in common is checked once. `own` is the task of
        the calling agent's run."""
        if len(news) == 1:
            return [self.draft(caller, news[0], now, own=own)]
        if len(set(map(id, news))) == 1:
            return self._repeat(self.draft(caller, news[0], now, own=own), news[0], now, len(news))
        times: dict[Any, Times] = {}
        return [self.draft(caller, new, now, self._times_of(new, now, times), own) for new in news]

    def draft(
        self, caller: Caller, new: NewSchedule, now: Instant, times: Times | None = None, own: Schedule | None = None
    ) -> Draft:
        kind = self._kind(new.kind)
        name = self._text("name", new.name, self.limits.name_length)
        trigger, trigger_text, first = times or self._times(new, now)
        request = new if own is None else inherit(kind, new, trigger, own, now)
        prepared = kind.prepare(request.payload, caller)
        if trigger.type == "cron" and new.first is None:
            prepared.check_cron(new.trigger_config["expression"])
        options = request.policy if trigger.type != "event" else with_event_overlap(kind, trigger, request.policy)
        policy, policy_text = self._policy_of(kind, prepared, options)
        prepared.agree(policy)
        check_can_run(policy, trigger)
        if policy.only_if is not None:
            self._check_gate(policy.only_if, caller)
        if caller.depth:
            check_new(self.kinds, caller, prepared, policy)
        payload = self._payload(prepared.payload)
        idempotency_key = new.idempotency_key
        definition: Definition = _new(Definition, (
            0, kind.public_id(now, trigger.type), new.kind, caller.owner, name, prepared.subject, trigger_text, payload,
            policy_text, caller.depth, 1, self.key(idempotency_key, now),
            "" if idempotency_key is None else fingerprint(new, self.zone), now, now, text_of(caller.actor), None,
        ))  # fmt: skip
        return _new(Draft, (definition, first))

    def _repeat(self, draft: Draft, new: NewSchedule, now: Instant, number: int) -> Sequence[Draft]:
        """Return drafts of the same request, with ids and keys of their own."""
        definition, first = draft
        columns: list[Column] = [[value] * number for value in definition]
        if "{id}" not in definition.public_id:
            kind = self.kinds[new.kind]
            columns[PUBLIC_ID] = [kind.public_id(now, new.trigger_type) for _ in range(number)]
        if new.idempotency_key is None:
            prefix = self.key_prefix(now)
            columns[KEY] = [f"{prefix}{each}" for each in islice(self._numbers, number)]
        return Drafts(columns, [first] * number)

    def _times_of(self, new: NewSchedule, now: Instant, known: dict[Any, Times]) -> Times:
        """Return the times of a request, which others of the same batch may share. The types are part of the key,
        because 1 equals True."""
        values = tuple(new.trigger_config.values())
        key = new.trigger_type, new.timezone, tuple(new.trigger_config), values, tuple(map(type, values)), new.first
        try:
            times = known.get(key)
        except TypeError:  # lists, such as weekdays, are not hashable
            return self._times(new, now)
        if times is None:
            times = known[key] = self._times(new, now)
        return times

    def _times(self, new: NewSchedule, now: Instant) -> Times:
        if new.first is not None:
            begin = min(now, Instant(new.first - 1))
            trigger = self._trigger(new.trigger_type, new.trigger_config, new.timezone, begin)
            return Times(trigger, trigger_to_json(trigger), new.first)
        trigger = self._trigger(new.trigger_type, new.trigger_config, new.timezone, now)
        first = trigger.next_after(Instant(now - 1) if trigger.type == "once" else now)  # once may mean this instant
        if first is None:
            raise InvalidInput(field="trigger_config", problem="it would never fire")
        return Times(trigger, trigger_to_json(trigger), first)

    def _policy_of(self, kind: Kind, prepared: Prepared, options: Mapping[str, Any]) -> tuple[Policy, str]:
        """Return the policy of a new schedule; most requests set no options and get the defaults of their kind."""
        if options or prepared.policy:
            return self._policy({**kind.defaults, **prepared.policy}, options)
        policy = self._usual_policies.get(kind.name)
        if policy is None:
            policy = self._usual_policies[kind.name] = self._policy(kind.defaults, options)
        return policy

    def key(self, idempotency_key: str | None, now: Instant) -> str:
        if idempotency_key is not None:
            if idempotency_key.startswith("~"):
                raise InvalidInput(field="idempotency_key", problem="must not begin with ~")
            return self._text("idempotency_key", idempotency_key, self.limits.key_length)
        return f"{self.key_prefix(now)}{next(self._numbers)}"

    def check_pause(self, until: Instant | None, note: str | None, now: Instant) -> None:
        if until is not None and until <= now:
            raise InvalidInput(field="until", problem="it is in the past; give a later time, or leave it out")
        if note is not None:
            self._text("note", note, NOTE_LENGTH)

    def patch(self, caller: Caller, schedule: Schedule, changes: Changes, now: Instant) -> Edit:
        definition = schedule.definition
        caller = caller._replace(owner=definition.owner)  # the owner's permissions apply, whoever edits the schedule
        edit = self._patch(caller, definition, changes, now)
        gate = None if edit.policy is None else policy_for_ending(edit.policy).only_if
        if gate is not None and gate != policy_for_ending(definition.policy).only_if:
            self._check_gate(gate, caller)
        if caller.depth:
            check_edit(self._kind(definition.kind), caller, schedule, edit, now)
        return edit

    def _with_overlap_of(
        self, trigger: str, definition: Definition, options: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        """Return the options of an edit with the overlap of its new rule, unless somebody chose another one."""
        rule, old = readable(trigger), readable(definition.trigger)
        if rule is None or "event" not in (rule.type, None if old is None else old.type):
            return options
        kind = self._kind(definition.kind)
        overlap = (json_object(definition.policy) or {}).get("overlap", str(Overlap.SKIP))
        is_usual = overlap == usual_overlap(kind, old)
        is_over = overlap == Overlap.LATEST and rule.type != "event"  # with the events that it is for
        options = {"overlap": None if is_usual or is_over else overlap, **(options or {})}
        return with_event_overlap(kind, rule, options) if rule.type == "event" else options

    def _check_gate(self, gate: str, caller: Caller) -> None:
        gates = gates_of(self.kinds)
        if gates is None:
            raise InvalidInput(field="only_if", problem="needs the kind of work that has the tasks; leave it out")
        gates.check(gate, caller)

    def _patch(self, caller: Caller, definition: Definition, changes: Changes, now: Instant) -> Edit:
        payload, subject, trigger, policy, rewrites = None, None, None, None, False
        options = changes.policy
        prepared = None if changes.payload is None and options is None else self._prepare_stored(caller, definition)
        if changes.payload is not None:
            former = {} if prepared is None else prepared.policy
            prepared = self._kind(definition.kind).prepare(changes.payload, caller)
            payload, subject = self._payload(prepared.payload), prepared.subject
            rewrites = _rewrites(definition, payload, prepared)
            if follows := _what_follows(definition, former, prepared.policy):
                options = {**follows, **(options or {})}
        if changes.trigger_type is not None:
            old, type_, starting = readable(definition.trigger), changes.trigger_type, changes.starting
            if starting is not None and changes.next is not None:
                raise InvalidInput(field="starting", problem="give either a next time or when the new rule starts")
            zone = changes.timezone or (None if old is None else old.timezone)
            self._check_cron(prepared or self._prepare_stored(caller, definition), changes.trigger_config or {}, old)
            begin, config = beginning(type_, changes.trigger_config or {}, old, starting, now, zone or self.zone)
            new = self._trigger(type_, config, zone, begin)
            trigger = trigger_to_json(new if starting is None else from_then_on(definition.trigger, new, starting, now))
        elif changes.starting is not None:
            problem = "requires a new rule, because a time moves the next run alone; give a rule"
            raise InvalidInput(field="starting", problem=problem)
        if trigger is not None:
            options = self._with_overlap_of(trigger, definition, options)
        if options is not None:
            usual = {**self._kind(definition.kind).defaults, **({} if prepared is None else prepared.policy)}
            stored = json_object(definition.policy) or {}  # if it was corrupted in the database, an edit repairs it
            needs = {} if prepared is None else {"needs": None}  # which always follows from the payload
            policy = policy_to_json(self._changed_policy(usual, stored, {**options, **needs}))
        if prepared is not None:
            prepared.agree(policy_for_ending(policy or definition.policy))
        _check_edited(definition, policy, trigger)
        name = None if changes.name is None else self._text("name", changes.name, self.limits.name_length)
        if changes.next is not None and changes.next <= now:
            past = past_problem(changes.next, self.zone, now)
            raise InvalidInput(field="next", problem=f"{past}; give a later time")
        if changes.next is not None:
            check_end(trigger or definition.trigger, changes.next, self.zone)
            trigger = move_once(trigger or definition.trigger, changes.next) or trigger
        rest = changes.next, changes.version, changes.amid_runs, changes.pending_only, rewrites, changes.fingerprint
        return Edit(name, subject, trigger, payload, policy, *rest)

    def _check_cron(self, prepared: Prepared | None, config: Mapping[str, Any], old: Trigger | None) -> None:
        """Check a new cron expression; one that was stored before and is written back stays."""
        expression = config.get("expression")
        if prepared is None or not isinstance(expression, str):
            return
        if not isinstance(old, CronTrigger) or old.expression.split() != expression.split():
            prepared.check_cron(expression)

    def input(self, caller: Caller, definition: Definition, payload: Mapping[str, Any]) -> str:
        """Check the input of a single run like that of a new schedule; the task, agent or topic stays the same."""
        caller = caller._replace(owner=definition.owner)  # the owner's permissions apply, whoever runs it
        kind = self._kind(definition.kind)
        prepared = kind.prepare(payload, caller)
        prepared.agree(policy_for_ending(definition.policy))
        if caller.depth:
            check_payload(kind, caller, json_object(definition.payload) or {}, prepared)
        if prepared.subject != definition.subject:
            problem = (
                f"this is for {prepared.subject!r}, and its schedule is for {definition.subject!r}; a run cannot change"
                " that, so create a schedule for it"
            )
            raise InvalidInput(field="payload", problem=problem)
        return self._payload(prepared.payload)

    def _prepare_stored(self, caller: Caller, definition: Definition) -> Prepared | None:
        """Return the stored payload, prepared; None if it would not be accepted any more."""
        try:
            return self._kind(definition.kind).prepare(json_object(definition.payload) or {}, caller)
        except InvalidInput:
            return None


def with_event_overlap(kind: Kind, trigger: Trigger, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a schedule that waits for events. What arrives while a run is active is not skipped, as an
    occurrence by the clock would be: no other one makes up for it."""
    if options.get("overlap") is not None:
        return options
    return {**options, "overlap": usual_overlap(kind, trigger)}


def usual_overlap(kind: Kind, trigger: Trigger | None) -> str:
    """Return the overlap of a schedule with this trigger for which nobody chose one."""
    usual: str | None = kind.defaults.get("overlap")
    if trigger is not None and trigger.type == "event" and (usual is None or getattr(trigger, "cooldown", None)):
        usual = getattr(kind, "event_overlap", str(Overlap.QUEUE))
    return usual or str(Overlap.SKIP)


def _check_edited(definition: Definition, policy: str | None, trigger: str | None) -> None:
    """Check the policy and the trigger after an edit; if it changes neither, nothing new can be wrong."""
    if policy is None and trigger is None:
        return
    rule = readable(trigger or definition.trigger)
    if rule is not None:  # otherwise the edit itself reports that the stored trigger cannot be used
        check_can_run(policy_for_ending(policy or definition.policy), rule)


def _rewrites(definition: Definition, payload: str, prepared: Prepared) -> bool:
    """Return whether a new payload has another text than the stored one, so that it has another author."""
    if not prepared.text:
        return payload != definition.payload
    return (json_object(definition.payload) or {}).get(prepared.text) != prepared.payload.get(prepared.text)


def _what_follows(definition: Definition, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy changes that a new payload implies: those that differ from what the old one implied, `before`.
    Options that the old payload left open and somebody has set since stay."""
    chosen = (json_object(definition.policy) or {}).keys() - before.keys()
    after = {"needs": None, **after}
    return {name: value for name, value in after.items() if name not in chosen and value != before.get(name)}


def check_can_run(policy: Policy, trigger: Trigger) -> None:
    """Raise InvalidInput, naming the field, if no occurrence could ever start.

    At-most-once work is never claimed ahead of its instant, so each of its runs starts a moment late: if nothing late
    may run and no lateness is tolerated, nothing runs.
    """
    if policy.overlap == Overlap.LATEST and trigger.type != "event":
        problem = "latest is for schedules that wait for an event; choose skip, queue or allow"
        raise InvalidInput(field="overlap", problem=problem)
    if policy.overlap == Overlap.ALLOW and getattr(trigger, "cooldown", None):
        problem = 'allow contradicts "at most every"; choose latest, queue or skip'
        raise InvalidInput(field="overlap", problem=problem)
    tolerated = policy.grace + trigger.jitter
    if policy.at_most_once and policy.catch_up == CatchUp.SKIP and tolerated < LEAD:
        raise InvalidInput(
            field="grace",
            problem=(
                "work that runs at most once starts a moment after its time, so with catch_up skip and a grace of "
                f"{policy.grace / SECOND:g} s it would never run; allow a grace of a second or more, or another "
                "catch_up"
            ),
        )
