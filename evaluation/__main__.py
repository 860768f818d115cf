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
from evaluation.stores import TASKS, ZONE, contents, opened, prepare, problems
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
            given, wrong = await _asked(model, question)
            if not question.accepts(given):
                wrong = [f"expected {question.answer!r}", *wrong]
            right += not wrong
            _say(f"{'WRONG' if wrong else 'right'}  {question.text[:90]}  {given!r}")
            for line in wrong:
                _say(f"       {line}")
    return right


async def _asked(model: Model, question: Question) -> tuple[str, list[str]]:
    """Ask one question on a store of its own. Return the answer and what is wrong in the store afterwards."""
    with tempfile.TemporaryDirectory(prefix="duetime-evaluation-") as name:
        folder = Path(name)
        prepare(question.store, folder / "my.db")
        store = opened(folder / "my.db")
        try:
            before = contents(store)
            given = await _answer(model, question, folder)
            return given, [] if question.changes is None else problems(before, contents(store), question.changes)
        finally:
            store.close()


async def _answer(model: Model, question: Question, folder: Path) -> str:
    """Return the answer, or the error: the other questions are asked all the same."""
    try:
        with anyio.fail_after(PATIENCE):
            async with over_stdio(folder, "2026-07-28", "--tasks", TASKS, DUETIME_TIMEZONE=ZONE) as client:
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
