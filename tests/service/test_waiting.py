"""Whoever waits for a run and runs out of time is told so, with the reason, on every interface."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from duetime.api import Duetime
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.outcome import Failed, Outcome, Returned, Waiting
from duetime.settings import Settings
from tests.support.agent import Agent
from tests.support.cli import Cli
from tests.support.hand import Hand

pytestmark = pytest.mark.filterwarnings("ignore::duetime.api.base.NotStartedWarning")

REASONS: dict[str, tuple[str, Outcome | None]] = {
    "running": ("it is still running", None),
    "unknown": ("no worker can run it: Unknown task: run_command", Returned("Unknown task: run_command")),
    "limited": (
        "it is held back: the limit of 3 runs a day for the agent coder is reached",
        Returned("the limit of 3 runs a day for the agent coder is reached"),
    ),
    "retried": ("an attempt failed and is repeated later: no water", Failed("no water")),
    "waiting": ("no agent has taken it", Waiting()),
}


def job(duetime: Duetime) -> str:
    return str(duetime.schedule("echo", args=["hi"], name="hello", every="1h", overlap="allow", max_attempts=2).id)


@pytest.mark.parametrize("case", REASONS)
def test_python_says_why_a_run_has_not_ended(case: str) -> None:
    reason, outcome = REASONS[case]
    with closing(Duetime(settings=Settings(db=":memory:"))) as duetime:
        app = duetime.app
        run = duetime.run_now(job(duetime))
        hand = Hand(app.store, now=app.clock.now())  # type: ignore[arg-type]
        claims = hand.claim(app.clock.now())
        if outcome is not None:
            hand.record(claims, app.clock.now(), outcome)
        seen = duetime.wait_for_run(run.run_id, 0.01)
        assert (seen.ended, seen.reason) == (False, reason)


def test_every_interface_says_that_no_worker_is_running(cli: Cli, tmp_path: Any) -> None:
    with closing(Duetime(settings=Settings(db=str(tmp_path / "my.db")))) as duetime:
        app = duetime.app
        id = job(duetime)
        told = duetime.run_now(id, wait=0.01)
        assert (told.ended, told.reason) == (False, "no worker is running")
        assert duetime.run_now(id).ended is None
        answer = Agent(app.services, Caller(LOCAL), "UTC").knows("run_now", schedule_id=id)
        assert (answer["ended"], answer["reason"]) == (False, "no worker is running")
    said = cli("job", "run", "hello", "--wait", "0.1")
    assert (said.code, said.out) == (6, "Run 4 of hello is not finished after 0.1 s: no worker is running.\n")
    document = cli("job", "run", "hello", "--wait", "0.1", "--json")
    assert document.code == 6
    assert (document.document["ended"], document.document["reason"]) == (False, "no worker is running")
    again = cli("run", "again", "1", "--wait", "0.1")
    assert again.code == 6 and "is not finished after 0.1 s: no worker is running. See it: " in again.out
    assert cli("job", "run", "hello").code == 0, "nobody waited"


def test_a_run_that_has_ended_says_so() -> None:
    with Duetime(":memory:") as duetime:
        seen = duetime.run_now(job(duetime), wait=30)
        assert (seen.status, seen.ended, seen.reason) == ("completed", True, None)
