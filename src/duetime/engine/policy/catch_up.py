"""Decide which occurrences of a claimed entry run and which were missed, by arithmetic on the trigger alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from itertools import islice
from typing import NamedTuple

from duetime.engine.clock import SECOND, Instant
from duetime.engine.policy.options import CatchUp, Policy
from duetime.engine.policy.rows import Span
from duetime.engine.triggers import IntervalTrigger, Trigger, trigger_from_json
from duetime.engine.triggers.step_budget import TooManySteps, remembered, step_budget

MOST_COUNTED = 1000
COUNT_STEPS = 30_000
"""Step budget for counting the occurrences that were missed."""
NEWEST_STEPS = 60_000
"""Step budget for finding the occurrences to catch up on."""


class Found(NamedTuple):
    run: tuple[Instant, ...]
    missed: Span | None
    through: Instant
    following: Instant | None


@remembered(65_536)
def next_instant(trigger: str, after: Instant) -> Instant | None:
    """Return the next instant, memoised: a hundred thousand schedules that share a midnight cost one computation."""
    return trigger_from_json(trigger).next_after(after)


def find(trigger_text: str, policy: Policy, due: Instant, now: Instant, held: int = 0) -> Found:
    """Find what runs and what was missed. `held`: how long jitter or a limit delayed the entry; that is not late."""
    following = next_instant(trigger_text, due)
    trigger = trigger_from_json(trigger_text)
    superseded = following is not None and following <= now
    if not superseded and now - due <= policy.grace + max(trigger.jitter, held):
        return Found((due,), None, due, following)
    return _catch_up(trigger, policy, due, now)


def _catch_up(trigger: Trigger, policy: Policy, due: Instant, now: Instant) -> Found:
    newest = trigger.latest(Instant(due - 1), now) or due
    following = trigger.next_after(max(now, newest))
    if policy.catch_up == CatchUp.ALL:
        run = _newest(trigger, due, newest, policy.catch_up_limit)
        return Found(run, _span(trigger, due, Instant(run[0] - 1)), newest, following)
    if policy.catch_up == CatchUp.SKIP and now - newest > policy.grace:
        return Found((), _span(trigger, due, newest), newest, following)
    return Found((newest,), _span(trigger, due, Instant(newest - 1)), newest, following)


def _newest(trigger: Trigger, due: Instant, newest: Instant, limit: int) -> tuple[Instant, ...]:
    """Return the last occurrences up to the newest one, searching ever further back until there are enough. If that
    takes too many steps, return those that were found; the others count as missed."""
    found: tuple[Instant, ...] = (newest,)
    back, begin = SECOND, newest
    try:
        with step_budget(NEWEST_STEPS):
            while len(found) < limit and begin >= due:
                begin = Instant(max(due - 1, newest - back))
                found = tuple(deque(_between(trigger, begin, newest), maxlen=limit))
                back *= 2
    except TooManySteps:
        begin = due
    found = found or (newest,)
    moved = begin < due < found[0] and len(found) < limit  # moved off the rule, which therefore does not contain it
    return (due, *found) if moved else found


def _between(trigger: Trigger, after: Instant, until: Instant) -> Iterator[Instant]:
    following = trigger.next_after(after)
    while following is not None and following <= until:
        yield following
        following = trigger.next_after(following)


def _span(trigger: Trigger, due: Instant, until: Instant) -> Span | None:
    """Return the occurrences from `due` to `until`, or None if there are none."""
    return span_between(trigger, due, until) if until >= due else None


@remembered(1_024)
def missed_span(trigger: str, due: Instant, until: Instant) -> Span:
    """Return the occurrences from `due` to `until`; memoised for a transaction that is repeated."""
    return span_between(trigger_from_json(trigger), due, until)


@remembered(1_024)
def missed_span_without(trigger: str, due: Instant, until: Instant, taken: frozenset[Instant]) -> Span | None:
    """Return these occurrences except those that have a row already; memoised for the same reason."""
    rule = trigger_from_json(trigger)
    return span_without(span_between(rule, due, until), rule, taken)


def span_between(trigger: Trigger, due: Instant, until: Instant) -> Span:
    """Return the range of `due` itself, which may have been moved off the rule, and the rule's occurrences after it."""
    last = trigger.latest(due, until) or due
    return Span(due, last, _number(trigger, due, until))


def _number(trigger: Trigger, due: Instant, until: Instant) -> int:
    """Return how many occurrences a range has; negative for "at least", where counting on would take too long."""
    if isinstance(trigger, IntervalTrigger):  # one division
        count = 1 + trigger.count(due, until, MOST_COUNTED)
        return -MOST_COUNTED if count > MOST_COUNTED else count
    counted = 1
    try:
        with step_budget(COUNT_STEPS):
            for _ in islice(_between(trigger, due, until), MOST_COUNTED):
                counted += 1
    except TooManySteps:
        return -counted
    return -MOST_COUNTED if counted > MOST_COUNTED else counted


def without(found: Found, trigger: Trigger, taken: Collection[Instant]) -> Found:
    """Leave out the occurrences that have a row already."""
    run = tuple(due for due in found.run if due not in taken)
    missed = None if found.missed is None else span_without(found.missed, trigger, taken)
    return found._replace(run=run, missed=missed)


def span_without(span: Span, trigger: Trigger, taken: Collection[Instant]) -> Span | None:
    """Leave out occurrences that have a row. A range is stored under its first instant, so that one must be free."""
    first: Instant | None = span.first
    while first is not None and first in taken:
        first = trigger.next_after(first)
    if first is None or first > span.last:
        return None
    rest = span_between(trigger, first, span.last)
    among = sum(1 for due in taken if first < due <= span.last and trigger.next_after(Instant(due - 1)) == due)
    return rest if rest.number < 0 else rest._replace(number=max(1, rest.number - among))
