"""A change that a gate saw leads to one successful run, at whatever step of the run a process dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from duetime.engine.clock import DAY, MINUTE, Instant
from duetime.engine.policy import changes
from duetime.engine.validation import NewSchedule
from duetime.stores.base import BaseStore
from tests.support.drafts import T0
from tests.support.dying import AFTER, BEFORE, Death, open_quietly
from tests.support.gate_deaths import POLLS, Deadly, poll_until_death
from tests.support.gate_world import GateWorld
from tests.support.hand import runs_of
from tests.support.invariants import invariants
from tests.support.size import FULL
from tests.support.workers import CLOCK, Crew, eventually, is_killed


@pytest.fixture
def store(store_url: str) -> Iterator[BaseStore]:
    opened = open_quietly(store_url)
    opened.migrate()
    yield opened
    invariants(opened)
    opened.close()


@pytest.mark.later
def test_each_change_succeeds_once_wherever_a_process_dies(store: BaseStore, store_url: str, tmp_path: Path) -> None:
    """Before and after each commit: of the claims, of what the gate gave, which precedes the work, and of the outcomes,
    which follow it. What is stored before a commit is what is stored after the one before, but before an outcome, the
    work is done."""
    deaths = Counter[str]()
    for commit in range(1, 100):
        survived = False
        for side in (BEFORE, AFTER) if FULL or commit % 3 else (BEFORE,):
            now = T0 + DAY * (2 * commit + (side == AFTER))
            schedule = GateWorld(store, now=now, pause_after=0).schedule
            folder = tmp_path / f"{side}{commit}"
            folder.mkdir()
            died = is_killed(store, poll_until_death, store_url, now, schedule, Death(commit, side), str(folder))
            begun, worked = folder / "begun", folder / "worked"
            first = int(begun.read_text(encoding="utf-8")) if begun.exists() else 0
            unheard = len(worked.read_text(encoding="utf-8").split()) if worked.exists() else 0
            unheard -= sum(run.status in ("completed", "failed") for run in runs_of(store, schedule))
            world = Deadly(store, now + first * MINUTE, schedule, folder)
            for _ in world.live(POLLS, first):
                pass
            ends = [(run.status, world.gift(run)) for run in world.runs() if run.status != "skipped"]
            assert ends == [("completed", "b"), ("failed", "c"), ("completed", "c")], (commit, side)
            assert len(worked.read_text(encoding="utf-8").split()) == 3 + unheard, (commit, side)
            deaths[f"{side}, {unheard} unheard"] += died
            survived = not died
            store.change(schedule, Instant(now + DAY), changes.cancel)
        if survived:
            break
    assert deaths[f"{BEFORE}, 1 unheard"] >= 3, "each work was done once more"
    assert deaths.total() >= 20, deaths


STEPS = ("looks", "begins", "ends", "recorded")
"""Where each schedule is when the worker is killed: in its gate, before and after its work, and after its record."""


def test_each_change_succeeds_once_although_workers_are_killed(team: Crew) -> None:
    """All steps at once, each in another schedule: workers with all of their threads, killed from outside."""
    schedules = dict(zip(STEPS, team.create([_watching(team, key) for key in STEPS]), strict=True))

    def ended(status: str) -> Counter[str]:
        names = {schedule.definition.id: key for key, schedule in schedules.items()}
        return Counter(names[run.schedule] for run in team.runs() if run.status == status for _ in range(run.number))

    def fire(page: str) -> None:
        for key, schedule in schedules.items():
            team.gate(key).write_text(page, encoding="utf-8")
            team.app.store.change(schedule.definition.id, CLOCK.now(), changes.fire)

    def all_have(number: int, status: str) -> None:
        everything = Counter(dict.fromkeys(STEPS, number))
        eventually(lambda: ended(status) == everything, 60, f"each is {status} {number} times")

    (worker,) = team.start()
    fire("0")
    all_have(1, "skipped")  # the first look
    for number in range(1, 11 if FULL else 2):
        stops = [team.gate(f"{key}.{key}") for key in STEPS[:-1]]
        for stop in stops:
            stop.touch()
        said = {key: team.count(key)[key] for key in STEPS[:-1]}
        fire(str(number))
        for key, before in said.items():
            eventually(lambda: team.count(key)[key] > before, 30, f"it stops where it {key}")  # noqa: B023 - at once
        eventually(lambda: ended("completed")["recorded"] == number, 30, "one is recorded")  # noqa: B023 - as above
        worker.kill()
        for stop in stops:
            stop.unlink()
        (worker,) = team.start()
        all_have(number, "completed")
        fire(str(number))
        all_have(number + 1, "skipped")  # nothing has changed since
        ran = {key: team.count("ran")[f"{key}@{number}"] for key in STEPS}
        assert ran == {"looks": 1, "begins": 1, "ends": 2, "recorded": 1}, "what nobody heard of was done again"
    assert set(team.statuses()) == {"completed", "skipped"}
    team.check()


def _watching(team: Crew, key: str) -> NewSchedule:
    payload = {"task": "use", "kwargs": {"key": key, "folder": str(team.folder)}}
    policy = {"only_if": f"look('{key}', '{team.folder}') | changed()", "alert": "off"}
    return NewSchedule("job", key, "interval", {"hours": 1}, payload, policy)
