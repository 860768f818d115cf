"""`python -m evaluation`: a model plays the questions, each with a store of its own; fails unless all are right."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import anyio
import httpx2

from evaluation.model import Model, ModelProblem
from evaluation.questions import Question, read_questions
from tests.support.agents import over_stdio

KEY = "ANTHROPIC_API_KEY"
URL = "ANTHROPIC_BASE_URL"
MODEL = "claude-sonnet-4-5"
PATIENCE = 300
"""Seconds for one question."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make evaluate ARGS=...", description=__doc__)
    parser.add_argument("--model", default=MODEL, help=f"which model answers; {MODEL} if absent")
    parser.add_argument("--only", default="", metavar="WORDS", help="only questions that contain these words")
    options = parser.parse_args(arguments)
    key = os.environ.get(KEY)
    if not key:
        _say(f"{KEY} is not set, so no model can be asked. The tests play the same questions with a scripted agent.")
        return 2
    asked = [question for question in read_questions() if options.only in question.text]
    url = os.environ.get(URL) or "https://api.anthropic.com"
    right = anyio.run(_play, asked, url, key, options.model)
    _say(f"{right} of {len(asked)} answers are right")
    return 0 if right == len(asked) else 1


async def _play(questions: list[Question], url: str, key: str, name: str) -> int:
    right = 0
    async with httpx2.AsyncClient(timeout=120) as http:
        model = Model(http, url, key, name)
        for question in questions:
            given = await _asked(model, question)
            good = question.accepts(given)
            right += good
            _say(f"{'right' if good else 'WRONG'}  {question.text[:90]}  {given!r}")
            if not good:
                _say(f"       expected {question.answer!r}")
    return right


async def _asked(model: Model, question: Question) -> str:
    """Ask one question; after any error, the other questions are still asked."""
    with tempfile.TemporaryDirectory(prefix="duetime-evaluation-") as folder:
        try:
            with anyio.fail_after(PATIENCE):
                connection = over_stdio(Path(folder), "2026-07-28", DUETIME_TIMEZONE="Europe/Berlin")
                async with connection as client:
                    return await model.answer(question.text, client)
        except (ModelProblem, TimeoutError, httpx2.HTTPError) as problem:
            return f"({type(problem).__name__}: {problem})"
        except BaseExceptionGroup as several:
            return f"({several.exceptions[0]})"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
