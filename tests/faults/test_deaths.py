"""A process that dies in mid-run: its work goes on elsewhere, and a job that kills is kept from killing for ever."""

from __future__ import annotations

from collections import Counter

from duetime.engine.validation import NewSchedule
from duetime.stores.base import BaseStore
from tests.faults.conftest import LEASE, ONE_STORE
from tests.faults.test_stopped import wait_for_a_beat
from tests.support.workers import CLOCK, Crew, eventually

MARGIN = 2.0


def finished(team: Crew, number: int) -> bool:
    return sum(team.statuses()[status] for status in ("completed", "failed", "lost")) == number


NOT_BEGUN = "SELECT not_begun FROM workers WHERE id = (SELECT max(id) FROM workers)"


def is_in_line(team: Crew, name: str) -> bool:
    """Return whether the last beat of the newest worker says that it has the run of this name and has not begun it."""
    assert isinstance(team.app.store, BaseStore)
    listed = "".join(row[0] or "" for row in team.app.store._rows(NOT_BEGUN, ())).split(",")
    return any(str(run.id) in listed for run in team.runs(status="running") if run.name == name)


def test_the_runs_of_a_killed_worker_finish_elsewhere_within_its_lease_and_two_seconds(
    team: Crew,
) -> None:
    gate = team.gate()
    (victim,) = team.start(1)
    held = [f"held{number}" for number in range(6)]
    team.add("hold", held, gate=str(gate))
    once = ["once0", "once1"]
    team.add("hold", once, policy={"at_most_once": True}, gate=str(gate))
    eventually(lambda: len(team.events("begun")) == 8, 30, "the victim has everything in hand")
    wait_for_a_beat(team)  # it says that all of them have begun, so that its death counts for each
    team.start(3)
    team.add("mark", [f"k{number}" for number in range(200)])
    died = victim.kill()
    gate.touch()  # whoever begins from now on ends at once

    team.settled(LEASE + 30, 208)
    seconds = CLOCK.monotonic() - died
    print(f"after the kill, everything had ended within {seconds:.2f} s")  # noqa: T201 - a figure for the reader
    assert seconds <= LEASE + MARGIN

    runs = {run.name: run for run in team.runs()}
    assert {(runs[key].status, runs[key].deaths, team.count("begun")[key]) for key in held} == {("completed", 1, 2)}
    assert {(runs[key].status, team.count("begun")[key]) for key in once} == {("lost", 1)}, "at most once"
    assert Counter(run.status for name, run in runs.items() if name.startswith("k")) == {"completed": 200}
    team.check()


def test_a_killed_worker_loses_nothing_of_what_stood_in_line(team: Crew) -> None:
    """Killed at full speed: every occurrence was executed, and its outcome is recorded once."""
    workers = {worker.pid: worker for worker in team.start(4)}
    keys = [f"k{number}" for number in range(4_000)]
    team.add("mark", keys)
    first, *_ = eventually(lambda: team.events("ran"), 20, "a worker is at work")
    died = workers[first.pid].kill()  # any other one may find that nothing is left for it
    team.settled(90, 4_000)
    print(f"after the kill, 4,000 had ended within {CLOCK.monotonic() - died:.2f} s")  # noqa: T201 - as above
    executed = Counter(key.split("@")[0] for key in team.count("ran").elements())
    assert set(executed) == set(keys)
    runs = team.runs()
    assert len(runs) == 4_000
    assert {run.status for run in runs} == {"completed"}
    repeated = [key for key, number in executed.items() if number > 1]
    rescued = {run.name for run in runs if run.deaths}
    assert set(repeated) <= rescued, "only what a dead process held was run again"
    team.check()


@ONE_STORE
def test_a_job_that_kills_its_process_is_quarantined_and_its_neighbours_are_not(team: Crew) -> None:
    neighbours = [f"n{number}" for number in range(30)]
    gate, released = team.gate(), team.gate("released")
    killer = NewSchedule(
        "job", "killer", "interval", {"seconds": 3600, "start": "2026-01-01T00:00:00+00:00"},
        {"task": "die", "kwargs": {"key": "killer", "gate": str(gate)}},
    )  # fmt: skip
    (schedule,) = team.create([killer], ago=3600)
    team.add("hold", neighbours, gate=str(released))

    deaths = 0

    def is_begun() -> bool:
        return team.count("begun")["killer"] > deaths

    while True:
        (worker,) = team.start(1, lease=1.0)  # as a supervisor would
        eventually(lambda: is_begun() or finished(team, 1 + len(neighbours) + 1), 30, "it begins, or all is done")
        if not is_begun():
            break
        wait_for_a_beat(team)  # it says that the run has begun, so that the death counts
        gate.touch()
        assert worker.exit_code(30) is not None
        gate.unlink()
        released.touch()
        deaths += 1

    assert deaths == 3
    runs = {run.name: run for run in team.runs()}
    assert runs["killer"].status == "failed"
    assert runs["killer"].deaths == 3
    assert "quarantined" in str(runs["killer"].error)
    assert team.count("begun")["killer"] == 3
    found = team.app.store.get(schedule.definition.id)
    assert found is not None
    assert found.progress.state == "paused"
    assert "quarantined" in str(found.progress.note)
    assert runs.keys() - {"killer", *neighbours} == {"killer is paused"}, "and its owner hears of it"
    assert {runs[key].status for key in neighbours} == {"completed"}
    assert max(runs[key].deaths for key in neighbours) <= 1
    team.check()


@ONE_STORE
def test_a_run_that_never_began_is_not_quarantined_under_repeated_kills(team: Crew) -> None:
    """Each of three workers is killed with it in line, behind a run that keeps the only thread busy."""
    gate = team.gate()
    for life in range(3):
        team.add("hold", [f"busy{life}"], gate=str(gate), policy={"at_most_once": True})
        (worker,) = team.start(1, threads=1, lease=1.0, claims_ahead=True)
        eventually(lambda: team.count("begun")[f"busy{life}"], 30, "the thread is busy")  # noqa: B023 - at once
        if not life:
            team.add("hold", ["innocent"], gate=str(gate))
        eventually(lambda: is_in_line(team, "innocent"), 30, "a beat says that the innocent run is in line")
        worker.kill()
    team.start(1, threads=1, lease=1.0, wait=False)
    gate.touch()
    eventually(lambda: team.statuses()["completed"] + team.statuses()["failed"] == 1, 30, "it ends")
    runs = {run.name: run for run in team.runs()}
    assert (runs["innocent"].status, runs["innocent"].deaths) == ("completed", 1)
    assert team.count("begun")["innocent"] == 1
    assert [runs[f"busy{life}"].status for life in range(3)] == ["lost"] * 3
    team.check()
