"""The same payloads through every door (HTTP, MCP, command line, forms, QStash's API), in every text they take."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from duetime.cli.main import main
from duetime.engine.kind import LOCAL
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.registry import Task
from tests.support.browsing import page_of, signed_in, working
from tests.support.raw import HttpLine, call
from tests.support.size import some
from tests.support.web import ACCEPT, Site, site
from tests.support.workers import eventually
from tests.support.xss import packed, payloads
from tests.support.xss_visiting import check, missing, visiting

PACKS = packed(payloads(), 1500)
NOW = {"type": "once", "run_at": "now"}
ONCE = {"max_attempts": 2, "backoff_seconds": 0.01}
Door = Callable[[Site, str, str], None]


def stumble(text: str, context: TaskContext) -> dict[str, str]:
    context.progress(text)
    if context.attempt == 1:
        raise ValueError(text)
    return {text: text}


def by_http(there: Site, name: str, pack: str) -> None:
    """A notification with everything that one may have, and a job that reports and fails before it succeeds."""
    link = f"https://example.org/?{quote(pack[:500])}"
    button: dict[str, Any] = {"action": "http", "label": name, "url": link, "headers": {"X-Text": pack}, "body": pack}
    message: dict[str, Any] = {
        "topic": "doors",
        "message": pack,
        "title": name,
        "tags": [name, pack],
        "click": link,
        "icon": link,
        "attach": link,
        "filename": name.replace("/", "").replace("\\", ""),
        "actions": [button],
    }
    for kind, payload, policy in (
        ("notification", message, {}),
        ("job", {"task": "stumble", "kwargs": {"text": pack}}, ONCE),
        ("prompt", {"prompt": pack}, {"deliver_to": "doors"}),
    ):
        body = {"kind": kind, "name": name, "trigger": NOW, "payload": payload, "policy": policy}
        reply = there.ask("POST", "/api/v1/schedules", bearer(there), json.dumps(body).encode())
        assert reply.status == 201, reply.body


def by_mcp(there: Site, name: str, pack: str) -> None:
    token = bearer(there)["Authorization"].removeprefix("Bearer ")
    trigger = {"trigger_type": "once", "trigger_config": {"run_at": "now"}}
    for tool, arguments in (
        ("schedule_job", {"name": name, "task": "stumble", "args": [pack], **trigger}),
        ("schedule", {"prompt": pack, "at": "now"}),
        ("send_push_notification", {"message": pack, "title": name, "notification_topic": "doors", "tags": [name]}),
    ):
        with closing(HttpLine(f"http://127.0.0.1:{there.port}/mcp", token, "2026-07-28")) as line:
            answer = json.loads(call(line, tool, json.dumps(arguments)))
        assert answer["result"].get("isError") is not True, answer


def by_command(there: Site, name: str, pack: str) -> None:
    store = there.room.settings.db
    titled = (f"--title={name}", "--topic=doors")
    for given in (("notify", *titled, pack), ("prompt", pack), ("job", "--task=echo", f"--arg={pack}", name)):
        room, *options, text = given
        assert main([room, "add", *options, "--at=now", f"--db={store}", "--", text]) == 0


def by_form(there: Site, name: str, pack: str) -> None:
    browser = signed_in(there)
    for fields in (
        {"kind": "job", "task": "stumble", "args": json.dumps([pack])},
        {"kind": "notification", "message": pack, "title": name, "topic": "doors"},
        {"kind": "prompt", "prompt": pack},
    ):
        reply = browser.send("/new", {"name": name, "when": "once", "run_at": "now", **fields})
        assert reply.status == 303, reply.body


def by_qstash(there: Site, name: str, pack: str) -> None:
    """To a private address, which is never dialled: the body and the headers end as a dead letter."""
    words = name.encode("ascii", "ignore").decode().replace("\t", " ")
    headers = {**bearer(there), "Upstash-Retries": "0", "Upstash-Label": "doors", "Upstash-Forward-X-Text": words}
    reply = there.ask("POST", f"/v2/publish/http://10.0.0.1/?{quote(pack)}", headers, pack.encode())
    assert reply.status in (200, 201), reply.body


DOORS: tuple[Door, ...] = (by_http, by_mcp, by_command, by_form, by_qstash)


def bearer(there: Site) -> dict[str, str]:
    return {**ACCEPT, **there.bearer(LOCAL)}


@pytest.mark.parametrize("door", DOORS)
def test_nothing_that_came_in_runs(door: Door, browser: Browser, tmp_path: Path) -> None:
    with site(tmp_path) as there:
        there.room.registry.add(Task(stumble, name="stumble", description=PACKS[0]))
        packs = PACKS if door is by_http else some(PACKS, 2)  # all of it through the door with the most fields
        for pack in packs:
            door(there, pack[:200], pack)
        with working(there), visiting(browser, there) as page:
            schedules = there.room.store.search(ScheduleQuery(limit=100)).items
            assert len(schedules) >= len(packs)
            eventually(lambda: _under_way(there) == 0, 60, "all of them ran")
            runs = there.room.store.runs(RunQuery(limit=100)).items
            own = [check(page, there, page_of(each)) for each in schedules]
            own += [check(page, there, f"/runs/{run.id}") for run in runs]
            for path in ("/", "/schedules", "/inbox", "/dead-letters", "/timeline?span=1h", "/new"):
                check(page, there, path)
    assert missing(own, packs) == []


def _under_way(there: Site) -> int:
    """Prompts wait for an agent, which does not come."""
    begun = there.room.store.runs(RunQuery(limit=1)).total
    due = there.room.store.search(ScheduleQuery(limit=1)).total - begun
    return due + sum(there.room.store.runs(RunQuery(status=each, limit=1)).total for each in ("pending", "running"))
