"""Every operation works for every kind over every interface. The table is generated: a new kind, operation or interface
has to fill its cells, or be named in NOT_APPLICABLE."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from duetime import Duetime
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Schedule, ScheduleState
from duetime.engine.result import Ok
from duetime.engine.validation import NewSchedule
from duetime.kinds import load_specs
from duetime.settings import Settings
from tests.support.agent import Agent
from tests.support.browsing import Browser, signed_in
from tests.support.cli import Cli
from tests.support.web import Site, site

CRON = "0 9 * * *"
PAYLOADS: dict[str, dict[str, Any]] = {
    "job": {"task": "echo", "args": ["hello"], "kwargs": {}},
    "prompt": {"prompt": "water the plants"},
    "notification": {"message": "hi", "topic": "alerts"},
    "request": {"url": "https://hooks.example.org/a"},
}
EDITS: dict[str, dict[str, Any]] = {
    "job": {"task": "echo", "args": ["bye"]},
    "prompt": {"prompt": "water them"},
    "notification": {"message": "bye"},
    "request": {"url": "https://hooks.example.org/b"},
}
"""Payload fields that an edit replaces."""


class Interface(ABC):
    """One way to reach a Duetime. Every public method is an operation of the table."""

    def __init__(self, there: Site, cli: Cli) -> None:
        self._there, self._cli = there, cli

    @abstractmethod
    def create(self, kind: str) -> None: ...

    @abstractmethod
    def edit(self, kind: str, id: str) -> None: ...

    @abstractmethod
    def pause(self, kind: str, id: str) -> None: ...

    @abstractmethod
    def resume(self, kind: str, id: str) -> None: ...

    @abstractmethod
    def cancel(self, kind: str, id: str) -> None: ...

    @abstractmethod
    def delete(self, kind: str, id: str) -> None: ...


class Mcp(Interface):
    def _use(self, tool: str, **given: Any) -> dict[str, Any]:
        answer = Agent(self._there.room.services, Caller(LOCAL), "UTC").knows(tool, **given)
        assert "error" not in answer, answer
        return answer

    def create(self, kind: str) -> None:
        trigger = {"trigger_type": "cron", "trigger_config": {"expression": CRON}}
        tools: dict[str, tuple[str, dict[str, Any]]] = {
            "job": ("schedule_job", {"name": "same", "task": "echo", "args": ["hello"], **trigger}),
            "prompt": ("schedule", {**PAYLOADS["prompt"], "cron": CRON}),
            "notification": (
                "schedule_cron_notification",
                {"message": "hi", "notification_topic": "alerts", "cron": CRON, "timezone": "UTC"},
            ),
        }
        tool, given = tools[kind]
        self._use(tool, **given)

    def edit(self, kind: str, id: str) -> None:
        fields = {"payload": EDITS[kind]} if kind == "request" else EDITS[kind]
        self._use("edit_schedule", schedule_id=id, cron="0 10 * * *", **fields)

    def pause(self, kind: str, id: str) -> None:
        answer = self._use("pause_schedule", schedule_id=id, until="in 2 days", note="holiday")
        assert (answer["kind"], answer["next_run"], answer["note"]) == (kind, None, "holiday")

    def resume(self, kind: str, id: str) -> None:
        assert self._use("resume_schedule", schedule_id=id)["next_run"] is not None

    def cancel(self, kind: str, id: str) -> None:
        assert self._use("change_schedules", action="cancel", ids=[id])["changed"] == 1

    def delete(self, kind: str, id: str) -> None:
        self._use("delete_schedule", schedule_id=id)


class Http(Interface):
    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {**self._there.bearer(LOCAL), "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        reply = self._there.ask(method, f"/api/v1/schedules{path}", headers, data)
        assert reply.status < 300, reply.body
        return json.loads(reply.body or b"null")

    def create(self, kind: str) -> None:
        trigger = {"type": "cron", "expression": CRON}
        self._ask("POST", "", {"kind": kind, "name": "same", "trigger": trigger, "payload": PAYLOADS[kind]})

    def edit(self, kind: str, id: str) -> None:
        trigger = {"type": "cron", "expression": "0 10 * * *"}
        self._ask("PATCH", f"/{id}", {"trigger": trigger, "payload": {**PAYLOADS[kind], **EDITS[kind]}})

    def pause(self, kind: str, id: str) -> None:
        shape = self._ask("POST", f"/{id}/pause?until=in+2+days&note=holiday")
        assert shape["status"] == "paused" and shape["paused_until"] and shape["note"] == "holiday"

    def resume(self, kind: str, id: str) -> None:
        assert self._ask("POST", f"/{id}/resume")["status"] == "pending"

    def cancel(self, kind: str, id: str) -> None:
        self._ask("POST", f"/{id}/cancel")

    def delete(self, kind: str, id: str) -> None:
        self._ask("DELETE", f"/{id}")


class CommandLine(Interface):
    def _run(self, kind: str, *arguments: str) -> None:
        done = self._cli(load_specs()[kind].command, *arguments)
        assert done.code == 0, done.out + done.err

    def create(self, kind: str) -> None:
        given = {
            "job": ("same", "--task", "echo", "--arg", "hello"),
            "prompt": ("water the plants",),
            "notification": ("hi", "--topic", "alerts"),
        }
        self._run(kind, "add", *given[kind], "--cron", CRON)

    def edit(self, kind: str, id: str) -> None:
        given = {
            "job": ("--arg", "bye"),
            "prompt": ("--text", "water them"),
            "notification": ("--message", "bye"),
            "request": ("--url", "https://hooks.example.org/b"),
        }
        self._run(kind, "edit", id, "--cron", "0 10 * * *", *given[kind])

    def pause(self, kind: str, id: str) -> None:
        self._run(kind, "pause", id, "--until", "in 2 days", "--note", "holiday")

    def resume(self, kind: str, id: str) -> None:
        self._run(kind, "resume", id)

    def cancel(self, kind: str, id: str) -> None:
        self._run(kind, "cancel", id)

    def delete(self, kind: str, id: str) -> None:
        self._run(kind, "delete", id)


class Dashboard(Interface):
    def _send(self, path: str, **fields: str) -> None:
        browser: Browser = signed_in(self._there, "UTC")
        reply = browser.send(path, fields)
        assert reply.status == 303, reply.body

    def create(self, kind: str) -> None:
        own = {
            "job": {"name": "same", "task": "echo", "args": '["hello"]'},
            "prompt": PAYLOADS["prompt"],
            "notification": PAYLOADS["notification"],
        }
        self._send("/new", kind=kind, when="cron", expression=CRON, timezone="UTC", **own[kind])

    def edit(self, kind: str, id: str) -> None:
        shown = {
            "job": {"task": "echo", "args": '["bye"]'},
            "prompt": {"prompt": "water them"},
            "notification": {"message": "bye", "topic": "alerts"},
            "request": {"payload": json.dumps(EDITS["request"])},
        }
        form = {"name": "same", "when": "cron", "expression": "0 10 * * *", "timezone": "UTC", "version": "1"}
        self._send(f"/schedules/{id}/edit", **form, **shown[kind])

    def pause(self, kind: str, id: str) -> None:
        self._send(f"/schedules/{id}/pause", until="in 2 days", note="holiday")

    def resume(self, kind: str, id: str) -> None:
        self._send(f"/schedules/{id}/resume")

    def cancel(self, kind: str, id: str) -> None:
        self._send(f"/schedules/{id}/cancel")

    def delete(self, kind: str, id: str) -> None:
        self._send(f"/schedules/{id}/delete")


@pytest.mark.filterwarnings("ignore:nothing fires yet")
class Python(Interface):
    def _duetime(self) -> Duetime:
        return Duetime(settings=Settings(db=self._there.room.settings.db, timezone="UTC"))

    def create(self, kind: str) -> None:
        duetime = self._duetime()
        duetime.create(kind, PAYLOADS[kind], name="same", cron=CRON)
        duetime.close()

    def edit(self, kind: str, id: str) -> None:
        duetime = self._duetime()
        duetime.edit(id, payload={**PAYLOADS[kind], **EDITS[kind]}, cron="0 10 * * *")
        duetime.close()

    def pause(self, kind: str, id: str) -> None:
        duetime = self._duetime()
        duetime.pause(id, until="in 2 days", note="holiday")
        duetime.close()

    def resume(self, kind: str, id: str) -> None:
        duetime = self._duetime()
        duetime.resume(id)
        duetime.close()

    def cancel(self, kind: str, id: str) -> None:
        duetime = self._duetime()
        duetime.cancel(id)
        duetime.close()

    def delete(self, kind: str, id: str) -> None:
        duetime = self._duetime()
        duetime.delete(id)
        duetime.close()


OPERATIONS = [name for name in vars(Interface) if not name.startswith("_")]
INTERFACES = {each.__name__.lower(): each for each in Interface.__subclasses__()}
NOT_APPLICABLE = {("create", "request", name) for name in ("mcp", "commandline", "dashboard")}
TABLE = [cell for cell in product(OPERATIONS, load_specs(), INTERFACES) if cell not in NOT_APPLICABLE]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture
def on_site(cli: Cli, there: Site, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line on the store of the site."""
    monkeypatch.chdir(Path(there.room.settings.db).parent)
    return lambda *arguments: cli(*arguments, "--db", there.room.settings.db)


def make(there: Site, kind: str) -> str:
    new = NewSchedule(kind, "same", "cron", {"expression": CRON}, PAYLOADS[kind])
    made = there.room.scheduler.create(Caller(LOCAL), new)
    assert isinstance(made, Ok)
    return made.value.definition.public_id


def schedules(there: Site, kind: str) -> set[str]:
    from duetime.engine.store import ScheduleQuery

    found = there.room.store.search(ScheduleQuery(kind=kind, limit=1000)).items
    return {each.definition.public_id for each in found}


def stored(there: Site, id: str) -> Schedule:
    found = there.room.store.find(id)
    assert found is not None
    return found


@pytest.mark.filterwarnings("ignore:nothing fires yet")
@pytest.mark.parametrize(("operation", "kind", "interface"), TABLE)
def test_every_operation(there: Site, on_site: Cli, operation: str, kind: str, interface: str) -> None:
    reached = INTERFACES[interface](there, on_site)
    if operation == "create":
        before = schedules(there, kind)
        reached.create(kind)
        assert len(schedules(there, kind) - before) == 1
        return
    id = make(there, kind)
    if operation == "resume":
        there.room.scheduler.pause(Caller(LOCAL), id)
    getattr(reached, operation)(kind, id)
    definition, progress = stored(there, id)
    if operation == "edit":
        payload = json.loads(definition.payload)
        assert {name: payload[name] for name in EDITS[kind]} == EDITS[kind]
        assert json.loads(definition.trigger)["expression"] == "0 10 * * *" and definition.version == 2
    elif operation == "pause":
        assert (progress.state, progress.note) == (ScheduleState.PAUSED, "holiday")
        assert definition.resume_at is not None
    elif operation == "resume":
        assert progress.state == ScheduleState.ACTIVE
    elif operation == "cancel":
        assert progress.state == ScheduleState.CANCELLED
    else:
        assert (operation, progress.state) == ("delete", ScheduleState.DELETED)


def test_the_table_is_complete() -> None:
    assert set(PAYLOADS) == set(EDITS) == set(load_specs())
    assert set(INTERFACES) == {"mcp", "http", "commandline", "dashboard", "python"}
    for name, operation in product(INTERFACES, OPERATIONS):
        assert not getattr(getattr(INTERFACES[name], operation), "__isabstractmethod__", False)
