"""The trigger evaluation that a claim needs, separate so that an expensive one runs outside the transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.model import ScheduleId
from duetime.engine.policy.catch_up import Found, find, next_instant
from duetime.engine.policy.options import Policy, policy_from_json
from duetime.engine.triggers.step_budget import EVALUATION_STEPS, FEW_STEPS, OutOfSteps, step_budget

LEAD = Instant(SECOND // 10)
"""How far ahead of its instant an occurrence may be claimed."""

ROUND_STEPS: Final = 30_000
"""Steps after which a worker continues with its next exchange and the answers it has so far."""


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
    """Of a pause that ends: computes and caches what passing over its occurrences needs."""


Answers = dict[Question, Found | InvalidInput]
"""What was found, or what is wrong with the trigger. If the schedule changed since, the question is another one."""


def occurrences(trigger: str, policy: Policy, due: Instant, through: Instant | None, held: int, now: Instant) -> Found:
    if through is not None and due <= through <= now + LEAD:
        # Already handled. A `through` from a clock that was ahead proves nothing: there the unique key decides.
        return Found((), None, through, next_instant(trigger, max(now, through)))
    return find(trigger, policy, due, now, held)


def evaluate(questions: Sequence[Question], now: Instant, last: Answers | None = None) -> Answers:
    """Answer every question that takes few steps, then at least one of the others, and more within one round. The next
    exchange asks again for the rest. Owners take turns, beginning after the one that had the last turn in `last`, so
    that nobody waits for all the costly triggers of another owner."""
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
    """Return one question of each owner after the other, beginning with the owner that follows `last`."""
    turns: Counter[str] = Counter()
    order = []
    for question in questions:
        turns[question.owner] += 1
        order.append((turns[question.owner], question.owner <= last, question.owner))
    return [question for _, question in sorted(zip(order, questions, strict=True), key=lambda pair: pair[0])]
