"""`when`, `start`, `end` and `max_runs` in every create: the same words are stored as the same trigger everywhere."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest

from duetime import Duetime
from duetime.engine.errors import InvalidTrigger
from duetime.engine.kind import LOCAL, Caller
from duetime.mcp.definitions import ToolProblem
from duetime.settings import Settings
from tests.support.agent import TOOLS as OFFERED
from tests.support.agent import Agent
from tests.support.browsing import signed_in
from tests.support.cli import Cli
from tests.support.web import Site
from tests.support.wordings import NEVER_FIRES

BERLIN = "Europe/Berlin"
LIMITS: dict[str, Any] = {"start": "2099-01-01T00:00", "end": "2099-12-31", "max_runs": 5}
BOUNDS = {"start": "2099-01-01T00:00:00.000000Z", "end": "2099-12-31T23:59:59.999999Z", "timezone": "UTC"}
PAYLOADS: dict[str, dict[str, Any]] = {
    "job": {"task": "echo", "args": ["hello"], "kwargs": {}},
    "prompt": {"prompt": "water the plants"},
    "notification": {"message": "hi", "topic": "alerts"},
}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "job": ("schedule_job", {"name": "same", "task": "echo", "args": ["hello"]}),
    "prompt": ("schedule", PAYLOADS["prompt"]),
    "notification": ("schedule_notification", {"message": "hi", "notification_topic": "alerts"}),
}
COMMANDS = {
    "job": ("job", "add", "same", "--task", "echo", "--arg", "hello"),
    "prompt": ("prompt", "add", "water the plants"),
    "notification": ("notify", "add", "hi", "--topic", "alerts"),
}
FORMS = {**PAYLOADS, "job": {"name": "same", "task": "echo", "args": '["hello"]'}}
PHRASES: dict[str, dict[str, Any]] = {
    "every weekday at 8:30": {"type": "cron", "expression": "30 8 * * 1-5"},
    "every 45 minutes between 9:00 and 17:00 on weekdays": {
        "type": "interval",
        "period_us": 2_700_000_000,
        "between": "09:00-17:00",
        "weekdays": "mon,tue,wed,thu,fri",
    },
}


def by_mcp(there: Site, kind: str, when: str) -> str:
    tool, own = TOOLS[kind]
    answer = Agent(there.room.services, Caller(LOCAL), "UTC").knows(tool, timezone="UTC", when=when, **own, **LIMITS)
    return next(str(answer[name]) for name in ("job_id", "schedule_id", "id") if name in answer)


def by_rest(there: Site, kind: str, when: str) -> str:
    body = {"kind": kind, "name": "same", "when": when, "payload": PAYLOADS[kind], "timezone": "UTC", **LIMITS}
    headers = {**there.bearer(LOCAL), "Content-Type": "application/json"}
    reply = there.ask("POST", "/api/v1/schedules", headers, json.dumps(body).encode())
    assert reply.status == 201, reply.body
    return str(reply.json["id"])


def by_python(there: Site, kind: str, when: str) -> str:
    duetime = Duetime(settings=Settings(db=there.room.settings.db, timezone="UTC"))
    try:
        return str(duetime.create(kind, PAYLOADS[kind], when=when, timezone="UTC", **LIMITS).id)
    finally:
        duetime.close()


def by_dashboard(there: Site, kind: str, when: str) -> str:
    limits = {name: str(value) for name, value in LIMITS.items()}
    form = {"kind": kind, "when": "phrase", "phrase": when, "timezone": "UTC", **limits, **FORMS[kind]}
    reply = signed_in(there, "UTC").send("/new", form)
    assert reply.status == 303, reply.body
    return reply.headers["location"].split("/")[2].partition("?")[0]


@pytest.mark.parametrize("kind", PAYLOADS)
@pytest.mark.parametrize("when", PHRASES)
@pytest.mark.filterwarnings("ignore:nothing fires yet")
def test_words_and_limits_are_stored_the_same_everywhere(there: Site, on_site: Cli, kind: str, when: str) -> None:
    def by_cli(_there: Site, kind: str, when: str) -> str:
        limits = [f"--{name.replace('_', '-')}={value}" for name, value in LIMITS.items()]
        made = on_site(*COMMANDS[kind], "--when", when, "--tz", "UTC", *limits, "--json")
        assert made.code == 0, made.out + made.err
        return str(made.document["id"])

    for create in (by_mcp, by_rest, by_python, by_dashboard, by_cli):
        schedule = there.room.store.find(create(there, kind, when))
        assert schedule is not None
        trigger, policy = json.loads(schedule.definition.trigger), json.loads(schedule.definition.policy)
        assert trigger == PHRASES[when] | BOUNDS, create.__name__
        assert policy["max_runs"] == 5, create.__name__


TIMES: list[tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = [
    ({"type": "interval", "hours": 1}, {"every": "60m"}, {"every": "1h"}),
    ({"type": "cron", "expression": "0 9 * * *"}, {"cron": "0 9 * * *"}, {"cron": "0 9 * * *"}),
    ({"type": "once", "run_at": "in 3 hours"}, {"delay": "3h"}, {"at": "in 3 hours"}),
]
"""A trigger of the tools and of the HTTP API, the same in Python, and on the command line."""


@pytest.mark.parametrize(("trigger", "python", "command"), TIMES, ids=["interval", "cron", "once"])
@pytest.mark.filterwarnings("ignore:nothing fires yet")
def test_a_key_finds_the_same_request_through_every_interface(
    there: Site, on_site: Cli, trigger: dict[str, Any], python: dict[str, Any], command: dict[str, str]
) -> None:
    key = f"same-{trigger['type']}"
    policy: dict[str, Any] = {"idempotency_key": key, "max_attempts": 2}
    asked = {"trigger_type": trigger["type"], "trigger_config": {n: v for n, v in trigger.items() if n != "type"}}
    agent = Agent(there.room.services, Caller(LOCAL), there.room.services.zone)
    made = agent.knows("schedule_job", asked, **TOOLS["job"][1], **policy, timeout_seconds=60)["job_id"]
    payload = {"task": "echo", "args": ["hello"]}
    body = {"kind": "job", "name": "same", "payload": payload, "trigger": trigger, "idempotency_key": key}
    again = post(there, "/schedules", {**body, "policy": {"max_attempts": 2, "timeout_seconds": 60}})
    assert again.get("id") == made, again
    duetime = Duetime(settings=there.room.settings)
    try:
        options: dict[str, Any] = {"name": "same", "key": key, "max_attempts": 2, "timeout": "1m", **python}
        assert duetime.schedule("echo", args=["hello"], **options).id == made
    finally:
        duetime.close()
    given = {**command, "key": key, "max-attempts": "2", "timeout": "1m", "tz": there.room.services.zone}
    line = on_site(*COMMANDS["job"], *(f"--{name}={value}" for name, value in given.items()), "--json")
    assert line.code == 0 and line.document["id"] == made, line


@pytest.mark.parametrize("kind", PAYLOADS)
def test_a_single_time_in_words(there: Site, kind: str) -> None:
    tool, own = TOOLS[kind]
    answer = Agent(there.room.services, Caller(LOCAL), "Europe/Berlin").knows(tool, when="2099-02-10 at 9", **own)
    shown = next(answer[name] for name in ("next_run", "fire_at", "scheduled_time") if name in answer)
    assert shown == "2099-02-10T09:00:00+01:00"


def test_a_recurring_notification_in_words(there: Site) -> None:
    agent, note = Agent(there.room.services, Caller(LOCAL), "Europe/Berlin"), TOOLS["notification"][1]
    cron = agent.knows("schedule_cron_notification", when="every weekday at 8:30", timezone="Europe/Berlin", **note)
    assert cron["cron"] == "CRON_TZ=Europe/Berlin 30 8 * * 1-5"
    rule = agent.knows("schedule_notification", when="last friday of the month 5pm", start="2099-01-01", **note)
    assert rule["scheduled_time"] == "2099-01-30T17:00:00+01:00"
    assert rule["schedule_id"] == rule["message_id"] and rule["schedule_id"].startswith("scd_")
    assert rule["confirmation"].endswith("; next on Jan 30, 2099 5:00 PM CET")


def test_words_beside_required_arguments_that_are_empty(there: Site) -> None:
    """A client that follows the schema has to give these."""
    agent = Agent(there.room.services, Caller(LOCAL), "Europe/Berlin")
    given = {"name": "same", "task": "echo", "when": "every weekday at 8:30", "trigger_type": "cron"}
    job = agent.knows("schedule_job", {**given, "trigger_config": {}})
    assert job["reads_as"] == "at 08:30 on Monday through Friday (Europe/Berlin)"
    note = {**TOOLS["notification"][1], "cron": "", "timezone": "Europe/Berlin"}
    made = agent.knows("schedule_cron_notification", when="every weekday at 8:30", **note)
    assert made["cron"] == "CRON_TZ=Europe/Berlin 30 8 * * 1-5"


def problem_of(agent: Agent, tool: str, **given: Any) -> str:
    with pytest.raises(ToolProblem) as refused:
        agent.use(tool, given)
    return str(refused.value)


def cron_job(**rule: Any) -> dict[str, Any]:
    return {"name": "same", "task": "echo", "args": ["x"], "trigger_type": "cron", **rule}


@pytest.mark.parametrize(
    ("when", "type_", "config"),
    [
        ("every weekday at half past eight", "cron", {"expression": "30 8 * * 1-5"}),
        ("every weekday at 8:30", "cron", {"expression": "30 8 * * MON-FRI"}),
        ("every 2 hours", "interval", {"minutes": 120}),
        ("last friday of the month 5pm", "rrule",
         {"rrule": "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0;BYSECOND=0"}),
        ("2099-02-10 at 9", "once", {"run_at": "2099-02-10T09:00:00+01:00"}),
        ("christmas at 9", "once", {"run_at": "december 25 9am"}),
    ],
)  # fmt: skip
def test_words_beside_a_trigger_that_agrees(there: Site, when: str, type_: str, config: dict[str, Any]) -> None:
    agent = Agent(there.room.services, Caller(LOCAL), BERLIN)
    trigger = {"trigger_type": type_, "trigger_config": config}
    alone = agent.knows("preview_schedule", when=when)
    assert agent.knows("preview_schedule", trigger, when=when) == alone
    assert agent.knows("schedule_job", cron_job(**trigger), when=when)["reads_as"] == alone["reads_as"]


@pytest.mark.parametrize("expression", ["0 8 * * 1-5", "30 8 * * *", "61 8 * * *"])
def test_words_beside_a_trigger_that_differs_are_refused(there: Site, expression: str) -> None:
    agent = Agent(there.room.services, Caller(LOCAL), BERLIN)
    problem = "when: give it or a trigger (its type and configuration), not both, because they differ"
    given = cron_job(trigger_config={"expression": expression}, when="every weekday at 8:30")
    assert agent.knows("schedule_job", given)["error"] == problem
    note = {**TOOLS["notification"][1], "timezone": BERLIN, "when": "every weekday at 8:30"}
    assert problem_of(agent, "schedule_cron_notification", **note, cron=expression) == problem
    agreeing = agent.knows("schedule_cron_notification", **note, cron="30 8 * * 1-5")
    assert agreeing["cron"] == f"CRON_TZ={BERLIN} 30 8 * * 1-5"


def test_only_what_every_call_needs_is_required(there: Site) -> None:
    agent = Agent(there.room.services, Caller(LOCAL), BERLIN)
    required = {name: OFFERED[name].input["required"] for name in ("schedule_job", "preview_schedule")}
    assert required == {"schedule_job": ["name", "task"], "preview_schedule": []}
    for given in ({}, {"trigger_type": "cron"}, {"trigger_config": {"hours": 1}}):
        for tool, own in (("preview_schedule", {}), TOOLS["job"]):
            answer = agent.knows(tool, {**own, **given})
            assert answer["error"].startswith("Give trigger_type and trigger_config, such as cron and"), answer
    note = {**TOOLS["notification"][1], "timezone": BERLIN}
    assert problem_of(agent, "schedule_cron_notification", **note).startswith("Give cron, or when, such as")


def test_a_schedule_is_deleted_by_its_number(there: Site) -> None:
    agent = Agent(there.room.services, Caller(LOCAL), BERLIN)
    for form in (int, str):
        number = agent.knows("schedule", prompt="water the plants", at="tomorrow 9am")["id"]
        deleted = agent.knows("delete_schedule", schedule_id=form(number))
        assert (deleted["success"], deleted["schedule_id"]) == (True, str(number))


def test_a_notification_by_a_recurrence_rule(there: Site) -> None:
    agent, note = Agent(there.room.services, Caller(LOCAL), BERLIN), TOOLS["notification"][1]
    rule = "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0;BYSECOND=0"
    made = agent.knows("schedule_notification", rrule=rule, start="2099-01-01", **note)
    assert made["scheduled_time"] == "2099-01-30T17:00:00+01:00" and made["schedule_id"].startswith("scd_")
    assert problem_of(agent, "schedule_notification", rrule="FREQ=OFTEN", **note).startswith(
        "rrule: FREQ must be one of"
    )
    both = problem_of(agent, "schedule_notification", rrule=rule, when="every day at 9", **note)
    assert both == "when: cannot be combined with rrule; give one of them."
    assert "cannot be combined" in problem_of(agent, "schedule_notification", rrule=rule, delay="2h", **note)


def test_a_preview_takes_a_start_and_an_end_everywhere(there: Site, on_site: Cli) -> None:
    limits: dict[str, Any] = {"start": "2099-12-24", "end": "2099-12-25"}
    due = ["2099-12-24T09:00:00+01:00", "2099-12-25T09:00:00+01:00"]  # a day as the end counts
    agent = Agent(there.room.services, Caller(LOCAL), BERLIN)
    duetime = Duetime(settings=Settings(db=there.room.settings.db, timezone=BERLIN))
    with closing(duetime):
        by_python = duetime.preview(when="every day at 9", **limits).as_dict()
    body = {"when": "every day at 9", "timezone": BERLIN, **limits}
    options = [f"--{name}={value}" for name, value in limits.items()]
    by_cli = on_site("next", "every day at 9", "--tz", BERLIN, *options, "--json").document
    by_tool = agent.knows("preview_schedule", when="every day at 9", **limits)
    for shown in (by_tool, post(there, "/preview", body), by_python, by_cli):
        assert [each["local"] for each in shown["next"]] == due, shown
    values = {"kind": "job", "task": "echo", "when": "phrase", "phrase": "every day at 9", "timezone": BERLIN, **limits}
    page = signed_in(there, BERLIN).send("/new", {**values, "intent": "look"}).body.decode()
    assert page.count("2099-12-2") >= 2 and "2099-12-26" not in page
    assert "--end: could not parse" in on_site("next", "every day at 9", "--end", "whenever").err
    assert (
        "end: is given twice"
        in agent.knows("preview_schedule", when="every day at 9 until may 1", end="may 2")["error"]
    )


@pytest.mark.parametrize(
    ("tool", "given", "problem"),
    [
        ("schedule_job", {"name": "same", "task": "echo", "when": "every foo"}, 'when: could not read "foo"'),
        ("schedule_job", {"name": "same", "task": "echo", "when": "soon"}, 'when: could not parse "soon"'),
        (
            "schedule_job",
            {"name": "same", "task": "echo", "when": "tonight", "trigger_config": {"days": 1}},
            "not both",
        ),
        ("preview_schedule", {"when": "every weekday"}, "when: say at what time too"),
        ("schedule", {"prompt": "x", "when": "every foo"}, 'Error: when: could not read "foo"'),
        ("schedule", {"prompt": "x", "when": "soon"}, 'Error: could not parse "soon" as a date/time.'),
        (
            "schedule",
            {"prompt": "x", "when": "tomorow at 9"},
            'Error: could not parse "tomorow" as a date/time. Write it',
        ),
        ("schedule", {"prompt": "x", "at": "tomorow at 9"}, 'Error: could not parse "tomorow at 9" as a date/time.'),
        ("schedule", {"prompt": "x", "at": "tomorow 9", "every": "1d"}, 'could not parse "tomorow 9" as a date/time.'),
        ("preview_schedule", {"when": "every day at 9 except christmas"}, '"except christmas"; only days of the week'),
        (
            "schedule_job",
            {"name": "same", "task": "echo", "when": "every day at 9", "end": "christmas dawn"},
            'end: could not parse "dawn" as a date/time; use ISO 8601',
        ),
        ("schedule", {"prompt": "x", "every": "1d", "at": "9pm", "start": "monday"}, "start: is given twice"),
        ("schedule", {"prompt": "x", "at": "03/04/2099"}, "It could mean March 4 or April 3: write 2099-03-04 or"),
    ],
)
def test_words_that_cannot_be_read_are_refused(there: Site, tool: str, given: dict[str, Any], problem: str) -> None:
    answer = Agent(there.room.services, Caller(LOCAL), "UTC").knows(tool, **given)
    assert problem in answer["error"]


RULE = {"type": "cron", "timezone": "UTC", "expression": "0 9 * * *", "dst": "debian"}
CHANGING = {"changes": "2099-01-01T00:00:00.000000Z", "before": RULE, "after": RULE}


def test_a_trigger_in_the_form_of_an_export_is_refused(there: Site) -> None:
    """Only an import takes it: everyone else gives the new rule with `starting`."""
    agent = Agent(there.room.services, Caller(LOCAL), "UTC")
    given: dict[str, Any] = {"trigger_type": "changing", "trigger_config": CHANGING}
    assert agent.knows("schedule_job", name="same", task="echo", **given)["error"] == "Unknown trigger type: changing"
    assert agent.knows("preview_schedule", **given)["error"] == "Unknown trigger type: changing"
    body = {"kind": "job", "name": "same", "trigger": {"type": "changing", **CHANGING}, "payload": PAYLOADS["job"]}
    headers = {**there.bearer(LOCAL), "Content-Type": "application/json"}
    reply = there.ask("POST", "/api/v1/schedules", headers, json.dumps(body).encode())
    assert reply.status == 422 and "trigger" in reply.json["detail"]
    duetime = Duetime(settings=Settings(db=there.room.settings.db, timezone="UTC"))
    with closing(duetime), pytest.raises(InvalidTrigger, match="Unknown trigger type: changing"):
        duetime.edit(by_mcp(there, "job", "every weekday at 8:30"), **given)


LOST, TWICE = "2099-03-29T02:30:00", "2099-10-25T02:30:00"
"""In Berlin, clocks go forward over the first one, and the second one comes twice."""


@pytest.mark.filterwarnings("ignore:nothing fires yet")
def test_a_single_time_at_a_clock_change_is_told_everywhere(there: Site, on_site: Cli) -> None:
    agent = Agent(there.room.services, Caller(LOCAL), "Europe/Berlin")
    for text, words in ((LOST, "clocks go forward"), (TWICE, "comes twice")):
        once = {"trigger_type": "once", "trigger_config": {"run_at": text}}
        assert words in agent.knows("preview_schedule", once)["warnings"][0]
        made = agent.knows("schedule_job", once, name="n", task="echo", args=["x"])
        assert words in made["warnings"][0] and made["warning_codes"][0] == "time"
        trigger = {"type": "once", "run_at": text}
        asked = {"kind": "job", "name": "n", "payload": PAYLOADS["job"], "trigger": trigger, "timezone": BERLIN}
        assert words in post(there, "/schedules", asked)["warnings"][0]
        told = [agent.knows("schedule", prompt="water the plants", at=text)]
        told += [agent.knows("schedule_notification", **TOOLS["notification"][1], datetime=f"{text[:10]} 2:30")]
        told += [
            agent.knows(
                "schedule_notification", **TOOLS["notification"][1], time="02:30", date=text[:10], timezone=BERLIN
            )
        ]
        duetime = Duetime(settings=Settings(db=there.room.settings.db, timezone=BERLIN))
        told += [duetime.schedule("echo", args=["x"], at=text).as_dict()]
        duetime.close()
        for answer in told:
            texts = dict(zip(answer["warning_codes"], answer["warnings"], strict=True))
            assert words in texts["time"], answer
        line = on_site(*COMMANDS["job"], "--at", text, "--tz", BERLIN, "--json")
        assert [words in each for each in line.document["warnings"]].count(True) == 1
        assert words in post(there, "/preview", {"trigger": trigger, "timezone": BERLIN})["warnings"][0]


def test_a_preview_tells_what_never_fires_and_a_create_refuses_it(there: Site) -> None:
    agent = Agent(there.room.services, Caller(LOCAL), "UTC")
    never = {"trigger_type": "cron", "trigger_config": {"expression": "0 0 30 2 *"}}
    shown = agent.knows("preview_schedule", never)
    assert shown["next"] == [] and shown["warnings"] == [NEVER_FIRES]
    assert "it never fires" in agent.knows("schedule_job", never, name="n", task="echo")["error"]
    assert post(there, "/preview", {"trigger": {"type": "cron", "expression": "0 0 30 2 *"}})["next"] == []


def test_an_error_names_the_argument_that_was_given(there: Site) -> None:
    agent = Agent(there.room.services, Caller(LOCAL), "UTC")
    job = {"kind": "job", "name": "n", "payload": PAYLOADS["job"]}
    for when in ("garbage", "2001-01-01"):
        refused = post(there, "/schedules", {**job, "when": when}, 422)
        assert refused["detail"].startswith("when: ") and refused["field"] == "when"
        assert post(there, "/preview", {"when": when}, 422)["detail"].startswith("when: ")
    made = agent.knows("schedule", prompt="x", at="tomorrow 9am")["id"]
    for when in ("garbage", "2001-01-01", "0 0 30 2 *"):
        with pytest.raises(ToolProblem, match=r"^when: "):
            raise ToolProblem(agent.knows("edit_schedule", schedule_id=made, when=when)["error"])
    note = agent.knows(
        "schedule_notification", message="m", notification_topic="t", when="every weekday at 8", max_runs=3
    )
    assert note["limits"]["max_runs"] == 3 and note["next_run"] and note["reads_as"]
    refused = agent.knows("edit_schedule", schedule_id=note["schedule_id"], notification_topic="Bad T")
    assert refused["error"].startswith("notification_topic: ")
    late = {**job, "trigger": {"type": "interval", "days": 2}, "end": "tomorrow"}
    assert post(there, "/schedules", late, 422)["detail"].startswith("end: the trigger never fires")
    for name in ("", "x" * 201):
        assert "character" in post(there, "/schedules", {**job, "name": name, "when": "tomorrow"}, 422)["detail"]


def post(there: Site, path: str, body: dict[str, Any], status: int = 0) -> dict[str, Any]:
    headers = {**there.bearer(LOCAL), "Content-Type": "application/json"}
    reply = there.ask("POST", f"/api/v1{path}", headers, json.dumps(body).encode())
    assert reply.status == (status or reply.status), reply.body
    answer: dict[str, Any] = reply.json
    return answer


def test_a_preview_of_words(there: Site) -> None:
    shown = Agent(there.room.services, Caller(LOCAL), "UTC").knows("preview_schedule", when="every weekday at 8:30")
    assert shown["reads_as"] == "at 08:30 on Monday through Friday (UTC)" and len(shown["next"]) == 5
