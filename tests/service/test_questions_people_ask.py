"""Questions that people ask an agent, as its tools answer them: is everything all right, what failed, what comes next;
changes of many; and words in the list of tools without which an agent would choose the wrong tool."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from duetime.engine.clock import HOUR, Instant
from duetime.kinds import load_specs
from duetime.mcp.catalog import catalog_of
from tests.support.agent import TOOLS
from tests.support.browsing import browser_of
from tests.support.cli import Cli
from tests.support.stage import Stage
from tests.support.web import Site

DAILY = {"trigger_type": "cron", "trigger_config": {"expression": "0 9 * * *"}}


def job(stage: Stage, name: str, **given: Any) -> str:
    given = {"name": name, "task": "echo", "args": ["hi"], **DAILY, **given}
    return str(stage.ada.knows("schedule_job", given)["job_id"])


# -- is everything all right? ------------------------------------------------------------------------------------------


def test_whether_everything_is_all_right(both: Stage) -> None:
    """On a stage there is no channel, which is a warning, so that nothing is ever all right there."""
    answer = both.ada.knows("status")
    assert {name: answer[name] for name in ("problems", "waiting", "long_runs", "paused")} == {
        name: [] for name in ("problems", "waiting", "long_runs", "paused")
    }
    assert answer["warning_codes"].keys() == {each["code"] for each in answer["warnings"]}, "no other is explained"
    both.due("water the plants", name="plants")
    resting = job(both, "resting")
    both.ada.knows("pause_schedule", schedule_id=resting, until="2026-03-01 08:00", note="away")
    job(both, "slow", trigger_type="once", trigger_config={"run_at": "in 1 minute"})
    both.time.clock.move_to(Instant(both.time.clock.now() + HOUR))
    both.time.crash()  # a worker has claimed it, and does not end it
    both.time.clock.move_to(Instant(both.time.clock.now() + 2 * HOUR))
    answer = both.ada.knows("status")
    assert answer["all_right"] is False
    assert [(each["name"], each["since"]) for each in answer["waiting"]] == [("plants", "2026-02-10T12:01:00-08:00")]
    assert [each["name"] for each in answer["long_runs"]] == ["slow"] and answer["long_runs"][0]["since"]
    [paused] = answer["paused"]
    assert (paused["name"], paused["until"][:16], paused["note"]) == ("resting", "2026-03-01T08:00", "away")


def test_what_fails_is_a_problem_until_it_goes_well(both: Stage) -> None:
    number = both.due("say it", name="talk", every="1 hour", at="in 1 minute")
    run = both.ada.knows("take_prompt")["run_id"]
    both.ada.use("finish_prompt", run_id=run, error="no voice")
    [problem] = both.ada.knows("status")["problems"]
    assert (problem["name"], problem["trouble"], problem["text"]) == ("talk", "failed", "no voice")
    both.time.advance(timedelta(hours=1))
    both.ada.use("finish_prompt", run_id=both.ada.knows("take_prompt")["run_id"], result="said")
    both.time.tell()
    assert both.ada.knows("status")["problems"] == [], number


# -- what failed? ------------------------------------------------------------------------------------------------------


def test_history_by_several_statuses_with_counts_and_window(both: Stage) -> None:
    both.make("say it", name="talk", every="1 hour", at="in 1 minute", max_attempts=1)
    ends: list[dict[str, str]] = [{"result": "said"}, {"error": "no voice"}, {"result": "said"}]
    for end in ends:
        both.time.advance(timedelta(hours=1))
        both.ada.use("finish_prompt", {"run_id": both.ada.knows("take_prompt")["run_id"], **end})
    both.ada.knows("pause_schedule", schedule_id="talk")
    both.time.advance(timedelta(hours=3))
    both.ada.knows("resume_schedule", schedule_id="talk")
    answer = both.ada.knows("history", {"status": "failed,skipped", "from": "today", "to": "tomorrow"})
    assert sorted(run["status"] for run in answer["runs"]) == ["failed", "skipped"]
    assert (answer["counts"]["completed"], answer["counts"]["failed"], answer["counts"]["skipped"]) == (2, 1, 1)
    assert answer["window"]["from"].startswith("2026-02-10T00:00") and answer["window"]["to"].startswith(
        "2026-02-11T23:59"
    )
    one_day = both.ada.knows("history", {"from": "monday"})["window"]["from"]
    assert one_day.startswith("2026-02-09T00:00"), "which day was understood"
    nothing = both.ada.knows("history", {"status": "missed,lost"})
    assert nothing["runs"] == [] and "Those with other statuses: " in nothing["notes"][0]
    assert "2 completed" in nothing["notes"][0]
    refused = both.ada.knows("history", {"status": "failed,broken"})["error"]
    assert refused.startswith("Unknown status: broken. Choose one of: pending, ")


# -- what comes next? --------------------------------------------------------------------------------------------------


def test_a_frequent_schedule_hides_no_other(both: Stage) -> None:
    job(both, "often", trigger_type="interval", trigger_config={"minutes": 5})
    job(both, "daily")
    answer = both.ada.knows("list_upcoming", {"until": "in 3 days"})
    often, daily = answer["upcoming"]
    assert (often["name"], len(often["times"]), often["more_times"]) == ("often", 5, True)
    assert daily["times"] == [f"2026-02-{day}T09:00:00-08:00" for day in (11, 12, 13)]
    assert answer["window"]["until"].startswith("2026-02-13T12:00") and answer["more"] is False
    short = both.ada.knows("list_upcoming", {"until": "in 1 hour"})
    assert len(short["upcoming"]) == 12 and "times" not in short["upcoming"][0], "within a day, each time has a row"


# -- changes of many ---------------------------------------------------------------------------------------------------


def test_all_are_moved_by_half_an_hour(both: Stage) -> None:
    job(both, "cron"), job(both, "hourly", trigger_type="interval", trigger_config={"hours": 1})
    job(both, "once", trigger_type="once", trigger_config={"run_at": "2026-02-11T10:00"})
    job(both, "rule", trigger_type="rrule", trigger_config={"rrule": "FREQ=WEEKLY;BYDAY=FR;BYHOUR=17;BYMINUTE=0"})
    job(both, "often", trigger_config={"expression": "*/5 * * * *"})
    shown = both.ada.knows("change_schedules", action="shift", shift="30m", all=True, dry_run=True)
    moves = {row["name"]: row.get("moves_to") for row in shown["schedules"]}
    assert moves["cron"] == "2026-02-11T09:30:00-08:00" and shown["changed"] == 0
    assert [row["name"] for row in shown["failed"]] == ["often"] and "often" not in moves, "a dry run refuses alike"
    answer = both.ada.knows("change_schedules", action="shift", shift="30m", all=True)
    after = {row["name"]: row.get("next_run", "")[:16] for row in answer["schedules"]}
    expected = {"cron": "2026-02-11T09:30", "hourly": "2026-02-10T13:30", "once": "2026-02-11T10:30"}
    assert expected.items() <= after.items() and after["rule"] == "2026-02-13T17:30"
    [failed] = answer["failed"]
    assert failed["name"] == "often" and "has no single time" in failed["error"] and answer["changed"] == 4
    both.ada.knows("change_schedules", action="shift", shift="-30m", ids=["cron"])
    assert both.ada.knows("job_status", job_id="cron")["next_run"] == "2026-02-11T09:00:00-08:00"


def test_names_of_cron_rules_and_months_are_moved_or_refused(both: Stage) -> None:
    rules = {"daily": "@daily", "hourly": "@hourly", "february": "0 23 * 2 *", "new year": "@yearly"}
    for name, expression in rules.items():
        job(both, name, trigger_config={"expression": expression})
    answer = both.ada.knows("change_schedules", action="shift", shift="-2h", all=True, dry_run=True)
    assert {row["name"] for row in answer["failed"]} == {"hourly", "new year"}
    answer = both.ada.knows("change_schedules", action="shift", shift="2h", all=True)
    assert {row["name"]: row["error"].split("(")[1][:15] for row in answer["failed"]} == {
        "hourly": "the cron expres",
        "february": "it would fire o",
    }
    assert {row["name"]: row["next_run"][5:16] for row in answer["schedules"]} == {
        "daily": "02-11T02:00",
        "new year": "01-01T02:00",
    }


def test_finished_ones_older_than_a_day_are_deleted(both: Stage) -> None:
    for name, at in (("old", "in 1 minute"), ("new", "in 2 days")):
        job(both, name, trigger_type="once", trigger_config={"run_at": at})
    job(both, "living", trigger_config={"expression": "0 9 1 1 *"})
    both.time.advance(timedelta(days=2, minutes=1))
    chosen = {"action": "delete", "status": "finished", "older_than": "1d"}
    shown = both.ada.knows("change_schedules", chosen, dry_run=True)
    assert [row["name"] for row in shown["schedules"]] == ["old"]
    assert both.ada.knows("change_schedules", chosen, expected_count=1)["changed"] == 1
    assert {row["name"] for row in both.ada.knows("list_jobs")["jobs"]} == {"new", "living"}
    assert both.ada.knows("change_schedules", action="restore", ids=["old"])["failed"], "its only time is over"


def test_a_topic_is_one_of_notifications_an_agent_one_of_prompts(both: Stage) -> None:
    """Both may be called inbox: the kind tells them apart, and the argument says what it matches."""
    both.make("look", agent="inbox", at="tomorrow 9am")
    both.ada.knows("schedule_notification", message="tea", notification_topic="inbox", delay="1h")
    for tool in ("change_schedules", "list_upcoming"):
        assert TOOLS[tool].input["properties"]["topic"]["description"] == "Only this topic, task or agent."
    chosen = {"action": "pause", "topic": "inbox", "dry_run": True}
    assert both.ada.knows("change_schedules", chosen)["matched"] == 2
    [row] = both.ada.knows("change_schedules", chosen, kind="notification")["schedules"]
    assert row["kind"] == "notification"


def test_a_message_to_the_inbox_warns_where_nothing_else_is_set_up(stage: Stage) -> None:
    told = stage.ada.knows("schedule_notification", message="tea", notification_topic="inbox", delay="1h")
    assert told["warning_codes"] == ["no_channel"]


def test_a_job_describes_its_task(both: Stage) -> None:
    job(both, "one"), job(both, "two", task="echo('hi') | echo()", args=[])
    tasks = {each["name"]: each["description"] for each in both.ada.knows("list_tasks")["tasks"]}
    assert both.ada.knows("job_status", job_id="one")["task_description"] == tasks["echo"]
    described = both.ada.knows("job_status", job_id="two")["task_description"]
    assert described == f"echo: {tasks['echo']}\necho: {tasks['echo']}"


# -- ids and names -----------------------------------------------------------------------------------------------------


def test_every_tool_takes_an_id_as_text_or_as_a_number(both: Stage) -> None:
    taking = {
        (tool.name, name): schema["type"]
        for tool in TOOLS.values()
        for name, schema in tool.input["properties"].items()
        if name in ("id", "job_id", "schedule_id")
    }
    assert len(taking) >= 11 and all({"string", "integer"} <= set(types) for types in taking.values()), taking
    number = both.make("look", every="1 hour")
    for id in (number, str(number), f"#{number}"):
        assert both.ada.knows("pause_schedule", schedule_id=id)["schedule_id"] == str(number)
        assert both.ada.knows("schedule_list", status="paused")["tasks"][0]["id"] == number
        assert both.ada.knows("resume_schedule", schedule_id=id)["schedule_id"] == str(number)
        assert both.ada.knows("change_schedules", action="pause", ids=[id], dry_run=True)["matched"] == 1


def test_a_confirmation_names_the_schedule(both: Stage) -> None:
    """The sentence of a pause is fixed, so that its name stands beside it."""
    number = both.make("look", name="look around", every="1 hour")
    assert both.ada.knows("pause_schedule", schedule_id=number)["name"] == "look around"
    assert both.ada.knows("resume_schedule", schedule_id=number)["name"] == "look around"
    assert both.ada.knows("run_now", schedule_id=number)["run"]["name"] == "look around"
    assert "of look around" in both.ada.knows("stop_run", schedule_id=number)["confirmation"]
    row = both.ada.knows("change_schedules", action="cancel", ids=[number], expected_count=1)["schedules"][0]
    assert row["name"] == "look around"


def test_a_label_has_no_spaces_and_a_name_may(both: Stage) -> None:
    named = {"message": "tea", "notification_topic": "home", "when": "every day at 9", "name": "weekly report"}
    id = both.ada.knows("schedule_notification", named)["schedule_id"]
    assert both.ada.knows("pause_schedule", schedule_id="weekly report")["schedule_id"] == id


# -- what the tools, commands and pages say ----------------------------------------------------------------------------


def test_cancel_and_delete_are_explained_where_they_are_offered(there: Site, cli: Cli) -> None:
    for name in ("cancel_job", "schedule_cancel"):
        words = TOOLS[name].description
        assert "stays in lists and can be restored; delete_schedule removes it" in words, name
    assert "change_schedules restores it for a day" in TOOLS["delete_schedule"].description
    action = TOOLS["change_schedules"].input["properties"]["action"]["description"]
    assert action == "Cancelled ones stay in lists, deleted ones do not; both can come back."
    helps = {name: " ".join(cli(name, "--help").out.split()) for name in ("cancel", "delete", "change")}
    assert "it stays in lists; `duetime restore` lets it go on" in helps["cancel"]
    assert "it leaves the lists" in helps["delete"] and "brings it back for a day" in helps["delete"]
    assert "cancelled ones stay in lists, deleted ones do not" in helps["change"]
    browser, _ = browser_of(there)
    made = browser.send("/new", {"kind": "prompt", "prompt": "look", "when": "cron", "expression": "0 9 * * *"})
    page = browser.get(made.headers["location"]).body.decode()
    assert 'title="Ends it and keeps it in the lists"' in page
    assert 'title="Removes it from the lists; it can be restored for a day"' in page


def test_tools_that_sound_alike_are_told_apart() -> None:
    words = {name: TOOLS[name].description for name in TOOLS}
    assert words["schedule_edit"].startswith("Change a pending prompt")
    assert words["edit_schedule"].startswith("Change any field of a schedule of any kind")
    assert words["schedule_cancel"].startswith("End a pending prompt")
    assert words["cancel_job"].startswith("End a job")
    assert "It takes every kind" in words["delete_schedule"]


def test_the_kind_request_is_explained() -> None:
    """It has no tools of its own, but those for all kinds show it."""
    sentence = "A request is an HTTP call that a program has scheduled; agents read, change and delete them."
    assert sentence in catalog_of(load_specs().values()).instructions
    assert sentence in catalog_of(load_specs().values(), ["jobs"]).instructions


@pytest.mark.parametrize("options", [{"end": "2026-02-12"}, {"end": "2026-02-12T09:00"}])
def test_the_last_day_of_a_rule_counts(both: Stage, options: dict[str, str]) -> None:
    assert TOOLS["preview_schedule"].input["properties"]["end"]["description"] == "Until; a day counts."
    id = job(both, "until thursday", options=options)
    times = both.ada.knows("list_upcoming", {"until": "in 9 days"})["upcoming"][0]["times"]
    assert times[-1] == "2026-02-12T09:00:00-08:00", id
