"""What the Python API returns: frozen values with real types, and what can be done with a schedule."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import FrozenInstanceError, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import UnionType
from typing import Any, assert_type, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo

import pytest

from duetime import Duetime, InvalidInput, Message, Run, Schedule, Settings
from duetime.api.types import RunList, RunReport
from duetime.service.answers import ANSWERS, Value
from tests.support.tasks import PATIENCE, tasks

BERLIN = ZoneInfo("Europe/Berlin")
LATER = datetime(2100, 7, 1, 9, tzinfo=UTC)
NAIVE = datetime(2100, 7, 1, 9)
NINE_IN_BERLIN = NAIVE.replace(tzinfo=BERLIN)


def opened(path: Path) -> Duetime:
    settings = Settings(db=str(path / "my.db"), timezone="America/New_York", threads=4, smallest_interval=0.01)
    return Duetime(settings=settings, registry=tasks())


@pytest.fixture
def duetime(tmp_path: Path) -> Iterator[Duetime]:
    with opened(tmp_path) as started:
        yield started


def check_types(value: Value) -> None:
    """Check each attribute against its declared type, so that no text passes for a time."""
    hints = get_type_hints(type(value))
    for each in fields(value):  # type: ignore[arg-type]
        hint, found = hints[each.name], getattr(value, each.name)
        if hint is Any:
            continue
        parts = get_args(hint) if get_origin(hint) is UnionType else (hint,)
        assert type(found) in {get_origin(part) or part for part in parts}, f"{type(value)}.{each.name}: {found!r}"


def test_attributes_have_their_declared_types(duetime: Duetime) -> None:
    job = duetime.schedule("shout", cron="0 9 * * *", timezone="Europe/Berlin", max_runs=5)
    run = job.run_now(wait=PATIENCE)
    duetime.notify("tea", "home").wait(PATIENCE)
    details = duetime.run(run.run_id)
    assert_type(job, Schedule)
    assert_type(run, Run)
    assert_type(details, RunReport)
    (message,) = duetime.inbox.messages()
    assert_type(message, Message)
    values = [job, job.refresh(), job.pause(until="in 2 days"), run, details, message]
    values += [duetime.preview(cron="0 9 * * *"), *duetime.workers(), duetime.server_status()]
    values += [*duetime.upcoming(include_paused=True).upcoming, *job.history()]
    for value in values:
        check_types(value)
    assert {type(each).__name__ for each in values} >= {"Schedule", "Run", "Message", "Preview", "Occurrence"}


def test_times_are_in_the_zone_of_the_settings(duetime: Duetime) -> None:
    job = duetime.schedule("shout", at=NINE_IN_BERLIN)
    assert job.next_run == NINE_IN_BERLIN and job.next_run is not None
    assert (job.next_run.tzinfo, f"{job.next_run:%H:%M}") == (ZoneInfo("America/New_York"), "03:00")
    assert job.next_run + timedelta(days=180) > job.created_at


def test_values_are_frozen_and_equal_by_value(duetime: Duetime) -> None:
    job = duetime.schedule("shout", at=LATER)
    with pytest.raises(FrozenInstanceError):
        job.name = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="colour"):
        job.colour  # type: ignore[attr-defined]  # noqa: B018
    assert job.refresh() == duetime.get(job.id) != job, "the answer to the create says that it is new"


def test_values_are_copied_and_pickled(duetime: Duetime) -> None:
    job = duetime.schedule("shout", at=LATER)
    run = job.run_now(wait=PATIENCE)
    for again in (copy.copy(run), copy.deepcopy(run), pickle.loads(pickle.dumps(run))):  # noqa: S301
        assert again == run and again.as_dict() == run.as_dict()
    kept = pickle.loads(pickle.dumps(job))  # noqa: S301
    assert (kept.next_run, kept.as_dict()) == (LATER, job.as_dict()), "without methods, which need the store"


def test_what_is_shown_of_a_value_contains_no_payload(duetime: Duetime) -> None:
    request = duetime.request("https://example.org/", headers={"Authorization": "Bearer secret"}, at=LATER)
    assert request.payload["headers"] == {"Authorization": "Bearer secret"}, "a program may have to send it back"
    assert repr(request).startswith(f"Schedule(id={request.id!r}, name=") and "secret" not in repr(request)


def test_plain_data_is_what_the_http_api_answers(duetime: Duetime) -> None:
    job = duetime.schedule("shout", at=LATER, key="tea")
    plain = job.as_dict()
    assert (plain["next_run"], plain["created"]) == ("2100-07-01T05:00:00-04:00", True)
    assert json.loads(json.dumps(plain)) == plain
    plain["name"] = "changed"
    assert job.as_dict()["name"] == "shout", "each call returns a dictionary of its own"
    assert set(plain) == {each.name for each in fields(Schedule)} - {"falls_into_pause", "notes", "running"}


def test_every_answer_is_described_field_by_field() -> None:
    from reference.docstrings import field_docs, own_fields

    for answer in ANSWERS:
        assert not set(own_fields(answer)) - field_docs(answer).keys(), answer


# -- what can be done with a schedule ----------------------------------------------------------------------------------


def test_a_schedule_is_changed_step_by_step(duetime: Duetime) -> None:
    job = duetime.schedule("shout", cron="0 9 * * *")
    assert job.created and job.warnings == [] and job.limits == {"max_attempts": 1}
    edited = job.edit(name="Tea", max_runs=5)
    assert (edited.name, edited.max_runs, edited.version, job.name) == ("Tea", 5, 2, "shout")
    paused = job.pause(until="in 2 days", note="holidays")
    assert (paused.status, paused.note, paused.next_run) == ("paused", "holidays", None)
    assert (paused.falls_into_pause or "").startswith("It is skipped 2 times")
    assert (resumed := job.resume()).status == "pending" and resumed.limits["max_runs"] == 5
    run = job.run_now()
    assert run.warnings == [] and job.wait(0.0).status in ("pending", "running")
    assert duetime.wait_for_run(run.run_id, PATIENCE).ended
    assert [each.run_id for each in job.history(status="completed")] == [run.run_id]
    assert (job.cancel().status, job.refresh().status) == ("cancelled", "cancelled")
    assert job.delete().id == job.id and duetime.find(job.id) is None


def test_a_history_says_what_it_understood_and_counted(duetime: Duetime) -> None:
    job = duetime.schedule("shout", cron="0 9 * * *")
    run = job.run_now(wait=PATIENCE)
    runs = job.history(status="completed", since="yesterday", until=run.due.date().isoformat())
    assert_type(runs, RunList)
    assert [each.run_id for each in runs] == [run.run_id] and runs.counts == {"completed": 1} and runs.notes == []
    assert runs.since is not None and runs.until is not None and runs.since.tzinfo == ZoneInfo("America/New_York")
    assert runs.since < run.due < runs.until and (runs.until.hour, runs.until.minute) == (23, 59)
    failed = duetime.history(status="failed")
    assert failed == [] and failed.counts == {"completed": 1}, "whatever status is selected"
    assert failed.since is failed.until is None and "1 completed" in failed.notes[0]
    for same in (copy.copy(runs), pickle.loads(pickle.dumps(runs))):  # noqa: S301  its own
        assert (len(same), same.counts, same.until) == (1, runs.counts, runs.until)


def test_runs_of_a_schedule_are_stopped(duetime: Duetime) -> None:
    prompt = duetime.prompt("Name three birds", agent="inbox", cron="0 9 * * *")
    run = prompt.run_now()
    assert [each.run_id for each in prompt.stop()] == [run.run_id]
    assert duetime.wait_for_run(run.run_id, PATIENCE).status == "cancelled"
    assert prompt.refresh().status == "pending"


def test_a_missed_range_has_numbers(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as idle, pytest.warns(UserWarning):
        run = idle.schedule("shout", at=LATER).run_now()
        assert (run.occurrences, run.at_least, run.last, run.ended, run.notes) == (None, None, None, None, [])
        assert run.warnings and run.warning_codes == ["no_worker"]


# -- times without a zone ----------------------------------------------------------------------------------------------


def test_naive_times_are_in_the_zone_of_the_schedule(duetime: Duetime) -> None:
    job = duetime.schedule("shout", cron="0 9 * * *", timezone="Europe/Berlin")
    assert job.pause(until=NAIVE).paused_until == NINE_IN_BERLIN
    assert duetime.pause(job.id, until=NAIVE).paused_until == NINE_IN_BERLIN
    job.resume()
    assert job.edit(next=NAIVE).next_run == NINE_IN_BERLIN
    assert job.edit(at=NAIVE).next_run == NINE_IN_BERLIN
    assert job.edit(start=NAIVE).trigger["start"] == "2100-07-01T03:00:00-04:00"
    job.edit(cron="0 10 * * *", starting=NAIVE - timedelta(hours=1))
    once = duetime.schedule("shout", at=NAIVE, timezone="Europe/Berlin")
    assert once.next_run == NINE_IN_BERLIN
    assert once.edit(at=NAIVE, timezone="UTC").next_run == NAIVE.replace(tzinfo=UTC), "a new zone is that of its times"
    assert once.edit(timezone="UTC", at=LATER).next_run == LATER


def test_naive_times_without_a_schedule_are_in_the_zone_of_the_settings(duetime: Duetime) -> None:
    job = duetime.schedule("shout", at=NINE_IN_BERLIN, timezone="Europe/Berlin")
    three = NAIVE.replace(hour=3)
    assert [each.id for each in duetime.upcoming(start=three, until=three).upcoming] == [job.id]
    assert duetime.upcoming(start=NAIVE).upcoming == []
    assert duetime.list_scheduled_tasks(from_=NAIVE) == []
    run = job.run_now(wait=PATIENCE)
    due = run.due.astimezone(BERLIN).replace(tzinfo=None)
    assert [each.run_id for each in job.history(since=due, until=due)] == [run.run_id], (
        "those of a schedule in its zone"
    )
    assert duetime.history(since=due) == [], "noon in Berlin is early in New York"


def test_a_scheduled_task_is_moved_in_its_own_zone(duetime: Duetime) -> None:
    prompt = duetime.prompt("Name three birds", agent="inbox", at=LATER, timezone="Europe/Berlin")
    assert duetime.update_scheduled_task(int(prompt.id), fire_at=NAIVE) == 1
    assert [task.fire_at for task in duetime.list_scheduled_tasks()] == [NINE_IN_BERLIN]


@pytest.mark.parametrize("time", [5, 5.0, ["tomorrow"]])
def test_what_is_no_time_is_refused(duetime: Duetime, time: Any) -> None:
    job = duetime.schedule("shout", at=LATER)
    calls: dict[str, Callable[[], object]] = {
        "until": lambda: job.pause(until=time),
        "since": lambda: job.history(since=time),
        "start": lambda: duetime.upcoming(start=time),
        "starting": lambda: job.edit(cron="0 9 * * *", starting=time),
    }
    for field, call in calls.items():
        with pytest.raises(InvalidInput, match="must be a datetime, or a text such as") as caught:
            call()
        assert caught.value.field == field


def test_naive_times_are_in_the_zone_that_an_edit_names(duetime: Duetime) -> None:
    job = duetime.schedule("shout", cron="0 9 * * *", timezone="Asia/Tokyo")
    edited = job.edit(cron="0 * * * *", timezone="Europe/Berlin", next=NAIVE)
    assert edited.next_run == NINE_IN_BERLIN
    job = duetime.schedule("shout", cron="0 9 * * *", timezone="Asia/Tokyo")
    changing = job.edit(cron="0 10 * * *", timezone="Europe/Berlin", starting=NAIVE)
    assert datetime.fromisoformat(changing.trigger["changes"]) == NINE_IN_BERLIN


def test_naive_times_at_a_clock_change(duetime: Duetime) -> None:
    """The second one of two equal times has `fold`; the first one is told, like a time that clocks skip."""
    zone: Any = {"timezone": "Europe/Berlin"}
    first, lost = datetime(2099, 10, 25, 2, 30), datetime(2099, 3, 29, 2, 30)
    second = first.replace(fold=1)
    at_first = first.replace(tzinfo=BERLIN).astimezone(UTC)
    job = duetime.schedule("shout", at=second, **zone)
    edits = [job.edit(at=LATER).edit(**given) for given in ({"at": second}, {"next": second}, {"at": second, **zone})]
    for each in (job, *edits):
        assert each.next_run == at_first + timedelta(hours=1) and "time" not in each.warning_codes
    assert [each.utc for each in duetime.preview(at=second, **zone).next] == [at_first + timedelta(hours=1)]
    assert job.pause(until=second).paused_until == at_first + timedelta(hours=1)
    for time, words in ((first, "comes twice"), (lost, "clocks go forward")):
        for edited in (job.edit(at=time), job.edit(next=time), job.edit(at=time, **zone)):
            assert words in edited.warnings[edited.warning_codes.index("time")]


def test_naive_times_are_in_the_zone_of_each_of_many_schedules(duetime: Duetime) -> None:
    zones = ["Europe/Berlin", "Asia/Tokyo"]
    jobs = [duetime.schedule("shout", cron="0 9 * * *", timezone=zone) for zone in zones]
    ends = [NAIVE.replace(tzinfo=ZoneInfo(zone)) for zone in zones]
    change = duetime.change_many("pause", [each.id for each in jobs], until=NAIVE)
    assert [each.refresh().paused_until for each in jobs] == ends
    assert [datetime.fromisoformat(row["paused_until"]) for row in change.matched] == ends
    with pytest.raises(InvalidInput, match="until: must be a datetime") as refused:
        duetime.change_many("pause", [jobs[0].id], until=5)  # type: ignore[arg-type]
    assert refused.value.field == "until"
