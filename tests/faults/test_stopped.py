"""A worker that is stopped past its lease and resumed: others have its work, and it notices before it does harm."""

from __future__ import annotations

import signal

import apsw
import pytest

from tests.faults.conftest import LEASE, ONE_STORE
from tests.support.programs import is_stopped
from tests.support.workers import Crew, WorkerProcess, eventually


def stop_between_transactions(team: Crew, worker: WorkerProcess) -> None:
    """SQLite has one writer: a process that is stopped while it writes keeps everybody waiting until it goes on."""
    while True:
        worker.signal(signal.SIGSTOP)
        eventually(lambda: is_stopped(worker.pid), 30, "all its threads stop")
        if team.url.startswith("postgresql") or _writable(team.url):
            return
        worker.signal(signal.SIGCONT)


def _writable(path: str) -> bool:
    connection = apsw.Connection(path)
    try:
        connection.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        return False
    finally:
        connection.close()
    return True


def wait_for_a_beat(team: Crew) -> None:
    """Wait until the only worker has beaten twice more: the second beat began after this call."""
    (seen,) = team.app.store.workers()
    eventually(lambda: team.app.store.workers()[0].beat >= seen.beat + 2, 30, "it beats")


def test_the_late_writes_of_a_stopped_worker_change_nothing(team: Crew) -> None:
    """Half of its runs hear that they should stop; the others end late and say that they succeeded."""
    gate = team.gate()
    (sleeper,) = team.start(1, threads=5)
    begun = [f"begun{number}" for number in range(4)]
    team.add("hold", begun[:2], gate=str(gate))
    team.add("insist", begun[2:], gate=str(gate))
    eventually(lambda: len(team.events("begun")) == 4, 30, "its threads are busy")
    wait_for_a_beat(team)  # it says that all of them have begun, so that their worker's death counts for each
    stop_between_transactions(team, sleeper)
    team.start(1)
    gate.touch()  # the rescuer's attempts end at once

    team.settled(LEASE + 30, 4)
    others = {run.name: run for run in team.runs()}
    assert {run.status for run in others.values()} == {"completed"}
    assert {run.deaths for run in others.values()} == {1}
    assert team.count("ended") == dict.fromkeys(begun, 1)

    sleeper.signal(signal.SIGCONT)
    eventually(lambda: "registers again" in sleeper.log, 30, "the sleeper finds out")
    eventually(
        lambda: (
            len([event for event in team.events() if event.pid == sleeper.pid and event.verb in ("ended", "told")]) == 4
        ),
        30,
        "its threads come back",
    )
    team.workers[1].terminate()
    team.add("mark", [f"after{number}" for number in range(20)])
    team.settled(30, 24)
    now = {run.name: run for run in team.runs()}
    assert {name: now[name] for name in begun} == others, "the rows are what the rescuer wrote"
    assert {event.pid for event in team.events("ran")} == {sleeper.pid}, "it goes on working"
    assert {run.status for run in now.values()} == {"completed"}
    assert sleeper.terminate() == 0
    team.check()


@ONE_STORE
def test_a_worker_begins_nothing_of_its_old_line_after_it_was_stopped(team: Crew) -> None:
    """More is claimed than there are threads: what stood in line belongs to others when the worker wakes up."""
    gate = team.gate()
    (sleeper,) = team.start(1, threads=2, claims_ahead=True)
    team.add("hold", ["busy0", "busy1"], gate=str(gate))
    eventually(lambda: len(team.events("begun")) == 2, 30, "its threads are busy")
    in_line = [f"line{number}" for number in range(20)]
    team.add("hold", in_line, gate=str(gate))
    eventually(lambda: len(team.runs(status="running")) == 22, 30, "it has claimed ahead of its threads")
    stop_between_transactions(team, sleeper)
    team.start(1)
    gate.touch()
    team.settled(LEASE + 30, 22)
    sleeper.signal(signal.SIGCONT)
    eventually(lambda: "registers again" in sleeper.log, 30, "the sleeper finds out")
    team.add("mark", ["after"])
    team.settled(30, 23)
    assert not [event for event in team.events("begun") if event.pid == sleeper.pid and event.key in in_line]
    assert {team.count("begun")[key] for key in in_line} == {1}
    assert set(team.statuses()) == {"completed"}
    assert sleeper.terminate() == 0
    team.check()


@ONE_STORE
def test_a_worker_alone_that_was_stopped_goes_on_with_its_work(team: Crew) -> None:
    """Nobody rescued anything: it was cut short by no fault of its own, and the run is not a failure."""
    gate = team.gate()
    (sleeper,) = team.start(1)
    team.add("hold", ["h"], gate=str(gate))
    team.add("hold", ["once"], gate=str(gate), policy={"at_most_once": True})
    eventually(lambda: len(team.events("begun")) == 2, 30, "they are under way")
    stop_between_transactions(team, sleeper)
    with pytest.raises(AssertionError, match="past its lease"):
        eventually(lambda: False, LEASE + 0.5, "past its lease")
    sleeper.signal(signal.SIGCONT)
    eventually(lambda: team.count("told") == {"h": 1, "once": 1}, 30, "both are told to stop")
    eventually(lambda: team.count("begun")["h"] == 2, 30, "it is begun again")
    gate.touch()
    team.settled(30, 2)
    runs = {run.name: run for run in team.runs()}
    assert (runs["h"].status, runs["h"].attempt, runs["h"].deaths) == ("completed", 1, 0)
    assert runs["once"].status == "lost", "how much of it was done is unknown"
    assert "lost its lease" in str(runs["once"].error)
    assert team.count("begun")["once"] == 1
    assert "registers again" not in sleeper.log
    assert sleeper.terminate() == 0
    team.check()
