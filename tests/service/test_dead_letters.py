"""Dead letters: grouped into problems, and retried in order whatever the overlap policy, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import Refused
from duetime.engine.model import Run
from duetime.kinds.jobs.registry import Registry
from duetime.service.operations import dead_letters
from duetime.service.operations.dead_letters import (
    ChangeDeadLetters,
    Dealt,
    ListDeadLetters,
    change_dead,
    find_dead,
    group,
    plan_retry,
)
from duetime.service.services import Call
from duetime.testing import Simulation

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
POLICIES: dict[str, dict[str, Any]] = {
    "skips": {"overlap": "skip"},
    "queues": {"overlap": "queue", "queue_limit": 1},
    "overlaps": {"overlap": "allow"},
    "paused": {"overlap": "skip"},
}


class Outage(Simulation):
    """Hourly jobs that fail as long as `down` is true."""

    def __init__(self, url: str) -> None:
        registry = Registry()
        self.down = True

        @registry.task
        def work() -> None:
            self.clock.move_to(Instant(self.clock.now() + SECOND))  # so that what runs later starts later
            if self.down:
                raise ConnectionError(f"no answer after {self.clock.now() % 977} ms")

        super().__init__(START, url=url, registry=registry)

    def job(self, name: str, **policy: Any) -> str:
        made = self.duetime.schedule("work", every=HOUR, name=name, max_attempts=1, pause_after=0, **policy)
        return made.id

    def dead(self, **asked: Any) -> list[Run]:
        return find_dead(self.call, ListDeadLetters(**asked))

    @property
    def call(self) -> Call:
        return Call(self.duetime.app.services, self.duetime.caller, self.duetime.zone)

    def change(self, action: Any = "retry", *, every_run: bool = True, **asked: Any) -> Dealt:
        return change_dead(self.call, ChangeDeadLetters(action=action, every_run=every_run, **asked)).value


@pytest.fixture(params=["sqlite", "postgres"])
def outage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Outage]:
    postgres = request.param == "postgres"
    there = Outage(request.getfixturevalue("clean_postgres_url") if postgres else str(tmp_path / "my.db"))
    yield there
    there.close()


def test_after_an_outage_all_are_retried_in_order(outage: Outage) -> None:
    ids = {name: outage.job(name, **policy) for name, policy in POLICIES.items()}
    outage.advance(12 * HOUR)
    outage.duetime.pause(ids["paused"])
    assert (len(outage.dead()), len(group(outage.dead()))) == (48, 4), "times in an error do not tell problems apart"
    assert [run.name for run in outage.dead(text="QUEUE")] == ["queues"] * 12
    outage.down = False
    dealt = outage.change()
    assert (len(dealt.done), dealt.refused, outage.dead()) == (48, [], [])
    outage.settle()
    runs = outage.runs()
    assert {run.status for run in runs} == {"completed"}, "the queued runs of a paused schedule ran too"
    for name in POLICIES:
        mine = [run for run in runs if run.name == name]
        assert sorted(mine, key=lambda run: (run.started, run.id)) == sorted(mine, key=lambda run: run.due)
    outage.duetime.resume(ids["paused"])
    outage.advance(HOUR)
    assert len(outage.runs()) > len(runs), "the schedules go on"


def test_only_the_newest_run_of_a_recurring_schedule_is_retried_unless_all_are_asked_for(outage: Outage) -> None:
    ids = [outage.job(name) for name in ("often", "resting", "over")]
    outage.duetime.schedule("work", at=START + 2 * HOUR, name="invoice", max_attempts=1)
    outage.advance(5 * HOUR)
    outage.duetime.pause(ids[1])
    outage.duetime.cancel(ids[2])
    newest = {run.name: run.id for run in reversed(outage.dead())}
    planned = plan_retry(outage.call, ChangeDeadLetters(action="retry"))
    assert {(each.newest.name, each.number, each.is_paused, each.retried) for each in planned} == {
        ("often", 5, False, 1), ("resting", 5, True, 1), ("over", 5, False, 0), ("invoice", 1, False, 1),
    }  # fmt: skip
    assert all(each.newest.id == newest[each.newest.name] for each in planned)
    dealt = outage.change(every_run=False)
    assert set(dealt.done) == {newest[name] for name in ("often", "resting", "invoice")}
    assert len(dealt.refused) == 1, "that of what was cancelled"
    outage.down = False
    outage.settle()
    assert len(outage.dead()) == 13
    assert [run.name for run in outage.duetime.dead_letters.retry_all(text="often")] == ["often"]
    assert len(outage.duetime.dead_letters.retry_all(text="often", every_run=True)) == 3


def test_all_means_all_however_many_there_are(outage: Outage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "MAX_NAMED", 5)
    monkeypatch.setattr(dead_letters, "_PAGE", 7)
    for name in ("skips", "queues"):
        outage.job(name, **POLICIES[name])
    outage.advance(15 * HOUR)
    parts: list[float] = []
    assert len(outage.dead()) == 5, "a page shows the newest"
    dismissed = change_dead(outage.call, ChangeDeadLetters(action="dismiss"), parts.append).value
    assert len(dismissed.done) == 30 and dismissed.done == sorted(dismissed.done, key=lambda id: (id - 1) // 7) != []
    assert parts == sorted(parts) and (len(parts), parts[-1]) == (5, 1.0)
    assert len(outage.change("restore").done) == 30
    assert len(outage.change("retry", text="queue").done) == 15 and outage.down
    outage.settle()
    assert len(outage.change("retry").done) == 30, "what failed again is dead again"
    outage.down = False
    outage.settle()
    assert {run.status for run in outage.runs()} == {"completed"}


def test_a_pause_parks_retried_runs_until_the_resume(outage: Outage) -> None:
    id = outage.job("skips")
    outage.advance(5 * HOUR)
    outage.down = False
    outage.change()
    outage.duetime.pause(id)
    outage.settle()
    assert sorted(run.status for run in outage.runs()) == ["pending"] + ["queued"] * 4
    outage.duetime.resume(id)
    outage.settle()
    assert {run.status for run in outage.runs()} == {"completed"}


def test_what_is_refused_is_counted_by_its_reason(outage: Outage) -> None:
    first, second, third = (outage.job(name) for name in ("first", "second", "third"))
    outage.advance(2 * HOUR)
    outage.duetime.cancel(first)
    outage.duetime.delete(second)
    dealt = outage.change()
    assert sorted(dealt.done) == sorted(run.id for run in outage.runs() if run.name == "third")
    assert sorted(dealt.reasons()) == ["2 runs: the schedule was cancelled", "2 runs: the schedule was deleted"]
    [letter] = [each for each in group(outage.dead()) if each.latest.name == "first"]
    assert len(outage.change("dismiss", groups=[letter.key]).done) == 2
    assert {run.name for run in outage.dead()} == {"second"}
    assert {run.name for run in outage.dead(dismissed=True)} == {"first"}
    assert len(outage.change("restore", groups=[letter.key]).done) == 2 and len(outage.dead()) == 4
    assert len(outage.change("dismiss", text="FIRST").done) == 2 and outage.change("restore", text="second").done == []
    assert outage.change(ids=[dealt.done[0]]).reasons() == ["1 run: it is pending, so it cannot be retried"]
    outage.duetime.delete(third)


def test_an_agents_run_changes_none_of_them(outage: Outage) -> None:
    outage.job("work")
    outage.advance(2 * HOUR)
    agent = outage.duetime.caller._replace(depth=1, operator=False)
    for action in ("retry", "dismiss"):
        with pytest.raises(Refused) as refusal:
            change_dead(outage.call._replace(caller=agent), ChangeDeadLetters(action=action))
        assert refusal.value.code == "run_token"
    assert len(outage.dead()) == 2
