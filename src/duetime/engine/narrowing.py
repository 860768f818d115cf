"""The rule for agents' runs (callers with a depth above 0): values only become narrower, and what a run schedules gets
no more than its own task has left. `Drafter` applies it to every create, every edit and every input of a single run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from operator import eq, le
from typing import Any, Final, TypeAlias

from duetime.engine.clock import DAY, Instant
from duetime.engine.encoding import json_object
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller, Kind, Prepared
from duetime.engine.limits import MOST_GAPS
from duetime.engine.model import Schedule
from duetime.engine.new_schedule import NewSchedule
from duetime.engine.policy.changes import Edit
from duetime.engine.policy.options import RULES, CatchUp, Overlap, Policy, policy_for_ending
from duetime.engine.triggers import ChangingTrigger, OnceTrigger, Trigger
from duetime.engine.triggers.build import readable
from duetime.engine.triggers.step_budget import CREATION_STEPS, step_budget
from duetime.engine.value_class import NamedTuple

Narrower: TypeAlias = Callable[[Any, Any], Any]
"""Returns whether a new value is at most as wide as the stored one; None is a value that is not set."""


def lower(stored: Any, new: Any) -> bool:
    """Accept a limit that is set for the first time, or that does not rise."""
    return stored is None or (new is not None and new <= stored)


def _from_narrowest(*order: str) -> Narrower:
    return lambda stored, new: order.index(new) <= order.index(stored)


POLICY: Final[Mapping[str, Narrower]] = {
    "catch_up": _from_narrowest(CatchUp.SKIP, CatchUp.ONCE, CatchUp.ALL),
    "catch_up_limit": lower,
    "overlap": _from_narrowest(Overlap.SKIP, Overlap.QUEUE, Overlap.ALLOW),
    "queue_limit": lower,
    "max_attempts": lower,
    "backoff": le,  # longer delays between attempts
    "backoff_limit": le,
    "timeout": lambda stored, new: new is None if stored is None else lower(stored, new),  # a kind may have its own
    "at_most_once": le,  # true instead of false
    "max_runs": lower,
    "grace": lower,
    "pause_after": lambda stored, new: lower(stored or None, new or None),  # 0 means never
    "deliver_to": eq,  # a run must not silence itself, or have results sent elsewhere
    "notify_on": eq,
    "only_if": eq,
    "gate_failure": eq,
    "alert": eq,
    "tagged": eq,  # tags decide where alerts go, and what a person changes together
    "callbacks": lambda stored, new: True,  # they follow from the payload and are checked with it
    "needs": lambda stored, new: True,
    "untaken": eq,
    "expire_after": lower,
    **{name: eq for name, rule in RULES.items() if rule.is_for_people},
}
"""For each option of the policy, what an agent's run may make of it."""
_INHERITED: Final = ("max_attempts", "timeout", "max_runs", "pause_after")
"""Options of a task, if its owner has set them, that also bound what its runs schedule of the same kind."""
_USUAL: Final = Policy()
_MAX_HORIZON: Final = 100 * 366 * DAY
"""A rule that still fires after this time has no end."""
STAYS: Final = "an agent's run may only narrow what its owner has set; leave it as it is, or ask a person to change it"


class Narrowing(NamedTuple):
    """What limits the runs of a kind in its payload: `narrowing` of a kind, which most kinds do not have."""

    limits: Mapping[str, Narrower] = {}
    shared: str = ""
    """The field that names the task whose daily limits a schedule shares, because a run of that task created it."""
    free: str = ""
    """The field that is true for schedules which need no such limits."""


def may_use_web(caller: Caller) -> bool:
    return caller.grant is None or (json_object(caller.grant) or {}).get("web") is True


def check_payload(kind: Kind, caller: Caller, stored: Mapping[str, Any], prepared: Prepared) -> None:
    """Check the new payload of a schedule, or the input of one of its runs."""
    if prepared.payload != stored:
        _check_web(caller, prepared)
    limits, shared, _ = getattr(kind, "narrowing", Narrowing())
    _check({**limits, shared: eq}, stored.get, prepared.payload.get)


def _check(rules: Mapping[str, Narrower], stored: Callable[[str], Any], new: Callable[[str], Any]) -> None:
    for name, is_narrower in rules.items():
        if not is_narrower(stored(name), new(name)):
            raise InvalidInput(field=name, problem=STAYS)


def _check_web(caller: Caller, prepared: Prepared) -> None:
    if prepared.web and not may_use_web(caller):
        problem = "this uses the web, which this agent's run may not; ask a person to do it or to allow the web"
        raise InvalidInput(field=prepared.web, problem=problem)


def check_edit(kind: Kind, caller: Caller, schedule: Schedule, edit: Edit, now: Instant) -> None:
    """Check what an edit changes: the payload, the policy and the times."""
    definition = schedule.definition
    if edit.payload is not None:
        prepared = kind.prepare(json_object(edit.payload) or {}, caller)
        check_payload(kind, caller, json_object(definition.payload) or {}, prepared)
    if edit.policy is not None:
        before, after = policy_for_ending(definition.policy), policy_for_ending(edit.policy)
        _check(POLICY, lambda name: getattr(before, name), lambda name: getattr(after, name))
    if edit.trigger is not None or edit.next is not None:
        _check_times(schedule, readable(edit.trigger or definition.trigger), edit.next, now)


def inherit(kind: Kind, new: NewSchedule, trigger: Trigger, own: Schedule, now: Instant) -> NewSchedule:
    """Return what a run of the task `own` schedules, with what that task has left: its daily limits, which both then
    share, and the options that its owner has set. It does not fire more often either."""
    limits, shared, free = getattr(kind, "narrowing", Narrowing())
    payload, (definition, progress) = new.payload, own
    if definition.kind != new.kind or payload.get(free):
        return new
    check_pace(readable(definition.trigger), trigger, now)
    stored, policy = json_object(definition.payload) or {}, policy_for_ending(definition.policy)
    left = {name: stored[name] for name in limits if isinstance(stored.get(name), int | float)}
    if left:
        payload = {**_within(limits, left, payload), shared: stored.get(shared, definition.id)}
    left = {name: getattr(policy, name) for name in _INHERITED if getattr(policy, name) != getattr(_USUAL, name)}
    if policy.max_runs is not None:
        left["max_runs"] = policy.max_runs - progress.run_count
        if left["max_runs"] < 1:
            problem = "the task of this agent's run has no runs left, so it schedules nothing; ask a person to do it"
            raise InvalidInput(field="max_runs", problem=problem)
    return new._replace(payload=payload, policy=_within(POLICY, left, new.policy))


def _within(rules: Mapping[str, Narrower], left: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    whole = {**left, **{name: value for name, value in options.items() if value is not None}}
    numbers = (name for name in left if isinstance(whole[name], int | float))  # anything else is refused later
    _check({name: rules[name] for name in numbers}, left.get, whole.get)
    return whole


def check_new(kinds: Mapping[str, Kind], caller: Caller, prepared: Prepared, policy: Policy) -> None:
    """Refuse the web to a run that may not use it, options that are for people only, and topics that no kind knows, to
    which anybody may listen."""
    _check_web(caller, prepared)
    for name, rule in RULES.items():
        if rule.is_for_people and getattr(policy, name) != getattr(_USUAL, name):
            raise InvalidInput(field=name, problem="only a person may set it; leave it out, or ask a person to set it")
    topic = None if may_use_web(caller) else policy.deliver_to
    checks = [each.knows_topic for each in kinds.values() if topic is not None and hasattr(each, "knows_topic")]
    if not all(knows_topic(topic, caller.owner) for knows_topic in checks):
        raise InvalidInput(field="deliver_to", problem=f"nothing else uses {topic}; name a topic that is in use")


def _check_times(schedule: Schedule, new: Trigger | None, next: Instant | None, now: Instant) -> None:
    """Check that a schedule has fired no more often at any instant than without the edit. `next` is the time to which
    its next occurrence moves."""
    stored = readable(schedule.definition.trigger)
    if stored is None or new is None:
        raise InvalidInput(field="trigger_config", problem="its rule cannot be read; ask a person to give it another")
    if isinstance(stored, OnceTrigger) and isinstance(new, OnceTrigger):
        return  # it fires once, whenever that is
    with step_budget(4 * CREATION_STEPS):
        before, after = _times(stored, schedule.progress.next, now), _times(new, next, now)
    is_earlier = len(after) > 1 and any(later < due for later, due in zip(after, before, strict=False))
    if is_earlier or len(after) > len(before):
        field = "next" if new == stored else "trigger_config"
        raise InvalidInput(field=field, problem=f"it would fire earlier or more often; {STAYS}")
    check_pace(stored, new, now)


def check_pace(stored: Trigger | None, new: Trigger, now: Instant) -> None:
    """Check the smallest gap of a rule, because it may begin slowly, and that it ends if the stored one does. Of a rule
    that changes, the last one counts."""
    while isinstance(stored, ChangingTrigger):
        stored = stored.after
    while isinstance(new, ChangingTrigger):
        new = new.after
    if stored is None or isinstance(stored, OnceTrigger) or isinstance(new, OnceTrigger):
        return
    with step_budget(4 * CREATION_STEPS):
        pairs = (pairwise(_times(rule, None, now)) for rule in (stored, new))
        gap, new_gap = (min((later - earlier for earlier, later in each), default=_MAX_HORIZON) for each in pairs)
        if new_gap < gap:
            raise InvalidInput(field="trigger_config", problem=f"it would fire more often; {STAYS}")
        farthest = Instant(now + _MAX_HORIZON)
        if stored.next_after(farthest) is None and new.next_after(stored.end or stored.latest(now, farthest) or now):
            raise InvalidInput(field="end", problem=f"it would go on for longer; {STAYS}")


def _times(trigger: Trigger, first: Instant | None, now: Instant) -> list[Instant]:
    """Return the next occurrences, of which the first may have been moved."""
    instants = [] if first is None else [first]
    following = trigger.next_after(now if first is None else max(first, now))
    while following is not None and len(instants) < MOST_GAPS:
        instants.append(following)
        following = trigger.next_after(following)
    return instants
