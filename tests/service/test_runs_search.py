"""The search for runs by task, error and duration, the counts by status, and changes of all that match; on every
store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.model import RunStatus
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.registry import Registry
from duetime.service.operations import history as operation
from duetime.service.operations.change_runs import ChangeRuns, change_runs, plan_runs
from duetime.service.operations.history import (
    History,
    history,
    history_with_counts,
    history_with_facts,
    sum_counts,
)
from duetime.service.services import Call
from duetime.service.text import Count
from duetime.testing import Simulation

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Office(Simulation):
    """Hourly jobs of three tasks: `sync` fails until `up` is set, `report` takes a minute, and `echo` takes no time."""

    def __init__(self, url: str) -> None:
        self.registry = registry = Registry()
        self.up = False

        @registry.task
        def sync(token: str = "") -> None:
            if not self.up:
                raise ConnectionError(f"Connection 100% refused_by db, sent {token}")

        @registry.task
        def report() -> str:
            self.clock.move_to(Instant(self.clock.now() + 60 * SECOND))
            return "written"

        @registry.task
        def echo() -> str:
            return "hi"

        super().__init__(START, url=url, registry=registry)

    def job(self, task: str, **more: Any) -> str:
        return self.duetime.schedule(task, every=HOUR, name=task, max_attempts=1, pause_after=0, **more).id

    def call_of(self, owner: str, *, operator: bool = False) -> Call:
        return Call(self.duetime.app.services, Caller(owner, operator=operator), "UTC")

    @property
    def call(self) -> Call:
        return Call(self.duetime.app.services, self.duetime.caller, "UTC")

    def names(self, **given: Any) -> list[str]:
        return [run.name for run in history(self.call, History(limit=100, **given)).value.items]

    def counts(self, **given: Any) -> dict[str, str]:
        counts = history_with_counts(self.call, History(**given))[1]
        return {status: str(count) for status, count in counts.items() if count.number or not count.exact}


@pytest.fixture(params=["sqlite", "postgres"])
def office(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Office]:
    postgres = request.param == "postgres"
    there = Office(request.getfixturevalue("clean_postgres_url") if postgres else str(tmp_path / "my.db"))
    yield there
    there.close()


def test_runs_are_found_by_task_error_and_duration(office: Office) -> None:
    ids = {task: office.job(task) for task in ("sync", "report", "echo")}
    office.advance(2 * HOUR)
    assert sorted(office.names()) == ["echo", "echo", "report", "report", "sync", "sync"]
    assert office.names(task="report") == ["report"] * 2 and office.names(task="repor") == []
    assert office.names(error="CONNECTION 100% refused_by") == ["sync"] * 2
    assert office.names(error="connection 100_ refused%by") == [], "no character stands for others"
    assert office.names(longer_than="1m") == ["report"] * 2 and office.names(longer_than="61s") == []
    assert sorted(office.names(shorter_than="59s")) == ["echo", "echo", "sync", "sync"]
    assert sorted(office.names(shorter_than="0s", error="refused")) == ["sync", "sync"]
    assert office.names(longer_than="10s", shorter_than="1h", status="completed", since="2026-03-02T13:30:00") == [
        "report"
    ]
    assert office.names(schedule=ids["report"], longer_than="10s", task="report") == ["report"] * 2
    assert office.names(schedule=ids["echo"], task="report") == []
    for wrong in ({"longer_than": "soon"}, {"shorter_than": "-1s"}):
        with pytest.raises(InvalidInput) as refused:
            office.names(**wrong)
        assert refused.value.field == next(iter(wrong)), "the message names the argument"


def test_a_run_that_goes_on_is_as_long_as_it_has_run(office: Office) -> None:
    lists: list[list[str]] = []

    @office.registry.task
    def look() -> None:
        """Takes ten minutes, and looks for itself before it ends."""
        office.clock.move_to(Instant(office.clock.now() + 600 * SECOND))
        lists.append(office.names(longer_than="9m"))
        lists.append(office.names(longer_than="11m"))
        lists.append(office.names(shorter_than="11m"))

    office.job("look")
    office.advance(HOUR)
    assert lists == [["look"], [], []], "nobody knows yet how short it will be"
    assert office.names(longer_than="9m") == office.names(shorter_than="11m") == ["look"]


def test_no_secret_can_be_guessed_by_searching_for_it(office: Office) -> None:
    """Errors are stored without credentials, so that no search finds what no answer shows."""
    office.job("sync", kwargs={"token": "tk_live_5f2a9c71"})
    office.advance(HOUR)
    [run] = office.runs()
    assert run.error is not None and "sent ***" in run.error
    assert office.names(error="sent ***") == ["sync"]
    for guess in ("tk_live_5f2a9c71", "tk_", "5f2a"):
        assert office.names(error=guess) == []


def test_only_the_newest_runs_are_searched_and_that_is_said(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "SEARCHED", 3)
    id = office.job("sync", tagged=["nightly"])
    office.advance(5 * HOUR)
    for given, number in (
        ({"error": "refused"}, 3),
        ({"task": "sync"}, 3),
        ({"tagged": "nightly"}, 3),
        ({"tagged": "nightly", "status": "failed"}, 5),
        ({"shorter_than": "1h"}, 3),
        ({"error": "refused", "since": "2026-03-02"}, 5),
        ({"error": "refused", "schedule": id}, 5),
        ({"status": "failed"}, 5),
    ):
        answer = history(office.call, History(limit=100, **given))  # type: ignore[arg-type]
        assert len(answer.value.items) == number, given
        assert any("Only the newest" in note for note in answer.notes) == (number == 3), given
    assert office.counts(error="refused") == {"failed": "3"}


@pytest.mark.parametrize("searched", [12, 100_000])
def test_a_window_in_the_past_is_listed_and_counted(
    office: Office, monkeypatch: pytest.MonkeyPatch, searched: int
) -> None:
    """Whether or not its runs are among the newest, and whether its owner has most of the runs."""
    monkeypatch.setattr(operation, "SEARCHED", searched)
    monkeypatch.setattr(operation, "COUNTED_TO", 6)
    new = NewSchedule("job", "ada's", "interval", {"hours": 1}, {"task": "echo"})
    office.duetime.app.scheduler.create(Caller("ada"), new)
    office.job("echo")
    office.job("sync")
    office.advance(9 * HOUR)
    window = History(since="2026-03-02T13:30:00", until="2026-03-02T15:30:00")
    for owner, names in (("local", ["echo", "echo", "sync", "sync"]), ("ada", ["ada's", "ada's"])):
        page, counts = history_with_counts(office.call_of(owner), window)
        assert sorted(run.name for run in page.value.items) == names
        assert counts["completed"] == Count(2, exact=searched > 12 or owner == "ada")
        assert counts["failed"] == Count(names.count("sync"))
    past = replace(window, since=None, task="sync")
    assert len(history(office.call_of("local"), past).value.items) == 3, "the newest before the end"
    nothing = history(office.call_of("local"), replace(past, status="completed")).notes[-1]
    assert ("Nothing ran" in nothing) == ("Those with other statuses: 3 failed" not in nothing) and "3" in nothing
    everything = history(office.call_of("root", operator=True), History(until="2026-03-02T13:30:00"))
    assert sorted(run.name for run in everything.value.items) == ["ada's", "echo", "sync"]


def test_a_change_says_that_only_the_newest_runs_are_searched(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "SEARCHED", 3)
    id = office.job("sync")
    office.advance(5 * HOUR)
    ids = [run.id for run in office.runs()]
    for given, number in (
        ({"error": "refused"}, 3),
        ({"error": "refused", "schedule": id}, 5),
        ({"status": "failed"}, 5),
        ({"ids": ids, "error": "refused"}, 5),
    ):
        request = ChangeRuns(action="resolve", dry_run=True, **given)
        answer = change_runs(office.call, request)
        assert len(answer.value.done) == number, given
        assert any("Only the newest" in note for note in answer.notes) == (number == 3), given
    answer = change_runs(office.call, ChangeRuns(action="resolve", error="refused"))
    assert len(answer.value.done) == 3 and any("Only the newest" in note for note in answer.notes)


@pytest.mark.parametrize("status", [None, "failed", "skipped"])
@pytest.mark.parametrize("order", [("echo", "sync"), ("sync", "echo")])
def test_a_rare_status_is_counted_among_very_many_runs(
    office: Office, monkeypatch: pytest.MonkeyPatch, order: tuple[str, str], status: str | None
) -> None:
    """Whatever status is selected, and although the first runs that are counted all completed, or all failed: a store
    counts its runs in any order."""
    monkeypatch.setattr(operation, "COUNTED", 3)
    for task in order:
        office.job(task, max_runs={"echo": 9, "sync": 5}[task])
        office.advance(10 * HOUR)
    answer, facts = history_with_facts(office.call, History(status=status))
    counts = facts["counts"]
    assert counts["failed"] == 5 and 0 <= counts["completed"] <= 3 and len(counts) == 2
    assert facts["counts_at_least"] == ["completed"], "there may be more"
    if status == "skipped":
        assert f"{counts['completed']}+ completed, 5 failed" in answer.notes[-1]
    monkeypatch.setattr(operation, "COUNTED_TO", 4)
    facts = history_with_facts(office.call, History(status=status))[1]
    assert facts["counts"]["failed"] == 4 and sorted(facts["counts_at_least"]) == ["completed", "failed"]
    monkeypatch.setattr(operation, "COUNTED", 1_000)
    facts = history_with_facts(office.call, History(status=status))[1]
    assert facts["counts"] == {"completed": 9, "failed": 5} and "counts_at_least" not in facts


def test_the_newest_runs_are_those_of_the_owner(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "SEARCHED", 3)
    new = NewSchedule("job", "ada's", "interval", {"hours": 10}, {"task": "sync"})
    office.duetime.app.scheduler.create(Caller("ada"), new)
    office.advance(10 * HOUR)
    office.job("sync")
    office.advance(5 * HOUR)
    mine = history(office.call_of("ada"), History(error="refused"))
    assert [run.name for run in mine.value.items] == ["ada's"], "runs of others do not push hers out of the search"
    assert history(office.call_of("bob"), History(error="refused")).value.items == []
    with pytest.raises(DuetimeError, match="operator"):
        history(office.call_of("bob"), History(error="refused", owner="ada"))
    everything = history(office.call_of("root", operator=True), History(error="refused", owner="ada"))
    assert [run.name for run in everything.value.items] == ["ada's"]
    assert all(count == Count(0) for count in history_with_counts(office.call_of("bob"), History())[1].values())


def test_every_status_is_counted_up_to_a_bound(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    office.job("sync")
    office.job("echo")
    office.advance(3 * HOUR)
    office.duetime.run_now(office.job("report"))
    assert office.counts() == {"failed": "3", "completed": "3", "pending": "1"}
    assert office.counts(status="failed", task="echo") == {"completed": "3"}, "whatever status is chosen"
    monkeypatch.setattr(operation, "COUNTED_TO", 2)
    assert office.counts() == {"failed": "2+", "completed": "2+", "pending": "1"}
    answer, counts = history_with_counts(office.call, History(status="missed", error="refused"))
    assert answer.value.items == [] and counts["failed"] == Count(2, exact=False)
    monkeypatch.setattr(operation, "COUNTED_TO", 3)
    assert office.counts() == {"failed": "3", "completed": "3", "pending": "1"}
    monkeypatch.setattr(operation, "SEARCHED", 2)
    assert office.counts()["completed"].endswith("+"), "older ones were not looked at"
    assert str(sum_counts([Count(2), Count(2)])) == "3+" and str(sum_counts([Count(2)])) == "2"
    assert sum_counts([]) == Count(0)


def test_all_that_match_are_retried(office: Office) -> None:
    office.job("sync")
    office.advance(3 * HOUR)
    office.job("echo")
    office.advance(HOUR)
    request = ChangeRuns(action="retry", error="refused")
    [planned] = plan_runs(office.call, request)
    assert (planned.newest.name, planned.number, planned.retried, planned.recurs) == ("sync", 4, 1, True)
    assert change_runs(office.call, replace(request, dry_run=True)).value.done == [planned.newest.id]
    office.up = True
    dealt = change_runs(office.call, request).value
    assert len(dealt.done) == 1 and dealt.refused == [], "of a recurring schedule, only the newest"
    office.settle()
    assert office.counts() == {"failed": "3", "completed": "2"}
    dealt = change_runs(office.call, replace(request, every_run=True)).value
    office.settle()
    assert len(dealt.done) == 3 and office.counts() == {"completed": "5"}
    assert plan_runs(office.call, request) == []
    for action in ("retry", "stop", "resolve"):
        assert plan_runs(office.call, ChangeRuns(action=action, ids=dealt.done)) == [], "they have completed by now"


def test_what_was_resolved_or_cancelled_is_not_retried_by_chance(office: Office) -> None:
    office.job("sync")
    office.advance(2 * HOUR)
    report = office.job("report")
    waiting = office.duetime.run_now(report).run_id
    with pytest.raises(DuetimeError, match="give numbers of runs, a filter such as status, or everything"):
        change_runs(office.call, ChangeRuns(action="stop"))
    everything = ChangeRuns(action="stop", everything=True)
    assert change_runs(office.call, replace(everything, dry_run=True)).value.done == [waiting]
    assert office.counts()["pending"] == "1", "nothing was changed"
    assert change_runs(office.call, everything).value.done == [waiting]
    assert office.counts() == {"failed": "2", "cancelled": "1"}
    older = office.runs()[0].id
    assert change_runs(office.call, ChangeRuns(action="resolve", ids=[older])).value.done == [older]
    assert [each.number for each in plan_runs(office.call, ChangeRuns(action="retry"))] == [1]
    [cancelled] = plan_runs(office.call, ChangeRuns(action="retry", status="cancelled"))
    assert cancelled.newest.id == waiting
    both = plan_runs(office.call, ChangeRuns(action="retry", status="failed,cancelled"))
    assert sorted(each.newest.name for each in both) == ["report", "sync"]
    assert plan_runs(office.call, ChangeRuns(action="retry", status="completed")) == []
    assert len(change_runs(office.call, ChangeRuns(action="resolve", status="failed")).value.done) == 1
    assert plan_runs(office.call, ChangeRuns(action="resolve")) == []


def test_many_runs_are_stopped_whatever_they_wait_for(office: Office) -> None:
    """Stopping one that is active would start the next one in the queue."""
    id = office.job("report", overlap="queue", queue_limit=50)
    ids = [office.duetime.run_now(id).run_id for _ in range(30)]
    [planned] = plan_runs(office.call, ChangeRuns(action="stop", task="report"))
    assert (planned.number, planned.retried) == (30, 30)
    dealt = change_runs(office.call, ChangeRuns(action="stop", task="report")).value
    assert sorted(dealt.done) == ids and dealt.refused == []
    office.settle()
    assert {run.status for run in office.runs()} == {RunStatus.CANCELLED}
    assert office.duetime.get(id).status == "pending", "its schedule goes on"


def test_nobody_changes_the_runs_of_others(office: Office) -> None:
    office.job("sync")
    office.advance(HOUR)
    [run] = office.runs()
    bob = office.call_of("bob")
    for action in ("retry", "stop", "resolve"):
        assert plan_runs(bob, ChangeRuns(action=action)) == []
        with pytest.raises(DuetimeError, match="no such run"):
            change_runs(bob, ChangeRuns(action=action, ids=[run.id]))
    agent = Call(office.duetime.app.services, Caller("local", depth=1), "UTC")
    with pytest.raises(DuetimeError, match="an agent's run cannot retry many runs"):
        change_runs(agent, ChangeRuns(action="retry"))
