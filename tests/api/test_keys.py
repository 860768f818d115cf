"""A key identifies a schedule: the same key with other arguments changes it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime import Conflict, Duetime, InvalidInput, LimitReached, Registry, Settings, Simulation
from duetime.api import Schedule
from duetime.api import create as create_module
from duetime.service.operations import create as operations

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
registry = Registry()


@registry.task
def clean(what: str = "carts") -> str:
    """Clean up."""
    return what


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    postgres: str = request.getfixturevalue("clean_postgres_url") if request.param == "postgresql" else ""
    return postgres or str(tmp_path / "keys.db")


@pytest.fixture
def simulation(url: str) -> Iterator[Simulation]:
    with Simulation(START, settings=Settings(db=url, timezone="Europe/Berlin"), registry=registry) as simulation:
        yield simulation


def deploy(duetime: Duetime, **changes: Any) -> Schedule:
    return duetime.schedule(clean, **{"every": "1h", "key": "clean-up", **changes})


def policy_of(schedule: Schedule) -> dict[str, Any]:
    return schedule.policy or {}


def test_other_arguments_change_the_schedule(simulation: Simulation) -> None:
    duetime = simulation.duetime
    first = deploy(duetime, max_attempts=3, start="2026-03-02T10:00:00+01:00")
    simulation.advance(timedelta(hours=2))
    assert (runs := len(duetime.history(first.id)))
    second = deploy(duetime, every="2h", args=["files"], name="Files")
    assert (second.id, second.created, second.version) == (first.id, False, 2)
    assert (second.name, second.payload["args"]) == ("Files", ["files"])
    assert "2 hours" in second.reads_as and policy_of(second)["max_attempts"] == 1, "the default again"
    assert len(duetime.history(first.id)) == runs and len(duetime.schedules()) == 1
    again = deploy(duetime, every="2h", args=["files"], name="Files")
    warnings = {"warnings": again.warnings, "warning_codes": again.warning_codes}
    assert again.as_dict() == {**second.as_dict(), **warnings}
    back = deploy(duetime, max_attempts=3, start="2026-03-02T10:00:00+01:00")
    assert (back.version, policy_of(back)["max_attempts"]) == (3, 3)


def test_the_same_arguments_change_nothing_whatever_people_changed(simulation: Simulation) -> None:
    duetime = simulation.duetime
    first = deploy(duetime)
    duetime.edit(first.id, name="By hand", every="3h")
    assert deploy(duetime).name == "By hand"
    changed = deploy(duetime, args=["files"])
    assert changed.name == "clean" and "3 hours" not in changed.reads_as, "a new request is the whole truth"


def test_an_interval_keeps_its_times_if_only_the_rest_changes(simulation: Simulation) -> None:
    duetime = simulation.duetime
    first = deploy(duetime)
    simulation.advance(timedelta(minutes=20))
    assert deploy(duetime, args=["files"]).next_run == first.next_run
    moved = deploy(duetime, args=["files"], every="30m")
    assert moved.next_run != first.next_run


def once(duetime: Duetime, **changes: Any) -> str:
    return f"{deploy(duetime, every=None, **changes).next_run:%Y-%m-%dT%H:%M}"


def test_a_new_time_from_now_on_counts(simulation: Simulation) -> None:
    duetime = simulation.duetime
    assert once(duetime, delay="1h") == "2026-03-02T10:00"
    simulation.advance(timedelta(minutes=10))
    assert once(duetime, delay="1h") == "2026-03-02T10:00", "the same arguments change nothing"
    assert once(duetime, delay="1h", args=["files"]) == "2026-03-02T10:00", "the time is the same"
    assert once(duetime, delay="2h", args=["files"]) == "2026-03-02T11:10"
    simulation.advance(timedelta(minutes=10))
    assert once(duetime, delay="2h") == "2026-03-02T11:10", "the time is the same since the last change"
    assert once(duetime, at="2026-03-02T18:00") == "2026-03-02T18:00"
    assert once(duetime, delay="3h") == "2026-03-02T12:20"
    assert once(duetime, at="2026-03-02T18:00") == "2026-03-02T18:00"


def test_a_new_limit_from_now_on_counts(simulation: Simulation) -> None:
    duetime = simulation.duetime
    deploy(duetime, end="in 2 days")
    simulation.advance(timedelta(minutes=10))
    changed = deploy(duetime, end="in 3 days")
    assert changed.trigger["end"][:16] == "2026-03-05T09:10"
    assert deploy(duetime, end="in 3 days", args=["files"]).trigger["end"] == changed.trigger["end"]


def test_a_new_time_of_day_counts_on_a_later_day(simulation: Simulation) -> None:
    duetime = simulation.duetime
    deploy(duetime, every=None, when="every 2 weeks at 9:30")
    simulation.advance(timedelta(days=3))
    moved = deploy(duetime, every=None, when="every 2 weeks at 10:00")
    assert f"{moved.next_run:%H:%M}" == "10:00"
    simulation.advance(timedelta(days=20))
    before = duetime.get(moved.id).next_run
    assert deploy(duetime, every=None, when="every 2 weeks at 10:00", args=["files"]).next_run == before


def test_a_time_that_had_passed_when_the_schedule_was_created(simulation: Simulation) -> None:
    duetime = simulation.duetime
    simulation.advance(timedelta(hours=4))
    deploy(duetime, every=None, at="tomorrow at 18:00")
    simulation.advance(timedelta(hours=20))
    assert once(duetime, at="today at 10") == "2026-03-03T10:00"


@pytest.mark.parametrize("value", [{1: 2, "a": 3}, {(1, 2): 3}, object()])
def test_values_that_are_not_json_are_refused(simulation: Simulation, value: object) -> None:
    with pytest.raises(InvalidInput, match="JSON values only"):
        deploy(simulation.duetime, args=[value])


def test_a_phrase_that_is_no_text_is_refused(simulation: Simulation) -> None:
    with pytest.raises(InvalidInput, match="when: must be a text") as caught:
        deploy(simulation.duetime, every=None, when=5)
    assert caught.value.field == "when"


def test_the_zone_and_limits_of_a_rule(simulation: Simulation) -> None:
    duetime = simulation.duetime
    rule: dict[str, Any] = {"every": None, "cron": "0 9 * * *", "timezone": "Asia/Tokyo", "end": "2026-12-31"}
    deploy(duetime, **rule)
    without = deploy(duetime, every=None, cron="0 9 * * *")
    assert without.timezone == "Europe/Berlin" and without.trigger.get("end") is None


def test_a_pause_stays(simulation: Simulation) -> None:
    duetime = simulation.duetime
    first = deploy(duetime)
    duetime.pause(first.id)
    changed = deploy(duetime, every="2h")
    assert (changed.status, changed.version > 1) == ("paused", True)


def test_what_was_cancelled_stays_so_until_it_is_deleted(simulation: Simulation) -> None:
    duetime = simulation.duetime
    first = deploy(duetime)
    duetime.cancel(first.id)
    for changes in ({}, {"every": "2h"}):
        again = deploy(duetime, **changes)
        assert (again.id, again.status) == (first.id, "cancelled")
        assert "cancelled" in again.warning_codes
    duetime.delete(first.id)
    new = deploy(duetime, every="2h")
    assert new.created and new.id != first.id and new.status == "pending"


def test_what_has_ended_is_replaced(simulation: Simulation) -> None:
    duetime = simulation.duetime
    first = deploy(duetime, every=None, delay="1m")
    simulation.advance(timedelta(minutes=2))
    assert not deploy(duetime, every=None, delay="1m").created, "the same request is the same one-off"
    with pytest.raises(InvalidInput):
        deploy(duetime, every=None, delay="5m", kwargs={"unknown": 1})
    assert duetime.get(first.id).status == "completed", "a refused request replaces nothing"
    second = deploy(duetime, every=None, delay="5m")
    assert second.created and second.id != first.id
    assert [run.status for run in duetime.history(first.id)] == ["completed"], "the history stays"


def test_a_limit_that_refuses_the_new_one_deletes_nothing(url: str) -> None:
    settings = Settings(db=url, timezone="UTC", max_schedules=1)
    with Simulation(START, settings=settings, registry=registry) as simulation:
        first = deploy(simulation.duetime, every=None, delay="1m")
        simulation.advance(timedelta(minutes=2))
        other = deploy(simulation.duetime, key="other")
        with pytest.raises(LimitReached):
            deploy(simulation.duetime, every=None, delay="5m")
        assert simulation.duetime.get(first.id).status == "completed"
        other.cancel()
        assert deploy(simulation.duetime, every=None, delay="5m").created


def test_what_has_ended_is_not_followed_by_what_replaces_it(simulation: Simulation) -> None:
    first = deploy(simulation.duetime, every=None, delay="1m")
    simulation.advance(timedelta(minutes=2))
    with pytest.raises(InvalidInput, match="it would follow the ended schedule that it replaces"):
        deploy(simulation.duetime, every=None, after=first.id)
    assert simulation.duetime.get(first.id).id == first.id


def test_refusing(simulation: Simulation) -> None:
    duetime = simulation.duetime
    first = deploy(duetime)
    assert deploy(duetime, on_change="refuse").id == first.id
    with pytest.raises(Conflict, match="this key was used with other arguments") as caught:
        deploy(duetime, every="2h", on_change="refuse")
    assert caught.value.code == "key_reused" and duetime.get(first.id).version == 1
    with pytest.raises(InvalidInput, match="on_change: must be update or refuse"):
        deploy(duetime, on_change="replace")


def test_another_kind_has_the_key(simulation: Simulation) -> None:
    duetime = simulation.duetime
    deploy(duetime)
    with pytest.raises(Conflict) as caught:
        duetime.notify("Hello", "home", key="clean-up")
    assert caught.value.code == "key_reused"


def test_every_method(simulation: Simulation) -> None:
    duetime = simulation.duetime
    calls: tuple[Callable[[str], Schedule], ...] = (
        lambda text: duetime.prompt(text, every="1d", key="a", agent="inbox"),
        lambda text: duetime.notify(text, "home", every="1d", key="b"),
        lambda text: duetime.request("https://example.org", body=text, every="1d", key="c"),
        lambda text: duetime.create("job", {"task": "clean", "args": [text]}, every="1d", key="d"),
    )
    for call in calls:
        first, second = call("one"), call("two")
        assert (first.id, second.version) == (second.id, 2) and "two" in str(second.payload)


@pytest.mark.parametrize(("way", "value"), [("at", "whenever"), ("cron", "99 * * * *"), ("when", "every 99:00")])
def test_errors_name_the_argument(simulation: Simulation, way: str, value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        deploy(simulation.duetime, **{"every": None, way: value})
    assert caught.value.field == way and "run_at" not in str(caught.value)


def test_a_long_text_is_cut_in_the_name_with_a_sign_and_is_still_the_same_request(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Look at the log of the nightly run, say what failed and why it did so"
    ways: dict[str, Any] = {"every": "1h", "key": "look", "on_change": "refuse"}
    with monkeypatch.context() as earlier:
        earlier.setattr(create_module, "title_of", lambda kind, payload: text[:60])
        assert simulation.duetime.prompt(text, **ways).name.endswith("failed and why ")
    again = simulation.duetime.prompt(text, **ways)
    assert (again.created, again.name.endswith("failed and why ")) == (False, True)
    named = simulation.duetime.prompt(text, **{**ways, "key": "other"}).name
    assert named == "Look at the log of the nightly run, say what failed and why…"
    assert simulation.duetime.prompt("Look.", delay="1h").name == "Look."
    assert simulation.duetime.create_scheduled_task(text, START + timedelta(days=1)).prompt == text
    assert [each.name for each in simulation.duetime.schedules()].count(named) == 2


def test_errors_name_the_key(simulation: Simulation) -> None:
    with pytest.raises(InvalidInput, match="key: must not be empty") as caught:
        deploy(simulation.duetime, key="")
    assert caught.value.field == "key"


def test_two_processes_at_once(url: str) -> None:
    """Every deployment succeeds, and the schedule is as one of them said."""
    stores = [Duetime(settings=Settings(db=url, timezone="UTC"), registry=registry) for _ in range(4)]
    stores[0]._warned = True
    answers: list[Schedule] = []
    for turn in range(5):
        ready = threading.Barrier(len(stores))

        def run(place: int, ready: threading.Barrier = ready, turn: int = turn) -> None:
            ready.wait()
            answers.append(deploy(stores[place], args=[f"{turn}-{place}"]))

        for each in stores:
            each._warned = True
        threads = [threading.Thread(target=run, args=(place,)) for place in range(len(stores))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == len(stores) * (turn + 1)
    [schedule] = stores[0].schedules()
    assert {each.id for each in answers} == {schedule.id}
    assert schedule.payload["args"] in [[f"4-{place}"] for place in range(len(stores))]
    for each in stores:
        each.close()


def test_a_change_that_comes_between_is_not_lost(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update that was decided on an older version is decided again, however often that happens."""
    duetime = simulation.duetime
    first = deploy(duetime)
    calls: list[object] = []
    decide = operations.changes_to

    def decide_late(*args: Any) -> Any:
        changes = decide(*args)
        if len(calls) < 20:
            calls.append(duetime.edit(first.id, name=f"Between {len(calls)}"))
        return changes

    monkeypatch.setattr(operations, "changes_to", decide_late)
    changed = deploy(duetime, every="2h")
    assert (changed.version, changed.name) == (22, "clean")


def test_a_one_off_that_runs_is_named_and_replaced_once_it_is_over(url: str) -> None:
    began, may_end, tasks = threading.Event(), threading.Event(), Registry()

    @tasks.task
    def copy(what: str) -> str:
        began.set()
        assert may_end.wait(30)
        return what

    with Duetime(url, registry=tasks) as duetime:
        first = duetime.schedule(copy, at="now", key="copy", args=["old"])
        assert began.wait(30)
        with pytest.raises(Conflict, match=f"^{first.id} has this key and stays as it is: it is running") as refused:
            duetime.schedule(copy, at="now", key="copy", args=["new"])
        assert refused.value.code == "not_possible"
        may_end.set()
        first.wait(30)
        second = duetime.schedule(copy, at="now", key="copy", args=["new"])
        assert second.created and [each.result for each in second.wait(30).history()] == ["new"]
