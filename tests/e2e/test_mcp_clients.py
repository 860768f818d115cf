"""Clients of other makers: the TypeScript SDK's, of both eras, and the Inspector's command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_mcp_tools import CALLS
from tests.support.cli import environment
from tests.support.mcp import ROUTES, World, unique
from tests.support.node import Node, NoNode, installed, script
from tests.support.wordings import SCHEDULE_ID_MISSING, schedule_not_found

INSPECTOR = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"


@pytest.fixture(scope="module")
def node() -> Node:
    try:
        return installed()
    except NoNode as reason:
        pytest.skip(str(reason))


def stdio() -> list[str]:
    return [sys.executable, "-m", "duetime", "mcp", "--db", "my.db"]


@pytest.mark.parametrize("route", ROUTES)
def test_the_typescript_client(route: str, node: Node, shared_world: World, tmp_path: Path) -> None:
    transport, _, era = route.partition("-")
    asked: dict[str, Any] = {"era": era}
    if transport == "http":
        asked |= {"url": shared_world.served.url, "token": shared_world.token(unique("owner"))}
    else:
        own = environment() | {"XDG_DATA_HOME": str(tmp_path / "data"), "DUETIME_TIMEZONE": "Europe/Berlin"}
        asked |= {"command": stdio(), "cwd": str(tmp_path), "env": own}
    done = node.run(script("talk.mjs"), json.dumps(asked), folder=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert set(said["tools"]) == set(CALLS) and said["schemas"]
    assert said["server"] == "duetime"
    assert said["updated"] == said["uri"]
    schedule_id = said["made"]["schedule_id"]
    assert [each["schedule_id"] for each in said["content"]["schedules"]] == [schedule_id]
    assert said["deleted"]["confirmation"] == f"Schedule {schedule_id} deleted successfully"
    assert said["again"]["error"] == schedule_not_found(schedule_id)
    assert said["refused"] == {"isError": True, "text": SCHEDULE_ID_MISSING}
    assert "for Feb 10, 2031 3:00 PM CET." in said["scheduled"]
    assert said["unknown"] == {"error": "Job not found: job_1_1738764000"}
    assert set(said["prompts"]) == {"remind_me", "what_is_scheduled", "stop_this"}


def inspected(node: Node, folder: Path, *arguments: str) -> Any:
    done = node.run(INSPECTOR, "--cli", *arguments, folder=folder)
    assert done.returncode == 0, (done.stdout[-1000:], done.stderr[-1000:])
    return json.loads(done.stdout)


def test_the_inspector_over_http(node: Node, shared_world: World, tmp_path: Path) -> None:
    header = f"Authorization: Bearer {shared_world.token(unique('owner'))}"
    there = (shared_world.served.url, "--transport", "http", "--header", header)
    listed = inspected(node, tmp_path, *there, "--method", "tools/list", "--strict")
    assert {tool["name"] for tool in listed["tools"]} == set(CALLS)
    call = ("--method", "tools/call", "--tool-name")
    made = inspected(node, tmp_path, *there, *call, "schedule", "--tool-arg", "prompt=water", "at=2031-02-10 3:00 PM")
    assert "for Feb 10, 2031 3:00 PM CET." in made["content"][0]["text"]
    unknown = inspected(node, tmp_path, *there, *call, "delete_schedule", "--tool-arg", "schedule_id=scd_x")
    assert unknown["structuredContent"]["success"] is False


def test_the_inspector_over_stdio(node: Node, tmp_path: Path) -> None:
    own = [part for name in ("PYTHONPATH",) for part in ("-e", f"{name}={environment()[name]}")]
    listed = inspected(
        node, tmp_path, *own, "-e", f"XDG_DATA_HOME={tmp_path / 'data'}", "--method", "tools/list", "--", *stdio()
    )
    assert {tool["name"] for tool in listed["tools"]} == set(CALLS)
