"""What `schedule` says of who will do it: the agent that is woken, whoever takes it, or nobody."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime.app import App, build
from duetime.engine.clock import SECOND
from duetime.engine.kind import Caller
from duetime.engine.model import run_holder
from duetime.engine.store import ClaimRequest
from duetime.kinds.notifications.local import INBOX_WARNING, TOPIC_WARNING
from duetime.kinds.prompts.agents.models import EXAMPLE
from duetime.kinds.prompts.kind import WAITS, PromptKind
from duetime.service.operations.create import CreateSchedule, create
from duetime.service.services import local_call
from duetime.settings import AgentSettings, ChannelSettings, HeartbeatSettings, Settings
from tests.support.agent import Agent

AGENTS = {
    "coder": AgentSettings(preset="claude", command=(sys.executable,), owners=("*",)),
    "hook": AgentSettings(type="webhook", url="https://example.org", secret="a-secret", owners=("local", "ada")),
    "desk": AgentSettings(type="inbox", owners=("*",)),
    "builtin": AgentSettings(type="builtin", owners=("*",)),
}
TAKEN = "Note: waits in the inbox until an agent takes it with take_prompt."


@pytest.fixture
def app(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    made = build(Settings(db=":memory:", timezone="UTC", agents=AGENTS, **getattr(request, "param", {})), tasks=False)
    made.store.register("test", ["job", "prompt"], session=False, now=made.clock.now(), lease=10 * SECOND)
    yield made
    made.close()


def said(app: App, owner: str = "ada", **given: Any) -> tuple[list[str], dict[str, Any]]:
    """What follows the first sentence, and the facts."""
    agent = Agent(app.services, Caller(owner))
    answer = agent.use("schedule", {"prompt": "look", "at": "in 2 hours", **given})
    assert answer.text is not None
    first, *further = answer.text.split("\n")
    assert first.startswith("Scheduled task #"), answer.text
    return further, dict(answer.structured)


with_model = pytest.mark.parametrize("app", [{"model": EXAMPLE, "agent": "builtin"}], indirect=True)
with_heartbeat = pytest.mark.parametrize("app", [{"heartbeat": HeartbeatSettings(every="30m")}], indirect=True)


def test_an_agent_by_name(app: App) -> None:
    for name in ("coder", "hook"):
        further, facts = said(app, agent=name)
        assert further == [f"Note: wakes the agent {name}."]
        assert (facts["agent"], facts["wakes"]) == (name, name) and "warnings" not in facts


@with_model
def test_the_one_that_the_settings_choose(app: App) -> None:
    further, facts = said(app)
    assert further == ["Note: wakes the agent builtin."]
    assert (facts["agent"], facts["wakes"]) == ("builtin", "builtin")


def test_where_no_agent_is_woken_it_is_warned_of(app: App) -> None:
    further, facts = said(app)
    assert further == [f"Warning: {WAITS}"]
    assert facts["warnings"] == [WAITS] and "wakes" not in facts


NOT_THERE = "/opt/agents/of/a/team/with/a/long/name/that/goes/on/and/on/and/on/and/on/bin/claude"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"command": ("/no/such/claude",)}, "There is no program /no/such/claude; install it, or change"),
        ({"command": (NOT_THERE,)}, "There is no program /opt/agents/of/a/team/with/a/long/name/t…"),
        ({"preset": "goose"}, "There is no program goose; install it, or change `command` of agents.mine."),
        ({"command": (sys.executable,), "folder": "/no/such"}, "Agents.mine cannot work: its folder /no/such does not"),
        ({"type": "builtin", "model": "openai:gpt-6"}, "The model openai:gpt-6 needs its key in the environment"),
        ({"type": "builtin"}, "No model is set: put `model"),
    ],
)
def test_what_an_agent_lacks_is_warned_of(
    given: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With a code, in one sentence; the prompt is stored all the same, because the worker may have what is missing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    mine = AgentSettings(**given, owners=("*",))
    made = build(Settings(db=":memory:", timezone="UTC", agents={"mine": mine}), tasks=False)
    made.store.register("test", ["prompt"], session=False, now=made.clock.now(), lease=10 * SECOND)
    further, facts = said(made, "local", agent="mine")
    [warning] = facts["warnings"]
    assert warning.startswith(words) and len(warning) <= 120 and warning.endswith(".")
    assert further == ["Note: wakes the agent mine.", f"Warning: {warning}"]
    [others] = said(made, "ada", agent="mine")[1]["warnings"]
    assert others == "The agent mine cannot be started here; its operator can tell why."
    request = CreateSchedule("prompt", {"prompt": "look", "agent": "mine"}, {"every": "1h"})
    [code] = create(local_call(made.services, "rest"), request).warnings
    assert code.code == "agent_not_ready"
    made.close()


@pytest.mark.parametrize("name", ["inbox", "desk"])
def test_whoever_asks_for_an_inbox_knows_it(app: App, name: str) -> None:
    further, facts = said(app, agent=name)
    assert further == [TAKEN] and not {"warnings", "wakes"} & set(facts)


@with_heartbeat
def test_the_heartbeat_takes_what_is_its_owners(app: App) -> None:
    assert said(app, "local")[0] == ["Note: waits in the inbox until the heartbeat, or another agent, takes it."]
    assert said(app, "local", agent="desk")[0] == [TAKEN], "it looks into the inbox alone"
    assert said(app, "ada")[0] == [f"Warning: {WAITS}"]


@pytest.mark.parametrize(("given", "topic"), [({}, "reminders"), ({"deliver_to": "kitchen"}, "kitchen")])
def test_a_reminder_wakes_nobody(app: App, given: dict[str, str], topic: str) -> None:
    further, facts = said(app, remind=True, **given)
    [warning] = facts["warnings"]
    assert further == [f"Note: a reminder: no agent is woken, its text goes to {topic}.", f"Warning: {warning}"]
    assert warning == f"deliver_to: {INBOX_WARNING}", "in the inbox only"
    assert facts["remind"] is True and not {"agent", "wakes"} & set(facts)


with_channel = pytest.mark.parametrize(
    "app", [{"channels": {"phone": ChannelSettings("json://x/", owners=("*",))}}], indirect=True
)


@with_channel
@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("schedule", {"prompt": "look", "at": "in 2 hours", "agent": "inbox"}),
        ("schedule_job", {"name": "n", "task": "echo", "trigger_type": "interval", "trigger_config": {"hours": 1}}),
    ],
)
def test_a_mistyped_channel_for_the_result_is_warned_of(app: App, tool: str, given: dict[str, Any]) -> None:
    agent = Agent(app.services, Caller("ada"))
    for right in ("phone", "inbox"):
        assert "warnings" not in agent.knows(tool, given, deliver_to=right)
    [warning] = agent.knows(tool, given, deliver_to="phon")["warnings"]
    assert warning == f"deliver_to: {TOPIC_WARNING.format(topic='phon', channels='phone')}"


@with_heartbeat
def test_an_agent_that_is_not_there_is_refused_with_those_that_are(app: App) -> None:
    words = Agent(app.services, Caller("ada")).hears("schedule", prompt="look", at="in 2 hours", agent="nobody")
    assert words == "Error: agent: there is no 'nobody'; choose from inbox, builtin, coder, hook, desk"


@pytest.mark.parametrize(
    ("app", "given"),
    [
        ({"heartbeat": HeartbeatSettings(every="30m")}, {"agent": "heartbeat"}),
        ({"heartbeat": HeartbeatSettings(every="30m"), "agent": "heartbeat"}, {}),
    ],
    indirect=["app"],
)
def test_the_heartbeat_is_woken_for_nobody_but_its_owner(app: App, given: dict[str, str]) -> None:
    if given:
        words = Agent(app.services, Caller("ada")).hears("schedule", {"prompt": "look", "at": "in 2 hours", **given})
        assert words == "Error: agent: there is no 'heartbeat'; choose from inbox, builtin, coder, hook, desk"
    else:
        assert said(app, "ada")[1]["agent"] == "inbox"
    assert said(app, "local", **given)[1]["wakes"] == "heartbeat"


@with_heartbeat
def test_all_of_them_are_named_to_whoever_asks(app: App) -> None:
    prompts = app.kinds["prompt"]
    assert isinstance(prompts, PromptKind)
    for owner in ("local", "ada", "bob"):
        assert {each["name"] for each in prompts.describe_agents(owner)} == set(prompts.agents(owner))


def test_an_agent_cannot_finish_the_run_that_it_is(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked a few times whether the run was handed over: a webhook may be quicker than its own first answer."""
    monkeypatch.setattr("duetime.service.operations.waiting.CHECKS", 1)
    number, now = said(app, agent="coder", at="now")[1]["id"], app.clock.now()
    [worker] = app.store.workers()
    [claim] = app.store.record_and_claim(worker.id, now, [], [ClaimRequest("prompt", 1, now)]).claims
    assert claim.definition.id == number
    own, other = (Agent(app.services, Caller("ada", holder=run_holder(claim.run.id, fence))) for fence in (1, 2))
    words = own.hears("finish_prompt", run_id=claim.run.id, result="done")
    assert words.startswith(f"Run {claim.run.id} is your own and ends with your last message")
    assert other.hears("finish_prompt", run_id=claim.run.id, result="done") == (
        f"Run {claim.run.id} is not yours to finish."
    )
