"""Edits of a schedule's rule: they decide which limits of the old rule stay, and from when the new one applies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.limits import MOST_CHANGES
from duetime.engine.times import iso_local
from duetime.engine.times.zones import known_zone
from duetime.engine.triggers import (
    ChangingTrigger,
    CronTrigger,
    OnceTrigger,
    Trigger,
    changes_of,
    changing,
    trigger_from_json,
    trigger_to_json,
)
from duetime.engine.triggers.base import instant_text
from duetime.engine.triggers.build import readable, skips_weeks, time_of

WHOLE_RULE: Mapping[str, Any] = dict.fromkeys(("start", "end", "jitter", "dst"))
"""Merged under the configuration of an edit that is a complete new rule, so that no limit of the old one stays."""


def beginning(
    type_: str, request: Mapping[str, Any], old: Trigger | None, starting: Instant | None, now: Instant, zone: str
) -> tuple[Instant, dict[str, Any]]:
    """Return the instant from which a new rule counts, and its configuration: an interval first fires at that instant.
    The limits of the rule in force at that instant apply to the new one too, unless the edit says otherwise; None
    removes a limit. A rule that is still to begin is replaced together with its limits: it has a start only because it
    is to begin then, which must not keep the new rule from firing until that time. A rule that would begin after its
    end is refused."""
    begin = now if starting is None or type_ == "once" else starting
    in_force = _rule_at(old, begin)
    limits = {} if in_force is None else _limits_of(in_force, type_, begin)
    if request.get("dtstart") is not None or request.get("anchor") is not None:
        limits.pop("start", None)  # the edit itself says when its rule begins
    whole = {**limits, **request}
    config = {name: value for name, value in whole.items() if value is not None}
    if begin == starting:
        _check_starting(config, zone, begin)
    first = {"interval": "start", "rrule": "dtstart"}.get(type_)
    if starting is not None and first is not None and {"start", "anchor", "dtstart"}.isdisjoint(config):
        if type_ == "rrule" and skips_weeks(config.get("rrule")):
            return Instant(begin - 1), config  # it counts from its first day after this
        config[first] = iso_local(begin, "UTC")
    return begin, config


def _check_starting(config: Mapping[str, Any], zone: str, starting: Instant) -> None:
    end = time_of(config, "end", known_zone(config.get("timezone") or zone).key, starting)
    if end is not None and end < starting:
        problem = f"it is after its end, {iso_local(end, zone, 'seconds')}; give a later end, or end none"
        raise InvalidInput(field="starting", problem=problem)


def _limits_of(old: Trigger, new_type: str, begin: Instant) -> dict[str, Any]:
    """Return the limits of a rule that stay when another one replaces it, in the form of a request."""
    if new_type in ("event", "after"):
        return {}
    limits: dict[str, Any] = {"jitter": old.jitter / SECOND} if old.jitter else {}
    if new_type == "once":
        return limits
    if old.start is not None and old.start > begin:  # a start that has passed would only shift an interval
        limits["start"] = instant_text(old.start)
    if old.end is not None:
        limits["end"] = instant_text(old.end)
    if isinstance(old, CronTrigger) and new_type == "cron":
        limits["dst"] = old.dst
    return limits


def _rule_at(trigger: Trigger | None, instant: Instant) -> Trigger | None:
    """Return the rule that applies at an instant, of a trigger whose rule may change."""
    while isinstance(trigger, ChangingTrigger):
        trigger = trigger.before if instant < trigger.changes else trigger.after
    return trigger


def from_then_on(stored: str, rule: Trigger, starting: Instant, now: Instant) -> Trigger:
    """Return a trigger that follows the old rule until `starting` and the new rule from then on; only the new rule if
    the old one would not fire before."""
    if starting <= now:
        raise InvalidInput(field="starting", problem="it is in the past; leave it out to change the rule at once")
    old = trigger_from_json(stored)
    if "event" in (old.type, rule.type):
        raise InvalidInput(field="starting", problem="needs two rules with times; leave it out to change the rule now")
    first = old.next_after(now)
    if first is None or first >= starting:
        if rule.start is not None and rule.start >= starting:
            return rule
        if isinstance(rule, CronTrigger):  # the times of other rules may depend on their start
            return replace(rule, start=starting)
    changed = changing(old, rule, starting, now)
    if changes_of(changed) > MOST_CHANGES:
        raise InvalidInput(field="starting", problem=f"its rule changes {MOST_CHANGES} times already; wait for one")
    return changed


def check_end(trigger: str, next: Instant, zone: str) -> None:
    """Refuse to move an occurrence to a time after the end of its rule."""
    stored = _rule_at(readable(trigger), next)
    if stored is not None and stored.type == "event":
        raise InvalidInput(field="next", problem="it waits for an event and has no next time; run it now instead")
    if stored is not None and stored.end is not None and next > stored.end:
        problem = f"{iso_local(next, zone)} is after its end, {iso_local(stored.end, zone)}"
        raise InvalidInput(field="next", problem=f"{problem}; give an earlier time, or a later end")


def move_once(trigger: str, to: Instant) -> str | None:
    """Move a one-off's trigger, which is its only instant; otherwise, it would fire again at the old time."""
    stored = readable(trigger)  # the edit itself reports a trigger that cannot be used
    return trigger_to_json(replace(stored, at=to)) if isinstance(stored, OnceTrigger) else None


def stays_moved(old_trigger: str, new_trigger: str, next: Instant | None, now: Instant) -> bool:
    """Return whether the next time, which was moved off its rule, stays, because only the limits of the rule change."""
    old, new = readable(old_trigger), trigger_from_json(new_trigger)
    if old is None or type(old) is not type(new) or next is None or next <= now or next == old.next_after(now):
        return False
    is_within = (new.start is None or next >= new.start) and (new.end is None or next <= new.end)
    return is_within and replace(new, start=old.start, end=old.end, jitter=old.jitter) == old
