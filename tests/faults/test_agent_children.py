"""Whatever happens to a worker or to an agent's program, nothing of the program lives on unseen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from duetime.engine.kind import StopReason
from tests.support.cli import ROOT, environment
from tests.support.programs import Background, LeaseFrom, agent, assert_gone, lives, program, timed_from, told
from tests.support.waking import agent_request
from tests.support.wordings import STOPPED
from tests.support.workers import eventually

FAMILY = """
import os, pathlib, signal, subprocess, sys, time

def note(path, *pids):
    path = pathlib.Path(path)
    path.with_suffix(".new").write_text(" ".join(map(str, pids)))
    path.with_suffix(".new").rename(path)

def stubborn():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

def child():
    return subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(600)"]).pid

def orphan(session):
    # The one in the middle ends, so that the last one has no parent: what daemons do.
    reading, writing = os.pipe()
    if os.fork() == 0:
        if session:
            os.setsid()
        if os.fork() == 0:
            stubborn()
            os.write(writing, str(os.getpid()).encode())
            time.sleep(600)
        os._exit(0)
    pid = int(os.read(reading, 20))
    os.wait()
    return pid
"""
HANG = FAMILY + "stubborn(); note({told!r}, os.getpid(), child(), orphan(False), orphan(True)); time.sleep(600)"
LEAVE = FAMILY + "note({told!r}, child(), orphan(False), orphan(True)); print('done')"
LET_LOOSE = FAMILY + "note({told!r}, os.getpid(), child(), orphan(False)); os.kill(os.getppid(), 9); time.sleep(600)"
RUN_AWAY = (
    FAMILY
    + """
if os.fork() == 0:
    while True:  # there is always one, and never the same for long
        if os.fork():
            os._exit(0)
note({told!r}, os.getpgid(0))
if {waits}:
    time.sleep(600)
"""
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt what its children leave")


@linux
@pytest.mark.parametrize(
    ("reason", "error"),
    [
        (StopReason.TIMEOUT, "timed out after 60 s"),
        *STOPPED.items(),
    ],
)
def test_a_program_that_is_stopped_goes_with_all_it_started(tmp_path: Path, reason: StopReason, error: str) -> None:
    run = Background(agent(program(tmp_path, HANG.format(told=str(tmp_path / "told")))))
    pids = told(tmp_path / "told")
    assert len(pids) == 4 and all(lives(pid) for pid in pids)
    run.stop(reason)
    assert run.reply().error == error
    for pid in pids:
        assert_gone(pid)


@linux
def test_out_of_time(tmp_path: Path) -> None:
    woken = timed_from(tmp_path / "told", agent(program(tmp_path, HANG.format(told=str(tmp_path / "told")))))
    run = Background(woken, agent_request(patience=1.0))
    pids = told(tmp_path / "told")
    assert run.reply().error == "timed out after 1 s"
    for pid in pids:
        assert_gone(pid)


@linux
def test_a_program_that_had_to_end_with_the_lease_has_not_failed(tmp_path: Path) -> None:
    """Its worker has not let go of it yet: the program is gone a moment before."""
    given = agent_request(lease=LeaseFrom(tmp_path / "told", 2.0))
    reply = agent(program(tmp_path, HANG.format(told=str(tmp_path / "told")))).wake(given)
    assert reply.error == STOPPED[StopReason.LEASE]
    assert given.stop.reason is StopReason.LEASE, "so that the run is given back"
    for pid in told(tmp_path / "told"):
        assert_gone(pid)


@linux
def test_nothing_stays_behind_a_program_that_ended(tmp_path: Path) -> None:
    reply = agent(program(tmp_path, LEAVE.format(told=str(tmp_path / "told")))).wake(agent_request())
    assert (reply.error, reply.text) == (None, "done")
    for pid in told(tmp_path / "told"):
        assert not lives(pid)


@linux
def test_the_group_is_ended_where_its_guard_is_gone(tmp_path: Path) -> None:
    reply = agent(program(tmp_path, LET_LOOSE.format(told=str(tmp_path / "told")))).wake(agent_request())
    assert reply.error is not None and "disappeared together with what held it" in reply.error
    for pid in told(tmp_path / "told"):
        assert_gone(pid)


def members_of(group: int) -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        try:
            state, _, its_group = (path / "stat").read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # no process, or gone by now
        if path.name.isdigit() and int(its_group) == group and state != "Z":
            found.append(int(path.name))
    return found


@linux
@pytest.mark.parametrize("waits", [True, False])
def test_one_that_runs_away_from_itself_is_caught(tmp_path: Path, waits: bool) -> None:
    """Faster than anybody can look up its number, but not out of its group."""
    run = Background(agent(program(tmp_path, RUN_AWAY.format(told=str(tmp_path / "told"), waits=waits))))
    [group] = told(tmp_path / "told")
    assert group != os.getpgid(0)
    if waits:
        run.stop(StopReason.LEASE)
    assert run.reply().error == (STOPPED[StopReason.LEASE] if waits else None)
    assert members_of(group) == []


WORKER = """
import sys
from duetime.processes.supervisor import ProcessLimits
from tests.support.programs import agent
from tests.support.waking import agent_request
agent(sys.argv[2:], limits=ProcessLimits(grace=0.3, patience=float(sys.argv[1]))).wake(agent_request())
"""


def start_worker(tmp_path: Path, unheard: float) -> subprocess.Popen[bytes]:
    """Like a worker: it wakes an agent, in a process of its own that can be killed."""
    (tmp_path / "runs").mkdir()
    command = program(tmp_path, HANG.format(told=str(tmp_path / "told")))
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(unheard), *command],
        cwd=ROOT,
        env=environment() | {"TMPDIR": str(tmp_path / "runs")},
    )


@linux
def test_a_program_does_not_outlive_its_worker(tmp_path: Path) -> None:
    worker = start_worker(tmp_path, 30)
    pids = told(tmp_path / "told")
    assert list((tmp_path / "runs").iterdir())
    worker.send_signal(signal.SIGKILL)
    worker.wait(30)
    for pid in pids:
        assert_gone(pid)
    eventually(lambda: not list((tmp_path / "runs").iterdir()), 30, "its private folder with the token is removed")


@pytest.mark.later
@linux
def test_a_program_ends_when_its_worker_is_not_heard_of(tmp_path: Path) -> None:
    """A stopped process keeps its pipes open, while others may take its runs over."""
    worker = start_worker(tmp_path, 3.0)
    pids = told(tmp_path / "told")
    try:
        worker.send_signal(signal.SIGSTOP)
        for pid in pids:
            assert_gone(pid)
    finally:
        worker.kill()
        worker.wait(30)


@linux
def test_a_program_does_not_outlive_its_worker_and_its_guard(tmp_path: Path) -> None:
    """Both at once, as a machine does that is short of memory: the kernel itself ends the program."""
    worker = start_worker(tmp_path, 30)
    program_id = told(tmp_path / "told")[0]
    guard = int(Path(f"/proc/{program_id}/stat").read_text().rpartition(")")[2].split()[1])
    others = told(tmp_path / "told")[1:]
    worker.send_signal(signal.SIGSTOP)
    os.kill(guard, signal.SIGKILL)
    worker.kill()
    worker.wait(30)
    assert_gone(program_id)
    for pid in others:  # nobody is left to know of them but this test
        os.kill(pid, signal.SIGKILL)
