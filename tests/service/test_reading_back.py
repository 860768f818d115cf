"""What was set is in the answer of whoever creates, shows or lists a schedule of any kind, over every interface."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from itertools import product
from typing import Any

import pytest

from duetime import Duetime
from duetime.engine.clock import DAY, Instant
from duetime.engine.kind import LOCAL, Caller
from duetime.kinds import load_specs
from duetime.settings import Settings
from tests.support.agent import Agent
from tests.support.browsing import browser_of, words
from tests.support.cli import Cli
from tests.support.web import Site

CRON, END, NOTE = "0 9 * * *", "2099-12-31", "on holiday"
OPTIONS: dict[str, Any] = {"deliver_to": "daily-report", "notify_on": "failure", "max_attempts": 4, "alert": "every"}
PAYLOADS: dict[str, dict[str, Any]] = {
    "job": {"task": "echo", "args": ["hello"]},
    "prompt": {"prompt": "water the plants", "max_runs_per_day": 7},
    "notification": {"message": "hi", "topic": "alerts", "priority": 5, "title": "Tea"},
    "request": {"url": "https://hooks.example.org/a"},
}
FACTS: dict[str, dict[str, Any]] = {
    "job": {"task": "echo", "args": ["hello"]},
    "prompt": {"prompt": "water the plants", "max_runs_per_day": 7},
    "notification": {"priority": 5},
    "request": {"url": "https://hooks.example.org/a"},
}
"""What the answers contain of the payloads, whatever they call the rest."""
pytestmark = pytest.mark.filterwarnings("ignore:nothing fires yet")


class Interface:
    def __init__(self, there: Site, cli: Cli) -> None:
        self._there, self._cli = there, cli


class Mcp(Interface):
    def _use(self, tool: str, **given: Any) -> dict[str, Any]:
        answer = Agent(self._there.room.services, Caller(LOCAL), "UTC").knows(tool, **given)
        assert not answer.get("error"), answer
        return answer

    def create(self, kind: str, name: str) -> tuple[str, Any]:
        given: dict[str, Any] = {"options": {**OPTIONS, "end": END}}
        payload = PAYLOADS[kind]
        if kind == "notification":
            text = {"message": payload["message"], "notification_topic": payload["topic"]}
            answer = self._use("schedule_notification", **text, priority=5, name=name, when=CRON, **given)
            return answer["schedule_id"], answer
        if kind == "job":
            rule = {"trigger_type": "cron", "trigger_config": {"expression": CRON}}
            answer = self._use("schedule_job", name=name, **payload, **rule, **given)
            return answer["job_id"], {**answer, "task": payload["task"], "args": payload["args"]}
        answer = self._use("schedule", **payload, name=name, cron=CRON, **given)
        return str(answer["id"]), answer

    def rows(self, kind: str) -> Any:
        tools = {"job": ("list_jobs", {}), "prompt": ("schedule_list", {"status": "all"})}
        tool, given = tools.get(kind, ("list_scheduled_notifications", {}))
        answer = self._use(tool, **given)
        return next(answer[name] for name in ("jobs", "tasks", "schedules") if name in answer)

    def show(self, kind: str, id: str) -> Any:
        if kind == "job":
            return self._use("job_status", job_id=id)
        return next(row for row in self.rows(kind) if id in (str(row.get("id")), row.get("schedule_id")))


class Http(Interface):
    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {**self._there.bearer(LOCAL), "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        reply = self._there.ask(method, f"/api/v1{path}", headers, data)
        assert reply.status < 300, reply.body
        return json.loads(reply.body)

    def create(self, kind: str, name: str) -> tuple[str, Any]:
        trigger = {"type": "cron", "expression": CRON, "end": END}
        body = {"kind": kind, "name": name, "trigger": trigger, "payload": PAYLOADS[kind], "policy": OPTIONS}
        answer = self._ask("POST", "/schedules", body)
        return answer["id"], answer

    def rows(self, kind: str) -> Any:
        return self._ask("GET", f"/schedules?kind={kind}&limit=1000")["schedules"]

    def show(self, kind: str, id: str) -> Any:
        return self._ask("GET", f"/schedules/{id}")


class CommandLine(Interface):
    def _call(self, *arguments: str) -> Any:
        done = self._cli(*arguments, "--json")
        assert done.code == 0, done.out + done.err
        return done.document

    def create(self, kind: str, name: str) -> tuple[str, Any]:
        own = {
            "job": (name, "--task", "echo", "--arg", "hello"),
            "prompt": ("water the plants", "--max-runs-per-day", "7", "--name", name),
            "notification": ("hi", "--topic", "alerts", "--priority", "5", "--title", "Tea", "--name", name),
            "request": ("https://hooks.example.org/a", "--name", name),
        }
        flags = [word for option, value in OPTIONS.items() for word in (f"--{option.replace('_', '-')}", str(value))]
        answer = self._call(load_specs()[kind].command, "add", *own[kind], "--cron", CRON, "--end", END, *flags)
        return answer["id"], answer

    def rows(self, kind: str) -> Any:
        return self._call(load_specs()[kind].command, "list", "--all")[load_specs()[kind].plural]

    def show(self, kind: str, id: str) -> Any:
        return self._call("show", id)


class Python(Interface):
    def _with(self, read: Callable[[Duetime], Any]) -> Any:
        with closing(Duetime(settings=Settings(db=self._there.room.settings.db, timezone="UTC"))) as duetime:
            return read(duetime)

    def create(self, kind: str, name: str) -> tuple[str, Any]:
        made = self._with(
            lambda duetime: duetime.create(kind, PAYLOADS[kind], name=name, cron=CRON, end=END, **OPTIONS).as_dict()
        )
        return made["id"], made

    def rows(self, kind: str) -> Any:
        return self._with(lambda duetime: [each.as_dict() for each in duetime.schedules(kind=kind)])

    def show(self, kind: str, id: str) -> Any:
        return self._with(lambda duetime: duetime.get(id).as_dict())


INTERFACES = {each.__name__: each for each in (Mcp, Http, CommandLine, Python)}
TABLE = [cell for cell in product(load_specs(), INTERFACES) if cell != ("request", "Mcp")]
"""Agents do not create requests, of which they see only what is to come."""


def holds(answer: Any, name: str, value: Any) -> bool:
    """Return whether an answer has this value under this name, wherever it is; of a time, the beginning counts."""
    if isinstance(answer, list):
        return any(holds(each, name, value) for each in answer)
    if not isinstance(answer, dict):
        return False
    own = answer.get(name)
    is_same = own == value or (isinstance(own, str) and isinstance(value, str) and own.startswith(value))
    return is_same or any(holds(each, name, value) for each in answer.values())


def missing(answer: Any, facts: dict[str, Any]) -> list[str]:
    return [name for name, value in facts.items() if not holds(answer, name, value)]


@pytest.mark.parametrize(("kind", "interface"), TABLE)
def test_what_was_set_is_in_every_answer(there: Site, on_site: Cli, kind: str, interface: str) -> None:
    reached, name = INTERFACES[interface](there, on_site), f"{kind}-{interface}"
    facts = {**OPTIONS, "end": END, **FACTS[kind]}
    id, created = reached.create(kind, name)
    assert missing(created, facts) == []
    assert missing(reached.show(kind, id), facts) == []
    pause(there, id)
    facts |= {"name": name, "paused_until": "20", "held" if (kind, interface) == ("prompt", "Mcp") else "note": NOTE}
    assert missing(reached.show(kind, id), facts) == []
    [row] = [row for row in reached.rows(kind) if holds(row, "name", name)]
    assert missing(row, facts) == []


def pause(there: Site, id: str) -> None:
    until = Instant(there.room.scheduler.clock.now() + 9 * DAY)
    there.room.scheduler.pause(Caller(LOCAL), id, until=until, note=NOTE)


@pytest.mark.parametrize("kind", load_specs())
def test_a_page_shows_what_was_set(there: Site, on_site: Cli, kind: str) -> None:
    id, _ = Python(there, on_site).create(kind, f"{kind}-page")
    pause(there, id)
    browser, _ = browser_of(there)
    text = words(browser.get(f"/schedules/{id}"))
    shown = ("result sent to daily-report", "attempts at most 4", NOTE, f"until {END}", "Paused until")
    assert [each for each in shown if each not in text] == []
    values = [value[0] if isinstance(value, list) else str(value) for value in FACTS[kind].values()]
    assert [each for each in values if each not in text] == []


def test_an_edit_answers_with_what_is_set(there: Site, on_site: Cli) -> None:
    agent = Agent(there.room.services, Caller(LOCAL), "UTC")
    id, _ = Python(there, on_site).create("notification", "to edit")
    options = agent.knows("edit_schedule", schedule_id=id, options={"max_attempts": 6})["options"]
    assert options == {**OPTIONS, "max_attempts": 6, "end": "2099-12-31T23:59:59+00:00"}, "in the zone of the caller"
    plain = agent.knows("schedule_notification", message="tea", notification_topic="alerts", delay="1h")
    assert "options" not in plain, "the defaults of its kind were not set by anybody"
