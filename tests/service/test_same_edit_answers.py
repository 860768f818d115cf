"""An edit and a refused create over every interface: the same facts, warnings, notes and error codes."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from contextlib import closing
from itertools import product
from typing import Any, NamedTuple

import pytest

from duetime import Duetime, DuetimeError
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.validation import NewSchedule
from duetime.service.errors import error_class
from duetime.service.presenters import schedule_shape
from duetime.settings import Settings
from tests.support.agent import Agent
from tests.support.browsing import signed_in
from tests.support.cli import Cli
from tests.support.web import Site

CRON, OWNER = "0 9 * * *", Caller(LOCAL)
Options = dict[str, str]
WAITING = "The change applies at once to run {run}, which is waiting; do not start another one."
pytestmark = pytest.mark.filterwarnings("ignore:nothing fires yet")


class Told(NamedTuple):
    """What an interface says about an edit."""

    codes: list[str]
    notes: list[str]


class Refusal(NamedTuple):
    """What an interface says about what it refuses, as far as it says it: not each has codes."""

    code: str | None
    message: str
    exit: int | None = None
    status: int | None = None


class Interface(ABC):
    def __init__(self, there: Site, cli: Cli) -> None:
        self._there, self._cli = there, cli

    @abstractmethod
    def edit(self, id: str, options: Options) -> Told | Refusal: ...

    @abstractmethod
    def create(self, options: Options) -> Refusal: ...


class Mcp(Interface):
    def _use(self, tool: str, **given: Any) -> dict[str, Any]:
        return Agent(self._there.room.services, OWNER, "UTC").knows(tool, **given)

    def edit(self, id: str, options: Options) -> Told | Refusal:
        answer = self._use("edit_schedule", schedule_id=id, **options)
        if "error" in answer:
            return Refusal(None, answer["error"])
        applies = answer.get("applies")
        return Told(answer.get("warning_codes", []), [] if applies is None else [f"The change applies {applies}."])

    def create(self, options: Options) -> Refusal:
        return Refusal(None, self._use("schedule", prompt="water", **options)["error"])


class Rest(Interface):
    def _ask(self, method: str, path: str, body: Any) -> Any:
        headers = {**self._there.bearer(LOCAL), "Content-Type": "application/json"}
        return self._there.ask(method, f"/api/v1{path}", headers, json.dumps(body).encode())

    def _body(self, options: Options) -> dict[str, Any]:
        policy = {name: value for name, value in options.items() if name == "deliver_to"}
        return {**{name: options[name] for name in options if name not in policy}, "policy": policy}

    def edit(self, id: str, options: Options) -> Told | Refusal:
        reply = self._ask("PATCH", f"/schedules/{id}", self._body(options))
        return (
            _refusal(reply) if reply.status != 200 else Told(reply.json["warning_codes"], reply.json.get("notes", []))
        )

    def create(self, options: Options) -> Refusal:
        body = {"kind": "prompt", "name": "water", "payload": {"prompt": "water"}, **options}
        return _refusal(self._ask("POST", "/schedules", body))


def _refusal(reply: Any) -> Refusal:
    return Refusal(reply.json["type"].rpartition(":")[2], reply.json["detail"], status=reply.status)


class Python(Interface):
    def _duetime(self) -> Duetime:
        return Duetime(settings=Settings(db=self._there.room.settings.db, timezone="UTC"))

    def edit(self, id: str, options: Options) -> Told | Refusal:
        given: Any = options
        with closing(self._duetime()) as duetime:
            try:
                edited = duetime.edit(id, **given)
            except DuetimeError as error:
                return Refusal(error.code, str(error))
            return Told(edited.warning_codes, edited.notes)

    def create(self, options: Options) -> Refusal:
        given: Any = options
        with closing(self._duetime()) as duetime, pytest.raises(DuetimeError) as raised:
            duetime.prompt("water", **given)
        return Refusal(raised.value.code, str(raised.value))


class CommandLine(Interface):
    def _call(self, *arguments: str, options: Options) -> Any:
        flags = {name: "tz" if name == "timezone" else name.replace("_", "-") for name in options}
        return self._cli(*arguments, *(f"--{flags[name]}={value}" for name, value in options.items()), "--json")

    def edit(self, id: str, options: Options) -> Told | Refusal:
        done = self._call("job", "edit", id, options=options)
        if done.code:
            return Refusal(None, done.out + done.err, exit=done.code)
        return Told(done.document["warning_codes"], done.document.get("notes", []))

    def create(self, options: Options) -> Refusal:
        done = self._call("prompt", "add", "water", options=options)
        return Refusal(None, done.out + done.err, exit=done.code)


class Form(Interface):
    """The form has one input for each way to say when. The page of a schedule shows its warnings."""

    def _values(self, options: Options) -> dict[str, str]:
        renamed = {"cron": "expression", "at": "run_at"}
        values = {renamed.get(name, name): value for name, value in options.items()}
        when = "once" if "at" in options else "cron"
        return {"when": when, "expression": CRON, "timezone": "UTC", **values}

    def edit(self, id: str, options: Options) -> Told | Refusal:
        browser = signed_in(self._there, "UTC")
        values = {"name": "same", "task": "echo", "version": "1", **self._values(options)}
        reply = browser.send(f"/schedules/{id}/edit", values)
        if reply.status != 303:
            return Refusal(None, reply.body.decode(), status=reply.status)
        schedule = self._there.room.store.find(id)
        assert schedule is not None
        page, services = browser.follow(reply), self._there.room.services
        warnings = services.schedule_warnings(schedule, delivery="deliver_to" in options)
        notes = re.findall(r"The change applies [^.]*\.", page)
        return Told([each.code for each in warnings if each.text in page], notes)

    def create(self, options: Options) -> Refusal:
        values = {"kind": "prompt", "name": "water", "prompt": "water", **self._values(options)}
        reply = signed_in(self._there, "UTC").send("/new", values)
        return Refusal(None, reply.body.decode(), status=reply.status)


INTERFACES = {each.__name__: each for each in (Mcp, Rest, Python, CommandLine, Form)}


def make(there: Site) -> str:
    new = NewSchedule("job", "same", "cron", {"expression": CRON}, {"task": "echo"}, timezone="UTC")
    made = there.room.scheduler.create(OWNER, new)
    return made.definition.public_id


def stored(there: Site, id: str) -> dict[str, Any]:
    """Return what is kept, without what differs from one schedule to the next."""
    schedule = there.room.store.find(id)
    assert schedule is not None
    shape = dict(schedule_shape(schedule, "UTC"))
    return {name: shape[name] for name in ("name", "trigger", "payload", "policy", "next_run", "version", "status")}


EDITS: dict[str, tuple[Options, list[str]]] = {
    "a rule": ({"cron": "0 9 31 * *"}, ["trigger"]),
    "a topic": ({"deliver_to": "home"}, ["no_channel"]),
    "a name": ({"name": "other"}, []),
    "a rule that ends": ({"cron": "0 8 * * *", "end": "2099-12-31T00:00:00Z"}, []),
    "the next time": ({"at": "2098-01-01T15:00:00Z"}, ["moved"]),
}
REFUSED: dict[str, tuple[Options, str, str]] = {
    "a rule": ({"cron": "61 * * * *"}, "invalid_trigger", "Invalid cron expression: 61 * * * *"),
    "a zone": ({"cron": CRON, "timezone": "Mars/Olympus"}, "unknown_zone", "Mars/Olympus"),
    "an end": ({"cron": CRON, "end": "2020-01-01T00:00:00Z"}, "invalid_trigger", "end"),
}
"""Options, the code of the error, and what its message says."""


def has_form(name: str, interface: str) -> bool:
    """Return whether an interface can do it: the form replaces the rule, and moves no single occurrence."""
    return interface != "Form" or name != "the next time"


TABLE = [each for each in product(EDITS, INTERFACES) if has_form(*each)]


@pytest.mark.parametrize(("name", "interface"), TABLE)
def test_an_edit(there: Site, on_site: Cli, name: str, interface: str) -> None:
    options, codes = EDITS[name]
    first, second = make(there), make(there)
    assert Python(there, on_site).edit(first, options) == Told(codes, [])
    assert INTERFACES[interface](there, on_site).edit(second, options) == Told(codes, [])
    assert stored(there, second) == stored(there, first)


@pytest.mark.parametrize("interface", INTERFACES)
def test_an_edit_says_what_becomes_of_a_run_that_waits(there: Site, on_site: Cli, interface: str) -> None:
    id = make(there)
    run = there.room.scheduler.run_now(OWNER, id)
    told = INTERFACES[interface](there, on_site).edit(id, {"name": "other"})
    assert told == Told([], [WAITING.format(run=run.id)])


@pytest.mark.parametrize(
    "options",
    [
        {"at": "2098-01-01T15:00:00Z"},
        {"every": "2h", "start": "2098-01-01T00:00:00Z", "jitter": "5m"},
        {"cron": CRON, "timezone": "Europe/Berlin"},
        {"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "start": "2098-01-01T00:00:00Z"},
        {"when": "every weekday at 8:30", "end": "2099-12-31T00:00:00Z"},
    ],
)
def test_times_are_options_of_the_http_api_too(there: Site, options: Options) -> None:
    headers, given = {**there.bearer(LOCAL), "Content-Type": "application/json"}, dict[str, Any](options)
    body = {"kind": "prompt", "name": "water", "payload": {"prompt": "water"}, **options}
    reply = there.ask("POST", "/api/v1/schedules", headers, json.dumps(body).encode())
    assert reply.status == 201, reply.json
    with closing(Duetime(settings=Settings(db=there.room.settings.db, timezone="UTC"))) as duetime:
        assert reply.json["trigger"] == duetime.prompt("water", **given).trigger


@pytest.mark.parametrize(("name", "interface"), [*product(REFUSED, INTERFACES)])
@pytest.mark.parametrize("operation", ["create", "edit"])
def test_what_is_refused(there: Site, on_site: Cli, operation: str, name: str, interface: str) -> None:
    options, code, message = REFUSED[name]
    reached, id = INTERFACES[interface](there, on_site), make(there)
    before = stored(there, id)
    refusal = reached.edit(id, options) if operation == "edit" else reached.create(options)
    assert isinstance(refusal, Refusal)
    assert message in refusal.message
    assert refusal.code in (None, code)
    assert refusal.exit in (None, error_class(code).exit)
    assert refusal.status in (None, error_class(code).status)
    assert stored(there, id) == before
