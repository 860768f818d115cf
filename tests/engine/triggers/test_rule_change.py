"""A trigger whose rule changes: the old rule before an instant, the new one from it on."""

from __future__ import annotations

import pytest

from duetime.engine.clock import HOUR, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.triggers import (
    CronTrigger,
    Trigger,
    build_trigger,
    changes_of,
    changing,
    describe,
    trigger_from_json,
    trigger_to_json,
    warnings_for,
)

DAY = 24 * HOUR
T0 = Instant(1_770_681_600_000_000)  # 2026-02-10T00:00:00Z
NINE, SIX_PM = (CronTrigger(timezone="UTC", expression=f"0 {hour} * * *") for hour in (9, 18))


def at(days: int, hours: int = 0) -> Instant:
    return Instant(T0 + days * DAY + hours * HOUR)


def times(trigger: Trigger, count: int) -> list[Instant | None]:
    found: list[Instant | None] = [T0]
    while len(found) <= count and found[-1] is not None:
        found.append(trigger.next_after(found[-1]))
    return found[1:]


def test_each_rule_applies_on_its_side() -> None:
    trigger = changing(NINE, SIX_PM, at(2), T0)
    assert times(trigger, 4) == [at(0, 9), at(1, 9), at(2, 18), at(3, 18)]
    assert trigger.latest(T0, at(2, 17)) == at(1, 9) and trigger.latest(T0, at(3)) == at(2, 18)
    assert trigger.count(T0, at(4)) == 4


def test_the_instant_itself_belongs_to_the_new_rule() -> None:
    assert times(changing(NINE, SIX_PM, at(1, 9), T0), 2) == [at(0, 9), at(1, 18)]
    assert times(changing(NINE, SIX_PM, at(1, 18), T0), 3) == [at(0, 9), at(1, 9), at(1, 18)]


def test_it_is_stored_and_read_back() -> None:
    trigger = changing(NINE, SIX_PM, at(2), T0)
    text = trigger_to_json(trigger)
    trigger_from_json.cache_clear()
    assert trigger_from_json(text) == trigger
    stored = {name: value for name, value in trigger.to_dict().items() if name not in ("type", "timezone")}
    assert build_trigger("changing", stored, zone="UTC", now=T0) == trigger
    assert describe(trigger) == f"{describe(NINE)} until 2026-02-12 00:00 UTC, then {describe(SIX_PM)}"
    assert warnings_for(trigger, T0) == []


def test_a_rule_that_was_replaced_is_left_out() -> None:
    first = changing(NINE, SIX_PM, at(1), T0)
    second = changing(first, NINE, at(5), at(2))
    assert isinstance(second.before, CronTrigger) and changes_of(second) == 1
    assert changes_of(changing(first, NINE, at(5), T0)) == 2


def test_a_rule_that_would_begin_after_the_new_one_is_left_out() -> None:
    later = changing(NINE, SIX_PM, at(5), T0)
    assert changing(later, NINE, at(2), T0) == changing(NINE, NINE, at(2), T0)
    both = changing(changing(NINE, SIX_PM, at(1), T0), NINE, at(5), T0)
    last = changing(both, SIX_PM, at(7), at(3))
    assert changes_of(last) == 2, "the first change has passed"
    assert last.next_after(at(3)) == at(3, 18) and last.next_after(at(5)) == at(5, 9)


@pytest.mark.parametrize("broken", ["before", "after", "changes"])
def test_what_cannot_be_read_is_refused(broken: str) -> None:
    stored = {**changing(NINE, SIX_PM, at(2), T0).to_dict(), broken: 7}
    from duetime.engine.triggers import trigger_from_dict

    with pytest.raises(InvalidInput):
        trigger_from_dict(stored)
