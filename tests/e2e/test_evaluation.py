"""The evaluation's questions, answered by a scripted agent; and the loop in which a model would answer them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from evaluation.questions import FILE, Question, read_questions
from tests.support.cli import ROOT, environment
from tests.support.mcp import Agent, World
from tests.support.scripted import SCRIPTS

QUESTIONS = read_questions()


class Scripted:
    """Uses a real client, and remembers which tools it called."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.called: set[str] = set()

    def text(self, tool: str, given: dict[str, Any]) -> str:
        self.called.add(tool)
        return self._agent.call(tool, given).text

    def data(self, tool: str, given: dict[str, Any]) -> dict[str, Any]:
        self.called.add(tool)
        return self._agent.knows(tool, given)

    def is_refused(self, tool: str, given: dict[str, Any]) -> bool:
        self.called.add(tool)
        return self._agent.call(tool, given).is_error

    def until(self, ask: Callable[[], bool]) -> None:
        self._agent.until(ask, 10, "it is there")


def script_for(question: Question) -> Callable[[Any], str]:
    [found] = [script for words, script in SCRIPTS.items() if words in question.text]
    return found


def test_every_question_is_answered_and_every_tool_is_covered(shared_world: World) -> None:
    called: set[str] = set()
    with shared_world.agent() as agent:
        tools = {tool.name for tool in agent.tools()}
    for question in QUESTIONS:
        with shared_world.agent() as agent:  # an owner of its own: nothing of the other questions is there
            hands = Scripted(agent)
            given = script_for(question)(hands)
            assert question.accepts(given), (question, given)
            called |= hands.called
    assert called == tools, "a tool without a question, or a question about no tool"
    assert len(SCRIPTS) == len(QUESTIONS)


FIRST = [
    (
        'Create a cron schedule with message "Delete test {current_time}" to topic "cronty-eval-test" that runs every '
        "day at midnight UTC (cron: 0 0 * * *). Then immediately delete the schedule using the returned schedule ID. "
        "Was the schedule created and then deleted successfully? Answer: Yes or No.",
        "Yes",
    ),
    (
        'Try to delete a schedule with ID "scd_nonexistent_test_id". Did the deletion fail with a "not found" error? '
        "Answer: Yes or No.",
        "Yes",
    ),
]


def test_the_first_two_questions_word_for_word() -> None:
    assert [tuple(question) for question in QUESTIONS[:2]] == FIRST


def test_an_answer_is_compared_as_a_person_would() -> None:
    question = Question("?", "prompt, job, notification")
    assert question.accepts(" Prompt, job,  notification.\n")
    assert not question.accepts("job, prompt, notification")
    assert FILE.name == "evaluation.xml"


# -- the model's loop, with a model that is none ------------------------------------------------------------------


class FakeModel(BaseHTTPRequestHandler):
    """Speaks the Messages API: first it calls the tool, then it answers by what the tool said."""

    asked: list[dict[str, Any]]
    gives_up = False

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).asked.append({"key": self.headers["x-api-key"], **request})
        last = request["messages"][-1]["content"]
        content: list[dict[str, Any]]
        if self.gives_up:
            content = [{"type": "text", "text": "I do not know."}]
        elif isinstance(last, str):
            given = {"schedule_id": re.findall(r"scd_\w+", last)[0]}
            content = [{"type": "tool_use", "id": "call_1", "name": "delete_schedule", "input": given}]
        else:
            found = "not found" in last[0]["content"]
            content = [{"type": "text", "text": f"So: <answer>{'Yes' if found else 'No'}</answer>"}]
        body = json.dumps({"content": content}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def fake_model(*, gives_up: bool = False) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    asked: list[dict[str, Any]] = []
    handler = type("Handler", (FakeModel,), {"asked": asked, "gives_up": gives_up})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


def evaluated(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    keys = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
    own = {name: value for name, value in environment().items() if name not in keys}
    path = os.pathsep.join((own["PYTHONPATH"], str(ROOT)))
    return subprocess.run(
        [sys.executable, "-m", "evaluation", *arguments],
        cwd=ROOT,
        env={**own, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_model_answers_with_the_tools() -> None:
    with fake_model() as (url, asked):
        done = evaluated("--only", "scd_nonexistent", ANTHROPIC_API_KEY="a key", ANTHROPIC_BASE_URL=url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("1 of 1 answers are right\n")
    assert [request["key"] for request in asked] == ["a key", "a key"]
    assert "delete_schedule" in {tool["name"] for tool in asked[0]["tools"]}
    [result] = asked[1]["messages"][-1]["content"]
    assert (result["type"], result["tool_use_id"], result["is_error"]) == ("tool_result", "call_1", False)


def test_a_model_that_does_not_know_is_wrong() -> None:
    with fake_model(gives_up=True) as (url, _):
        done = evaluated("--only", "scd_nonexistent", ANTHROPIC_API_KEY="a key", ANTHROPIC_BASE_URL=url)
    assert done.returncode == 1
    assert "WRONG" in done.stdout and "0 of 1 answers are right" in done.stdout
    assert "Traceback" not in done.stderr


def test_without_a_key_no_model_is_asked() -> None:
    done = evaluated()
    assert done.returncode == 2
    assert done.stdout.startswith("ANTHROPIC_API_KEY is not set")
