"""Every option of the policy and every limit of times means the same on every interface, in a create and in an edit.
The table is generated: a new option has to work everywhere."""

from __future__ import annotations

import json
import re
from contextlib import closing, nullcontext
from itertools import product
from typing import Any, get_args, get_type_hints

import pytest

from duetime import Duetime, InvalidInput
from duetime.engine.clock import SECOND
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.policy.options import RULES
from duetime.engine.store import ScheduleQuery
from duetime.engine.validation import NewSchedule
from duetime.kinds import load_specs
from duetime.mcp.definitions import ToolProblem
from duetime.service.options import TIME_LIMITS, PolicyOptions, policy_options
from duetime.settings import Settings
from tests.support.agent import Agent
from tests.support.browsing import signed_in
from tests.support.cli import Cli
from tests.support.web import Site

CRON = "0 9 * * *"
OWNER = Caller(LOCAL)
SAMPLES: dict[str, Any] = {
    "count": 7,
    "duration": 90,
    "flag": True,
    "topic": "daily-report",
    "address": "https://hc.example/1",
    "gate": "echo('x') | changed()",
    "tags": "nightly,backup",
}
"""A value for each type of option; a choice takes its second one. Durations are in seconds."""
NEEDS: dict[str, dict[str, Any]] = {
    "notify_on": {"deliver_to": "daily-report"},
    "expire_after": {"untaken": "expire"},
    "gate_failure": {"only_if": "echo('x') | changed()"},
}
"""Options that another one needs."""
LIMITS: dict[str, Any] = {"start": "2098-01-01T00:00:00Z", "end": "2099-12-31T00:00:00Z", "jitter": 300}
Option = tuple[str, Any]
pytestmark = pytest.mark.filterwarnings("ignore:nothing fires yet")


def sample_of(name: str) -> dict[str, Any]:
    """Return a value for an option, with the options that it needs."""
    if name in LIMITS:
        return {name: LIMITS[name]}
    rule = policy_options()[name].rule
    return {**NEEDS.get(name, {}), name: rule.choices[1] if rule.choices else SAMPLES[rule.type]}


def in_seconds(values: dict[str, Any]) -> dict[str, Any]:
    return {policy_options()[name].argument if name not in LIMITS else name: value for name, value in values.items()}


class Interface:
    def __init__(self, there: Site, cli: Cli) -> None:
        self._there, self._cli = there, cli

    def create(self, values: dict[str, Any]) -> None: ...

    def edit(self, id: str, values: dict[str, Any]) -> None: ...


class Mcp(Interface):
    def _use(self, tool: str, **given: Any) -> None:
        answer = Agent(self._there.room.services, OWNER, "UTC").knows(tool, **given)
        assert "error" not in answer, answer

    def create(self, values: dict[str, Any]) -> None:
        self._use("schedule", prompt="water", cron=CRON, options=values)

    def edit(self, id: str, values: dict[str, Any]) -> None:
        self._use("edit_schedule", schedule_id=id, options=values)


class McpArguments(Mcp):
    """The same options as arguments, as far as tools have taken them so."""

    def create(self, values: dict[str, Any]) -> None:
        self._use("schedule", prompt="water", cron=CRON, **self._arguments(values))

    def edit(self, id: str, values: dict[str, Any]) -> None:
        self._use("edit_schedule", schedule_id=id, **self._arguments(values))

    def _arguments(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"options": values} if "jitter" in values else in_seconds(values)


class Rest(Interface):
    def _ask(self, method: str, path: str, body: Any) -> None:
        headers = {**self._there.bearer(LOCAL), "Content-Type": "application/json"}
        reply = self._there.ask(method, f"/api/v1{path}", headers, json.dumps(body).encode())
        assert reply.status < 300, reply.body

    def _body(self, values: dict[str, Any]) -> dict[str, Any]:
        if values.keys() <= LIMITS.keys():
            return {"trigger": {"type": "cron", "expression": CRON, **values}}
        return {"policy": in_seconds(values)}

    def create(self, values: dict[str, Any]) -> None:
        rule = {"type": "cron", "expression": CRON}
        body = {"kind": "prompt", "name": "water", "trigger": rule, "payload": {"prompt": "water"}}
        self._ask("POST", "/schedules", {**body, **self._body(values)})

    def edit(self, id: str, values: dict[str, Any]) -> None:
        self._ask("PATCH", f"/schedules/{id}", self._body(values))


class CommandLine(Interface):
    def _call(self, *arguments: str) -> None:
        done = self._cli("prompt", *arguments)
        assert done.code == 0, done.out + done.err

    def _flags(self, values: dict[str, Any]) -> list[str]:
        flags = []
        for name, value in values.items():
            in_time = name == "jitter" or (name not in LIMITS and policy_options()[name].rule.type == "duration")
            flags += [f"--{name.replace('_', '-')}"]
            flags += [] if value is True else [f"{value}s" if in_time else str(value)]
        return flags

    def create(self, values: dict[str, Any]) -> None:
        self._call("add", "water", "--cron", CRON, "--tz", "UTC", *self._flags(values))

    def edit(self, id: str, values: dict[str, Any]) -> None:
        self._call("edit", id, *self._flags(values))


class Form(Interface):
    def _send(self, page: str, path: str, values: dict[str, Any], **fields: str) -> None:
        browser = signed_in(self._there, "UTC")
        inputs = {name: "on" if value is True else str(value) for name, value in in_seconds(values).items()}
        shown = set(re.findall(r'name="([^"]+)"', browser.get(page).body.decode()))
        assert shown >= inputs.keys(), "the form has an input for it"
        form = {"name": "water", "prompt": "water", "when": "cron", "expression": CRON, "timezone": "UTC"}
        reply = browser.send(path, {**form, **fields, **inputs})
        assert reply.status == 303, reply.body

    def create(self, values: dict[str, Any]) -> None:
        self._send("/new?kind=prompt", "/new", values, kind="prompt")

    def edit(self, id: str, values: dict[str, Any]) -> None:
        self._send(f"/schedules/{id}/edit", f"/schedules/{id}/edit", values, version="1")


class Python(Interface):
    def _duetime(self) -> Duetime:
        return Duetime(settings=Settings(db=self._there.room.settings.db, timezone="UTC"))

    def create(self, values: dict[str, Any]) -> None:
        with closing(self._duetime()) as duetime:
            duetime.prompt("water", cron=CRON, **values)

    def edit(self, id: str, values: dict[str, Any]) -> None:
        with closing(self._duetime()) as duetime:
            duetime.edit(id, **values)


INTERFACES = {each.__name__: each for each in (Mcp, McpArguments, Rest, CommandLine, Form, Python)}
TABLE = list(product([*policy_options(), *TIME_LIMITS], INTERFACES))


def make(there: Site, values: dict[str, Any]) -> str:
    """Create a schedule in the engine itself."""
    policy = {name: value for name, value in values.items() if name not in LIMITS}
    policy = {name: value * SECOND if RULES[name].type == "duration" else value for name, value in policy.items()}
    limits = {name: value for name, value in values.items() if name in LIMITS}
    new = NewSchedule("prompt", "water", "cron", {"expression": CRON, **limits}, {"prompt": "water"}, policy)
    made = there.room.scheduler.create(OWNER, new)
    return made.definition.public_id


def stored(there: Site, id: str) -> tuple[str, str]:
    """Return the stored policy and rule."""
    schedule = there.room.store.find(id)
    assert schedule is not None
    return schedule.definition.policy, schedule.definition.trigger


def newest(there: Site) -> str:
    schedules = there.room.store.search(ScheduleQuery(kind="prompt", limit=1000)).items
    return max(schedules, key=lambda each: each.definition.id).definition.public_id


@pytest.mark.parametrize(("name", "interface"), TABLE)
def test_every_option(there: Site, on_site: Cli, name: str, interface: str) -> None:
    values, reached = sample_of(name), INTERFACES[interface](there, on_site)
    expected = stored(there, make(there, values))
    before = newest(there)
    reached.create(values)
    assert newest(there) != before
    assert stored(there, newest(there)) == expected
    plain = make(there, {})
    assert stored(there, plain) != expected
    reached.edit(plain, values)
    assert stored(there, plain) == expected


def test_the_table_has_every_option_of_the_engine() -> None:
    assert policy_options().keys() == RULES.keys() - {"callbacks", "needs"}
    hints = get_type_hints(PolicyOptions)
    for name, option in policy_options().items():
        assert option.texts.sentence.endswith("."), name
        if option.rule.choices:
            assert get_args(hints[name]) == option.rule.choices, "type checkers see the same choices"
            assert option.fact.words.keys() == set(option.rule.choices)


@pytest.mark.parametrize(("spec", "command"), list(product(load_specs().values(), ("add", "edit"))))
def test_every_command_has_every_option(cli: Cli, spec: Any, command: str) -> None:
    shown = cli(spec.command, command, "--help").out
    for name in (*policy_options(), *TIME_LIMITS):
        assert f"--{name.replace('_', '-')}" in shown


@pytest.mark.parametrize("option", [{"timeout": 5}, {"timeout_seconds": 5}, {"timeout": "5s"}])
def test_a_duration_has_two_names_for_tools(there: Site, option: dict[str, Any]) -> None:
    Mcp(there, None).create(option)  # type: ignore[arg-type]  # no command is called
    assert json.loads(stored(there, newest(there))[0])["timeout"] == 5 * SECOND


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"max_runs": 3, "options": {"max_runs": 3}}, "max_runs: it is given twice"),
        ({"timeout_seconds": 3, "options": {"timeout": "3s"}}, "timeout: it is given twice"),
        ({"options": {"timeout": 3, "timeout_seconds": 3}}, "timeout: it is given twice"),
        ({"start": "2098-01-01", "options": {"start": "2098-01-01"}}, "start: it is given twice"),
        ({"options": {"max_run": 3}}, "Unknown option: max_run. options takes: "),
        ({"options": {"callbacks": []}}, "Unknown option: callbacks. "),
        ({"options": {"max_runs": "3"}}, "options.max_runs must be an integer"),
        ({"options": {"catch_up": "always"}}, "options.catch_up must be one of once, all, skip"),
        ({"options": {"timeout": "soon"}}, "timeout: "),
        ({"options": [3]}, "options must be an object"),
        ({"max_run": 3}, "Unknown argument: max_run"),
    ],
)
def test_tools_refuse_options_that_are_wrong_or_given_twice(
    there: Site, arguments: dict[str, Any], problem: str
) -> None:
    tools: dict[str, dict[str, Any]] = {
        "schedule": {"prompt": "water", "cron": CRON},
        "edit_schedule": {"schedule_id": make(there, {})},
    }
    for tool, given in tools.items():
        try:
            answer = Agent(there.room.services, OWNER, "UTC").knows(tool, **given, **arguments)["error"]
        except ToolProblem as refusal:
            answer = str(refusal)
        assert problem in answer


@pytest.mark.parametrize("interface", [name for name in INTERFACES if name not in ("McpArguments", "Rest")])
@pytest.mark.parametrize(("option", "is_possible"), [("grace", True), ("timeout", False)])
def test_no_grace_can_be_written_as_a_text(
    there: Site, on_site: Cli, interface: str, option: str, is_possible: bool
) -> None:
    """Nothing else may last no time. HTTP takes numbers of seconds."""
    class_, id = INTERFACES[interface], make(there, {})
    text = {option: "0" if class_ is CommandLine else "0s"}  # the test adds the unit
    with nullcontext() if is_possible else pytest.raises((AssertionError, InvalidInput)):
        class_(there, on_site).edit(id, text)
    assert json.loads(stored(there, id)[0]) == ({option: 0} if is_possible else {})


def test_null_restores_a_default(there: Site) -> None:
    id = make(there, {"timeout": 90, "max_runs": 7})
    Mcp(there, None).edit(id, {"timeout": None, "max_runs": None})  # type: ignore[arg-type]  # no command is called
    assert stored(there, id)[0] == stored(there, make(there, {}))[0]


@pytest.mark.parametrize("jitter", ["5 minuets", "0s"])
def test_a_duration_that_cannot_be_read_is_named(there: Site, jitter: str) -> None:
    agent = Agent(there.room.services, OWNER, "UTC")
    answer = agent.knows("schedule", prompt="water", cron=CRON, options={"jitter": jitter})
    assert "jitter" in answer["error"] and "store" not in answer["error"]


def test_null_restores_the_default_of_every_option(there: Site) -> None:
    agent = Agent(there.room.services, OWNER, "UTC")
    values = {
        "deliver_to": "daily-report",
        "notify_on": "failure",
        "overlap": "queue",
        "end": "2099-12-31",
        "jitter": "5m",
    }
    id = str(agent.knows("schedule", prompt="water", cron=CRON, options=values)["id"])
    answer = agent.knows("edit_schedule", schedule_id=id, options=dict.fromkeys(values))
    assert "error" not in answer, answer
    schedule = there.room.store.find(id)
    assert schedule is not None
    assert (schedule.definition.policy, json.loads(schedule.definition.trigger).keys() & {"end", "jitter_us"}) == (
        "{}",
        set(),
    )


def test_delivery_with_a_condition_is_removed_on_the_command_line(there: Site, on_site: Cli) -> None:
    added = on_site("prompt", "add", "water", "--cron", CRON, "--deliver-to", "x", "--notify-on", "failure", "--json")
    id = str(json.loads(added.out)["id"])
    edited = on_site("prompt", "edit", id, "--deliver-to", "none", "--notify-on", "none")
    assert edited.code == 0, edited.err
    schedule = there.room.store.find(id)
    assert schedule is not None and schedule.definition.policy == "{}"


def test_the_form_keeps_what_it_does_not_show(there: Site) -> None:
    new = NewSchedule("job", "same", "cron", {"expression": CRON}, {"task": "echo"}, {"untaken": "keep"})
    created = there.room.scheduler.create(OWNER, new)
    id = created.definition.public_id
    form = {"name": "another", "task": "echo", "when": "cron", "expression": CRON, "timezone": "UTC", "version": "1"}
    reply = signed_in(there, "UTC").send(f"/schedules/{id}/edit", form)
    assert reply.status == 303, reply.body
    schedule = there.room.store.find(id)
    assert schedule is not None
    assert (schedule.definition.name, schedule.definition.policy) == ("another", '{"untaken":"keep"}')
