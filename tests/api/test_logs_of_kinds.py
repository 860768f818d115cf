"""The logs of runs that call no task: what an agent's program writes, and what a request is answered."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from duetime import Duetime
from duetime.settings import AgentSettings, Settings
from tests.support.receiver import Behaviour, Receiver

PATIENCE = 30.0
NEVER = "0 0 1 1 *"
PROGRAM = """
import os, sys
print("looking at the plants", file=sys.stderr)
print("the token is", os.environ["GARDEN_TOKEN"], file=sys.stderr, flush=True)
print("They are watered.")
"""


def test_what_an_agents_program_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GARDEN_TOKEN", "tomatoes-and-more")
    program = AgentSettings(type="command", command=(sys.executable, "-c", PROGRAM), env=("GARDEN_TOKEN",))
    settings = Settings(db=str(tmp_path / "duetime.db"), timezone="UTC", agents={"gardener": program})
    with Duetime(settings=settings) as duetime:
        run = duetime.prompt("Water the plants.", agent="gardener", cron=NEVER).run_now(wait=PATIENCE)
        assert run.status == "completed", run.error
        lines = duetime.log(run.run_id).text.splitlines()
    assert sorted(lines) == ["They are watered.", "looking at the plants", "the token is ***"]


def test_what_a_request_is_answered(tmp_path: Path) -> None:
    settings = Settings(db=str(tmp_path / "duetime.db"), timezone="UTC", allowed_hosts=("127.0.0.1",))
    answers = [Behaviour(503, {}, b"closed \x1b[1mtoday\x1b[0m"), Behaviour(body=b"x" * 5000 + b"\n")]
    with Receiver(lambda request: answers.pop(0)) as receiver, Duetime(settings=settings) as duetime:
        made = duetime.request(receiver.url, retries=1, retry_delay="100", cron=NEVER)
        run = made.run_now(wait=PATIENCE)
        assert run.status == "completed", run.error
        first, second = [duetime.log(run.run_id, attempt=number).text for number in (1, 2)]
    assert first == "503 Service Unavailable\nclosed today\n"
    assert second.startswith("200 OK\nxxx") and second.endswith("x\n[905 more bytes]\n")
