"""Schedules for tests, created without any interface or kind."""

from __future__ import annotations

from itertools import count
from typing import Any

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.model import Definition, ScheduleId
from duetime.engine.policy.options import make_policy, policy_to_json
from duetime.engine.policy.rows import Draft
from duetime.engine.triggers import IntervalTrigger, OnceTrigger, Trigger, trigger_to_json

T0 = Instant(1_800_000_000_000_000)
"""The time at which most tests begin."""

_keys = count(1)


def draft(
    trigger: Trigger,
    first: Instant,
    *,
    kind: str = "job",
    owner: str = "ada",
    name: str = "water the plants",
    subject: str = "echo",
    payload: str = "{}",
    key: str | None = None,
    fingerprint: str = "",
    public_id: str | None = None,
    created: Instant = T0,
    **policy: Any,
) -> Draft:
    made = Definition(
        ScheduleId(0), public_id or f"{kind}_{{id}}", kind, owner, name, subject, trigger_to_json(trigger), payload,
        policy_to_json(make_policy(policy)), 0, 1, key or f"key-{next(_keys)}", fingerprint, created, created,
    )  # fmt: skip
    return Draft(made, first)


def once(at: int = T0, **given: Any) -> Draft:
    return draft(OnceTrigger(timezone="UTC", at=Instant(at)), Instant(at), **given)


def every(period: int = MINUTE, anchor: int = T0, *, end: int | None = None, **given: Any) -> Draft:
    """Return a trigger that is due at anchor + period, anchor + 2 periods, and so on."""
    until = None if end is None else Instant(end)
    trigger = IntervalTrigger(timezone="UTC", period=period, anchor=Instant(anchor), end=until)
    return draft(trigger, Instant(anchor + period), **given)
