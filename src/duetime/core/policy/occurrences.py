"""Which occurrences of a claimed entry run and which were missed. Pure arithmetic on the trigger."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from duetime.core.clock import Instant
from duetime.core.policy.rows import Span
from duetime.core.policy.values import CatchUp, Policy
from duetime.core.triggers import Trigger, trigger_from_json

MOST_COUNTED = 1000


class Found(NamedTuple):
    run: tuple[Instant, ...]
    missed: Span | None
    through: Instant
    following: Instant | None


@lru_cache(maxsize=65_536)
def next_instant(trigger: str, after: Instant) -> Instant | None:
    """Memoised: a hundred thousand schedules that share a midnight cost one computation."""
    return trigger_from_json(trigger).next_after(after)


def find(trigger_text: str, policy: Policy, due: Instant, now: Instant, held: int = 0) -> Found:
    """`held`: how long its entry was put off on purpose, by jitter or by a limit; that is not being late."""
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
    instants = [newest]
    while len(instants) < limit and instants[-1] > due:
        earlier = trigger.latest(Instant(due - 1), Instant(instants[-1] - 1))
        instants.append(due if earlier is None else earlier)  # a moved occurrence is none of the rule's
    return tuple(reversed(instants))


def _span(trigger: Trigger, due: Instant, until: Instant) -> Span | None:
    """The occurrences from `due` to `until`, which may be none."""
    return span_between(trigger, due, until) if until >= due else None


def span_between(trigger: Trigger, due: Instant, until: Instant) -> Span:
    """Return the range of `due` itself, which may have been moved off the rule, and the rule's occurrences after it."""
    last = trigger.latest(due, until) or due
    count = 1 + trigger.count(due, until, MOST_COUNTED)
    return Span(due, last, -MOST_COUNTED if count > MOST_COUNTED else count)


def without(found: Found, trigger: Trigger, taken: Collection[Instant]) -> Found:
    """The same, less the occurrences that have a row already."""
    run = tuple(due for due in found.run if due not in taken)
    missed = None if found.missed is None else span_without(found.missed, trigger, taken)
    return found._replace(run=run, missed=missed)


def span_without(span: Span, trigger: Trigger, taken: Collection[Instant]) -> Span | None:
    """A range is stored under its first instant, so that one has to be free."""
    first: Instant | None = span.first
    while first is not None and first in taken:
        first = trigger.next_after(first)
    if first is None or first > span.last:
        return None
    rest = span_between(trigger, first, span.last)
    among = sum(1 for due in taken if first < due <= span.last and trigger.next_after(Instant(due - 1)) == due)
    return rest if rest.number < 0 else rest._replace(number=max(1, rest.number - among))
