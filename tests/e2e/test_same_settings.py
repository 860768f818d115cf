"""Two processes in different folders and one store: the same zone, agents, channels and default topic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from duetime.app import open_store
from tests.support.agents import Served, over_http, over_stdio, serving
from tests.support.mcp import NEWER, Agent, connected
from tests.support.settings import write_trusted

SETTINGS = """
timezone = "Asia/Tokyo"
agent = "script"
[notifications]
topic = "phone"
[channels.phone]
url = "http://127.0.0.1:9/hush"
[channels.team]
url = "json://hush@127.0.0.1/x"
owners = ["team"]
[agents.script]
command = ["true", "--hush"]
[agents.later]
type = "inbox"
[agents.theirs]
type = "webhook"
url = "http://127.0.0.1:9/hush"
secret = "hush"
owners = ["team"]
"""
OTHERS = 'timezone = "Europe/Berlin"\nagent = "mine"\n[agents.mine]\ncommand = ["true"]\n'
DIFFER = "Settings of this process differ from the server's, which are used: timezone, agent, agents."


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("clean_postgres_url"))
    return str(tmp_path / "duetime.db")


@pytest.fixture
def server(db: str, tmp_path: Path) -> Iterator[Served]:
    folder = tmp_path / "server"
    folder.mkdir()
    write_trusted(folder, SETTINGS)
    with serving(folder, "--no-link", "--db", db) as served:
        yield served


@contextmanager
def elsewhere(folder: Path, db: str, settings: str) -> Iterator[Agent]:
    """An agent whose client started `duetime mcp` in a folder of its own."""
    folder.mkdir()
    if settings:
        write_trusted(folder, settings)
    with start_blocking_portal() as portal, connected(portal, over_stdio(folder, NEWER, "--db", db)) as agent:
        yield agent


@contextmanager
def at(server: Served) -> Iterator[Agent]:
    connection = over_http(server.url, server.token, NEWER)
    with start_blocking_portal() as portal, connected(portal, connection) as agent:
        yield agent


def facts(agent: Agent) -> dict[str, Any]:
    """What an agent can learn about the settings."""
    prompt = agent.call("schedule", prompt="Look", at="2099-01-01 9am")
    without_topic = agent.knows("schedule_notification", message="Tea", datetime="2099-01-01T09:00:00+00:00")
    listed = agent.knows("list_scheduled_notifications")["messages"]
    unknown = agent.knows("schedule_notification", message="x", notification_topic="nobody", delay="1d")
    status = agent.knows("status")
    required = {tool.name: tool.input_schema.get("required", []) for tool in agent.tools()}
    return {
        "zone": agent.knows("get_current_time")["timezone"],
        "time": re.sub(r"#\d+", "#", prompt.text).replace(f"\nWarning: {DIFFER}", ""),
        "agents in words": agent.call("schedule", prompt="Look", at="tomorrow 9am", agent="nobody").text,
        "topic": next(row["notification_topic"] for row in listed if row["message_id"] == without_topic["message_id"]),
        "channels in words": [text for text in unknown["warnings"] if text != DIFFER],
        "required": required,
        **{name: status[name] for name in ("timezone", "channels", "default_topic")},
        # Whether an agent can start is known only where its settings are.
        "agents": [(each["name"], each["type"], each.get("default", False)) for each in status["agents"]],
    }


def test_an_agent_elsewhere_has_the_settings_of_the_server(server: Served, db: str, tmp_path: Path) -> None:
    with at(server) as here:
        expected = facts(here)
    assert (expected["zone"], expected["topic"]) == ("Asia/Tokyo", "phone")
    assert "9:00 AM JST" in expected["time"] and "choose from script, later, inbox" in expected["agents in words"]
    assert "configured channels: phone." in expected["channels in words"][0]
    assert expected["channels"] == [{"name": "inbox", "type": "inbox"}, {"name": "phone", "type": "http"}]
    assert expected["agents"] == [
        ("inbox", "inbox", False),
        ("script", "command", True),
        ("later", "inbox", False),
    ]
    assert expected["required"]["schedule_notification"] == ["message"]
    with elsewhere(tmp_path / "plain", db, "") as there:
        assert facts(there) == expected
    with elsewhere(tmp_path / "different", db, OTHERS) as there:
        assert facts(there) == expected
        made = there.knows("schedule_notification", message="Tea", delay="1d")
        assert made["warnings"] == [DIFFER]
        [warning] = there.knows("status")["warnings"]
        assert (warning["code"], warning["text"]) == ("settings_differ", DIFFER)


def test_nothing_that_is_published_is_a_secret(server: Served, db: str) -> None:
    store = open_store(db)
    text = store.published()
    store.close()
    assert text is not None and "phone" in text and "script" in text
    assert "hush" not in text and str(server.folder) not in text
    assert text.count("127.0.0.1") == 1, "the address of the server itself, and no other"
