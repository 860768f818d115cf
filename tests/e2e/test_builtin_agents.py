"""The built-in agent and the conversation in whole loops: a scripted model, real clients, a real `duetime serve`."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.clock import SystemClock
from duetime.kinds.prompts.agent import Access
from duetime.kinds.prompts.agents.builtin import BuiltinAgent
from duetime.kinds.prompts.agents.models import EXAMPLE, NO_MODEL
from tests.support.chatting import chat, chatting
from tests.support.cli import Answer
from tests.support.mcp import SAMPLES, World, unique, world
from tests.support.model_server import ModelServer, Request, Step, call, fail, say, together
from tests.support.waking import agent_request, over_stdio, succeeded

MODELS = (EXAMPLE, "openai:gpt-5", "openai-chat:gpt-5", "google:gemini-2.5-pro")
CRON = {"message": "Standup", "notification_topic": "work-standup", "cron": "0 9 * * 1-5", "timezone": "Europe/Berlin"}
JOB = {"name": "greet", "task": "echo", "args": ["hi"], "trigger_type": "interval", "trigger_config": {"hours": 1}}
SCRIPT = [
    together(
        call("schedule", prompt="water the plants", at="2031-02-10 3:00 PM"),
        call("schedule", prompt="feed the cat", cron="0 8 * * *"),
    ),
    call("schedule_list", {"from": "2031-02-10", "to": "2031-02-10"}),
    call(
        "schedule_edit", lambda seen: {"id": seen.data("schedule_list")["tasks"][0]["id"], "at": "2031-02-10 4:00 PM"}
    ),
    call("schedule_cancel", lambda seen: {"id": seen.number("schedule")}),
    call("schedule_cron_notification", CRON),
    call("pause_schedule", lambda seen: {"schedule_id": seen.data("schedule_cron_notification")["schedule_id"]}),
    call("schedule_job", JOB),
    call("job_status", lambda seen: {"job_id": seen.data("schedule_job")["job_id"]}),
    say(lambda seen: f"The plants move to {seen.data('schedule_edit')['fire_at']}."),
]
"""Through all four tools of prompts, and more."""


def effects(there: World, owner: str) -> None:
    """What the script leaves in the store, seen by another client."""
    with there.agent(owner) as client:
        tasks = client.knows("schedule_list", status="all")["tasks"]
        assert [(each["prompt"], each["status"]) for each in tasks if each["status"] == "pending"] == [
            ("water the plants", "pending")
        ]
        assert [each["prompt"] for each in tasks if each["status"] == "cancelled"] == ["feed the cat"]
        assert tasks[[each["prompt"] for each in tasks].index("water the plants")]["fire_at"].startswith(
            "2031-02-10T16:00:00"
        )
        [schedule] = client.knows("list_scheduled_notifications")["schedules"]
        assert (schedule["notification_topic"], schedule["paused"]) == ("work-standup", True)
        [job] = client.knows("list_jobs")["jobs"]
        assert (job["name"], job["status"]) == ("greet", "pending")


@pytest.mark.parametrize("model", MODELS)
def test_a_woken_agent_over_http(model: str, shared_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = unique("owner")
    access = Access(shared_world.served.url, shared_world.token(owner))
    with ModelServer(SCRIPT) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        reply = succeeded(
            BuiltinAgent(model, SystemClock(), "Europe/Berlin").wake(agent_request(access, "Plan my day.", owner=owner))
        )
    assert reply.text == "The plants move to 2031-02-10T16:00:00+01:00."
    assert len(reply.tool_calls) == 9 and not any(each.get("failed") for each in reply.tool_calls)
    assert reply.spent.input_tokens == 900 and reply.spent.output_tokens == 90 and reply.spent.dollars > 0
    assert len(server.requests[0].tools) > 20 and all(server.requests[0].tools.values()), "each tool is described"
    assert access.token not in json.dumps([dict(request.body) for request in server.requests])
    effects(shared_world, owner)


def test_a_woken_agent_over_stdio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(SCRIPT) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        reply = succeeded(
            BuiltinAgent(EXAMPLE, SystemClock(), "UTC").wake(agent_request(over_stdio(tmp_path, "--tasks", SAMPLES)))
        )
    assert len(reply.tool_calls) == 9 and not any(each.get("failed") for each in reply.tool_calls)


# -- the conversation ---------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Iterator[World]:
    """A server of its own: the conversation's owner is `local`, with the store in its folder and the server's zone."""
    with world(tmp_path, env={"DUETIME_TIMEZONE": "Europe/Berlin"}) as made:
        yield made


def test_a_conversation_through_all_tools(home: World) -> None:
    folder = home.served.folder
    with ModelServer(SCRIPT) as server:
        answer = chat(folder, "--tasks", SAMPLES, "--once", "Plan my day.", "--json", env=server.environment)
    assert answer.code == 0, answer
    document = answer.document
    assert document["text"] == "The plants move to 2031-02-10T16:00:00+01:00." and document["error"] is None
    assert [each["name"] for each in document["tool_calls"]][2:5] == [
        "schedule_list",
        "schedule_edit",
        "schedule_cancel",
    ]
    assert document["usage"] == {"input_tokens": 900, "output_tokens": 90, "dollars": document["usage"]["dollars"]}
    assert server.requests[0].said == ["Plan my day."] and "in the zone Europe/Berlin" in server.requests[0].system
    effects(home, "local")
    assert "It fires only while" not in answer.out, "a worker is there already"


def test_a_conversation_can_ask_what_came_of_a_prompt(home: World) -> None:
    with home.agent("local") as client:
        client.knows("schedule", prompt="count the sheep", at="now", agent="inbox")
        taken: dict[str, Any] = {}

        def there() -> bool:
            taken.update(client.knows("take_prompt"))
            return "run_id" in taken

        client.until(there, 30, "it is due")
        client.knows("finish_prompt", run_id=taken["run_id"], result="41 sheep")
    script = [
        call("schedule_list", status="completed"),
        call("prompt_result", lambda seen: {"id": seen.data("schedule_list")["tasks"][0]["id"]}),
        say(lambda seen: f"It said: {seen.data('prompt_result')['result']}"),
    ]
    with ModelServer(script) as server:
        answer = chat(home.served.folder, "--once", "And the sheep?", "--json", env=server.environment)
    assert answer.code == 0 and answer.document["text"] == "It said: 41 sheep", answer


@pytest.mark.timeout(300)  # one process after the other loads the libraries of the models
def test_history_goes_on_in_the_next_invocation(tmp_path: Path) -> None:
    script = [
        call("schedule", prompt="water the plants", at="2031-02-10 3:00 PM"),
        say("It is set."),
        call("schedule_cancel", lambda seen: {"id": seen.number("schedule")}),
        say("It is gone."),
        say("You began anew."),
    ]
    with ModelServer(script) as server:
        first = chat(tmp_path, "--session", "garden", "--once", "Plants at three.", env=server.environment)
        second = chat(tmp_path, "--session", "garden", "--once", "Forget it.", env=server.environment)
        other = chat(tmp_path, "--new", "--once", "Who am I?", "--json", env=server.environment)
        assert server.requests[-1].said == ["Who am I?"], "another conversation knows nothing of the first"
        name = other.document["session"]
        listed = chat(tmp_path, "--list", "--json", env={}).document
        refused = spoilt(tmp_path, name, server)
    assert (first.out, second.out) == ("It is set.\n", "It is gone.\n")
    assert 'schedule {"prompt":"water the plants"' in first.err and "Cancelled" not in first.err
    last = [request for request in server.requests if request.said == ["Plants at three.", "Forget it."]][-1]
    assert [result.tool for result in last.results] == ["schedule", "schedule_cancel"]
    assert other.code == 0 and name.endswith("-1")
    assert refused.code == 2 and "cannot be read by this version" in refused.err
    rows = {each["session"]: each for each in listed["sessions"]}
    assert rows["garden"]["first"] == "Plants at three." and rows["garden"]["messages"] == 8
    kept = tmp_path / "data" / "duetime" / "chats"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in kept.iterdir()} == {
        "garden.json": 0o600,
        f"{name}.json": 0o600,
    }
    assert "made-up" not in (kept / "garden.json").read_text()
    assert "nonsense" in (kept / f"{name}.json").read_text(), "it is not overwritten"


def spoilt(folder: Path, name: str, server: ModelServer) -> Answer:
    """What a conversation says that some other version has written."""
    file = folder / "data" / "duetime" / "chats" / f"{name}.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "messages": [{"kind": "nonsense"}]}))
    return chat(folder, "--session", name, "--once", "Hi.", env=server.environment)


def test_words_come_as_they_are_said_and_ctrl_c_stops_them(tmp_path: Path) -> None:
    script = [
        call("schedule", prompt="water the plants", at="2031-02-10 3:00 PM"),
        say("One two three four", stall_after=2),
    ]

    def play(request: Request) -> Step:
        if "And now?" in request.said:
            return say("Here again.")
        return script[min(len(request.turns), 1)]

    with ModelServer(play) as server, chatting(tmp_path, "--session", "it", env=server.environment) as talk:
        assert "conversation 'it'" in talk.until("ends.\n")
        talk.say("Count for me.")
        shown = talk.until("One two ")
        assert re.search(r'  schedule \{"prompt":"water the plants".*\} -> \{"id":1,.*\n', shown)
        talk.interrupt()
        talk.until("(stopped)\n")
        talk.say("And now?")
        assert talk.until("Here again.\n") == "Here again.\n"
        talk.interrupt()
        assert talk.process.wait(30) == 130, "at the prompt it ends the conversation"
        kept = server.requests[-1]
    assert kept.said[0] == "Count for me." and kept.said[-1] == "And now?"
    assert [result.tool for result in kept.results] == ["schedule"], "what was done before the interruption is known"


def test_it_says_what_waits_for_an_agent(home: World) -> None:
    folder = home.served.folder
    with home.agent("local") as client:
        client.knows("schedule", prompt="book a table \x1b[31mred", at="now", agent="inbox")
        client.until(lambda: len(client.content("prompts://due")["due"]) == 1, 20, "the prompt is due")
    script = [
        call("take_prompt"),
        call("finish_prompt", lambda seen: {"run_id": seen.data("take_prompt")["run_id"], "result": "booked"}),
        say("Booked."),
    ]
    with ModelServer(script) as server, chatting(folder, env=server.environment) as talk:
        greeting = talk.until("red\n")
        assert "1 due prompt waiting for an agent:\n  #1  20" in greeting and "\x1b" not in greeting
        talk.say("Do it.")
        talk.until("Booked.\n")
        talk.say("What else?")
        talk.until("Done.\n")
        assert talk.leave() == 0
    assert "Due prompts that wait for an agent: 1." in server.requests[0].system
    assert "Due prompts that wait" not in server.requests[-1].system, "it is done by now"
    with home.agent("local") as client:
        assert client.content("prompts://due")["due"] == []
        assert client.knows("schedule_list", status="all")["tasks"][0]["status"] == "completed"


def test_a_model_that_fails_is_said_and_the_conversation_goes_on(tmp_path: Path) -> None:
    script = [fail(401, "who is made-up-anthropic-key?", times=1), say("Better now.")]
    with ModelServer(script) as server:
        answer = chat(tmp_path, env=server.environment, said="Hi.\nStill there?\n")
        assert answer.code == 0 and answer.out.endswith("Better now.\n")
        assert "duetime: anthropic:" in answer.err and "variable ANTHROPIC_API_KEY" in answer.err
        assert "made-up" not in answer.out + answer.err
        assert server.requests[-1].said == ["Still there?"], "a question without an answer is not kept"
    with ModelServer([fail(401, "no")]) as server:
        answer = chat(tmp_path, "--once", "Hi.", "--json", env=server.environment)
        assert answer.code == 1 and "refused the key (401: no)" in answer.document["error"]


@pytest.mark.parametrize("arguments", [("--once", "Hi."), ()])
def test_without_a_model_it_says_what_to_set(arguments: tuple[str, ...], tmp_path: Path) -> None:
    answer = chat(tmp_path, *arguments, env={"DUETIME_MODEL": ""})
    assert (answer.code, answer.out, answer.err) == (2, "", f"duetime: {NO_MODEL}\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--once", "Hi."), f"model: {EXAMPLE} needs its key: set the environment variable ANTHROPIC_API_KEY"),
        (("--model", "nobody:knows"), "model: nobody:knows is not known; write it as maker:model"),
        (("--session", "../x", "--once", "Hi."), "--session: '../x' is not a valid name"),
        (("--json",), "--json: requires --once or --list"),
        (("--new", "--session", "x"), "--new: chooses a name itself"),
    ],
)
def test_what_cannot_be_used_is_said(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    answer = chat(tmp_path, *arguments, env={})
    assert answer.code == 2 and words in answer.out + answer.err


def test_half_characters_do_not_spoil_a_conversation(tmp_path: Path) -> None:
    def play(request: Request) -> Step:
        return say("Odd \ud800 here \0.") if len(request.said) == 1 else say("Fine.")

    with ModelServer(play) as server:
        answer = chat(tmp_path, env=server.environment, said="Hi.\nAgain.\n")
        assert answer.code == 0 and answer.out.endswith("Odd \\ud800 here \\x00.\nFine.\n")
        assert chat(tmp_path, "--once", "Once more.", env=server.environment).out == "Fine.\n"
