"""What a claim has to know of its trigger, so that an expensive answer is worked out outside the transaction.

A claim evaluates triggers within the store's transaction, with few steps for each. An entry that needs more stays in
the queue; the worker works its answer out without holding a lock and hands it to the next exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.model import ScheduleId
from duetime.engine.policy.catch_up import Found, find, next_instant
from duetime.engine.policy.options import Policy, policy_from_json
from duetime.engine.triggers.step_budget import EVALUATION_STEPS, step_budget

LEAD = Instant(SECOND // 10)
"""How far ahead of its instant an occurrence may be claimed."""

ROUND_STEPS: Final = 30_000
"""Steps after which a worker turns to its next exchange, with what it has worked out so far."""


class Question(NamedTuple):
    """Which occurrences of a due entry run and which were missed."""

    schedule: ScheduleId
    version: int
    trigger: str
    policy: str
    due: Instant
    through: Instant | None
    held: int


class Answer(NamedTuple):
    question: Question
    found: Found | InvalidInput


Answers = dict[ScheduleId, Answer]


def occurrences(trigger: str, policy: Policy, due: Instant, through: Instant | None, held: int, now: Instant) -> Found:
    if through is not None and due <= through <= now + LEAD:
        # Dealt with. A `through` from a clock that was ahead proves nothing: there the unique key decides.
        return Found((), None, through, next_instant(trigger, max(now, through)))
    return find(trigger, policy, due, now, held)


def found_before(question: Question, answers: Answers) -> Found | None:
    """What was worked out, unless the schedule changed since; raises what is wrong with its trigger."""
    answer = answers.get(question.schedule)
    if answer is None or answer.question != question:
        return None
    if isinstance(answer.found, InvalidInput):
        raise answer.found
    return answer.found


def evaluate(questions: Sequence[Question], now: Instant) -> Answers:
    """At least one; the others as far as a round goes. The next exchange asks again for those that are left."""
    answers: Answers = {}
    with step_budget(ROUND_STEPS + EVALUATION_STEPS) as taken:
        for question in questions:
            if taken.used > ROUND_STEPS:
                break
            answers[question.schedule] = Answer(question, _evaluated(question, now))
    return answers


def _evaluated(question: Question, now: Instant) -> Found | InvalidInput:
    try:
        with step_budget(EVALUATION_STEPS):
            policy = policy_from_json(question.policy)
            return occurrences(question.trigger, policy, question.due, question.through, question.held, now)
    except InvalidInput as error:
        return error
