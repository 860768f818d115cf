"""Every operation from Python, with the types that an editor shows, on a real worker in this process."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any, assert_type, get_type_hints

import pytest

from duetime import Duetime, DuetimeError, Run, Schedule
from duetime.engine.policy.options import Policy
from duetime.service.answers import ServerStatus
from duetime.service.options import TIME_LIMITS, PolicyOptions, TimeOptions
from duetime.service.when import WAYS
from duetime.settings import Settings
from tests.support.receiver import Receiver
from tests.support.tasks import LATER, PATIENCE, tasks


def opened(path: Path, owner: str = "local") -> Duetime:
    settings = Settings(
        db=str(path / "my.db"), timezone="UTC", threads=4, smallest_interval=0.01, allowed_hosts=("127.0.0.1",)
    )
    return Duetime(settings=settings, registry=tasks(), owner=owner)


@pytest.fixture
def duetime(tmp_path: Path) -> Iterator[Duetime]:
    """Started: what is due fires."""
    with opened(tmp_path) as started:
        yield started


# -- creating ----------------------------------------------------------------------------------------------------------


def test_a_job_runs_and_its_result_can_be_read(duetime: Duetime) -> None:
    job = duetime.schedule("shout", args=["tea"], every=0.05, max_runs=2)
    assert_type(job, Schedule)
    over = duetime.wait(job.id, PATIENCE)
    assert_type(over, Schedule)
    assert (over.status, over.run_count, over.kind) == ("completed", 2, "job")
    assert [run.result for run in duetime.history(job.id)] == ["TEA", "TEA"]


def test_a_prompt_is_taken_and_finished(duetime: Duetime) -> None:
    prompt = duetime.prompt("Name three birds", agent="inbox")
    assert duetime.take_prompt("nobody") is None
    due = duetime.take_prompt(wait=PATIENCE)
    assert due is not None
    assert (str(due.id), due.prompt) == (prompt.id, "Name three birds")
    with pytest.raises(DuetimeError, match="not both"):
        duetime.finish_prompt(due.run_id, "robin", error="none found")
    run = duetime.finish_prompt(due.run_id, ["robin", "wren"], hold=due.hold)
    assert (run.status, run.result) == ("completed", ["robin", "wren"])
    assert duetime.get(prompt.id).status == "completed"


def test_a_prompt_that_could_not_be_done_failed(duetime: Duetime) -> None:
    prompt = duetime.prompt("Name three dragons", agent="inbox", max_attempts=1)
    due = duetime.take_prompt(wait=PATIENCE)
    assert due is not None
    duetime.finish_prompt(due.run_id, error="there are none")
    found = duetime.get(prompt.id)
    assert (found.status, found.last_error) == ("failed", "there are none")


def test_a_notification_arrives_in_the_inbox(duetime: Duetime) -> None:
    made = duetime.notify("Water the plants", "home", title="Garden", priority=4, tags=["herb"])
    assert duetime.wait(made.id, PATIENCE).status == "completed"
    (message,) = duetime.inbox.messages("home")
    assert (message.message, message.title, message.schedule) == ("Water the plants", "Garden", made.id)
    assert duetime.inbox.messages("elsewhere") == []


@pytest.mark.socket
def test_a_request_is_sent(duetime: Duetime) -> None:
    with Receiver() as receiver:
        made = duetime.request(f"{receiver.url}/hook", headers={"X-Tea": "green"}, body=b"\xff\x00", timeout="30s")
        (received,) = receiver.wait_for(1, PATIENCE)
        assert duetime.wait(made.id, PATIENCE).status == "completed"
    assert (received.body, received.headers["x-tea"]) == (b"\xff\x00", "green")
    assert made.payload["timeout"] == 30


def test_durations_are_given_in_any_form_and_shown_in_seconds(duetime: Duetime) -> None:
    job = duetime.schedule(
        "shout", at=LATER, timeout=timedelta(minutes=2), backoff="1m30s", backoff_limit=600, grace=0.5
    )
    policy = job.policy or {}
    assert [policy[f"{name}_seconds"] for name in ("timeout", "backoff", "backoff_limit", "grace")] == [
        120, 90, 600, 0.5,
    ]  # fmt: skip
    with pytest.raises(DuetimeError, match="timeout: must be a timedelta, seconds, or a text"):
        duetime.schedule("shout", at=LATER, timeout=[3])  # type: ignore[arg-type]
    assert len(duetime.schedules()) == 1, "a refusal leaves nothing behind"


def test_an_option_that_does_not_exist_is_refused(duetime: Duetime) -> None:
    with pytest.raises(DuetimeError, match="colour: there is no such option; choose from after, alert, at, "):
        duetime.schedule("shout", at=LATER, colour="red")  # type: ignore[call-arg]
    job = duetime.schedule("shout", at=LATER)
    with pytest.raises(DuetimeError, match="there is no colour; choose from after, alert, at, "):
        duetime.edit(job.id, colour="red")  # type: ignore[call-arg]


def test_a_key_returns_what_it_created(duetime: Duetime) -> None:
    first = duetime.notify("tea", "home", at=LATER, key="tea")
    again = duetime.notify("tea", "home", at=LATER, key="tea")
    assert (first.created, again.created, again.id) == (True, False, first.id)


def test_a_preview_creates_nothing(duetime: Duetime) -> None:
    shown = duetime.preview(2, cron="0 9 * * *", timezone="Europe/Berlin", start=LATER)
    assert shown.reads_as.startswith("every day at 09:00 (Europe/Berlin)")
    assert [str(each.local) for each in shown.next] == ["2100-01-02 09:00:00+01:00", "2100-01-03 09:00:00+01:00"]
    assert [each.utc.tzname() for each in shown.next] == ["UTC", "UTC"]
    assert duetime.schedules() == []


# -- managing ----------------------------------------------------------------------------------------------------------


def made_of_every_kind(duetime: Duetime) -> dict[str, Schedule]:
    return {
        "job": duetime.schedule("shout", cron="0 9 * * *"),
        "prompt": duetime.prompt("Name three birds", agent="inbox", cron="0 9 * * *"),
        "notification": duetime.notify("Water the plants", "home", cron="0 9 * * *"),
        "request": duetime.request("https://hooks.example.org/tea", cron="0 9 * * *"),
    }


def test_every_kind_can_be_found_listed_changed_and_stopped(duetime: Duetime) -> None:
    for kind, made in made_of_every_kind(duetime).items():
        id = made.id
        found = duetime.find(id)
        assert found is not None and found.kind == kind
        listed = duetime.schedules(kind=kind)
        assert_type(listed, list[Schedule])
        assert [each.id for each in listed] == [id]
        edited = duetime.edit(id, name="Renamed", cron="30 10 * * *", timezone="Europe/Berlin", max_runs=5)
        assert (edited.name, edited.max_runs, edited.timezone) == ("Renamed", 5, "Europe/Berlin")
        assert edited.trigger["expression"] == "30 10 * * *"
        assert duetime.edit(id, payload=edited.payload).payload == made.payload
        assert duetime.pause(id).status == "paused"
        assert duetime.resume(id).status == "pending"
        assert duetime.cancel(id).status == "cancelled"
        duetime.delete(id)
        assert duetime.find(id) is None
        with pytest.raises(DuetimeError, match="there is no schedule"):
            duetime.edit(id, name="gone")


def test_the_next_run_alone_is_moved(duetime: Duetime) -> None:
    job = duetime.schedule("shout", cron="0 9 * * *")
    moved = duetime.edit(job.id, next=LATER)
    assert (moved.next_run, moved.reads_as) == (LATER, job.reads_as)


def test_a_one_off_that_is_moved_with_another_limit_has_one_time(duetime: Duetime) -> None:
    job = duetime.schedule("shout", at="2099-01-01T09:00:00Z")
    moved = duetime.edit(job.id, at=LATER, jitter=60)
    assert (moved.trigger["run_at"][:16], moved.next_run) == ("2100-01-01T09:00", LATER)


def test_a_zone_without_times_is_refused(duetime: Duetime) -> None:
    job = duetime.schedule("shout", cron="0 9 * * *")
    with pytest.raises(DuetimeError, match="timezone: requires new times"):
        duetime.edit(job.id, timezone="Europe/Berlin")


def test_an_edit_of_an_old_version_is_refused(duetime: Duetime) -> None:
    job = duetime.schedule("shout", cron="0 9 * * *")
    duetime.edit(job.id, name="first")
    with pytest.raises(DuetimeError):
        duetime.edit(job.id, name="second", version=job.version)
    assert duetime.get(job.id).name == "first"


def test_single_fields_of_the_payload_are_changed(duetime: Duetime) -> None:
    made = duetime.notify("Water the plants", "home", title="Garden", cron="0 9 * * *")
    edited = duetime.edit(made.id, fields={"message": "Water the roses"})
    assert edited.payload == {"message": "Water the roses", "topic": "home", "title": "Garden"}
    assert not edited.running
    with pytest.raises(DuetimeError, match="give one of the two"):
        duetime.edit(made.id, fields={"message": "tea"}, payload={"message": "tea", "topic": "home"})


def test_new_times_apply_from_a_time_on(duetime: Duetime) -> None:
    job = duetime.schedule("shout", cron="0 9 * * *", timezone="UTC")
    duetime.edit(job.id, cron="0 17 * * *", starting=LATER)
    assert duetime.get(job.id).next_run == job.next_run


def test_a_name_is_as_good_as_an_id_if_only_one_has_it(duetime: Duetime) -> None:
    job = duetime.schedule("shout", name="nightly", at=LATER)
    assert duetime.get("Nightly").id == job.id
    assert duetime.run_now("nightly", wait=PATIENCE).result == "TEA"
    assert len(duetime.history("nightly")) == 1
    duetime.schedule("shout", name="nightly", at=LATER)
    with pytest.raises(DuetimeError, match="could mean 2 schedules; give the id of one of these"):
        duetime.find("nightly")


def test_a_pause_has_an_end_and_a_reason(duetime: Duetime) -> None:
    job = duetime.schedule("shout", cron="0 9 * * *")
    paused = duetime.pause(job.id, until=LATER, note="holidays")
    assert (paused.status, paused.note) == ("paused", "holidays")
    assert paused.paused_until == LATER
    assert str(paused.falls_into_pause).startswith("It is skipped at least 1,000 times in the pause, the first at 20")
    with pytest.raises(DuetimeError, match="until: it is in the past"):
        duetime.pause(job.id, until="2001-01-01")


def test_many_are_changed_in_one_call(duetime: Duetime) -> None:
    made = made_of_every_kind(duetime)
    assert len(duetime.change_many("pause", everything=True, dry_run=True).matched) == len(made)
    assert duetime.schedules("paused") == []
    assert duetime.change_many("pause", [each.id for each in made.values()]).changed == len(made)
    assert duetime.change_many("resume", kind="job").changed == 1
    for final in ("cancel", "delete"):
        with pytest.raises(DuetimeError, match="expected_count"):
            duetime.change_many(final, everything=True)
    assert duetime.change_many("delete", everything=True, expected_count=len(made)).changed == len(made)
    assert duetime.schedules() == []


def test_what_fires_next_is_listed_across_kinds(duetime: Duetime) -> None:
    duetime.notify("second", "home", at="in 2 hours")
    duetime.schedule("shout", at="in 1 hour")
    duetime.notify("much later", "home", at=LATER)
    coming = duetime.upcoming(until="in 3 hours")
    assert [(each.kind, each.name) for each in coming.upcoming] == [
        ("job", "shout"), ("notification", "second"),
    ]  # fmt: skip


def test_what_fires_next_says_what_it_leaves_out(duetime: Duetime) -> None:
    for number in (1, 2, 3):
        duetime.notify(f"message {number}", "home", at=f"in {number} hours")
    cut = duetime.upcoming(count=2)
    assert ([each.name for each in cut.upcoming], cut.more) == (["message 1", "message 2"], True)
    assert duetime.upcoming(kind="job").upcoming == duetime.upcoming(topic="work").upcoming == []
    assert len(duetime.upcoming(start="in 90 minutes").upcoming) == 2


def test_the_status_tells_what_is_set_up(duetime: Duetime) -> None:
    status = duetime.server_status()
    assert (status.timezone, status.server["stays_up"]) == ("UTC", True)
    assert [each["code"] for each in status.warnings] == ["no_channel"]
    assert ServerStatus.__annotations__.keys() - {"executors"} == status.as_dict().keys(), "no executor is set up"


def test_lists_are_filtered_and_limited(duetime: Duetime) -> None:
    for number in range(3):
        duetime.notify(f"message {number}", "home", at=LATER)
    duetime.notify("another", "work", at=LATER)
    assert [each.name for each in duetime.schedules(subject="work")] == ["another"]
    assert len(duetime.schedules(text="message")) == 3
    assert len(duetime.schedules(limit=2)) == 2
    assert duetime.schedules("paused") == []


def test_workers_are_listed(duetime: Duetime) -> None:
    (worker,) = duetime.workers()
    assert worker.alive and "job" in worker.lanes


def test_another_owner_sees_and_changes_nothing(duetime: Duetime, tmp_path: Path) -> None:
    made = duetime.schedule("shout", cron="0 9 * * *")
    run = duetime.run_now(made.id, wait=PATIENCE)
    other = opened(tmp_path, "ben")
    try:
        assert (other.find(made.id), other.schedules(), other.history(), other.inbox.messages()) == (None, [], [], [])
        for change in (
            other.pause,
            other.resume,
            other.cancel,
            other.delete,
            other.run_now,
            other.stop_runs,
            other.history,
        ):
            with pytest.raises(DuetimeError, match="there is no"):
                change(made.id)
        for of_run in (other.run, other.retry, other.cancel_run, other.dead_letters.dismiss, other.wait_for_run):
            with pytest.raises(DuetimeError, match="there is no such run"):
                of_run(run.run_id)
    finally:
        other.close()


# -- runs --------------------------------------------------------------------------------------------------------------


def test_a_run_now_is_waited_for(duetime: Duetime) -> None:
    job = duetime.schedule("shout", at=LATER, args=["now"])
    run = duetime.run_now(job.id, wait=PATIENCE)
    assert_type(run, Run)
    assert (run.status, run.result, run.cause) == ("completed", "NOW", "manual")
    assert duetime.get(job.id).next_run == LATER


def test_waiting_ends_when_the_time_has_passed(tmp_path: Path) -> None:
    idle = opened(tmp_path)
    with pytest.warns(UserWarning, match="nothing fires yet"):
        job = idle.schedule("shout", at=LATER)
    assert idle.run_now(job.id, wait=0.1).status == "pending"
    assert idle.wait(job.id, 0.1).status == "running"
    assert idle.take_prompt(wait=0.1) is None
    idle.close()


def test_a_failed_run_is_a_dead_letter_until_it_is_retried_or_dismissed(duetime: Duetime) -> None:
    job = duetime.schedule("fail", at=LATER)
    run = duetime.run_now(job.id, wait=PATIENCE)
    assert run.error is not None and "the kettle is broken" in run.error
    assert [each.run_id for each in duetime.dead_letters.runs()] == [run.run_id]
    assert [each.run_id for each in duetime.history(status="failed", kind="job")] == [run.run_id]
    assert duetime.history(until="2 days ago") == []
    duetime.retry(run.run_id)
    again = duetime.wait_for_run(run.run_id, PATIENCE)
    assert again.status == "failed"
    assert [each.status for each in duetime.run(run.run_id).attempts] == ["failed"]
    duetime.dead_letters.dismiss(run.run_id)
    assert duetime.dead_letters.runs() == []


def test_all_dead_letters_that_were_changed_are_returned(duetime: Duetime, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [duetime.run_now(duetime.schedule("fail", at=LATER).id, wait=PATIENCE).run_id for _ in range(3)]
    monkeypatch.setattr("duetime.engine.queries.PAGE_BYTES", 100)  # less than one run
    assert sorted(each.run_id for each in duetime.dead_letters.dismiss_all()) == sorted(runs)


def test_a_run_tells_whom_it_was_reported_to(duetime: Duetime) -> None:
    job = duetime.schedule("shout", at=LATER, deliver_to="home")
    run = duetime.run_now(job.id, wait=PATIENCE)
    (delivery,) = duetime.run(run.run_id).deliveries
    assert delivery.topic == "home"
    assert duetime.wait(delivery.message_id, PATIENCE).status == "completed"


def test_one_run_is_stopped_and_its_schedule_goes_on(duetime: Duetime) -> None:
    prompt = duetime.prompt("Name three birds", agent="inbox", cron="0 9 * * *")
    run = duetime.run_now(prompt.id)
    duetime.cancel_run(run.run_id)
    assert duetime.wait_for_run(run.run_id, PATIENCE).status == "cancelled"
    assert duetime.get(prompt.id).status == "pending"


def test_the_history_outlives_its_schedule(duetime: Duetime) -> None:
    job = duetime.schedule("shout", at="now")
    duetime.wait(job.id, PATIENCE)
    duetime.delete(job.id)
    assert [run.status for run in duetime.history(job.id)] == ["completed"]


# -- living together ---------------------------------------------------------------------------------------------------


FOREVER = """
import signal
from duetime import Duetime
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
duetime = Duetime("my.db")
duetime.notify("tea", "home")
print("ready", flush=True)
duetime.run_forever()
print([each.message for each in duetime.inbox.messages()], flush=True)
duetime.close()
"""


@pytest.mark.process
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_script_runs_until_it_is_told_to_stop(tmp_path: Path, stop: signal.Signals) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FOREVER]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            watching = opened(tmp_path)
            (made,) = watching.schedules()
            assert watching.wait(made.id, PATIENCE).status == "completed"
            watching.close()
            os.kill(process.pid, stop)
            assert process.stdout.readline() == "['tea']\n"
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def test_options_are_those_of_the_engine() -> None:
    assert PolicyOptions.__annotations__.keys() == {each.name for each in fields(Policy)} - {"callbacks", "needs"}
    assert TimeOptions.__annotations__.keys() == {*WAYS, *TIME_LIMITS, "timezone"}


def test_every_method_says_what_it_returns() -> None:
    methods = inspect.getmembers(Duetime, lambda each: inspect.isfunction(each) and not each.__name__.startswith("_"))
    assert len(methods) > 30
    for name, method in methods:
        returned = get_type_hints(method, localns={"FrameType": object}).get("return", Any)
        assert returned is not Any and returned != dict[str, Any], name
        assert method.__doc__ or name.endswith("_scheduled_task"), f"{name} has no docstring"
