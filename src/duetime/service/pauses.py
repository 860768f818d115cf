"""What falls into a pause, for the answer about it: the times that are skipped, or the one that is held; and when a
paused schedule fires again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from duetime.engine.clock import NEVER, Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.model import Schedule, ScheduleState
from duetime.engine.policy.catch_up import missed_span
from duetime.engine.policy.pauses import is_held, is_one_off
from duetime.engine.triggers import trigger_from_json
from duetime.service.presenters import instant_view
from duetime.service.text import plural

_NEVER: Final = Instant(1 << 62)


def fires_at(schedule: Schedule) -> Instant | None:
    """Return when a schedule fires next: for a paused one, when it does so if nobody resumes it earlier; None if it
    then never does, or if that is not known."""
    definition, progress = schedule
    until, following = definition.resume_at, None if progress.next == NEVER else progress.next
    if progress.state != ScheduleState.PAUSED or following is None:
        return following
    if until is None or following >= until:
        return None if until is None else following
    if is_one_off(definition):
        return until if is_held(schedule, until) else None
    try:
        return trigger_from_json(definition.trigger).next_after(Instant(until - 1))
    except DuetimeError:  # it can no longer be read, or takes too many steps
        return None


def falls_into_pause(
    schedule: Schedule, until: Instant | None, zone: str, show: Callable[[Instant, str], object] = instant_view
) -> str:
    """Return a sentence about the times of a schedule in a pause that begins now. `show` formats a time."""
    first = schedule.progress.next
    if first == NEVER:
        return f"Events that arrive {'until it is resumed' if until is None else 'in the pause'} are skipped."
    if first is None or (until is not None and first >= until):
        return "None of its times falls into the pause."
    at = show(first, zone)
    if is_one_off(schedule.definition):
        held = is_held(schedule, _NEVER if until is None else until)
        then = "it is held and runs when the pause ends" if held else "it will be missed, because catch_up is skip"
        case = f"If it is paused at its time, {at}," if until is None else f"Its time, {at}, falls into the pause:"
        return f"{case} {then}."
    if until is None:
        return f"Its times are skipped until it is resumed, the first at {at}."
    try:
        number = missed_span(schedule.definition.trigger, first, Instant(until - 1)).number
    except DuetimeError:  # it takes too many steps to count them
        number = -1
    times = f"{'at least ' if number < 0 else ''}{plural(abs(number), 'time')}"
    return f"It is skipped {times} in the pause, the first at {at}."
