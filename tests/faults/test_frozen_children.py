"""Job processes, commands and agents' programs end before the lease of their worker does, with all they started."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from duetime.engine.kind import LOCAL, Caller
from duetime.engine.validation import NewSchedule
from tests.faults.conftest import LEASE, ONE_STORE
from tests.faults.test_stopped import stop_between_transactions
from tests.support.programs import lives, program, told
from tests.support.workers import CLOCK, Crew, WorkerProcess, crew, eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tells the state of processes by /proc")

SHELL = "sleep 1000 & echo $$ $! > {told}.new; mv {told}.new {told}; wait"
PROGRAM = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(600)"]).pid
path = pathlib.Path({told!r})
path.with_suffix(".new").write_text(f"{{os.getpid()}} {{child}}")
path.with_suffix(".new").rename(path)
time.sleep(600)
"""


@pytest.fixture
def team(store_url: str, tmp_path: Path) -> Iterator[Crew]:
    """With an agent that is a program."""
    command = program(tmp_path, PROGRAM.format(told=str(tmp_path / "program")))
    with crew(store_url, tmp_path, lease=LEASE, agent=command) as made:
        yield made


def begin_all(team: Crew) -> tuple[WorkerProcess, list[int]]:
    """One worker with a job's process, a command and an agent's program in hand, each with a child of its own."""
    (worker,) = team.start(1)
    files = {name: team.folder / name for name in ("job", "shell", "program")}
    argv = ["sh", "-c", SHELL.format(told=files["shell"])]
    soon = {"run_at": "now"}
    team.app.scheduler.create_many(
        Caller(LOCAL, operator=True),
        [
            NewSchedule("job", "job", "once", soon, {"task": "hang", "kwargs": {"told": str(files["job"])}}),
            NewSchedule("job", "shell", "once", soon, {"task": "run_command", "kwargs": {"argv": argv}}),
            NewSchedule("prompt", "program", "once", soon, {"prompt": "work", "agent": "program"}),
        ],
    )
    pids = [pid for file in files.values() for pid in told(file)]
    assert len(pids) == 6 and all(map(lives, pids))
    return worker, pids


def groups_of(pids: list[int]) -> set[int]:
    return {os.getpgid(pid) for pid in pids}


@pytest.mark.later
@ONE_STORE
def test_the_children_of_a_stopped_worker_are_gone_before_its_lease_is_over(team: Crew) -> None:
    worker, pids = begin_all(team)
    stop_between_transactions(team, worker)
    stopped = CLOCK.boottime()
    eventually(lambda: not any(map(lives, pids)), LEASE, f"{pids} are gone")
    assert CLOCK.boottime() - stopped < LEASE


@ONE_STORE
def test_a_child_that_was_stopped_with_its_worker_ends_as_soon_as_it_goes_on(team: Crew) -> None:
    worker, pids = begin_all(team)
    groups = groups_of(pids)
    for group in groups:  # before their worker, for until it has certainly stopped, their deadline may pass
        os.killpg(group, signal.SIGSTOP)
    stop_between_transactions(team, worker)
    with pytest.raises(AssertionError, match="past the lease"):
        eventually(lambda: False, LEASE + 0.2, "past the lease")
    assert all(map(lives, pids)), "they are stopped, not gone"
    for group in groups:
        os.killpg(group, signal.SIGCONT)
    eventually(lambda: not any(map(lives, pids)), 0.2, f"{pids} are gone")


@pytest.mark.later
@ONE_STORE
def test_children_live_as_long_as_their_worker_renews_its_lease(team: Crew) -> None:
    """Also those that were stopped for longer than a lease, alone: their worker has told them later deadlines."""
    _, pids = begin_all(team)
    groups = groups_of(pids)
    for group in groups:
        os.killpg(group, signal.SIGSTOP)
    with pytest.raises(AssertionError, match="past the lease"):
        eventually(lambda: False, LEASE + 0.5, "past the lease")
    for group in groups:
        os.killpg(group, signal.SIGCONT)
    with pytest.raises(AssertionError, match="some more"):
        eventually(lambda: not all(map(lives, pids)), 0.5, "some more")
