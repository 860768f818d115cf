"""Agents and channels are there for the owners that the settings name; for everybody else they do not exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.kinds.notifications.channels.ntfy import NtfyServer, owner_mark, problem_of_topic, real_topic
from duetime.kinds.notifications.local import INBOX_WARNING
from duetime.settings import AgentSettings, ChannelSettings, HeartbeatSettings, NotificationSettings, load_settings
from tests.support.agent import Agent
from tests.support.api import Api, serving_api
from tests.support.browsing import signed_in_as
from tests.support.cli import Cli
from tests.support.ntfy import NtfyReceiver
from tests.support.receiver import Receiver
from tests.support.settings import write_trusted
from tests.support.stage import Stage
from tests.support.web import site

FEW = ("local", "bob")
AGENTS = {"coder": AgentSettings(command=("cat",), owners=FEW), "desk": AgentSettings(type="inbox", owners=FEW)}
SOON = {"type": "once", "run_at": "in 1 minute"}


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


@pytest.fixture
def api(tmp_path: Path, hook: Receiver) -> Iterator[Api]:
    """`coder` is also the agent that is woken where a prompt names none, and alerts go to the channel `ops`."""
    with serving_api(
        tmp_path,
        agents=AGENTS,
        agent="coder",
        channels={"ops": ChannelSettings(hook.url, owners=FEW)},
        notifications=NotificationSettings(alerts="ops"),
        heartbeat=HeartbeatSettings(every="30m", agent="coder"),
    ) as made:
        yield made


def prompt(**payload: Any) -> dict[str, Any]:
    return {"kind": "prompt", "name": "p", "trigger": SOON, "payload": {"prompt": "read the notes", **payload}}


def told(topic: str, **more: Any) -> dict[str, Any]:
    payload = {"message": "look here", "topic": topic}
    return {"kind": "notification", "name": "n", "trigger": SOON, "payload": payload, **more}


# -- agents ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["coder", "desk", "heartbeat"])
def test_an_agent_of_others_is_refused_like_one_that_is_not_there(api: Api, name: str) -> None:
    ada, bob = api.client("ada"), api.client("bob")
    real = ada.refused("POST", "/schedules", 422, json=prompt(agent=name))
    absent = ada.refused("POST", "/schedules", 422, json=prompt(agent="nobody"))
    assert json.loads(json.dumps(real).replace(name, "nobody")) == absent
    assert absent["detail"] == "agent: there is no 'nobody'; choose from inbox"
    mine = ada.post("/schedules", prompt(), 201)
    assert mine["subject"] == "inbox", "the usual agent is not there for ada either"
    edited = {"version": mine["version"], "payload": {"prompt": "p", "agent": name}}
    assert "there is no" in ada.refused("PATCH", f"/schedules/{mine['id']}", 422, json=edited)["detail"]
    if name != "heartbeat":
        assert bob.post("/schedules", prompt(agent=name), 201)["subject"] == name
        assert bob.post("/schedules", prompt(), 201)["subject"] == "coder"


def test_tools_answer_for_it_as_for_one_that_is_not_there(api: Api) -> None:
    ada = Agent(api.room.services, Caller("ada"))
    for number in (None, ada.knows("schedule", prompt="p", at="in 2 hours")["id"]):
        making: dict[str, Any] = {"prompt": "p", "at": "in 2 hours"}
        tool, given = ("schedule", making) if number is None else ("schedule_edit", {"id": number})
        real = ada.hears(tool, given, agent="coder")
        assert real.replace("coder", "nobody") == ada.hears(tool, given, agent="nobody")
        assert "choose from inbox" in real and "desk" not in real


def test_an_operator_gives_nobody_what_is_not_theirs(api: Api) -> None:
    mine = api.client("ada").post("/schedules", prompt(), 201)
    root = api.client("local", "operator")
    given = {"version": mine["version"], "payload": {"prompt": "p", "agent": "coder"}}
    assert "there is no 'coder'" in root.refused("PATCH", f"/schedules/{mine['id']}", 422, json=given)["detail"]


def test_lists_and_forms_name_only_what_is_there(tmp_path: Path, api: Api) -> None:
    ada, bob = api.client("ada"), api.client("bob")
    assert [each["name"] for each in ada.get("/agents")["agents"]] == ["inbox"]
    assert [each["name"] for each in bob.get("/agents")["agents"]] == ["inbox", "coder", "desk"]
    assert [each["name"] for each in ada.get("/channels")["channels"]] == ["inbox"]
    assert [each["name"] for each in bob.get("/channels")["channels"]] == ["inbox", "ops"]
    with site(tmp_path, agents=AGENTS, channels={"ops": ChannelSettings("json://x/", owners=FEW)}) as there:
        pages = {}
        for owner in ("ada", "bob"):
            browser = signed_in_as(there, owner)
            shown = [browser.get(f"/new?kind={kind}").body.decode() for kind in ("prompt", "notification")]
            pages[owner] = "".join(shown)
        assert re.search(r"\bcoder\b", pages["bob"]) and re.search(r"\bops\b", pages["bob"])
        assert not re.search(r"\b(coder|desk|ops)\b", pages["ada"])


def test_what_was_stored_before_the_rule_waits_and_says_why(tmp_path: Path) -> None:
    url = str(tmp_path / "duetime.db")
    before = Stage(url, agents={"coder": AgentSettings(command=("cat",), owners=("*",))})
    number = before.make(at="in 2 minutes", agent="coder")
    before.time.close()
    now = Stage(url, agents={"coder": AgentSettings(command=("cat",), owners=("local", "bob"))})
    try:
        now.time.advance(timedelta(minutes=3))
        [row] = now.ada.knows("schedule_list", status="all")["tasks"]
        assert row["id"] == number
        assert row["held"] == (
            "there is no agent coder in the worker's settings; name it there, or give the task another agent"
        )
    finally:
        now.time.close()


# -- channels -------------------------------------------------------------------------------------------------------


def test_a_channel_of_others_is_a_topic_like_any_other(api: Api, hook: Receiver) -> None:
    ada, bob = api.client("ada"), api.client("bob")
    real, absent = ada.post("/schedules", told("ops"), 201), ada.post("/schedules", told("nobody"), 201)
    assert real["warnings"] == absent["warnings"] == [INBOX_WARNING], "which lists no channel of others"
    result = ada.post("/schedules", prompt() | {"policy": {"deliver_to": "ops"}}, 201)
    assert any(INBOX_WARNING in each for each in result["warnings"])
    assert bob.post("/schedules", told("ops"), 201)["warnings"] == []
    api.pass_time(minutes=2)
    assert len(hook.requests) == 1, "bob's alone"
    [run] = ada.get(f"/schedules/{real['id']}/runs")["runs"]
    assert (run["status"], run["result"]["channel"]) == ("completed", "inbox")


def test_alerts_of_other_owners_do_not_reach_the_operators_channel(api: Api, hook: Receiver) -> None:
    each_minute = {"type": "interval", "minutes": 1}
    for owner in ("ada", "bob"):
        api.client(owner).job(trigger=each_minute, payload={"task": "fail"}, policy={"pause_after": 2})
    api.client("ada").post("/schedules", told("duetime-alerts"), 201)
    api.pass_time(minutes=5)
    api.simulation.tell()
    api.pass_time(seconds=1)
    assert len(hook.requests) == 1, "bob's"
    assert len(api.client("ada").get("/inbox")["messages"]) == 2


# -- topics of an ntfy server ---------------------------------------------------------------------------------------


def test_no_owner_publishes_on_the_topics_of_another(tmp_path: Path) -> None:
    with NtfyReceiver() as ntfy:
        server = NtfyServer(ntfy.url, "x7Kq2mNv-")
        with serving_api(tmp_path, notifications=NotificationSettings(server=ntfy.url, prefix=server.prefix)) as api:
            topics = {}
            for owner in ("local", "ada", "bob"):
                made = api.client(owner).post("/schedules", told("home"), 201)
                warned = " ".join(made["warnings"])
                topics[owner] = real_topic(server, "home", owner)
                assert (f"subscribe to {ntfy.url}/{topics[owner]} " in warned) == (owner != "local")
                assert server.prefix not in warned
                again = Agent(api.room.services, Caller(owner)).knows(
                    "schedule_notification", message="hi", notification_topic="home", delay="1h"
                )
                assert (topics[owner] in str(again.get("warnings"))) == (owner != "local")
            api.pass_time(minutes=2)
            assert sorted(json.loads(request.body)["topic"] for request in ntfy.requests) == sorted(topics.values())
        assert len(set(topics.values())) == 3 and topics["local"] == "x7Kq2mNv-home"


def test_a_mark_tells_neither_the_prefix_nor_other_marks() -> None:
    server = NtfyServer("https://ntfy.example.org", "x7Kq2mNv-")
    assert re.fullmatch(r"[a-z2-7]{16}-", owner_mark(server, "ada"))
    assert owner_mark(server, "ada") == owner_mark(NtfyServer("https://other.example.org", "x7Kq2mNv-"), "ada")
    assert owner_mark(server, "ada") != owner_mark(NtfyServer("https://ntfy.example.org", "another-"), "ada")
    assert problem_of_topic(server, "a" * 47, "ada") is None
    assert "at most 47 characters" in str(problem_of_topic(server, "a" * 48, "ada"))


def test_whoever_upgrades_is_told(cli: Cli, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notifications = NotificationSettings(server="https://ntfy.example.org", prefix="x7Kq2mNv-")
    channels = {"ops": ChannelSettings("json://127.0.0.1/x", owners=FEW)}
    with serving_api(tmp_path, url=str(tmp_path / "my.db"), notifications=notifications, channels=channels) as api:
        for topic in ("home", "ops"):
            api.client("ada").post("/schedules", told(topic, trigger={"type": "interval", "hours": 1}), 201)
        engine = api.room.engine()
        assert engine is not None
    assert "owners other than local have topics of their own" in caplog.text
    mark = owner_mark(NtfyServer("https://ntfy.example.org", "x7Kq2mNv-"), "ada")
    assert mark not in caplog.text, "whoever knows it can read along"
    write_trusted(
        tmp_path,
        '[notifications]\nserver = "https://ntfy.example.org"\nprefix = "x7Kq2mNv-"\n'
        '[channels.ops]\nurl = "json://127.0.0.1/x"\n',
    )
    said = " ".join(check["message"] for check in cli("doctor", "--json").document["checks"])
    assert f"https://ntfy.example.org/{mark}home (ada)" in said
    assert "channels that are not open to them: ops (ada)" in said
    assert "set notifications.prefix" not in said
    write_trusted(tmp_path, '[notifications]\nserver = "https://ntfy.example.org"\n')
    warned = [check["message"] for check in cli("doctor", "--json").document["checks"] if check["status"] == "warn"]
    assert any("can compute these topics" in each and "set notifications.prefix" in each for each in warned)


def test_whoever_issues_a_token_learns_what_its_owner_subscribes_to(cli: Cli, tmp_path: Path) -> None:
    write_trusted(tmp_path, '[notifications]\nserver = "https://ntfy.example.org"\nprefix = "x7Kq2mNv-"\n')
    mark = owner_mark(NtfyServer("https://ntfy.example.org", "x7Kq2mNv-"), "ada@example.org")
    issued = cli("token", "issue", "--email", "ada@example.org", "--json").document
    assert issued["topics"] == f"https://ntfy.example.org/{mark}TOPIC"
    assert issued["topics"] in cli("token", "issue", "--email", "ada@example.org").err
    assert "topics" not in cli("token", "issue", "--email", "me@example.org", "--owner", "local", "--json").document


# -- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[agents.a]\ncommand = ["cat"]\nowners = []', r"agents\.a\.owners: name at least one owner"),
        ('[channels.a]\nurl = "json://x/"\nowners = []', r"channels\.a\.owners: name at least one owner"),
        ('[agents.a]\npreset = "codex"\nfolder = "/srv"\nowners = ["*"]', "can read every file of this user"),
        ('[agents.a]\npreset = "codex"\nfolder = "/srv"\nowners = ["local", "ada"]', "for local alone"),
    ],
)
def test_what_would_open_too_much_or_nothing_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "duetime.toml").write_text(text)
    with pytest.raises(InvalidInput, match=words):
        load_settings(environment={}, folder=tmp_path)


def test_doctor_warns_of_an_agent_that_reads_the_whole_disk(cli: Cli, tmp_path: Path) -> None:
    write_trusted(tmp_path, f'[agents.a]\npreset = "codex"\nfolder = "{tmp_path}"\n')
    assert "reads every file of its user" in cli("doctor").out
