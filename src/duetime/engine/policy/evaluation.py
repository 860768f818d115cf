"""The trigger evaluation that a claim needs, separate so that an expensive one runs outside the transaction.

A claim evaluates triggers within the store's transaction, with few steps for each. An entry that needs more stays in
the queue; the worker evaluates it without holding a lock and passes the answer to the next exchange.
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


class Answer(NamedTuple):
    question: Question
    found: Found | InvalidInput


Answers = dict[ScheduleId, Answer]


def occurrences(trigger: str, policy: Policy, due: Instant, through: Instant | None, held: int, now: Instant) -> Found:
    if through is not None and due <= through <= now + LEAD:
        # Already handled. A `through` from a clock that was ahead proves nothing: there the unique key decides.
        return Found((), None, through, next_instant(trigger, max(now, through)))
    return find(trigger, policy, due, now, held)


def found_before(question: Question, answers: Answers) -> Found | None:
    """Return the answer found earlier, unless the schedule changed since; raise what is wrong with its trigger."""
    answer = answers.get(question.schedule)
    if answer is None or answer.question != question:
        return None
    if isinstance(answer.found, InvalidInput):
        raise answer.found
    return answer.found


def evaluate(questions: Sequence[Question], now: Instant) -> Answers:
    """Answer at least one question, and more within one round. The next exchange asks again for the rest."""
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
