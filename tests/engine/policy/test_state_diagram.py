"""Holds docs/state-diagram.md to the code: every drawn move happens, and no other one does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.model import Run, RunId
from duetime.engine.outcome import Completed, Failed
from duetime.engine.policy import checkout
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.registry import Registry
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import Simulation

pytestmark = pytest.mark.filterwarnings("ignore::duetime.api.NotStartedWarning")

DIAGRAM = Path(__file__).parents[3] / "docs" / "state-diagram.md"
START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
Moves = set[tuple[str, str]]

_RECORD = """
CREATE TEMP TABLE moves (what TEXT, before TEXT, after TEXT, UNIQUE (what, before, after));
CREATE TEMP TRIGGER run_made AFTER INSERT ON main.runs
  BEGIN INSERT OR IGNORE INTO moves VALUES ('run', '[*]', new.status); END;
CREATE TEMP TRIGGER run_moved AFTER UPDATE OF status ON main.runs WHEN old.status <> new.status
  BEGIN INSERT OR IGNORE INTO moves VALUES ('run', old.status, new.status); END;
CREATE TEMP TRIGGER schedule_made AFTER INSERT ON main.progress
  BEGIN INSERT OR IGNORE INTO moves VALUES ('schedule', '[*]', new.state); END;
CREATE TEMP TRIGGER schedule_moved AFTER UPDATE OF state ON main.progress WHEN old.state <> new.state
  BEGIN INSERT OR IGNORE INTO moves VALUES ('schedule', old.state, new.state); END;
"""


def drawn(heading: str) -> Moves:
    section = DIAGRAM.read_text(encoding="utf-8").split(f"## {heading}")[1].split("```")[1]
    return set(re.findall(r"^\s*(\S+) --> (\w+):", section, re.MULTILINE))


class Stage:
    """A simulation in which a test decides how the task ends."""

    def __init__(self) -> None:
        registry = Registry()
        self.fails = 0

        @registry.task
        def work() -> None:
            if self.fails:
                self.fails -= 1
                raise ValueError("as asked")

        self.simulation = Simulation(START, registry=registry)
        self.duetime = self.simulation.duetime
        store = self.duetime.app.store
        assert isinstance(store, SqliteStore)
        self.connection: apsw.Connection = store._writer
        self.connection.execute(_RECORD)

    def moves(self, what: str) -> Moves:
        rows: list[Any] = self.connection.execute("SELECT before, after FROM moves WHERE what = ?", (what,)).fetchall()
        return {(before, after) for before, after in rows}

    def job(self, **trigger: Any) -> str:
        return str(self.duetime.schedule("work", **(trigger or {"every": HOUR})).id)

    def prompt(self, **policy: Any) -> str:
        new = NewSchedule("prompt", "look", "interval", {"hours": 1}, {"prompt": "look"}, policy)
        made = self.duetime.scheduler.create(self.duetime.caller, new)
        return made.definition.public_id

    def advance(self, by: timedelta = HOUR) -> None:
        self.simulation.advance(by)

    def be_away(self, by: timedelta) -> None:
        clock = self.simulation.clock
        clock.move_to(Instant(clock.now() + by // timedelta(microseconds=1)))

    def latest_run(self) -> RunId:
        return self.simulation.runs()[-1].id

    def take(self) -> Run:
        now = self.simulation.clock.now()
        run = next(row.id for row in self.simulation.runs() if row.status == "waiting")
        expires = Instant(now + 60 * SECOND)
        store = self.duetime.app.store
        return store.change_run(run, now, lambda change, row: checkout.hold(change, row, "agent", expires))

    def finish(self, outcome: Completed | Failed) -> None:
        run = self.take()
        hold, now = checkout.hold_of(run), self.simulation.clock.now()
        store = self.duetime.app.store
        store.change_run(run.id, now, lambda change, row: checkout.finish(change, row, "agent", outcome, hold))


def end_and_begin_again(stage: Stage) -> None:
    stage.fails = 1
    job = stage.job(at=START + HOUR)
    stage.advance()
    stage.duetime.scheduler.retry(stage.duetime.caller, stage.latest_run())
    stage.advance()
    stage.duetime.run_now(job)
    stage.duetime.cancel(job)
    stage.duetime.delete(job)


def retry_by_itself(stage: Stage) -> None:
    stage.fails = 1
    job = str(stage.duetime.schedule("work", every=HOUR, max_attempts=2).id)
    stage.advance(2 * HOUR)
    stage.duetime.delete(job)


def miss_and_queue(stage: Stage) -> None:
    stage.duetime.schedule("work", every=HOUR, catch_up="all", catch_up_limit=2)
    stage.be_away(5 * HOUR)
    stage.simulation.settle()


def skip_and_cancel(stage: Stage) -> None:
    first, second = stage.prompt(untaken="keep"), stage.prompt(overlap="queue", untaken="keep")
    stage.prompt()
    stage.advance(3 * HOUR)
    stage.duetime.cancel(first)
    stage.duetime.cancel(second)


def pause_and_resume(stage: Stage) -> None:
    for ending in (stage.duetime.resume, stage.duetime.cancel, stage.duetime.delete):
        job = stage.job()
        stage.duetime.pause(job)
        ending(job)
    job = stage.job(at=START + 50 * HOUR, catch_up="skip")
    stage.duetime.pause(job)
    stage.advance(60 * HOUR)
    stage.duetime.resume(job)
    stage.duetime.delete(job)


def break_and_mend(stage: Stage) -> None:
    for mend in (stage.duetime.resume, stage.duetime.cancel, stage.duetime.delete):
        for recurring in (True, False):
            job = stage.job() if recurring else stage.job(at=stage.simulation.now + HOUR, catch_up="skip")
            good = stage.connection.execute("SELECT trigger FROM schedules WHERE public_id = ?", (job,)).fetchall()
            stage.connection.execute("UPDATE schedules SET trigger = '{}' WHERE public_id = ?", (job,))
            stage.advance(2 * HOUR)
            stage.connection.execute("UPDATE schedules SET trigger = ? WHERE public_id = ?", (good[0][0], job))
            mend(job)


def wait_for_an_agent(stage: Stage) -> None:
    stage.prompt(max_attempts=2)
    stage.advance()
    stage.finish(Failed("not now"))
    stage.advance()
    stage.finish(Completed())
    stage.advance()
    stage.finish(Failed("never", permanent=True))


def die_with_work_in_hand(stage: Stage) -> None:
    stage.duetime.schedule("work", at=START + HOUR, at_most_once=True)
    stage.be_away(HOUR)
    stage.simulation.crash()
    stage.advance()
    stage.duetime.scheduler.retry(stage.duetime.caller, stage.latest_run())
    stage.duetime.schedule("work", at=stage.simulation.now + HOUR)
    stage.advance(timedelta(minutes=59))
    stage.be_away(timedelta(minutes=1))
    for _ in range(3):
        stage.simulation.crash()
        stage.advance(timedelta(seconds=11))


def stop_a_running_one(stage: Stage) -> None:
    job = stage.job()
    stage.be_away(HOUR)
    stage.simulation.crash()
    stage.duetime.cancel(job)
    stage.advance()
    again = stage.job()
    stage.advance()
    stage.duetime.cancel(again)
    stopped = [run.id for run in stage.simulation.runs() if run.status == "cancelled"]
    assert stopped, "the running job was asked to stop and ended so"


def retry_what_was_cancelled(stage: Stage) -> None:
    job = stage.prompt()
    stage.advance()
    scheduler, caller = stage.duetime.scheduler, stage.duetime.caller
    scheduler.cancel_run(caller, stage.latest_run())
    scheduler.retry(caller, stage.latest_run())
    stage.duetime.delete(job)


def retry_behind_another_run(stage: Stage) -> None:
    stage.fails = 3
    stage.job()
    stage.advance(3 * HOUR)
    scheduler, caller = stage.duetime.scheduler, stage.duetime.caller
    for run in stage.simulation.runs():
        scheduler.retry(caller, run.id)
    job = stage.prompt(overlap="queue", untaken="keep")
    stage.advance(3 * HOUR)
    [_, queued, *_] = [run.id for run in stage.simulation.runs() if run.status in ("waiting", "queued")]
    scheduler.cancel_run(caller, queued)
    scheduler.retry(caller, queued)
    stage.duetime.delete(job)
    lost = str(stage.duetime.schedule("work", every=HOUR, at_most_once=True).id)
    stage.be_away(HOUR)
    stage.simulation.crash()
    stage.advance(timedelta(minutes=1))
    [died] = [run.id for run in stage.simulation.runs() if run.status == "lost"]
    stage.duetime.run_now(lost)
    scheduler.retry(caller, died)


SCENES: list[Callable[[Stage], None]] = [
    end_and_begin_again,
    retry_by_itself,
    miss_and_queue,
    skip_and_cancel,
    pause_and_resume,
    break_and_mend,
    wait_for_an_agent,
    die_with_work_in_hand,
    stop_a_running_one,
    retry_what_was_cancelled,
    retry_behind_another_run,
]


@pytest.fixture(scope="module")
def observed() -> Iterator[dict[str, Moves]]:
    found: dict[str, Moves] = {"run": set(), "schedule": set()}
    for scene in SCENES:
        stage = Stage()
        scene(stage)
        for what in found:
            found[what] |= stage.moves(what)
        stage.simulation.close()
    yield found


@pytest.mark.parametrize(("what", "heading"), [("run", "A run"), ("schedule", "A schedule")])
def test_the_drawn_moves_are_the_moves_that_happen(observed: dict[str, Moves], what: str, heading: str) -> None:
    assert observed[what] - drawn(heading) == set(), "moves that are not drawn"
    assert drawn(heading) - observed[what] == set(), "drawn moves that never happen"
