"""A server that dies or is stopped while an agent's program runs: the program does not live on, the run is not lost."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from duetime.engine.model import ScheduleId
from tests.support.programs import assert_gone, lives, program, told
from tests.support.woken import Installation, Records, installation, opened, result_of

PROGRAM = """
import os, pathlib, re, signal, subprocess, sys, time

prompt = sys.stdin.read()
begun = pathlib.Path({folder!r}, "begun-" + re.search(r"task #(\\d+)", prompt)[1])
if begun.exists():
    begun.with_suffix(".again").touch()
    print("Done after all.")
    sys.exit()
if "stubborn" in prompt:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(600)"])
begun.with_suffix(".new").write_text(f"{{os.getpid()}} {{child.pid}}")
begun.with_suffix(".new").rename(begun)
time.sleep(600)
"""
"""Hangs with a child of its own when it is begun for the first time; begun again, it is done."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


def settings(folder: Path) -> str:
    command = program(folder, PROGRAM.format(folder=str(folder)))
    return f"lease = 1\ndrain = 1\n[agents.slow]\ncommand = {json.dumps(command)}\n"


def begun(folder: Path, task: int) -> list[int]:
    pids = told(folder / f"begun-{task}")
    assert len(pids) == 2 and all(lives(pid) for pid in pids)
    return pids


def make(there: Installation, token: str, prompt: str, **policy: object) -> int:
    trigger = {"type": "once", "run_at": "now"}
    given = {"kind": "prompt", "name": prompt, "trigger": trigger, "payload": {"prompt": prompt, "agent": "slow"}}
    answer = there.api(token, "/schedules", **given, policy=policy)
    assert answer.status_code == 201, answer.text
    return int(answer.json()["id"])


def test_killed_and_stopped(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        (tmp_path / "runs").mkdir()
        patch.setenv("TMPDIR", str(tmp_path / "runs"))
        again, once = killed(tmp_path)
        given_back = rescued_and_stopped(tmp_path, again, once)
        assert not list((tmp_path / "runs").glob("duetime-run-*")), "no private folder stays behind"
    with opened(tmp_path) as app:
        for task in given_back:
            [run] = Records(app).runs(schedule=ScheduleId(task))
            assert (run.status, run.attempt, run.deaths, run.error) == ("pending", 0, 0, None)


def killed(folder: Path) -> tuple[int, int]:
    with installation(folder, settings(folder), survives=False) as there:
        token = there.token("ada")
        again = make(there, token, "Take your time.")
        once = make(there, token, "Take your time, once.", at_most_once=True, deliver_to="told")
        pids = [*begun(folder, again), *begun(folder, once)]
        there.world.served.process.send_signal(signal.SIGKILL)
        there.world.served.process.wait(30)
        for pid in pids:
            assert_gone(pid)
    return again, once


def rescued_and_stopped(folder: Path, again: int, once: int) -> list[int]:
    with installation(folder, settings(folder), survives=False) as there:
        run, lost = there.ended(again), there.ended(once)
        assert (run.status, result_of(run)["text"], run.attempt, run.deaths) == ("completed", "Done after all.", 2, 1)
        assert [(each.status, each.error) for each in there.app.store.attempts(run.id)] == [("lost", "its worker died")]
        assert lost.status == "lost" and not (folder / f"begun-{once}.again").exists()
        assert lost.error == "its worker died; it runs at most once, so it was not started again"
        [message] = there.arrived("ada", "told")
        assert message["title"] == "Take your time, once. failed" and message["message"] == lost.error
        token = there.token("ada")
        tasks = [make(there, token, f"Take your time, {each} one.") for each in ("polite", "stubborn")]
        pids = [pid for task in tasks for pid in begun(folder, task)]
        there.world.served.process.send_signal(signal.SIGTERM)
        words = there.world.served.output.rest()
        for pid in pids:
            assert_gone(pid)
        assert there.world.served.process.wait(30) == 0, words
        assert "Stopping, waiting at most 1 s for Take your time" in words
        assert "Stopped; everything is recorded." in words
    return tasks
