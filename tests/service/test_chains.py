"""Schedules that follow others, as agents and people ask for them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from duetime.engine.errors import InvalidInput
from duetime.engine.policy.follow_ups import END_FIELDS
from duetime.service.operations.create import CreateSchedule, create
from duetime.service.operations.edit import EditSchedule, edit
from duetime.service.operations.schedules import ListSchedules, list_schedules
from duetime.service.presenters import reads_as, trigger_shape
from duetime.service.services import operator_call
from duetime.service.state_details import status_words
from tests.support.stage import Stage


def job(stage: Stage, name: str, **given: Any) -> dict[str, Any]:
    created: dict[str, Any] = stage.ada.knows("schedule_job", {"name": name, "task": "echo", "args": ["hi"], **given})
    return created


def run_first(stage: Stage) -> None:
    stage.time.advance(timedelta(hours=1))


def names_that_ran(stage: Stage) -> list[str]:
    runs = stage.ada.knows("history", limit=50)["runs"]
    return [run["name"] for run in reversed(runs) if run["status"] == "completed"]


def test_one_follows_another(both: Stage) -> None:
    job(both, "backup", when="every hour")
    created = job(both, "upload", when="after backup succeeds")
    assert "next_run" not in created or created["next_run"] is None
    job(both, "tell", when="After 'upload' ends")
    status = both.ada.knows("job_status", job_id="upload")
    assert "after backup succeeds" in str(status) and "9999" not in str(status)
    run_first(both)
    assert names_that_ran(both) == ["backup", "upload", "tell"]


def test_the_result_is_at_hand_for_the_next_one(both: Stage) -> None:
    job(both, "count", args=["3 files"], when="every hour")
    job(both, "say", args=["found {result}"], when="after count succeeds")
    run_first(both)
    runs = {run["name"]: run["result"] for run in both.ada.knows("history")["runs"]}
    assert runs["say"] == "found 3 files"


def test_a_value_that_the_end_of_a_run_does_not_have_is_warned_about(both: Stage) -> None:
    job(both, "count", args=["3 files"], when="every hour")

    def warnings_of(text: str) -> list[str]:
        answer = job(both, "say", args=[text], when="after count succeeds")
        codes = answer.get("warning_codes", [])
        return [each for each, code in zip(answer.get("warnings", []), codes, strict=True) if code == "unknown_path"]

    problem = "The end of count has no reslt, so its place stays as it is written."
    assert warnings_of("{reslt}") == [problem], "before the first run"
    for known in ("{result} {text} {error} {name} {run} {schedule} {status} {due}", "{result.files}", "{{reslt}}"):
        assert warnings_of(known) == [], known
    run_first(both)
    [first, *_] = both.app.scheduler.store.latest_events(both.ada.call.caller.owner, "~ended.1")
    assert json.loads(first.data).keys() == set(END_FIELDS)
    assert warnings_of("{reslt} {result}") == [problem]
    assert warnings_of("{result.files}") == [
        "The end of count has no result.files, so its place stays as it is written."
    ]


def test_a_rename_changes_nothing(both: Stage) -> None:
    job(both, "backup", when="every hour")
    job(both, "upload", when="after backup succeeds")
    both.ada.knows("edit_schedule", schedule_id="backup", name="nightly")
    assert "after nightly succeeds" in str(both.ada.knows("job_status", job_id="upload"))
    run_first(both)
    assert names_that_ran(both) == ["nightly", "upload"]


def test_a_trigger_that_was_read_before_a_rename_can_be_written_back(both: Stage) -> None:
    both.ada.knows("schedule", prompt="look", name="Ask A", when="every hour")
    upload = job(both, "upload", when="after 'Ask A' succeeds", idempotency_key="mine")["job_id"]
    schedule = both.app.scheduler.find(both.ada.call.caller, upload)
    assert schedule is not None
    trigger = trigger_shape(schedule.definition.trigger)
    type_, written = trigger.pop("type"), {**trigger, "outcome": "ends"}
    both.ada.knows("edit_schedule", schedule_id="Ask A", name="Ask B")
    edit(both.ada.call, EditSchedule(schedule=upload, trigger=(type_, written)))
    assert "after Ask B ends" in str(both.ada.knows("job_status", job_id="upload"))
    with pytest.raises(InvalidInput, match="no schedule 'Ask A' to follow; did you mean Ask B"):
        create(both.ada.call, CreateSchedule("job", {"task": "echo"}, trigger=(type_, written)))


def test_what_is_cancelled_deleted_or_restored_says_who_follows(both: Stage) -> None:
    job(both, "backup", when="every hour")
    job(both, "upload", when="after backup succeeds")
    no_more = "have no further runs"
    for action, words in (("cancel", no_more), ("restore", "run again"), ("delete", no_more)):
        answer = both.ada.knows("change_schedules", action=action, ids=["backup"], expected_count=1)
        assert answer["schedules"][0]["followers"] == f"schedules that follow it {words}: upload"
    assert "followers" not in str(both.ada.knows("change_schedules", action="cancel", ids=["upload"], expected_count=1))


def test_a_schedule_says_that_what_it_follows_is_cancelled(both: Stage) -> None:
    job(both, "backup", when="every hour")
    upload = job(both, "upload", when="after backup succeeds")

    def details() -> tuple[object, object]:
        """Return what the list and the answer about one schedule say."""
        rows = both.ada.knows("list_jobs")["jobs"]
        [listed] = [row["state_detail"] for row in rows if row["name"] == "upload"]
        return listed, both.ada.knows("job_status", job_id=upload["job_id"])["state_detail"]

    assert details() == (None, None)
    cancelled, deleted = "what_it_follows_is_cancelled", "what_it_follows_is_deleted"
    assert status_words("pending", None, deleted) == ("waiting", "for what was deleted")
    for action, said in (("cancel", cancelled), ("restore", None), ("delete", deleted), ("restore", None)):
        both.ada.knows("change_schedules", action=action, ids=["backup"], expected_count=1)
        assert details() == (said, said), action
    both.ada.knows("change_schedules", action="pause", ids=["backup"], expected_count=1)
    assert details() == (None, None)
    both.ada.knows("change_schedules", action="cancel", ids=["backup"], expected_count=1)
    both.ada.knows("change_schedules", action="cancel", ids=["upload"], expected_count=1)
    assert details() == (None, None), "it is over itself"


def test_a_schedule_that_is_not_there_cannot_be_followed(both: Stage) -> None:
    job(both, "twin", when="every hour"), job(both, "twin", when="every 2 hours")
    error = both.ada.use("schedule_job", {"name": "x", "task": "echo", "when": "after nothing succeeds"})
    assert "there is no schedule 'nothing' to follow; give the id" in str(error)
    job(both, "backup", when="every hour")
    for text in ("bakup", "backup suceeds"):
        error = both.ada.use("schedule_job", {"name": "x", "task": "echo", "when": f"after {text} succeeds"})
        assert f"when: there is no schedule '{text}' to follow; did you mean backup? give the id" in str(error)
    assert "did you mean" not in str(
        both.agent("bob").use("schedule_job", {"name": "x", "task": "echo", "when": "after bakup succeeds"})
    )
    error = both.ada.use("schedule_job", {"name": "x", "task": "echo", "when": "after twin succeeds"})
    assert "2 of your schedules are called 'twin'; give the id of one: j1, j2" in str(error)
    job(both, "bobs", when="every hour")
    error = both.agent("bob").use("schedule_job", {"name": "x", "task": "echo", "when": "after bobs succeeds"})
    assert "there is no schedule 'bobs' to follow" in str(error), "which belongs to ada"


def test_an_operator_cannot_follow_what_belongs_to_another_owner(both: Stage) -> None:
    """The events of others never reach it, so it would never run."""
    other = job(both, "backup", when="every hour")["job_id"]
    call = operator_call(both.app.services)
    for followed in ({"schedule": other}, {"schedule": "nothing", "name": other}):
        request = CreateSchedule("job", {"task": "echo"}, trigger=("after", followed))
        with pytest.raises(InvalidInput, match="to follow"):
            create(call, request)


def test_a_circle_is_refused(both: Stage) -> None:
    job(both, "backup", when="every hour")
    job(both, "upload", when="after backup succeeds")
    error = both.ada.use("edit_schedule", schedule_id="backup", when="after upload ends")
    assert "it would follow itself" in str(error)
    both.ada.knows("edit_schedule", schedule_id="upload", when="every 2 hours")
    both.ada.knows("edit_schedule", schedule_id="backup", when="after upload ends")


def test_options_say_the_same_as_phrases(both: Stage) -> None:
    """What Python, the command line and HTTP call `on` and `after`."""
    call = both.ada.call
    for times, words in (
        ({"after": "backup"}, "after backup succeeds"),
        ({"after": "backup fails"}, "after backup fails"),
        ({"on": "mail.new where box = home"}, "on the event mail.new where box is home"),
    ):
        job(both, "backup", when="every hour", idempotency_key="one")
        request = CreateSchedule("job", {"task": "echo", "args": [], "kwargs": {}}, times)
        created = create(call, request).value
        assert reads_as(created.schedule.definition.trigger).startswith(words)
    with pytest.raises(InvalidInput, match="on: 'not an event at all' is no event"):
        create(call, CreateSchedule("job", {"task": "echo"}, {"on": "not an event at all"}))


def test_what_waits_for_an_event_comes_last_in_a_list_by_time(both: Stage) -> None:
    job(both, "backup", when="every hour"), job(both, "upload", when="after backup ends")
    job(both, "deploy", when="on push.done"), job(both, "nightly", when="every day at 3")
    page = list_schedules(both.ada.call, ListSchedules(order="next", limit=3)).value
    names = [each.definition.name for each in page.items]
    rest = list_schedules(both.ada.call, ListSchedules(order="next", cursor=page.cursor)).value.items
    assert names == ["backup", "nightly", "upload"] and [each.definition.name for each in rest] == ["deploy"]
    assert [each["name"] for each in both.ada.knows("list_upcoming")["upcoming"]][:1] == ["backup"]


def test_every_tool_that_ends_a_schedule_names_what_follows(both: Stage) -> None:
    job(both, "backup", when="every hour")
    job(both, "upload", when="after backup succeeds")
    both.ada.knows("schedule", prompt="look", name="watch", when="after upload ends")
    both.ada.knows(
        "schedule_notification", message="over", notification_topic="ops", name="over", when="after watch ends"
    )
    for tool, arguments, name in (
        ("cancel_job", {"job_id": "backup"}, "upload"),
        ("delete_schedule", {"schedule_id": "upload"}, "watch"),
        ("schedule_cancel", {"id": "watch"}, "over"),
    ):
        expected = [f"Schedules that follow it have no further runs: {name}."]
        assert both.ada.knows(tool, arguments).get("warnings") == expected, tool


def test_a_notification_that_follows_has_no_time(both: Stage) -> None:
    job(both, "backup", when="every hour")
    created = both.ada.knows(
        "schedule_notification", message="{error}", notification_topic="ops", when="after backup fails"
    )
    assert created["confirmation"] == "Notification scheduled after backup fails"
    assert "scheduled_time" not in created


def test_a_rule_with_limits_becomes_a_chain(both: Stage) -> None:
    job(both, "backup", when="every hour")
    job(both, "upload", when="every day at 7", options={"start": "2031-01-01", "end": "2032-01-01", "jitter": "1m"})
    edited = both.ada.knows("edit_schedule", schedule_id="upload", when="after backup succeeds")
    assert edited["reads_as"] == "after backup succeeds", edited
