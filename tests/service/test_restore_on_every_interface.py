"""Cancelled and deleted schedules come back over every interface, and nobody sees what a deleted one did meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Schedule
from duetime.engine.validation import NewSchedule
from duetime.kinds import load_specs
from tests.support.agent import Agent
from tests.support.browsing import browser_of
from tests.support.cli import Cli
from tests.support.interfaces import Interface
from tests.support.web import Site

CANARY = "canary7f1"
PAYLOADS: dict[str, dict[str, Any]] = {
    "job": {"task": "echo", "args": [CANARY], "kwargs": {}},
    "prompt": {"prompt": f"water {CANARY}"},
    "notification": {"message": CANARY, "topic": "alerts"},
    "request": {"url": "https://hooks.example.org/a", "headers": {"Authorization": f"Bearer {CANARY}"}, "body": CANARY},
}
INTERFACES = {each.__name__.lower(): each for each in Interface.__subclasses__()}
OWNER = Caller(LOCAL)


def make(there: Site, kind: str, name: str = "same") -> Schedule:
    trigger = {"expression": "0 9 * * *"}
    return there.room.scheduler.create(OWNER, NewSchedule(kind, name, "cron", trigger, PAYLOADS[kind]))


def stored(there: Site, schedule: Schedule) -> Schedule:
    result = there.room.store.get(schedule.definition.id)
    assert result is not None
    return result


def agent(there: Site) -> Agent:
    return Agent(there.room.services, OWNER, "UTC")


@pytest.mark.parametrize(("name", "kind", "how"), [*product(INTERFACES, load_specs(), ("cancel", "delete"))])
def test_it_comes_back_as_it_was(there: Site, on_site: Cli, name: str, kind: str, how: str) -> None:
    reached = INTERFACES[name](there, on_site)
    before = stored(there, make(there, kind))
    id = before.definition.public_id
    getattr(reached, how)(kind, id)
    gone = stored(there, before)
    assert gone.progress.state == {"cancel": "cancelled", "delete": "deleted"}[how]
    assert (CANARY in gone.definition.payload) == (how == "cancel")
    reached.restore_schedule(kind, id)
    after = stored(there, before)
    assert after.definition.payload == before.definition.payload
    assert after.definition.key == before.definition.key
    assert (after.progress.state, after.progress.next) == ("active", before.progress.next)
    assert id in reached.upcoming(kind) or name == "dashboard"
    there.room.scheduler.delete(OWNER, id)


# -- what is seen meanwhile ------------------------------------------------------------------------------------------

Look = Callable[[Site, Cli, str, str], object]


def look_over_http(there: Site, cli: Cli, kind: str, id: str) -> object:
    headers = {**there.bearer(LOCAL), "Content-Type": "application/json"}
    dry_run = json.dumps({"action": "restore", "ids": [id], "dry_run": True}).encode()
    paths = (f"/schedules/{id}", f"/schedules/{id}/runs", f"/schedules?kind={kind}&limit=1000", "/upcoming", "/runs")
    answers = [there.ask("GET", f"/api/v1{path}", headers).body for path in paths]
    return [*answers, there.ask("POST", "/api/v1/schedules/change", headers, dry_run).body]


def look_over_mcp(there: Site, cli: Cli, kind: str, id: str) -> object:
    tools: dict[str, dict[str, Any]] = {
        "history": {"schedule_id": id},
        "job_status": {"job_id": id},
        "prompt_result": {"id": id},
        "list_jobs": {},
        "schedule_list": {},
        "list_scheduled_notifications": {},
        "list_upcoming": {},
        "status": {},
        "change_schedules": {"action": "restore", "ids": [id], "dry_run": True},
    }
    return [str(agent(there).use(tool, **given)) for tool, given in tools.items()]


def look_with_commands(there: Site, cli: Cli, kind: str, id: str) -> object:
    command = load_specs()[kind].command
    return [
        cli("show", id),
        cli("show", id, "--json"),
        cli("history", id),
        cli(command, "list", "--all", "--json"),
        cli("export", "-o", "-"),
        cli("change", "restore", id, "--dry-run", "--json"),
        cli("change", "restore", "--kind", kind, "--dry-run", "--json"),
    ]


def look_at_pages(there: Site, cli: Cli, kind: str, id: str) -> object:
    browser, _ = browser_of(there)
    return [browser.get(page).body for page in (f"/schedules/{id}", f"/schedules?kind={kind}", "/", "/runs")]


LOOKS: dict[str, Look] = {
    "http": look_over_http,
    "mcp": look_over_mcp,
    "commands": look_with_commands,
    "pages": look_at_pages,
}


@pytest.mark.parametrize("kind", load_specs())
@pytest.mark.parametrize("name", LOOKS)
def test_nobody_sees_what_a_deleted_one_did(there: Site, on_site: Cli, name: str, kind: str) -> None:
    schedule = make(there, kind, f"of {name}")
    there.room.scheduler.run_now(OWNER, schedule.definition.public_id)
    there.room.scheduler.delete(OWNER, schedule.definition.public_id)
    answers = repr(LOOKS[name](there, on_site, kind, schedule.definition.public_id))
    assert CANARY not in answers
    assert schedule.definition.public_id in answers, "it was looked at"
