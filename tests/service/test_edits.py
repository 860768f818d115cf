"""Any field of any kind is edited by one tool; the id and the history stay."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from duetime.engine.clock import HOUR, instant_of
from duetime.engine.errors import Conflict
from duetime.engine.kind import Caller
from duetime.engine.model import Definition, Schedule
from duetime.engine.validation import Changes, NewSchedule
from duetime.service.kind_spec import KindHooks
from duetime.service.operations.edit import EditSchedule, edit
from duetime.service.services import Call
from tests.support.hand import history_of
from tests.support.stage import Stage

PAYLOADS: dict[str, dict[str, Any]] = {
    "job": {"task": "echo", "args": [1], "kwargs": {}},
    "prompt": {"prompt": "water the plants"},
    "notification": {"topic": "home", "message": "hi"},
    "request": {"url": "https://hooks.example.org/a"},
}


def make(stage: Stage, kind: str, name: str = "mine", trigger: tuple[str, dict[str, Any]] | None = None) -> str:
    type_, config = trigger or ("cron", {"expression": "0 9 * * *"})
    made = stage.app.scheduler.create(Caller("ada"), NewSchedule(kind, name, type_, config, PAYLOADS[kind]))
    return made.definition.public_id


def found(stage: Stage, id: str) -> Schedule:
    schedule = stage.app.store.find(id)
    assert schedule is not None
    return schedule


def payload(definition: Definition) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(definition.payload)
    return stored


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        ("job", {"args": [2]}, {"task": "echo", "args": [2]}),
        ("job", {"task": "echo | shorten(words=3)"}, {"task": "echo | shorten(words=3)", "args": [1]}),
        ("prompt", {"prompt": "water them"}, {"prompt": "water them"}),
        ("prompt", {"agent": "inbox", "payload": {"max_runs_per_day": 2}}, {"agent": "inbox", "max_runs_per_day": 2}),
        ("notification", {"message": "bye", "notification_topic": "work"}, {"message": "bye", "topic": "work"}),
        ("notification", {"label": "daily", "payload": {"priority": 4}}, {"label": "daily", "priority": 4}),
        ("request", {"payload": {"method": "PUT"}}, {"url": "https://hooks.example.org/a", "method": "PUT"}),
    ],
)
def test_fields_of_the_payload(stage: Stage, kind: str, given: dict[str, Any], stored: dict[str, Any]) -> None:
    id = make(stage, kind)
    before = found(stage, id).definition
    answer = stage.ada.knows("edit_schedule", schedule_id=id, **given)
    assert "error" not in answer and (answer["schedule_id"], answer["kind"]) == (id, kind)
    after = found(stage, id).definition
    assert stored.items() <= payload(after).items()
    assert (after.id, after.trigger, after.version) == (before.id, before.trigger, before.version + 1)


@pytest.mark.parametrize("kind", PAYLOADS)
def test_time_policy_and_name(stage: Stage, kind: str) -> None:
    id = make(stage, kind)
    policy: dict[str, Any] = {"max_attempts": 3, "timeout_seconds": 60, "max_runs": 5, "overlap": "queue"}
    answer = stage.ada.knows("edit_schedule", schedule_id="mine", cron="30 10 * * *", name="Ours", **policy)
    assert (answer["name"], answer["next_run"]) == ("Ours", "2026-02-11T10:30:00-08:00")
    definition = found(stage, id).definition
    changed = json.loads(definition.policy)
    assert (changed["max_attempts"], changed["timeout"], changed["max_runs"]) == (3, 60_000_000, 5)
    assert payload(definition).items() >= PAYLOADS[kind].items()


def test_at_moves_the_next_time_alone(stage: Stage) -> None:
    id = make(stage, "job")
    moved = stage.ada.knows("edit_schedule", schedule_id=id, at="tomorrow 3pm")
    assert moved["next_run"] == "2026-02-11T15:00:00-08:00"
    stage.time.advance(timedelta(days=1, hours=4))
    progress = found(stage, id).progress
    assert progress.last_run is not None and progress.next == progress.last_run + 18 * HOUR


@pytest.mark.parametrize(
    "given",
    [{"when": "tomorrow at 9", "at": "in 5 minutes"}, {"every": "2h", "at": "tomorrow 3pm", "start": "tomorrow 4pm"}],
)
def test_two_first_times_are_refused(stage: Stage, given: dict[str, Any]) -> None:
    id = make(stage, "job")
    before = found(stage, id)
    assert "give one of them" in stage.ada.knows("edit_schedule", schedule_id=id, **given)["error"]
    assert found(stage, id) == before


def test_a_one_off_is_moved_until_it_has_begun(stage: Stage) -> None:
    once = make(stage, "job", trigger=("once", {"run_at": "in 1 hour"}))
    stage.ada.knows("edit_schedule", schedule_id=once, at="in 2 hours")
    stage.time.advance(timedelta(minutes=90))
    assert found(stage, once).progress.run_count == 0
    stage.time.advance(timedelta(hours=1))
    assert found(stage, once).progress.run_count == 1
    assert "cannot be edited" in stage.ada.knows("edit_schedule", schedule_id=once, at="in 2 hours")["error"]


def test_the_name_follows_the_payload_unless_somebody_chose_it(stage: Stage) -> None:
    task = stage.make("water the plants", cron="0 9 * * *")
    assert stage.ada.knows("edit_schedule", schedule_id=str(task), prompt="feed the cat")["name"] == "feed the cat"
    stage.ada.knows("edit_schedule", schedule_id=str(task), name="Pets")
    assert stage.ada.knows("edit_schedule", schedule_id="Pets", prompt="feed the dog")["name"] == "Pets"


def test_a_new_rule_from_a_later_time_on(stage: Stage) -> None:
    id = make(stage, "job")
    answer = stage.ada.knows("edit_schedule", schedule_id=id, cron="0 18 * * *", starting="2026-02-13 00:00")
    assert answer["next_run"] == "2026-02-11T09:00:00-08:00"
    assert "until" in answer["reads_as"] and "then" in answer["reads_as"]
    [row] = stage.ada.knows("list_upcoming")["upcoming"]
    assert [each[:13] for each in row["times"][:3]] == ["2026-02-11T09", "2026-02-12T09", "2026-02-13T18"]
    stage.time.advance(timedelta(days=5))
    runs = history_of(stage.app.scheduler, Caller("ada"), id)
    hours = [(run.due // HOUR - 8) % 24 for run in reversed(runs)]
    assert hours == [9, 9, 18, 18]


def test_a_rule_that_would_not_fire_before_the_new_one_is_left_out(stage: Stage) -> None:
    id = make(stage, "job")
    answer = stage.ada.knows("edit_schedule", schedule_id=id, cron="0 18 * * *", starting="2026-02-11 00:00")
    assert answer["next_run"] == "2026-02-11T18:00:00-08:00"
    assert "then" not in answer["reads_as"]


def test_an_interval_starts_at_the_time_that_is_given(stage: Stage) -> None:
    id = make(stage, "job")
    stage.ada.knows("edit_schedule", schedule_id=id, every="2h", starting="2026-02-11 12:00")
    stage.time.advance(timedelta(days=1, hours=5))
    runs = history_of(stage.app.scheduler, Caller("ada"), id)
    assert [(run.due // HOUR - 8) % 24 for run in reversed(runs)] == [9, 12, 14, 16]


def test_an_edit_at_once_also_replaces_a_rule_that_was_to_begin_later(stage: Stage) -> None:
    """The new rule does not wait for the start of the one that it replaces."""
    id = make(stage, "job", trigger=("interval", {"hours": 1}))
    stage.ada.knows("edit_schedule", schedule_id=id, every="2h", starting="in 30 days")
    stage.ada.knows("edit_schedule", schedule_id=id, every="3h")
    began = stage.time.now
    stage.time.advance(timedelta(hours=10))
    assert due_hours(stage, id, began) == [3, 6, 9]


def test_an_earlier_start_also_replaces_a_rule_that_was_to_begin_later(stage: Stage) -> None:
    id = make(stage, "job", trigger=("interval", {"hours": 1, "end": "in 60 days"}))
    began = stage.time.now
    stage.ada.knows("edit_schedule", schedule_id=id, every="2h", starting="in 30 days")
    stage.ada.knows("edit_schedule", schedule_id=id, every="4h", starting="in 3 hours")
    stage.time.advance(timedelta(hours=12))
    assert due_hours(stage, id, began) == [1, 2, 3, 7, 11]
    assert "end" in json.loads(found(stage, id).definition.trigger)["after"], "the limits of the rule in force stay"


def test_somebody_may_change_their_mind_about_a_later_rule_as_often_as_they_like(stage: Stage) -> None:
    id = make(stage, "job", trigger=("interval", {"hours": 1}))
    for number in range(10):
        answer = stage.ada.knows("edit_schedule", schedule_id=id, every="2h", starting=f"in {30 - number} days")
        assert "error" not in answer, answer


def test_a_new_rule_cannot_start_after_the_end(stage: Stage) -> None:
    """It is February 10: an end on February 20 is not in the past, as an edit on that day would say."""
    id = make(stage, "job", trigger=("cron", {"expression": "0 9 * * *", "end": "2026-02-20"}))
    later: dict[str, Any] = {"schedule_id": id, "every": "2h", "starting": "2026-02-25 09:00"}
    for given in ({}, {"end": "2026-02-20"}):
        error = stage.ada.knows("edit_schedule", later, **given)["error"]
        assert error == "starting: it is after its end, 2026-02-20T23:59:59-08:00; give a later end, or end none"
    for given in ({"end": "none"}, {"end": "2026-03-01"}):
        assert "error" not in stage.ada.knows("edit_schedule", later, **given)


def due_hours(stage: Stage, id: str, began: datetime) -> list[int]:
    """Return how many hours after a time each run was due."""
    runs = history_of(stage.app.scheduler, Caller("ada"), id)
    return [(run.due - instant_of(began)) // HOUR for run in reversed(runs)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "Nothing to change"),
        ({"prompt": "x"}, "prompt: a job has no such field; it has task, args, kwargs"),
        ({"starting": "tomorrow"}, "starting: requires a new rule"),
        ({"cron": "0 9 * * *", "starting": "yesterday"}, "starting: "),
        ({"cron": "0 9 * * *", "every": "1h"}, "exactly one of"),
        ({"cron": "nonsense"}, "Invalid cron expression"),
        ({"at": "2020-01-01"}, "is in the past"),
        ({"end": "2020-01-01"}, "end: "),
        ({"timezone": "Asia/Tokyo"}, "timezone alone is how times are read"),
        ({"task": "nothing"}, "Unknown task: nothing"),
        ({"timezone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"payload": {"nonsense": 1}}, "nonsense"),
        ({"name": ""}, "name"),
    ],
)
def test_what_is_wrong_changes_nothing(stage: Stage, given: dict[str, Any], words: str) -> None:
    id = make(stage, "job")
    before = found(stage, id)
    assert words in stage.ada.knows("edit_schedule", schedule_id=id, **given)["error"]
    assert found(stage, id) == before


@pytest.mark.parametrize(
    ("given", "hour"),
    [
        ({"max_runs": 5}, 15),
        ({"end": "2027-01-01"}, 15),
        ({"start": "2026-02-11 12:00"}, 15),
        ({"end": "2026-02-11 12:00"}, 9),
        ({"cron": "0 8 * * *"}, 8),
    ],
)
def test_a_next_time_that_was_moved_stays_while_the_rule_stays(stage: Stage, given: dict[str, Any], hour: int) -> None:
    id = make(stage, "job")
    stage.ada.knows("edit_schedule", schedule_id=id, at="2026-02-11 15:00")
    answer = stage.ada.knows("edit_schedule", schedule_id=id, **given)
    assert answer["next_run"] == f"2026-02-11T{hour:02}:00:00-08:00"


@pytest.mark.parametrize("cron", ["* * * * * *", "@daily"])
def test_a_cron_notification_keeps_to_five_fields(stage: Stage, cron: str) -> None:
    id = make(stage, "notification")
    before = found(stage, id)
    assert "takes 5 fields" in stage.ada.knows("edit_schedule", schedule_id=id, cron=cron)["error"]
    assert "takes 5 fields" in stage.ada.knows("edit_schedule", schedule_id=id, when=cron)["error"]
    assert found(stage, id) == before
    assert "error" not in stage.ada.knows("edit_schedule", schedule_id=make(stage, "prompt", "other"), cron=cron)


def test_a_run_in_progress_keeps_its_values(stage: Stage) -> None:
    task = stage.make(cron="* * * * *")
    stage.time.advance(timedelta(minutes=1))
    stage.ada.knows("take_prompt")
    answer = stage.ada.knows("edit_schedule", schedule_id=str(task), prompt="feed the cat")
    assert "keeps its values" in answer["applies"]


def test_what_is_not_there_or_not_clear(stage: Stage) -> None:
    make(stage, "job", "twin"), make(stage, "prompt", "twin")
    assert len(stage.ada.knows("edit_schedule", schedule_id="twin", name="x")["candidates"]) == 2
    assert "Not found" in stage.ada.knows("edit_schedule", schedule_id="nothing", name="x")["error"]
    id = make(stage, "job", "mine")
    assert "Not found" in stage.agent("bob").knows("edit_schedule", schedule_id=id, name="x")["error"]


def test_hidden_values_do_not_go_to_another_recipient(stage: Stage) -> None:
    secret = {"task": "echo", "args": [{"password": "hunter2"}], "kwargs": {}}
    new = NewSchedule("job", "mine", "cron", {"expression": "0 9 * * *"}, secret)
    stage.app.scheduler.create(Caller("ada"), new)
    refused = stage.ada.knows("edit_schedule", schedule_id="mine", task="shorten")
    assert "hidden values" in refused["error"]
    assert "error" not in stage.ada.knows("edit_schedule", schedule_id="mine", task="shorten", args=["a text"])


def test_a_name_given_at_creation_stays_when_the_text_changes(stage: Stage) -> None:
    ada = stage.ada
    made = ada.knows("schedule", prompt="water the plants", name="plants", cron="0 9 * * *")
    assert made["name"] == "plants"
    unnamed = ada.knows("schedule", prompt="feed the cat", cron="0 9 * * *")["id"]
    for id, name in ((made["id"], "plants"), (unnamed, "look after it")):
        ada.knows("schedule_edit", id=id, prompt="look after it")
        assert found(stage, str(id)).definition.name == name
    told = ada.knows("schedule_notification", message="Tea is ready", notification_topic="home", delay="1h", name="tea")
    assert ada.knows("list_scheduled_notifications")["messages"][0]["name"] == "tea"
    ada.knows("edit_schedule", schedule_id="tea", message="Coffee is ready")
    assert found(stage, told["message_id"]).definition.name == "tea"
    assert ada.knows("delete_schedule", schedule_id="tea")["success"] is True


@pytest.mark.parametrize(
    ("kind", "given", "between", "both"),
    [
        (
            "job",
            {"fields": {"task": "echo | shorten(words=3)"}},
            Changes(payload={"task": "echo", "args": [2]}),
            ("shorten", '"args":[2]'),
        ),
        ("prompt", {"payload": {"prompt": "feed the cat"}}, Changes(name="renamed"), ("feed the cat", "renamed")),
        (
            "job",
            {"times": {"end": "2026-03-01"}},
            Changes(trigger_type="cron", trigger_config={"expression": "0 11 * * *"}),
            ("0 11 * * *", "2026-03-01"),
        ),
    ],
)
def test_a_change_in_between_is_not_undone(
    stage: Stage,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    given: dict[str, Any],
    between: Changes,
    both: tuple[str, str],
) -> None:
    """What an edit derives from what it has read is derived again."""
    id = make(stage, kind, name="water the plants")
    edits: list[Schedule] = []

    def meanwhile(_kind: KindHooks, caller: Caller, _schedule: Schedule, changes: Changes) -> Changes:
        if not edits:
            edits.append(stage.app.scheduler.edit(caller, id, between))
        return changes

    monkeypatch.setattr(type(stage.app.services.hooks(kind)), "adapt_edit", meanwhile)
    call = Call(stage.app.services, Caller("ada"), "UTC")
    after = edit(call, EditSchedule(schedule=id, **given)).value.schedule.definition
    assert after.version == 3 and all(text in str(after) for text in both)
    with pytest.raises(Conflict):
        edit(call, EditSchedule(schedule=id, version=2, **given))
