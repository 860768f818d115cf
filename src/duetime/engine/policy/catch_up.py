"""Decides, by arithmetic on the trigger alone, which occurrences of a claimed entry run and which were missed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Final

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.model import ScheduleId
from duetime.engine.policy.options import CatchUp, Policy, policy_from_json
from duetime.engine.policy.rows import Span
from duetime.engine.text_cache import MAX_SHORT_LENGTH
from duetime.engine.triggers import IntervalTrigger, Trigger, trigger_from_json
from duetime.engine.triggers.step_budget import (
    EVALUATION_STEPS,
    FEW_STEPS,
    OutOfSteps,
    TooManySteps,
    remembered,
    step_budget,
)
from duetime.engine.value_class import NamedTuple

LEAD = Instant(SECOND // 10)
"""How far ahead of its instant an occurrence may be claimed."""
MOST_COUNTED = 1000
COUNT_STEPS = 30_000
"""Step budget for counting the occurrences that were missed."""
NEWEST_STEPS = 60_000
"""Step budget for finding the occurrences to catch up on."""


class Occurring(NamedTuple):
    run: tuple[Instant, ...]
    missed: Span | None
    through: Instant
    following: Instant | None


def _next_after(trigger: str, after: Instant) -> Instant | None:
    return trigger_from_json(trigger).next_after(after)


_next_of_short, _next_of_long = remembered(65_536)(_next_after), remembered(4_096)(_next_after)


def next_instant(trigger: str, after: Instant) -> Instant | None:
    """Return the next instant, memoised: a hundred thousand schedules that share a midnight cost one computation. The
    cache for long triggers is smaller, because one owner can create many of them, but it holds more than one claim
    needs."""
    return (_next_of_short if len(trigger) <= MAX_SHORT_LENGTH else _next_of_long)(trigger, after)


def occurrences(
    trigger_text: str, policy: Policy, due: Instant, through: Instant | None, held: int, now: Instant
) -> Occurring:
    """Find what runs and what was missed. `held` is how long jitter or a limit delayed the entry, which does not count
    as lateness."""
    if through is not None and due <= through <= now + LEAD:
        # Already handled. A `through` from a clock that was ahead proves nothing; in that case the unique key decides.
        return Occurring((), None, through, next_instant(trigger_text, max(now, through)))
    following = next_instant(trigger_text, due)
    trigger = trigger_from_json(trigger_text)
    overtaken = trigger.jitter if following is not None and following <= due + trigger.jitter else 0
    superseded = following is not None and following <= now - overtaken
    if not superseded and now - due <= policy.grace + max(trigger.jitter, held):
        return Occurring((due,), None, due, following)
    return _catch_up(trigger, policy, due, now)


def _catch_up(trigger: Trigger, policy: Policy, due: Instant, now: Instant) -> Occurring:
    newest = trigger.latest(Instant(due - 1), now) or due
    following = trigger.next_after(max(now, newest))
    if policy.catch_up == CatchUp.ALL:
        run = _newest(trigger, due, newest, policy.catch_up_limit)
        return Occurring(run, _span(trigger, due, Instant(run[0] - 1)), newest, following)
    if policy.catch_up == CatchUp.SKIP and now - newest > policy.grace:
        return Occurring((), _span(trigger, due, newest), newest, following)
    return Occurring((newest,), _span(trigger, due, Instant(newest - 1)), newest, following)


def _newest(trigger: Trigger, due: Instant, newest: Instant, limit: int) -> tuple[Instant, ...]:
    """Return the last occurrences up to the newest one, searching ever further back until there are enough. If that
    takes too many steps, return those that were found; the others count as missed."""
    instants: tuple[Instant, ...] = (newest,)
    back, begin = SECOND, newest
    try:
        with step_budget(NEWEST_STEPS):
            while len(instants) < limit and begin >= due:
                begin = Instant(max(due - 1, newest - back))
                instants = tuple(deque(_between(trigger, begin, newest), maxlen=limit))
                back *= 2
    except TooManySteps:
        begin = due
    instants = instants or (newest,)
    # the occurrence was moved off the rule, so the rule does not contain it
    moved = begin < due < instants[0] and len(instants) < limit
    return (due, *instants) if moved else instants


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
    """Return the occurrences from `due` to `until`; memoised, because a transaction may be repeated."""
    return span_between(trigger_from_json(trigger), due, until)


@remembered(1_024)
def missed_span_without(trigger: str, due: Instant, until: Instant, taken: frozenset[Instant]) -> Span | None:
    """Return these occurrences except those that have a row already; memoised for the same reason."""
    rule = trigger_from_json(trigger)
    return span_without(span_between(rule, due, until), rule, taken)


def span_between(trigger: Trigger, due: Instant, until: Instant) -> Span:
    """Return the range that begins with `due`, which may have been moved off the rule, and continues with the rule's
    occurrences."""
    last = trigger.latest(due, until) or due
    return Span(due, last, _number(trigger, due, until))


def _number(trigger: Trigger, due: Instant, until: Instant) -> int:
    """Return how many occurrences a range has; a negative number means "at least", where an exact count would take too
    long."""
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


def without(occurring: Occurring, trigger: Trigger, taken: Collection[Instant]) -> Occurring:
    """Leave out the occurrences that have a row already."""
    run = tuple(due for due in occurring.run if due not in taken)
    missed = None if occurring.missed is None else span_without(occurring.missed, trigger, taken)
    return occurring._replace(run=run, missed=missed)


def span_without(span: Span, trigger: Trigger, taken: Collection[Instant]) -> Span | None:
    """Leave out occurrences that have a row. A range is stored under its first instant, so that instant must be
    free."""
    first: Instant | None = span.first
    while first is not None and first in taken:
        first = trigger.next_after(first)
    if first is None or first > span.last:
        return None
    rest = span_between(trigger, first, span.last)
    among = sum(1 for due in taken if first < due <= span.last and trigger.next_after(Instant(due - 1)) == due)
    return rest if rest.number < 0 else rest._replace(number=max(1, rest.number - among))


# The evaluation that a claim needs. It is separate so that an expensive evaluation runs outside the transaction.

ROUND_STEPS: Final = 30_000
"""Steps after which a worker goes on to its next exchange with the answers it has so far."""


class Question(NamedTuple):
    """The question which occurrences of a due entry run and which were missed."""

    schedule: ScheduleId
    version: int
    trigger: str
    policy: str
    due: Instant
    through: Instant | None
    held: int
    owner: str = ""
    evaluate: Callable[[], object] | None = None
    """For a pause that ends: computes and caches what is needed to pass over its occurrences."""


Answers = dict[Question, Occurring | InvalidInput]
"""What was found, or the error in the trigger. If the schedule has changed since, its question is a different key."""


def evaluate(questions: Sequence[Question], now: Instant, last: Answers | None = None) -> Answers:
    """Answer every question that takes few steps, then at least one of the others, and more of them within one round.
    The next exchange asks the rest again. Owners take turns, starting after the owner in `last`, which had the previous
    turn, so that nobody waits for all the costly triggers of another owner."""
    answers: Answers = {}
    costly = []
    for question in questions:
        try:
            with step_budget(FEW_STEPS, OutOfSteps):
                _answer(question, now, answers)
        except OutOfSteps:
            costly.append(question)
    with step_budget(ROUND_STEPS + EVALUATION_STEPS) as taken:
        for question in _in_turn(costly, next(reversed(last)).owner if last else ""):
            if taken.used > ROUND_STEPS:
                break
            with step_budget(EVALUATION_STEPS):
                _answer(question, now, answers)
    return answers


def _answer(question: Question, now: Instant, answers: Answers) -> None:
    if question.evaluate is not None:
        question.evaluate()
        return
    _, _, trigger, policy, due, through, held, *_ = question
    try:
        answers[question] = occurrences(trigger, policy_from_json(policy), due, through, held, now)
    except InvalidInput as error:
        answers[question] = error


def _in_turn(questions: Sequence[Question], last: str) -> list[Question]:
    """Return the questions with the owners taking turns, starting with the owner that follows `last`."""
    turns: Counter[str] = Counter()
    order = []
    for question in questions:
        turns[question.owner] += 1
        order.append((turns[question.owner], question.owner <= last, question.owner))
    return [question for _, question in sorted(zip(order, questions, strict=True), key=lambda pair: pair[0])]
