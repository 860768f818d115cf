"""Every tool over both transports and in both protocol eras: what it answers, and every wording of a refusal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import mcp_types as types
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from duetime import Duetime
from tests.support.agents import over_stdio, talk
from tests.support.mcp import PATIENCE, ROUTES, Agent, World, leaks, route_to, unique
from tests.support.wordings import (
    ID_OR_RUN,
    NO_TASKS,
    NOT_ZERO,
    NOTHING_TO_EDIT,
    RESULT_OR_ERROR,
    SCHEDULE_ID_MISSING,
    SESSION_WARNING,
    not_cancelled,
    not_editable,
    schedule_not_found,
)

UNKNOWN_ZONE = "Unknown time zone 'Mars/Base': use an IANA name such as Europe/Berlin."
KEY_REUSED = "this idempotency_key was used with other arguments; use another key, or the same arguments"
TIMEOUT_RANGE = "timeout_seconds: must be at least 0.001 and at most 2592000 seconds, such as 60"
NOW = r"[Ii]t is now 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+0[12]:00"
LATER = "2031-02-10T15:00:00+01:00"
JOB = {"name": "nightly_backup", "task": "echo", "trigger_type": "interval", "trigger_config": {"hours": 1}}
NOTE = {"message": "Water the plants", "notification_topic": "home-alerts"}
CRON = {**NOTE, "cron": "0 9 * * 1-5", "timezone": "Europe/Berlin"}
INBOX_WARNING = re.compile(
    "No notification channel is set up, so it goes to the built-in inbox|No agent is woken for it: it waits"
)

CALLS: dict[str, dict[str, Any]] = {
    "schedule_job": JOB,
    "list_jobs": {},
    "cancel_job": {"job_id": "job_1_1738764000"},
    "job_status": {"job_id": "job_1_1738764000"},
    "list_tasks": {},
    "preview_schedule": {"trigger_type": "cron", "trigger_config": {"expression": "0 9 * * *"}},
    "schedule": {"prompt": "water the plants", "at": "in 2 hours"},
    "schedule_list": {},
    "schedule_edit": {"id": 999_999, "prompt": "feed the cat"},
    "schedule_cancel": {"id": 999_999},
    "prompt_result": {"id": 999_999},
    "take_prompt": {},
    "emit_event": {"event": "deploy.done", "data": {"version": 5}},
    "finish_prompt": {"run_id": 999_999, "result": "done"},
    "send_push_notification": NOTE,
    "schedule_notification": {**NOTE, "delay": "2h30m"},
    "schedule_cron_notification": CRON,
    "list_scheduled_notifications": {},
    "pause_schedule": {"schedule_id": "scd_unknown"},
    "resume_schedule": {"schedule_id": "scd_unknown"},
    "delete_schedule": {"schedule_id": "scd_unknown"},
    "create_hook": {"name": "github", "scheme": "github"},
    "get_current_time": {},
    "edit_schedule": {"schedule_id": "scd_unknown", "name": "another"},
    "change_schedules": {"action": "pause", "label": "unknown"},
    "list_upcoming": {},
    "history": {},
    "run_now": {"schedule_id": "job_999_999"},
    "stop_run": {"run_id": 999_999},
    "mark_runs": {"run_ids": [999_999], "mark": "dismiss"},
    "status": {},
}
"""A call of every tool that is answered without an error of the protocol."""


@pytest.fixture(scope="module", params=ROUTES)
def agent(
    request: pytest.FixtureRequest, shared_world: World, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Agent]:
    with route_to(request.param, shared_world, tmp_path_factory.mktemp("route")) as made:
        assert made.client.protocol_version == request.param.partition("-")[2]
        yield made


@pytest.fixture
def on_stdio(request: pytest.FixtureRequest) -> bool:
    return "stdio" in request.node.callspec.params["agent"]


def without_warnings(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in ("warnings", "warning_codes")}


def without_facts(data: dict[str, Any]) -> dict[str, Any]:
    """Without what every create answers besides."""
    assert data["next_run"] and data["reads_as"] and data["limits"]
    return {name: value for name, value in data.items() if name not in ("next_run", "reads_as", "limits")}


# -- what is listed -----------------------------------------------------------------------------------------------


def test_every_tool_has_a_call_here_and_answers_it(agent: Agent) -> None:
    """A new tool has to be given its call, and is then covered by the tests over all tools."""
    assert {tool.name for tool in agent.tools()} == set(CALLS)
    for tool, given in CALLS.items():
        answer = agent.call(tool, given)  # which checks the structured content against the output schema
        assert not answer.is_error, (tool, answer.text)
        assert answer.text and not leaks(answer.text)


def test_schemas_are_flat_and_say_what_is_meant(agent: Agent) -> None:
    for tool in agent.tools():
        for schema in (tool.input_schema, tool.output_schema):
            assert schema is not None
            assert schema["type"] == "object"
            assert not {"anyOf", "oneOf", "allOf", "$ref", "not", "if"} & set(schema), tool.name
            assert set(schema.get("required", ())) <= set(schema["properties"]), tool.name
        for name, argument in tool.input_schema["properties"].items():
            assert len(argument["description"]) >= 8, (tool.name, name)
            assert {"anyOf", "oneOf", "allOf", "$ref"}.isdisjoint(argument), (tool.name, name)
            assert "null" not in argument["type"], (tool.name, name, "it is accepted without being listed")


def test_descriptions_and_hints_are_there(agent: Agent) -> None:
    for tool in agent.tools():
        assert tool.title and len(tool.description or "") >= 80, tool.name
        hints = tool.annotations
        assert hints is not None
        given = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)
        assert all(isinstance(hint, bool) for hint in given), tool.name
        assert not (hints.read_only_hint and hints.destructive_hint), tool.name


def test_read_only_tools_change_nothing(agent: Agent) -> None:
    def everything() -> list[Any]:
        return [
            agent.knows("list_jobs"),
            agent.knows("schedule_list", status="all"),
            agent.knows("list_scheduled_notifications"),
        ]

    before = everything()
    for tool in agent.tools():
        assert tool.annotations is not None
        if tool.annotations.read_only_hint:
            agent.call(tool.name, CALLS[tool.name])
    assert everything() == before


def test_required_is_truthful(agent: Agent) -> None:
    """Each required argument is missed by name, and nothing else is."""
    for tool in agent.tools():
        required = tool.input_schema.get("required", [])
        assert set(required) <= set(CALLS[tool.name])
        for name in required:
            given = {key: value for key, value in CALLS[tool.name].items() if key != name}
            assert agent.refused(tool.name, given).startswith(f"Missing argument: {name} is required"), tool.name
        least = agent.call(tool.name, {name: CALLS[tool.name][name] for name in required})
        assert not least.text.startswith(("Missing", "Invalid argument")), tool.name


def test_nulls_are_as_good_as_absent(agent: Agent) -> None:
    for tool in agent.tools():
        given = CALLS[tool.name]
        nulls = dict.fromkeys(set(tool.input_schema["properties"]) - set(given))
        assert not agent.call(tool.name, {**nulls, **given}).is_error, tool.name


def test_arguments_that_do_not_fit_are_named(agent: Agent) -> None:
    for tool in agent.tools():
        given = CALLS[tool.name]
        words = agent.refused(tool.name, {**given, "bogus": 1})
        assert words.startswith("Unknown argument: bogus. This tool takes: "), tool.name
        for name in tool.input_schema["properties"]:
            wrong: Any = 7.5 if tool.input_schema["properties"][name]["type"] != "object" else "text"
            if "number" in tool.input_schema["properties"][name]["type"]:
                wrong = "text"
            words = agent.refused(tool.name, {**given, name: wrong})
            assert words.startswith(f"Invalid argument: {name} must be "), (tool.name, name)


def test_prompts_of_the_protocol_are_offered(agent: Agent) -> None:
    listed: types.ListPromptsResult = agent.do(agent.client.list_prompts)
    assert {prompt.name for prompt in listed.prompts} == {"remind_me", "what_is_scheduled", "stop_this"}
    for prompt in listed.prompts:
        given = {argument.name: "the <plants>" for argument in prompt.arguments or ()}
        shown: types.GetPromptResult = agent.do(agent.client.get_prompt, prompt.name, given)
        [message] = shown.messages
        assert isinstance(message.content, types.TextContent)
        assert ("the <plants>" in message.content.text) == bool(given)


# -- refusals, word for word --------------------------------------------------------------------------------------


class Case(NamedTuple):
    tool: str
    given: dict[str, Any]
    words: str
    """All of the text, or all of `error` where the text is JSON; a regular expression where times are in it."""
    is_error: bool = False
    pattern: bool = False


def job(words: str, *, is_error: bool = False, **changes: Any) -> Case:
    return Case("schedule_job", {**JOB, **changes}, words, is_error)


def cron(expression: Any) -> dict[str, Any]:
    return {"trigger_type": "cron", "trigger_config": {"expression": expression}}


JOBS = [
    job("Unknown task: run_backup", task="run_backup"),
    job("Unknown task: __import__('os').getcwd()", task="__import__('os').getcwd()"),
    job("Unknown task: echo(1 + 1)", task="echo(1 + 1)"),
    job("Unknown task: nothing", task="echo(1) | nothing()"),
    job("task: must be the name of a task, or a pipeline of tasks", task=""),
    job("Invalid cron expression: 0 */2 * *", **cron("0 */2 * *")),
    job("Invalid cron expression: 61 * * * *", **cron("61 * * * *")),
    job("Invalid cron expression: 5", **cron(5)),
    job("Unknown trigger type: sometimes", trigger_type="sometimes"),
    job("hours: must be a finite number, not negative, such as 1.", trigger_config={"hours": -1}),
    job("hours: must be a finite number, not negative, such as 1.", trigger_config={"hours": "1"}),
    job('hours: the interval is zero; give one such as {"hours": 1}.', trigger_config={"hours": 0}),
    job('seconds: the interval is zero; give one such as {"hours": 1}.', trigger_config={}),
    job(
        "expression: it never fires: there is no such date, or it has passed; give one that is still to come.",
        **cron("0 0 30 2 *"),
    ),
    job(
        "fortnights: unknown key for the trigger type interval; use seconds, minutes, hours, days, weeks, anchor, "
        'between, weekdays, timezone, start, end, jitter, for example {"hours": 1}.',
        trigger_config={"fortnights": 1},
    ),
    Case(
        "schedule_job",
        {**JOB, "trigger_type": "once", "trigger_config": {"run_at": "2020-01-01T00:00:00"}},
        rf"run_at: 2020-01-01T00:00:00\+01:00 is in the past; {NOW}\.",
        pattern=True,
    ),
    job(
        'run_at: could not parse "soonish" as a date/time; use ISO 8601 such as "2026-02-05T15:00:00".',
        trigger_type="once",
        trigger_config={"run_at": "soonish"},
    ),
    job(
        "rrule: FREQ must be one of YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY, SECONDLY.",
        trigger_type="rrule",
        trigger_config={"rrule": "FREQ=NEVER"},
    ),
    job("max_runs: must be a whole number from 1 to 9007199254740992, not 0", max_runs=0),
    job("nope: the task echo has no such argument; by name it takes value", kwargs={"nope": 1}),
    job("args: the task echo takes at most 1 by position, not 2", args=[1, 2]),
    job(TIMEOUT_RANGE, timeout_seconds=-1),
    job(TIMEOUT_RANGE, timeout_seconds=0.000_999),
    job("timeout_seconds: must be a finite number of seconds, at most a hundred years", timeout_seconds=10**400),
    job("max_attempts: must be a whole number from 1 to 100, not 0", max_attempts=0),
    job("Invalid argument: catch_up must be one of once, all, skip.", is_error=True, catch_up="later"),
    job("Invalid argument: overlap must be one of skip, queue, allow, latest.", is_error=True, overlap="never"),
    job("name: must not be empty", name=" "),
    job(UNKNOWN_ZONE, timezone="Mars/Base"),
    Case("list_jobs", {"status": "weird"}, "Unknown status: weird"),
    Case("list_jobs", {"timezone": "Mars/Base"}, UNKNOWN_ZONE),
    Case(
        "list_jobs", {"cursor": "zz"}, "cursor: not a cursor from a previous page; leave it out to start over"
    ),
    Case("list_jobs", {"limit": 0}, "Invalid argument: limit must be at least 1.", is_error=True),
    Case("list_jobs", {"limit": 1001}, "Invalid argument: limit must be at most 1000.", is_error=True),
    Case("job_status", {"job_id": "job_1_1738764000"}, "Job not found: job_1_1738764000"),
    Case("job_status", {"job_id": "job_1_1", "timezone": "Mars/Base"}, UNKNOWN_ZONE),
    Case("preview_schedule", {**cron("nonsense")}, "Invalid cron expression: nonsense"),
    Case("preview_schedule", {**cron("* * * * *"), "timezone": "Mars/Base"}, UNKNOWN_ZONE),
    Case("preview_schedule", {"trigger_type": "x", "trigger_config": {}}, "Unknown trigger type: x"),
]  # fmt: skip

ONE_OF = "Error: give exactly one of at, cron, rrule, every, when (every may have at as its first time), not "
NOT_EDITED = not_editable(999_999)
LOCAL_NOW = r"it is now \w{3} \d{1,2}, 20\d\d \d{1,2}:\d\d [AP]M CES?T"


def prompt(words: str, **given: Any) -> Case:
    return Case("schedule", {"prompt": "water the plants", **given}, words)


PROMPTS = [
    prompt(f"{ONE_OF}none of them."),
    prompt(f"{ONE_OF}at, cron.", at="in 2 hours", cron="0 9 * * *"),
    prompt('Error: could not parse "gibberish" as a date/time.', at="gibberish"),
    Case(
        "schedule",
        {"prompt": "x", "at": "2020-02-10 3:00 PM"},
        rf"Error: Feb 10, 2020 3:00 PM CET is in the past; {LOCAL_NOW}\.",
        pattern=True,
    ),
    prompt("Error: Invalid cron expression: * * *", cron="* * *"),
    prompt(NOT_ZERO, every="0m"),
    prompt(f"Error: {UNKNOWN_ZONE}", at="in 2 hours", timezone="Mars/Base"),
    Case("schedule_list", {"status": "weird"}, 'Error: unknown status "weird".'),
    Case("schedule_list", {"from": "gibberish"}, 'Error: could not parse "gibberish" as a date/time.'),
    Case("schedule_list", {"to": "gibberish"}, 'Error: could not parse "gibberish" as a date/time.'),
    Case("schedule_list", {"status": "failed"}, NO_TASKS),
    Case("schedule_list", {"from": "2030-01-01", "to": "2030-01-02"}, NO_TASKS),
    Case("schedule_edit", {"id": 999_999}, NOTHING_TO_EDIT),
    Case("schedule_edit", {"id": 999_999, "prompt": "x"}, NOT_EDITED),
    Case("schedule_edit", {"id": 999_999, "at": "in 2 hours"}, NOT_EDITED),
    Case("schedule_edit", {"id": 999_999, "at": "rubbish"}, 'Error: could not parse "rubbish" as a date/time.'),
    Case("schedule_cancel", {"id": 999_999}, not_cancelled(999_999)),
    Case("prompt_result", {"id": 999_999}, "Task #999999 not found."),
    Case("prompt_result", {"run_id": 999_999}, "Run 999999 not found."),
    Case("prompt_result", {}, ID_OR_RUN),
    Case("prompt_result", {"id": 1, "timezone": "Mars/Base"}, f"Error: {UNKNOWN_ZONE}"),
    Case("finish_prompt", {"run_id": 999_999, "result": "x"}, "Run 999999 is not yours to finish."),
    Case("finish_prompt", {"run_id": 999_999}, RESULT_OR_ERROR),
]
CRON_RULE = (
    'Give 5 fields (minute hour day-of-month month day-of-week), for example "0 9 * * 1-5" for 09:00 on weekdays; '
    "the resource cron://examples has more."
)
TOPIC_RULE = (
    "notification_topic: must be lowercase letters and digits, joined by single hyphens, at most 200 characters: "
    "for example home-alerts; not "
)


def note(pattern: str, **given: Any) -> Case:
    return Case("schedule_notification", {**NOTE, **given}, pattern, is_error=True, pattern=True)


def repeated(words: str, **changes: Any) -> Case:
    return Case("schedule_cron_notification", {**CRON, **changes}, words, is_error=True)


def unknown_id(verb: str, gone: str, schedule_id: str) -> Case:
    words = f"Schedule not found: {schedule_id}. It may have {gone} or the ID is incorrect."
    return Case(f"{verb}_schedule", {"schedule_id": schedule_id}, words)


NOTIFICATIONS = [
    repeated(f"Invalid cron expression: 0 9 * *. {CRON_RULE}", cron="0 9 * *"),
    repeated(f"Invalid cron expression: 61 9 * * *. {CRON_RULE}", cron="61 9 * * *"),
    repeated(UNKNOWN_ZONE, timezone="Mars/Base"),
    repeated(
        "label: letters, digits, dots, underscores and hyphens, at most 200 characters: for example weekly-report; "
        "not 'a b'",
        label="a b",
    ),
    repeated(f"{TOPIC_RULE}'Home Alerts'", notification_topic="Home Alerts"),
    note(rf"Give exactly one of datetime, .* none of them was given\. For example datetime 20.* {NOW} in .*"),
    note(rf"Give exactly one of .*; datetime and delay were given\. .* {NOW} in .*", datetime=LATER, delay="1h"),
    note(rf"datetime: 2020-.* is in the past; {NOW}\. Give a later one, such as 20.*", datetime="2020-02-10T15:00:00Z"),
    note(rf'datetime: "2031-02-10T15:00:00" .* no offset.* such as 20.* {NOW} .*', datetime="2031-02-10T15:00:00"),
    note(rf'datetime: cannot read "x"; give ISO 8601 with offset, such as 20.*\. {NOW} in .*', datetime="x"),
    note(rf"timezone: is required with time.* for example time 15:30 with timezone .*\. {NOW} .*", time="15:30"),
    note(rf'time: cannot read "25:30"; .* such as 15:30\. {NOW} .*', time="25:30", timezone="Europe/Berlin"),
    note(rf'date: cannot read "x"; .* such as 20.*\. {NOW} .*', time="15:30", date="x", timezone="Europe/Berlin"),
    note(
        rf"date: 2020-01-01T15:30:00\+01:00 is in the past; {NOW}\. .*",
        time="15:30",
        date="2020-01-01",
        timezone="Europe/Berlin",
    ),
    note(rf'delay: could not parse "30m2h" as a duration; write it like 30m, .*\. {NOW} .*', delay="30m2h"),
    note(rf"delay: is zero; give one such as 30m.*\. {NOW} .*", delay="0s"),
    note(re.escape(UNKNOWN_ZONE), time="15:30", timezone="Mars/Base"),
    note(re.escape(f"{TOPIC_RULE}'a--b'"), delay="1h", notification_topic="a--b"),
    Case("send_push_notification", {**NOTE, "notification_topic": "-a"}, f"{TOPIC_RULE}'-a'", is_error=True),
    Case(
        "send_push_notification",
        {**NOTE, "priority": 6},
        "Invalid argument: priority must be at most 5.",
        is_error=True,
    ),
    Case(
        "send_push_notification",
        {**NOTE, "actions": [{"action": "view", "label": "a", "url": "https://example.org"}] * 4},
        "actions: must be a list of at most 3 buttons, each such as "
        '{"action": "view", "label": "Open", "url": "https://example.org"}',
        is_error=True,
    ),
    Case("list_scheduled_notifications", {"notification_topic": "A"}, f"{TOPIC_RULE}'A'", is_error=True),
    Case("get_current_time", {"timezone": "Mars/Base"}, UNKNOWN_ZONE, is_error=True),
    Case("list_upcoming", {"timezone": "Mars/Base"}, UNKNOWN_ZONE, is_error=True),
    unknown_id("delete", "already been deleted", "scd_nonexistent"),
    unknown_id("delete", "already been deleted", "invalid-id-123"),
    unknown_id("delete", "already been deleted", "../../etc?a=b#c"),
    unknown_id("pause", "been deleted", "scd_nonexistent"),
    unknown_id("resume", "been deleted", "scd_nonexistent"),
]  # fmt: skip


REFUSALS = [*JOBS, *PROMPTS, *NOTIFICATIONS]


@pytest.mark.parametrize("case", REFUSALS, ids=[f"{case.tool}-{line}" for line, case in enumerate(REFUSALS)])
def test_a_refusal_word_for_word(agent: Agent, case: Case) -> None:
    answer = agent.call(case.tool, case.given)
    assert answer.is_error is case.is_error, answer
    structured = answer.data if isinstance(answer.data, dict) else {}
    said = structured["error"] if answer.text.startswith("{") else answer.text
    if "error" in structured:
        assert structured["error"] == said, "the text and the facts are the same"
    if case.pattern:
        assert re.fullmatch(case.words, said), said
    else:
        assert said == case.words
    assert not leaks(said)


def test_the_shapes_of_refusals(agent: Agent) -> None:
    """In the jobs family only the known tasks stand beside an error; the notifications family says what failed, and for
    which."""
    unknown = agent.knows("schedule_job", {**JOB, "task": "nope"})
    assert set(unknown) == {"error", "known_tasks"}
    assert unknown["error"] == "Unknown task: nope" and "echo" in unknown["known_tasks"]
    assert agent.knows("job_status", job_id="nope") == {"error": "Job not found: nope"}
    assert agent.knows("cancel_job", job_id="nope") == {"cancelled": False}
    for verb in ("delete", "pause", "resume"):
        failed = agent.knows(f"{verb}_schedule", schedule_id="nope")
        assert set(failed) == {"success", "schedule_id", "error"}
        assert (failed["success"], failed["schedule_id"]) == (False, "nope")


# -- jobs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trigger",
    [
        {"trigger_type": "once", "trigger_config": {"run_at": "2031-02-05T15:00:00"}},
        {"trigger_type": "interval", "trigger_config": {"seconds": 0, "minutes": 0, "hours": 1, "days": 0}},
        {"trigger_type": "cron", "trigger_config": {"expression": "0 */2 * * *"}},
        {"trigger_type": "rrule", "trigger_config": {"rrule": "FREQ=MONTHLY;BYDAY=-1FR"}},
    ],
    ids=lambda trigger: str(trigger["trigger_type"]),
)
def test_a_job_from_its_creation_to_its_end(agent: Agent, trigger: dict[str, Any]) -> None:
    made = without_warnings(agent.knows("schedule_job", {**JOB, **trigger, "args": ["/data"], "max_runs": 10}))
    assert list(made) == ["job_id", "name", "next_run", "status", "reads_as", "limits", "options"]
    assert made["options"] == {"max_runs": 10}
    assert re.fullmatch(r"job_\d+_\d{10}", made["job_id"])
    assert (made["name"], made["status"]) == ("nightly_backup", "pending")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+0[12]:00", made["next_run"]), "in the caller's zone"
    shown = agent.knows("job_status", job_id=made["job_id"])
    assert {name: shown[name] for name in made} == made
    assert shown["trigger_type"] == trigger["trigger_type"]
    assert (shown["run_count"], shown["max_runs"]) == (0, 10)
    assert shown["last_run"] is shown["error"] is None
    assert shown["created_at"] and shown["history"] == []
    listed = [
        row for row in agent.knows("list_jobs", status="pending", limit=1000)["jobs"] if row["name"] == made["name"]
    ]
    assert made["job_id"] in {row["job_id"] for row in listed}
    for _ in range(2):
        assert agent.knows("cancel_job", job_id=made["job_id"]) == {"cancelled": True, "job_id": made["job_id"]}
    assert agent.knows("job_status", job_id=made["job_id"])["status"] == "cancelled"


def test_a_naive_time_is_read_in_the_zone_that_is_given(agent: Agent) -> None:
    once = {"trigger_type": "once", "trigger_config": {"run_at": "2031-02-05T15:00:00"}}
    made = agent.knows("schedule_job", {**JOB, **once, "timezone": "America/New_York"})
    assert made["next_run"] == "2031-02-05T15:00:00-05:00"
    shown = agent.knows("job_status", job_id=made["job_id"], timezone="Asia/Tokyo")
    assert shown["next_run"] == "2031-02-06T05:00:00+09:00"


def fired(agent: Agent, status: str, **changes: Any) -> dict[str, Any]:
    """A job that has just run and ended so."""
    once = {"trigger_type": "once", "trigger_config": {"run_at": "now"}}
    made = agent.knows("schedule_job", {**JOB, **once, **changes})
    shown: dict[str, Any] = {}

    def ended() -> bool:
        shown.update(agent.knows("job_status", job_id=made["job_id"]))
        return bool(shown["last_status"] == status)

    agent.until(ended, 30, f"{made['job_id']} is {status}")
    return shown


def test_a_job_that_ran(agent: Agent) -> None:
    shown = fired(agent, "completed", task="echo('one two three') | shorten(words=2)")
    assert (shown["status"], shown["run_count"], shown["next_run"]) == ("completed", 1, None)
    [run] = shown["history"]
    assert {"due", "started", "finished", "status", "attempt", "error"} <= set(run)
    assert (run["status"], run["attempt"], run["error"]) == ("completed", 1, None)
    assert agent.knows("cancel_job", job_id=shown["job_id"]) == {
        "cancelled": False,
        "job_id": shown["job_id"],
        "error": f"Job already completed: {shown['job_id']}",
    }


def test_a_job_that_failed(agent: Agent) -> None:
    shown = fired(agent, "failed", task="demo_flaky")
    assert (shown["status"], shown["run_count"]) == ("failed", 1)
    assert "the other side did not answer" in shown["error"]
    assert not leaks(shown["error"])
    cancelled = agent.knows("cancel_job", job_id=shown["job_id"])
    assert cancelled["error"] == f"Job already failed: {shown['job_id']}"


def test_the_filter_failed_also_finds_what_recurs(agent: Agent) -> None:
    name = unique("flaky")
    soon = {"trigger_config": {"hours": 1, "start": "in 1 second"}}
    made = agent.knows("schedule_job", {**JOB, **soon, "task": "demo_flaky", "name": name})

    def found() -> bool:
        rows = agent.knows("list_jobs", status="failed", limit=1000)["jobs"]
        return any(row["job_id"] == made["job_id"] and row["status"] == "pending" for row in rows)

    agent.until(found, 30, "a recurring job whose latest run failed")
    agent.knows("cancel_job", job_id=made["job_id"])


def test_a_running_job_is_asked_to_stop(agent: Agent) -> None:
    once = {"trigger_type": "once", "trigger_config": {"run_at": "now"}}
    made = agent.knows("schedule_job", {**JOB, **once, "task": "demo_wait", "kwargs": {"seconds": 60}})

    def running() -> bool:
        return bool(agent.knows("job_status", job_id=made["job_id"])["status"] == "running")

    agent.until(running, 30, "it runs")
    assert agent.knows("cancel_job", job_id=made["job_id"])["cancelled"]

    def stopped() -> bool:
        history = agent.knows("job_status", job_id=made["job_id"])["history"]
        return bool(history[0]["status"] == "cancelled")

    agent.until(stopped, 30, "its run is cancelled")


def test_jobs_come_in_pages(agent: Agent) -> None:
    made = {agent.knows("schedule_job", JOB)["job_id"] for _ in range(3)}
    seen: list[str] = []
    page = agent.knows("list_jobs", status="pending", limit=2)
    total = page["total"]
    while True:
        seen += [row["job_id"] for row in page["jobs"]]
        assert page["total"] == total
        if "next_cursor" not in page:
            break
        page = agent.knows("list_jobs", status="pending", limit=2, cursor=page["next_cursor"])
    assert len(seen) == len(set(seen)) == total and made <= set(seen)
    row = agent.knows("list_jobs", limit=1)["jobs"][0]
    assert {"job_id", "name", "status", "trigger_type", "next_run", "run_count", "last_run", "last_status"} <= set(row)
    assert {"state_detail", "task", "args", "kwargs", "trigger_config", "reads_as", "timezone", "error"} <= set(row)


def test_tasks_and_previews(agent: Agent) -> None:
    tasks = {task["name"]: task for task in agent.knows("list_tasks")["tasks"]}
    assert tasks["shorten"]["arguments"]["required"] == ["text"] and tasks["shorten"]["description"]
    assert not {"backup_database", "prune_history"} & set(tasks), "those are an operator's"
    shown = agent.knows("preview_schedule", {**cron("30 2 13 * 5"), "count": 3, "timezone": "Europe/Berlin"})
    assert shown["reads_as"] == "at 02:30 on the 13th day of month and on Friday (Europe/Berlin)"
    assert len(shown["next"]) == 3 and set(shown["next"][0]) == {"utc", "local"}
    assert "cron fires when either matches" in shown["warnings"][0]


# -- prompts ------------------------------------------------------------------------------------------------------


def test_a_prompt_is_scheduled_listed_edited_and_cancelled(agent: Agent) -> None:
    first, *_ = agent.call("schedule", prompt="water the plants", at="2031-02-10 3:00 PM").text.split("\n")
    match = re.fullmatch(r"Scheduled task #(\d+) for Feb 10, 2031 3:00 PM CET\.", first)
    assert match is not None, first
    number = int(match[1])
    within = {"from": "2031-02-10", "to": "2031-02-10"}
    row = f"#{number}  Feb 10, 2031 3:00 PM CET  [pending]  water the plants"
    assert agent.call("schedule_list", within).text == row
    edited = agent.call("schedule_edit", id=number, at="Feb 10, 2031 4:00 PM", prompt="feed the cat")
    assert edited.text == f'Updated task #{number}: time → Feb 10, 2031 4:00 PM CET, prompt → "feed the cat"'
    [task] = agent.knows("schedule_list", within)["tasks"]
    assert (task["id"], task["fire_at"], task["prompt"]) == (number, "2031-02-10T16:00:00+01:00", "feed the cat")
    assert agent.call("schedule_cancel", id=number).text == f"Cancelled task #{number}."
    assert agent.call("schedule_cancel", id=number).text == not_cancelled(number)
    assert agent.call("schedule_edit", id=number, prompt="x").text == not_editable(number)
    assert agent.call("schedule_list", within).text == NO_TASKS
    listed = agent.call("schedule_list", within, status="cancelled").text
    assert listed == f"#{number}  Feb 10, 2031 4:00 PM CET  [cancelled]  feed the cat"


def test_long_prompts_are_cut_in_the_table(agent: Agent) -> None:
    made = agent.knows("schedule", prompt="x" * 61, at="2031-03-10 3:00 PM")
    listed = agent.call("schedule_list", {"from": "2031-03-10", "to": "2031-03-10"}).text
    assert listed.endswith(f"  [pending]  {'x' * 60}...")
    agent.call("schedule_cancel", id=made["id"])


@pytest.mark.parametrize(
    "rule",
    [{"cron": "0 9 * * 1-5"}, {"every": "2h30m"}, {"rrule": "FREQ=DAILY"}, {"every": "1 day", "at": "in 2 hours"}],
    ids=["cron", "every", "rrule", "every-at"],
)
def test_prompts_that_recur(agent: Agent, rule: dict[str, str]) -> None:
    made = agent.knows("schedule", {"prompt": "water the plants", **rule})
    assert made["status"] == "pending" and made["repeats"]
    assert agent.call("schedule_cancel", id=made["id"]).text == f"Cancelled task #{made['id']}."


def taken(agent: Agent) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def there() -> bool:
        found.update(agent.knows("take_prompt"))
        return "run_id" in found

    agent.until(there, 30, "a prompt is due")
    return found


def test_a_due_prompt_is_taken_and_finished(agent: Agent) -> None:
    assert agent.call("take_prompt").text == "Nothing is due."
    made = agent.knows("schedule", prompt="water the plants", at="now")
    held = taken(agent)
    assert set(held) - {"message"} == {"id", "run_id", "prompt", "author", "due", "expires_at"}
    assert (held["id"], held["prompt"]) == (made["id"], "water the plants")
    assert agent.call("take_prompt").text == "Nothing is due."
    assert agent.call("finish_prompt", run_id=held["run_id"], result="done").text == f"Finished task #{made['id']}."
    again = agent.call("finish_prompt", run_id=held["run_id"], result="done")
    assert again.text == f"Run {held['run_id']} is not yours to finish."
    run = agent.content(f"prompts://runs/{held['run_id']}")
    assert (run["status"], run["result"]) == ("completed", "done")


def test_a_prompt_that_could_not_be_done(agent: Agent) -> None:
    made = agent.knows("schedule", prompt="lift the moon", at="now")
    held = taken(agent)
    assert agent.call("finish_prompt", run_id=held["run_id"], error="too heavy").text == f"Finished task #{made['id']}."
    run = agent.content(f"prompts://runs/{held['run_id']}")
    assert (run["status"], run["error"]) == ("failed", "too heavy")


def test_an_expired_prompt_is_no_longer_yours(shared_world: World) -> None:
    """Two tokens of one owner: what one does not finish in time, the other may take."""
    owner = unique("team")
    with shared_world.agent(owner) as slow, shared_world.agent(owner) as quick:
        slow.knows("schedule", prompt="water the plants", at="now", timeout_seconds=1)
        first = taken(slow)
        assert quick.call("take_prompt").text == "Nothing is due."
        assert quick.call("finish_prompt", run_id=first["run_id"], result="x").text.endswith("is not yours to finish.")
        second = taken(quick)
        assert second["run_id"] == first["run_id"]
        late = slow.call("finish_prompt", run_id=first["run_id"], result="late")
        assert late.text == f"Run {first['run_id']} is not yours to finish."
        assert quick.call("finish_prompt", run_id=first["run_id"], result="done").text.startswith("Finished task #")


# -- notifications ------------------------------------------------------------------------------------------------


def created(agent: Agent, **changes: Any) -> str:
    return str(agent.knows("schedule_cron_notification", {**CRON, **changes})["schedule_id"])


def listed_ids(agent: Agent, topic: str) -> list[str]:
    found = agent.knows("list_scheduled_notifications", notification_topic=topic)
    assert found["count"] == len(found["schedules"])
    return [each["schedule_id"] for each in found["schedules"]]


def test_gherkin_delete_existing_schedule(agent: Agent) -> None:
    topic = unique("topic")
    schedule_id = created(agent, notification_topic=topic)
    assert listed_ids(agent, topic) == [schedule_id]
    deleted = {
        "success": True,
        "schedule_id": schedule_id,
        "confirmation": f"Schedule {schedule_id} deleted successfully",
    }
    assert deleted.items() <= agent.knows("delete_schedule", schedule_id=schedule_id).items()
    assert listed_ids(agent, topic) == []
    assert agent.knows("delete_schedule", schedule_id=schedule_id) == {
        "success": False,
        "schedule_id": schedule_id,
        "error": schedule_not_found(schedule_id),
    }


def test_gherkin_delete_non_existent_schedule(agent: Agent) -> None:
    assert agent.knows("delete_schedule", schedule_id="scd_nonexistent") == {
        "success": False,
        "schedule_id": "scd_nonexistent",
        "error": schedule_not_found("scd_nonexistent"),
    }


def test_gherkin_delete_with_invalid_id_format(agent: Agent) -> None:
    """No check of its own stands before the backend: any text is looked up, and not found."""
    failed = agent.knows("delete_schedule", schedule_id="invalid-id-123")
    assert failed["success"] is False
    assert "invalid-id-123" in failed["error"]


def test_gherkin_missing_schedule_id_parameter(agent: Agent) -> None:
    assert agent.refused("delete_schedule") == SCHEDULE_ID_MISSING


def test_a_recurring_notification_is_paused_and_resumed(agent: Agent) -> None:
    topic = unique("topic")
    made = without_warnings(
        agent.knows("schedule_cron_notification", {**CRON, "notification_topic": topic, "label": "weekly-report"})
    )
    schedule_id = made["schedule_id"]
    assert re.fullmatch(r"scd_\w{20,}", schedule_id)
    assert without_facts(made) == {
        "success": True,
        "schedule_id": schedule_id,
        "cron": "CRON_TZ=Europe/Berlin 0 9 * * 1-5",
        "confirmation": "Cron schedule created: CRON_TZ=Europe/Berlin 0 9 * * 1-5",
    }
    for tool, paused, done in (("pause_schedule", True, "paused"), ("resume_schedule", False, "resumed")):
        for _ in range(2):
            expected = {
                "success": True,
                "schedule_id": schedule_id,
                "paused": paused,
                "confirmation": f"Schedule {schedule_id} {done} successfully",
            }
            assert expected.items() <= agent.knows(tool, schedule_id=schedule_id).items()
        row = the_only(agent, topic)
        assert row["paused"] is paused and (row["next_occurrence"] is None) is paused
    assert without_time(the_only(agent, topic)) == {
        "schedule_id": schedule_id,
        "cron_expression": "0 9 * * 1-5",
        "timezone": "Europe/Berlin",
        "notification_topic": topic,
        "label": "weekly-report",
        "paused": False,
        "last_occurrence": None,
        "notification_body": "Water the plants",
    }


def the_only(agent: Agent, topic: str) -> dict[str, Any]:
    [row] = agent.knows("list_scheduled_notifications", notification_topic=topic)["schedules"]
    return dict(row)


def without_time(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "next_occurrence"}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"datetime": "2031-02-10T15:00:00-08:00"}, {"scheduled_time": "2031-02-11T00:00:00+01:00"}),
        (
            {"time": "15:30", "timezone": "Asia/Tokyo", "date": "2031-02-10"},
            {"scheduled_time": "2031-02-10T15:30:00+09:00"},
        ),
        ({"delay": "1d10h30m50s"}, {"delay": "1d10h30m50s"}),
    ],
    ids=["datetime", "time", "delay"],
)
def test_a_notification_that_goes_out_once(agent: Agent, given: dict[str, str], shown: dict[str, str]) -> None:
    topic = unique("topic")
    made = without_warnings(agent.knows("schedule_notification", {**NOTE, "notification_topic": topic, **given}))
    assert set(without_facts(made)) == {"success", "message_id", "confirmation", *shown}
    assert made["success"] is True and re.fullmatch(r"msg_\w{20,}", made["message_id"])
    assert {name: made[name] for name in shown} == shown
    [row] = agent.knows("list_scheduled_notifications", notification_topic=topic)["messages"]
    assert set(row) == {"message_id", "scheduled_time", "notification_topic", "notification_body"}
    assert row["message_id"] == made["message_id"]
    assert agent.knows("pause_schedule", schedule_id=made["message_id"])["success"] is True
    assert agent.knows("delete_schedule", schedule_id=made["message_id"])["success"] is True
    assert agent.knows("list_scheduled_notifications", notification_topic=topic)["messages"] == []


def test_a_notification_now(agent: Agent) -> None:
    given = {
        "title": "Backup",
        "priority": 4,
        "tags": ["warning"],
        "markdown": True,
        "click": "https://example.org/7",
        "actions": [{"action": "view", "label": "Open", "url": "https://example.org"}],
        "icon": "https://example.org/a.png",
        "attach": "https://example.org/a.pdf",
        "filename": "a.pdf",
    }
    sent = agent.knows("send_push_notification", {**NOTE, **given})
    assert set(without_warnings(sent)) == {"success", "message_id", "reached", "confirmation"}
    assert sent["success"] is True and re.fullmatch(r"msg_\w{20,}", sent["message_id"])
    assert any(INBOX_WARNING.match(warning) for warning in sent["warnings"])
    late = agent.knows("delete_schedule", schedule_id=sent["message_id"])
    assert (late["success"], late["note"]) == (True, "It was completed before."), "it has gone out"


def test_history_outlives_its_schedule(shared_world: World) -> None:
    owner = unique("owner")
    with shared_world.agent(owner) as agent, _python(shared_world, owner) as duetime:
        schedule_id = created(agent)
        duetime.run_now(schedule_id)

        def done() -> bool:
            return [run.status for run in duetime.history(schedule_id)] == ["completed"]

        agent.until(done, 30, "it fires")
        assert agent.knows("delete_schedule", schedule_id=schedule_id)["success"] is True
        assert done()


class _python:
    """The Python API on the server's own store: another process, as far as the server can tell."""

    def __init__(self, there: World, owner: str) -> None:
        self._duetime = Duetime(there.db, owner=owner)

    def __enter__(self) -> Duetime:
        return self._duetime

    def __exit__(self, *_: object) -> None:
        self._duetime.close()


def test_what_time_it_is(agent: Agent) -> None:
    now = agent.knows("get_current_time", timezone="Asia/Tokyo")
    assert now["timezone"] == "Asia/Tokyo"
    assert now["datetime"] == f"{now['date']}T{now['time']}+09:00"
    assert abs(now["timestamp_ms"] - agent.knows("get_current_time")["timestamp_ms"]) < 10_000


def test_resources_to_read(agent: Agent) -> None:
    assert set(agent.uris()) == {
        "cron://examples",
        "timezones://valid",
        "schedules://{topic}",
        "jobs://{job_id}",
        "prompts://due",
        "prompts://runs/{run_id}",
    }
    examples = agent.content("cron://examples")
    assert {"expression", "description"} == set(examples["examples"][0]) and examples["format_help"]
    for example in examples["examples"]:
        assert "error" not in agent.knows("preview_schedule", **cron(example["expression"])), example
    zones = agent.content("timezones://valid")
    assert zones["count"] == len(zones["timezones"]) > 300
    assert {"zone": "Europe/Berlin", "region": "Europe"} in zones["timezones"]
    topic = unique("topic")
    schedule_id = created(agent, notification_topic=topic)
    assert [each["schedule_id"] for each in agent.content(f"schedules://{topic}")["schedules"]] == [schedule_id]
    job_id = agent.knows("schedule_job", JOB)["job_id"]
    assert agent.content(f"jobs://{job_id}") == agent.knows("job_status", job_id=job_id)
    assert "due" in agent.content("prompts://due")
    for missing in ("jobs://nope", "prompts://runs/999999", "prompts://runs/x", "schedules://NO", "else://where"):
        assert agent.read(missing).startswith(f"error -32602: Resource not found: {missing}")


# -- over all families --------------------------------------------------------------------------------------------


def test_what_fires_next(agent: Agent) -> None:
    once = {"trigger_type": "once", "trigger_config": {"run_at": "in 5 minutes"}}
    job_id = agent.knows("schedule_job", {**JOB, **once})["job_id"]
    number = agent.knows("schedule", prompt="water the plants", at="in 3 minutes")["id"]
    message_id = agent.knows("schedule_notification", {**NOTE, "delay": "4m"})["message_id"]
    shown = agent.knows("list_upcoming", until="in 6 minutes", count=100)
    instants = [row["at"] for row in shown["upcoming"]]
    assert instants == sorted(instants) and shown["count"] == len(instants)
    assert [row["id"] for row in shown["upcoming"]] == [number, message_id, job_id]
    assert [row["kind"] for row in shown["upcoming"]] == ["prompt", "notification", "job"]
    for row in shown["upcoming"]:
        assert {"at", "kind", "id", "name"} <= set(row)
    agent.knows("cancel_job", job_id=job_id)
    agent.knows("schedule_cancel", id=number)
    agent.knows("delete_schedule", schedule_id=message_id)
    assert agent.knows("list_upcoming", until="in 6 minutes")["upcoming"] == []


CREATES = {
    "schedule_job": ("job_id", "name"),
    "schedule": ("id", "prompt"),
    "send_push_notification": ("message_id", "message"),
    "schedule_notification": ("message_id", "message"),
    "schedule_cron_notification": ("schedule_id", "message"),
}


@pytest.mark.parametrize("tool", CREATES)
def test_a_key_makes_a_create_safe_to_repeat(agent: Agent, tool: str) -> None:
    identity, changed = CREATES[tool]
    key = unique("key")
    first = agent.knows(tool, {**CALLS[tool], "idempotency_key": key})
    assert agent.knows(tool, {**CALLS[tool], "idempotency_key": key}) == first
    other = agent.call(tool, {**CALLS[tool], "idempotency_key": key, changed: "something else"})
    assert KEY_REUSED in other.text
    assert agent.knows(tool, {**CALLS[tool], "idempotency_key": unique("key")})[identity] != first[identity]


def test_every_tool_that_creates_takes_a_key(agent: Agent) -> None:
    taking = {tool.name for tool in agent.tools() if "idempotency_key" in tool.input_schema["properties"]}
    assert taking == {*CREATES, "emit_event"}


@pytest.mark.parametrize("tool", sorted(set(CREATES) - {"send_push_notification"}))
def test_creates_warn_where_nothing_would_fire(agent: Agent, on_stdio: bool, tool: str) -> None:
    """Over stdio the only worker ends with its client; beside `duetime serve` it stays."""
    warnings = agent.knows(tool, CALLS[tool]).get("warnings", [])
    assert (SESSION_WARNING in warnings) is on_stdio
    assert [warning for warning in warnings if not INBOX_WARNING.match(warning)] == [SESSION_WARNING] * on_stdio


def test_texts_are_never_reinterpreted(agent: Agent) -> None:
    """What looks like JSON, a number or nothing stays the text it is."""
    for text in ("null", '{"a": 1}', "[1]", "12.0", "true", '"quoted"'):
        assert agent.knows("schedule_job", {**JOB, "name": text})["name"] == text
        assert agent.knows("job_status", job_id=text)["name"] == text
        assert agent.knows("job_status", job_id=f"{text} ?") == {"error": f"Job not found: {text} ?"}


def test_families_can_be_switched_off(tmp_path: Path) -> None:
    async def say(client: Any) -> None:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {
            "schedule_job", "list_jobs", "cancel_job", "job_status", "list_tasks", "preview_schedule", "list_upcoming",
            "history", "run_now", "status", "edit_schedule", "pause_schedule", "resume_schedule", "delete_schedule",
            "change_schedules", "stop_run", "mark_runs", "create_hook", "emit_event",
        }  # fmt: skip
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == ["jobs://{job_id}"]

    talk(over_stdio(tmp_path, "2026-07-28", "--tools", "jobs"), say)


def test_the_bare_session_of_the_older_era(shared_world: World) -> None:
    """As agents of that era do it: streams, `initialize`, and calls on the session itself."""
    headers = {"Authorization": f"Bearer {shared_world.token(unique('owner'))}"}

    async def whole() -> None:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
            streamable_http_client(shared_world.served.url, http_client=http) as (read, write),
            ClientSession(read, write) as session,
        ):
            welcome = await session.initialize()
            assert welcome.protocol_version == "2025-11-25"
            assert welcome.server_info.name == "duetime" and welcome.instructions
            assert welcome.capabilities.resources is not None and welcome.capabilities.resources.subscribe
            await session.send_ping()
            answer = await session.call_tool("job_status", {"job_id": "nope"})
            assert answer.structured_content == {"error": "Job not found: nope"}

    shared_world.portal.call(whole)
