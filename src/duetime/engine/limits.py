"""The limits of one owner, and the checks of each part of a request: name, trigger, policy, payload."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from duetime.engine.clock import DAY, HOUR, SECOND, Instant
from duetime.engine.encoding import is_text
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Kind
from duetime.engine.policy.options import RULES, Policy, Untaken, make_policy, policy_with_json
from duetime.engine.redaction import masked
from duetime.engine.triggers import (
    ChangingTrigger,
    IntervalTrigger,
    OnceTrigger,
    Trigger,
    WindowTrigger,
    build_trigger,
    changes_of,
    known_zone,
)
from duetime.engine.triggers.base import WallTrigger
from duetime.engine.triggers.step_budget import CREATION_STEPS, step_budget
from duetime.engine.value_class import dataclass

MAX_EVENT_BYTES = 256 * 1024
MOST_GAPS = 800
"""Number of gaps to check: BYSETPOS selects at most 2 x 366 times from one period."""
FARTHEST_GAP = 5 * 366 * DAY
MOST_CHANGES = 5
"""How often the rule of one schedule may change in the future."""
_ADDRESSES = frozenset(name for name, rule in RULES.items() if rule.type in ("address", "gate"))
_encode_payload = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one owner."""

    schedules: int = 10_000
    smallest_interval: int = 1 * SECOND
    payload_bytes: int = 256 * 1024
    name_length: int = 200
    key_length: int = 200
    depth: int = 3
    runs_per_hour: int | None = None
    stored_bytes: int | None = None
    """Maximum size of schedules and results; the local owner has no such limit."""
    pause_after: int = 10
    """Consecutive failures after which a recurring schedule is paused, unless it sets its own number."""


class RequestChecks:
    """Checks the parts of requests. Raises InvalidInput, naming the field."""

    def __init__(self, kinds: Mapping[str, Kind], zone: str, limits: Limits) -> None:
        self.kinds, self.zone, self.limits = kinds, zone, limits

    def _policy(self, usual: Mapping[str, Any], policy: Mapping[str, Any]) -> tuple[Policy, str]:
        """Build a policy and its text; None requests the default, as if the option had not been given."""
        options = {name: value for name, value in policy.items() if value is not None}
        return policy_with_json(self._usual(usual, options) | options)

    def _changed_policy(
        self, usual: Mapping[str, Any], stored: Mapping[str, Any], changes: Mapping[str, Any]
    ) -> Policy:
        """Change a stored policy: options that are not given stay, and None resets one to its default. An address that
        is sent back in the form in which it was shown, without its credentials, stays too."""
        masks = {name: masked(stored[name]) for name in changes if name in stored and name in _ADDRESSES}
        changes = {name: value for name, value in changes.items() if name not in masks or value != masks[name]}
        options = {name: value for name, value in {**stored, **changes}.items() if value is not None}
        if "untaken" in changes and "expire_after" not in changes and changes["untaken"] != Untaken.EXPIRE:
            options.pop("expire_after", None)
        usual = self._usual(usual, options)
        again = {name: usual[name] for name, value in changes.items() if value is None and name in usual}
        return make_policy(again | options)

    def _usual(self, usual: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        whole = {"pause_after": self.limits.pause_after, **usual}
        if options.get("at_most_once"):
            whole.pop("max_attempts", None)
        return whole

    def _kind(self, name: str) -> Kind:
        if name not in self.kinds:
            known = ", ".join(sorted(self.kinds))
            raise InvalidInput(field="kind", problem=f"there is no {str(name)[:100]!r}; choose from {known}")
        return self.kinds[name]

    def _trigger(self, type_: str, config: Mapping[str, Any], zone: str | None, now: Instant) -> Trigger:
        if type_ == "once":  # it occurs once: nothing is searched, and no pace can be too fast
            return build_trigger(type_, config, zone=known_zone(zone or self.zone).key, now=now)
        with step_budget(CREATION_STEPS):
            trigger = build_trigger(type_, config, zone=known_zone(zone or self.zone).key, now=now)
            self.check_rule(trigger, now)
        return trigger

    def check_rule(self, trigger: Trigger, now: Instant) -> None:
        """Check how often a trigger fires; if its rule changes, check each of its rules."""
        if not isinstance(trigger, ChangingTrigger):
            self._check_pace(trigger, now)
            self._check_budget(trigger, now)
            return
        if changes_of(trigger) > MOST_CHANGES:
            problem = f"its rule changes more than {MOST_CHANGES} times, which is the limit"
            raise InvalidInput(field="trigger_config", problem=problem)
        if trigger.changes > now:
            self.check_rule(trigger.before, now)
        self.check_rule(trigger.after, Instant(max(now, trigger.changes - 1)))

    def _check_pace(self, trigger: Trigger, now: Instant) -> None:
        """Check the smallest gap between occurrences, over more of them than a recurrence rule can select from one
        year, month or day, so that a slow beginning cannot hide a burst."""
        smallest = self.limits.smallest_interval
        if isinstance(trigger, OnceTrigger) or (isinstance(trigger, WallTrigger) and smallest <= SECOND):
            return  # wall-clock times are whole seconds
        before = first = trigger.next_after(now)
        gaps = 1 if isinstance(trigger, IntervalTrigger) else 3 if isinstance(trigger, WindowTrigger) else MOST_GAPS
        for _ in range(gaps):
            following = None if before is None else trigger.next_after(before)
            if first is None or before is None or following is None or following - first > FARTHEST_GAP:
                return
            if following - before < smallest:
                limit = f"every {smallest / SECOND:g} s, which is the limit"
                message = f"it fires more often than {limit}; let it fire less often"
                raise InvalidInput(field="trigger_config", problem=message)
            before = following

    def _check_budget(self, trigger: Trigger, now: Instant) -> None:
        """Check that this trigger alone stays within an owner's runs per hour; the sum of all triggers is limited at
        the claim."""
        limit = self.limits.runs_per_hour
        first = None if limit is None else trigger.next_after(now)
        if limit is None or first is None:
            return
        runs = trigger.count(Instant(first - 1), Instant(first + HOUR - 1), limit)
        if runs > limit:
            message = f"it would run more than {limit} times an hour, which is the limit of one owner"
            raise InvalidInput(field="trigger_config", problem=message)

    def _payload(self, payload: Mapping[str, Any]) -> str:
        try:
            text = _encode_payload(payload)
            size = len(text.encode("utf-8"))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(field="payload", problem=f"it is not plain JSON ({type(error).__name__})") from error
        if size > self.limits.payload_bytes:
            raise InvalidInput(
                field="payload",
                problem=(
                    f"it has {size} bytes, and the limit is {self.limits.payload_bytes};"
                    " store the data elsewhere and pass a reference to it"
                ),
            )
        return text

    def _text(self, name: str, value: str, longest: int) -> str:
        if not value.strip():
            raise InvalidInput(field=name, problem="must not be empty")
        if len(value) > longest:
            raise InvalidInput(field=name, problem=f"has {len(value)} characters, and the limit is {longest}")
        if not is_text(value):
            raise InvalidInput(field=name, problem="contains invalid characters (NUL or lone surrogates)")
        return value
