"""The evaluation's questions, answered by a scripted agent; and the loop in which a model would answer them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import apsw
from anyio.from_thread import start_blocking_portal

from evaluation.questions import FILE, Change, Question, read_questions
from evaluation.stores import TASKS, ZONE, contents, opened, prepare, problems
from tests.support.agents import over_stdio
from tests.support.cli import ROOT, environment
from tests.support.mcp import Agent, connected
from tests.support.scripted import SCRIPTS
from tests.support.scripted_happenings import SCRIPTS as HAPPENINGS_SCRIPTS
from tests.support.scripted_managing import SCRIPTS as MANAGING_SCRIPTS
from tests.support.scripted_operating import SCRIPTS as OPERATING_SCRIPTS

QUESTIONS = read_questions()
CHECKED_SCRIPTS = {**MANAGING_SCRIPTS, **OPERATING_SCRIPTS, **HAPPENINGS_SCRIPTS}
NEWER = "2026-07-28"
OF_THE_SERVER = {"workers", "meta", "published", "sqlite_sequence"}
"""Tables that a running server fills itself."""


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
        self._agent.until(ask, 30, "it is there")


def script_for(question: Question) -> Callable[[Any], str]:
    scripts = SCRIPTS if question.changes is None else CHECKED_SCRIPTS
    [found] = [script for words, script in scripts.items() if words in question.text]
    return found


class Stores:
    """The store of a running server, which gets the contents of a prepared one for each question."""

    def __init__(self, file: Path, prepared: Path) -> None:
        self.file, self._prepared = file, prepared

    def refill(self, name: str) -> None:
        source = self._prepared / f"{name}.db"
        if not source.exists():
            prepare(name, source)
        connection = apsw.Connection(str(self.file))
        connection.set_busy_timeout(10_000)
        connection.execute("ATTACH ? AS prepared", (str(source),))
        tables = [row[0] for row in connection.execute("SELECT name FROM prepared.sqlite_master WHERE type = 'table'")]
        connection.execute("BEGIN IMMEDIATE")
        for table in set(tables) - OF_THE_SERVER:
            connection.execute(f"DELETE FROM main.{table}")  # noqa: S608 - names of our own tables
            connection.execute(f"INSERT INTO main.{table} SELECT * FROM prepared.{table}")  # noqa: S608 - as above
        connection.execute("COMMIT")
        connection.close()


def test_every_question_is_answered_and_every_tool_is_covered(tmp_path: Path) -> None:
    (tmp_path / "prepared").mkdir()
    stores = Stores(tmp_path / "my.db", tmp_path / "prepared")
    connection = over_stdio(tmp_path, NEWER, "--tasks", TASKS, DUETIME_TIMEZONE=ZONE)
    called: set[str] = set()
    with (
        start_blocking_portal() as portal,
        connected(portal, connection) as agent,
        closing(opened(stores.file)) as seen,
    ):
        tools = {tool.name for tool in agent.tools()}
        for question in QUESTIONS:
            stores.refill(question.store)
            before = contents(seen)
            toolbox = Scripted(agent)
            given = script_for(question)(toolbox)
            assert question.accepts(given), (question, given)
            if question.changes is not None:
                assert not problems(before, contents(seen), question.changes), question
            called |= toolbox.called
    assert called == tools, "a tool without a question, or a question about no tool"
    assert len(SCRIPTS) + len(CHECKED_SCRIPTS) == len(QUESTIONS) == 102


def test_a_difference_that_no_question_names_is_a_problem(tmp_path: Path) -> None:
    prepare("office", tmp_path / "office.db")
    with closing(opened(tmp_path / "office.db")) as store:
        before = contents(store)
        assert problems(before, contents(store), ()) == []
        store.pause("standup")
        store.delete("retro")
        after = contents(store)
    paused, deleted = Change("schedule", "standup", {"status": "paused"}), Change("deleted", "retro", {})
    assert problems(before, after, (paused, deleted)) == []
    assert problems(before, after, (paused,)) == ["deleted 'retro' was changed, created or deleted"]
    assert problems(before, after, (deleted,)) == ["schedule 'standup' was changed, created or deleted"]
    wrong = Change("schedule", "standup", {"status": "pending"})
    assert problems(before, after, (wrong, deleted)) == ["schedule 'standup': status is 'paused' and not 'pending'"]
    missing = Change("run", "standup", {})
    assert problems(before, after, (paused, deleted, missing)) == ["run 'standup' is as before or does not exist"]


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
    assert [(question.text, question.answer) for question in QUESTIONS[:2]] == FIRST


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
