"""A worker that is asked to stop: what runs ends, what has not begun goes back, and nothing is lost."""

from __future__ import annotations

from tests.faults.conftest import ONE_STORE
from tests.support.workers import Crew, eventually


def test_running_work_ends_and_unstarted_work_is_given_back(team: Crew) -> None:
    gate = team.gate()
    (worker,) = team.start(1, threads=2, drain=20.0, claims_ahead=True)
    team.add("hold", ["busy0", "busy1"], gate=str(gate))
    eventually(lambda: len(team.events("begun")) == 2, 30, "its threads are busy")
    in_line = [f"line{number}" for number in range(20)]
    team.add("mark", in_line)
    eventually(lambda: len(team.runs(status="running")) == 22, 30, "it has claimed what it has no thread for")

    worker.terminating()
    eventually(lambda: len(team.runs(status="running")) == 2, 15, "what was not started is given back at once")
    assert {(run.attempt, run.deaths) for run in team.runs(status="pending")} == {(0, 0)}
    gate.touch()
    assert worker.left() == 0
    runs = {run.name: run for run in team.runs()}
    assert {runs[key].status for key in ("busy0", "busy1")} == {"completed"}
    assert {runs[key].status for key in in_line} == {"pending"}
    assert team.app.store.workers() == [], "it signed off"

    team.start(1)
    team.settled(30, 22)
    assert {(run.status, run.attempt) for run in team.runs()} == {("completed", 1)}
    assert {number for key, number in team.count("ran").items()} == {1}
    team.check()


def test_a_run_that_outlives_the_drain_is_told_to_stop_and_runs_again_elsewhere(team: Crew) -> None:
    gate = team.gate()
    (worker,) = team.start(1, drain=0.5)
    team.add("hold", ["polite"], gate=str(gate))
    team.add("hold", ["once"], gate=str(gate), policy={"at_most_once": True})
    eventually(lambda: len(team.events("begun")) == 2, 30, "they are under way")
    assert worker.terminate() == 0
    assert team.count("told") == {"polite": 1, "once": 1}
    assert "2 runs did not end within 0.5 s and are told to stop" in worker.log
    runs = {run.name: run for run in team.runs()}
    assert runs["polite"].status == "pending"
    assert runs["once"].status == "failed"
    assert "the worker stopped before it was done" in str(runs["once"].error)

    gate.touch()
    team.start(1)
    team.settled(30, 2)
    assert team.count("ended") == {"polite": 1}, "at most once means once"
    team.check()


@ONE_STORE
def test_a_run_that_does_not_listen_is_said_to_be_left(team: Crew) -> None:
    gate = team.gate()
    (worker,) = team.start(1, drain=0.3)
    team.add("insist", ["deaf"], gate=str(gate))
    eventually(lambda: len(team.events("begun")) == 1, 30, "it is under way")
    assert worker.terminate() == 1
    assert "1 runs stayed unrecorded" in worker.log
    gate.touch()
    team.start(1)
    team.settled(30, 1)
    assert [(run.status, run.deaths) for run in team.runs()] == [("completed", 1)]
    team.check()
