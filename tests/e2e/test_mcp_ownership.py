"""What A made is for B, byte for byte, what does not exist: over every tool, resource and subscription that the
server lists, so that a new one is covered by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import mcp_types as types
import pytest

from duetime import Duetime
from tests.e2e.test_mcp_tools import CALLS, CRON, JOB, NOTE, fired, taken
from tests.support.mcp import Agent, Answer, World, unique
from tests.support.raw import HttpLine

ERAS = ("2025-11-25", "2026-07-28")
Id = str | int
UNKNOWN = "<an id>"
LIST = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?|\b\d\d:\d\d:\d\d\b|\b\d{13}\b")


class Belongings:
    """Something of every kind, in every state, and their ids."""

    def __init__(self, there: World) -> None:
        self.owner = unique("ada")
        self.topic = unique("topic")
        self.key = unique("key")
        self.ids: list[Id] = []
        self._there = there

    def make(self, agent: Agent) -> None:
        self._jobs(agent)
        self._prompts(agent)
        self._notifications(agent)

    def _jobs(self, agent: Agent) -> None:
        once = {"trigger_type": "once", "trigger_config": {"run_at": "now"}}
        self.finished = fired(agent, "completed")
        self.failed = fired(agent, "failed", task="demo_flaky")
        self.pending = agent.knows("schedule_job", JOB)["job_id"]
        cancelled = agent.knows("schedule_job", JOB)["job_id"]
        agent.knows("cancel_job", job_id=cancelled)
        paused = agent.knows("schedule_job", JOB)["job_id"]
        duetime = Duetime(self._there.db, owner=self.owner)
        duetime.pause(paused)
        duetime.close()
        assert agent.knows("job_status", job_id=paused)["status"] == "paused"
        self.running = agent.knows("schedule_job", {**JOB, **once, "task": "demo_wait", "kwargs": {"seconds": 120}})[
            "job_id"
        ]
        agent.until(lambda: agent.knows("job_status", job_id=self.running)["status"] == "running", 30, "it runs")
        runs = [run["run_id"] for job in (self.finished, self.failed) for run in job["history"]]
        runs += [run["run_id"] for run in agent.knows("job_status", job_id=self.running)["history"]]
        self.ids += [
            self.finished["job_id"],
            self.failed["job_id"],
            self.pending,
            cancelled,
            paused,
            self.running,
            *runs,
        ]

    def _prompts(self, agent: Agent) -> None:
        agent.knows("schedule", prompt="done already", at="now")
        finished = taken(agent)
        agent.knows("finish_prompt", run_id=finished["run_id"], result="a secret result")
        agent.knows("schedule", prompt="in hand", at="now")
        held = taken(agent)
        waiting = agent.knows("schedule", prompt="it waits", at="now")
        agent.until(lambda: agent.content("prompts://due")["total"] == 1, 30, "it waits")
        run_id = agent.content("prompts://due")["due"][0]["run_id"]
        pending = agent.knows("schedule", prompt="a secret plan", at="2031-02-10 3:00 PM")
        self.ids += [
            finished["id"],
            finished["run_id"],
            held["id"],
            held["run_id"],
            waiting["id"],
            run_id,
            pending["id"],
        ]

    def _notifications(self, agent: Agent) -> None:
        mine = {"notification_topic": self.topic, "message": "a secret message"}
        self.recurring = agent.knows("schedule_cron_notification", {**CRON, **mine})["schedule_id"]
        paused = agent.knows("schedule_cron_notification", {**CRON, **mine})["schedule_id"]
        agent.knows("pause_schedule", schedule_id=paused)
        coming = agent.knows("schedule_notification", {**NOTE, **mine, "delay": "2h"})["message_id"]
        sent = agent.knows("send_push_notification", {**NOTE, **mine})["message_id"]
        gone = agent.knows("schedule_cron_notification", {**CRON, **mine})["schedule_id"]
        agent.knows("delete_schedule", schedule_id=gone)
        self.ids += [self.recurring, paused, coming, sent, gone]

    def seen_by(self, agent: Agent) -> list[Any]:
        """All of it, as its owner sees it."""
        lists = [
            agent.call("list_jobs", limit=1000),
            agent.call("schedule_list", status="all"),
            agent.call("list_scheduled_notifications"),
            agent.call("list_upcoming", count=100),
        ]
        jobs = [each for each in self.ids if str(each).startswith("job_")]
        one_by_one = [agent.call("job_status", job_id=str(each)) for each in jobs]
        return [*lists, *one_by_one, agent.read("prompts://due"), *(agent.read(uri) for uri in self.uris(agent))]

    def uris(self, agent: Agent) -> list[str]:
        """Every template that the server lists, filled with every id and with the topic."""
        holed = [uri for uri in agent.uris() if "{" in uri]
        return [re.sub(r"\{\w+\}", str(value), uri) for uri in holed for value in (*self.ids, self.topic)]


@pytest.fixture(scope="module")
def belongings(shared_world: World) -> Iterator[Belongings]:
    made = Belongings(shared_world)
    with shared_world.agent(made.owner, token=None) as ada:
        made.make(ada)
        yield made
        ada.knows("cancel_job", job_id=made.running)  # the server would wait for it


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def stranger(shared_world: World, era: str) -> Iterator[Agent]:
    with shared_world.agent(era=era) as agent:
        yield agent


@pytest.fixture
def nobody(shared_world: World, era: str) -> Iterator[Agent]:
    """An owner of nothing, for comparison."""
    with shared_world.agent(era=era) as agent:
        yield agent


def id_arguments(tool: types.Tool) -> list[str]:
    return [name for name in tool.input_schema["properties"] if name == "id" or name.endswith("_id")]


def unknown_like(known: Id) -> Id:
    """Of the same form and length, and nobody's."""
    if isinstance(known, int):
        return 10**15 + known
    if known.isdigit():
        return str(10**15 + int(known))
    head, _, tail = known.partition("_")
    return f"{head}_{tail.translate(str.maketrans('0123456789abcdef', '9999999999ffffff'))}"


def veiled(answer: Answer | str, *values: Id) -> str:
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    for value in values:
        text = re.sub(rf"(?<![\w-]){re.escape(str(value))}(?![\w-])", UNKNOWN, text)
    return text


def timeless(answer: Answer) -> str:
    text = _INSTANT.sub("<a time>", json.dumps(answer, ensure_ascii=False))
    return re.sub(r"hook_[0-9a-f]{32}", "<a hook>", text)


def fits(value: Id, schema: dict[str, Any]) -> bool:
    return ("integer" if isinstance(value, int) else "string") in schema["type"]


# -- tools --------------------------------------------------------------------------------------------------------


def test_every_tool_that_takes_an_id(belongings: Belongings, shared_world: World, stranger: Agent, era: str) -> None:
    with shared_world.agent(belongings.owner, era=era) as ada:
        before = belongings.seen_by(ada)
        compared = 0
        for tool in stranger.tools():
            for name in id_arguments(tool):
                compared += _compare(stranger, tool, name, belongings.ids)
        assert compared > 100, "the ids did not fit the tools"
        assert belongings.seen_by(ada) == before, "nothing of it was touched"


def _compare(stranger: Agent, tool: types.Tool, name: str, ids: list[Id]) -> int:
    """Each id, as it is and as a text, beside one of the same form that nobody has."""
    schema = tool.input_schema["properties"][name]
    others = {each: None for each in id_arguments(tool) if each not in tool.input_schema.get("required", [])}
    given = {**CALLS[tool.name], **others}
    expected: dict[str, str] = {}
    fitting = [each for known in ids for each in {known, str(known)} if fits(each, schema)]
    for known in fitting:
        unknown = unknown_like(known)
        form = re.sub(r"[0-9a-f]", "0", str(unknown)) + type(unknown).__name__
        if form not in expected:
            expected[form] = veiled(stranger.call(tool.name, {**given, name: unknown}), unknown)
        said = veiled(stranger.call(tool.name, {**given, name: known}), known)
        assert said == expected[form], (tool.name, name, known)
        assert "secret" not in said
    return len(fitting)


def test_every_tool_that_looks_without_an_id(
    belongings: Belongings, shared_world: World, stranger: Agent, nobody: Agent, era: str
) -> None:
    """Lists, what waits, what comes: with each value of each enumerated argument, with the topic, with a cursor."""
    with shared_world.agent(belongings.owner, era=era) as ada:
        cursor = ada.knows("list_jobs", limit=1)["next_cursor"]
    compared = []
    for tool in stranger.tools():
        properties = tool.input_schema["properties"]
        if id_arguments(tool) or "idempotency_key" in properties:
            continue
        variants: list[dict[str, Any]] = [{}]
        for name, schema in properties.items():
            variants += [{name: value} for value in schema.get("enum", ())]
            variants += [{name: belongings.topic}] * (name == "notification_topic")
            variants += [{name: cursor}] * (name == "cursor")
        for variant in variants:
            given = {**CALLS[tool.name], **variant}
            assert timeless(stranger.call(tool.name, given)) == timeless(nobody.call(tool.name, given)), (
                tool.name,
                given,
            )
        compared.append(tool.name)
    assert {"list_jobs", "schedule_list", "list_scheduled_notifications", "list_upcoming", "take_prompt"} <= set(
        compared
    )


def test_keys_of_creates_are_the_owners_own(
    belongings: Belongings, shared_world: World, stranger: Agent, era: str
) -> None:
    """A key that A used is as good as new for B, with the same arguments and with others."""
    with shared_world.agent(belongings.owner, era=era) as ada:
        for tool in stranger.tools():
            if "idempotency_key" not in tool.input_schema["properties"]:
                continue
            key = unique("key")
            first = ada.knows(tool.name, {**CALLS[tool.name], "idempotency_key": key})
            [identity] = {"job_id", "id", "message_id", "schedule_id", "event_id"} & set(first)
            own = stranger.knows(tool.name, {**CALLS[tool.name], "idempotency_key": key})
            assert own[identity] != first[identity], tool.name
            assert stranger.knows(tool.name, {**CALLS[tool.name], "idempotency_key": key})[identity] == own[identity]
            for agent, made in ((ada, first), (stranger, own)) if identity != "event_id" else ():
                _undo(agent, identity, made[identity])


def _undo(agent: Agent, identity: str, made: Id) -> None:
    tool, name = {
        "job_id": ("cancel_job", "job_id"),
        "id": ("schedule_cancel", "id"),
        "message_id": ("delete_schedule", "schedule_id"),
        "schedule_id": ("delete_schedule", "schedule_id"),
    }[identity]
    agent.knows(tool, {name: made})


def test_a_forged_owner_is_refused(belongings: Belongings, stranger: Agent) -> None:
    for tool in stranger.tools():
        for name in ("owner", "sub", "caller", "holder"):
            refused = stranger.refused(tool.name, {**CALLS[tool.name], name: belongings.owner})
            assert refused.startswith(f"Unknown argument: {name}."), tool.name


def test_what_stands_beside_the_arguments_changes_nothing(belongings: Belongings, stranger: Agent) -> None:
    said: types.CallToolResult = stranger.do(
        stranger.client.call_tool, "job_status", {"job_id": belongings.pending}, meta={"owner": belongings.owner}
    )
    assert said.structured_content == {"error": f"Job not found: {belongings.pending}"}


# -- resources ----------------------------------------------------------------------------------------------------


def test_every_resource(belongings: Belongings, stranger: Agent, nobody: Agent) -> None:
    compared = 0
    for uri in stranger.uris():
        if "{" not in uri:
            assert stranger.read(uri) == nobody.read(uri), uri
            continue
        for known in (*belongings.ids, belongings.topic):
            unknown = unique("topic") if known == belongings.topic else unknown_like(known)
            said = stranger.read(re.sub(r"\{\w+\}", str(known), uri))
            other = stranger.read(re.sub(r"\{\w+\}", str(unknown), uri))
            assert veiled(said, known) == veiled(other, unknown), (uri, known)
            assert "secret" not in said
            compared += 1
    assert compared > 50


def test_every_subscription(belongings: Belongings, shared_world: World, era: str) -> None:
    """B subscribes to everything that A has; A changes something of each kind and hears of it; B does not."""
    own = unique("topic")
    bob = unique("bob")
    with shared_world.agent(belongings.owner, era=era) as ada:
        uris = belongings.uris(ada)
        with (
            shared_world.listening(belongings.owner, *uris, era=era) as listening,
            shared_world.listening(bob, *uris, f"schedules://{own}", "prompts://due", era=era) as spying,
        ):
            expected = [f"schedules://{belongings.topic}", f"jobs://{belongings.pending}"]
            ada.knows("pause_schedule", schedule_id=belongings.recurring)
            other = Duetime(shared_world.db, owner=belongings.owner)
            other.edit(belongings.pending, name=unique("name"))
            other.close()
            for uri in expected:
                listening.ear.wait(uri)
            spying.agent.knows("schedule_cron_notification", {**CRON, "notification_topic": own})
            spying.ear.wait(f"schedules://{own}")
            assert spying.ear.heard == [f"schedules://{own}"]
        ada.knows("resume_schedule", schedule_id=belongings.recurring)


# -- who may see it -----------------------------------------------------------------------------------------------


def test_a_team_shares_an_owner(belongings: Belongings, shared_world: World) -> None:
    with shared_world.agent(belongings.owner) as ada, shared_world.agent(belongings.owner) as eve:
        assert belongings.seen_by(ada) == belongings.seen_by(eve)


def test_the_operator_sees_what_is_asked_for_by_its_id(belongings: Belongings, shared_world: World) -> None:
    with shared_world.agent(belongings.owner) as ada, shared_world.agent(None, "operator") as root:
        assert root.call("job_status", job_id=belongings.pending) == ada.call("job_status", job_id=belongings.pending)
        for uri in belongings.uris(ada):
            if not uri.startswith("schedules://"):
                assert root.read(uri) == ada.read(uri)
        names = {task["name"] for task in root.knows("list_tasks")["tasks"]}
        assert {"backup_database", "prune_history"} <= names
        owners = {job["job_id"]: job["owner"] for job in root.knows("list_jobs", limit=1000)["jobs"]}
        assert owners[belongings.pending] == belongings.owner
        assert all("owner" not in job for job in ada.knows("list_jobs")["jobs"])


def test_not_even_the_operator_finishes_what_another_took(belongings: Belongings, shared_world: World) -> None:
    with shared_world.agent(None, "operator") as root:
        for number in belongings.ids:
            if isinstance(number, int):
                said = root.call("finish_prompt", run_id=number, result="x").text
                assert said == f"Run {number} is not yours to finish."


def test_a_session_is_of_the_token_that_opened_it(shared_world: World) -> None:
    """With another token it is what a session that never was is; not even a token of the same owner takes it over."""
    owner = unique("ada")
    with closing(HttpLine(shared_world.served.url, shared_world.token(owner), "2025-11-25")) as line:
        for stranger in (unique("bob"), owner):
            token = shared_world.token(stranger)
            answers = [
                shared_world.raw(token, LIST, Mcp_Session_Id=session, MCP_Protocol_Version="2025-11-25")
                for session in (line.session, "0" * len(line.session))
            ]
            assert answers[0].status_code == answers[1].status_code == 404
            assert answers[0].content == answers[1].content
        assert "schedule_job" in line.ask("tools/list")
