"""A host that is left alone for a while costs nobody a message: on a settable clock, with real receivers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duetime.engine.clock import MINUTE
from duetime.engine.kind import Caller
from duetime.engine.model import Run
from duetime.engine.validation import NewSchedule
from duetime.settings import NotificationSettings, Settings
from duetime.testing import Simulation
from tests.support.receiver import Behaviour, Fault, Receiver

START = datetime(2026, 2, 10, 14, 0, tzinfo=UTC)
GONE = Behaviour(fault=Fault.CLOSE)


@contextmanager
def simulated(**settings: Any) -> Iterator[Simulation]:
    with Simulation(START, settings=Settings(db=":memory:", timezone="UTC", **settings)) as simulation:
        yield simulation


def send(simulation: Simulation, kind: str, owner: str, payload: dict[str, Any], **policy: Any) -> None:
    new = NewSchedule(kind, owner, "once", {"run_at": "now"}, payload, policy)
    simulation.duetime.app.scheduler.create(Caller(owner), new)
    simulation.settle()


def of_ben(simulation: Simulation) -> Run:
    [run] = [run for run in simulation.runs() if run.owner == "ben"]
    return run


@pytest.mark.parametrize("kind", ["notification", "request"])
def test_whoever_meets_a_dead_host_waits_and_is_tried_all_the_same(kind: str) -> None:
    """One attempt is all that the last message has, and nobody spends it for nothing."""
    with Receiver(lambda request: GONE) as receiver:
        settings = {"notifications": NotificationSettings(server=receiver.url), "allowed_hosts": ("127.0.0.1",)}
        payload = {"message": "hi", "topic": "home"} if kind == "notification" else {"url": receiver.url, "retries": 0}
        with simulated(**settings) as simulation:
            for _ in range(5):
                send(simulation, kind, "ann", payload, max_attempts=1)
            receiver.behave = lambda request: Behaviour(200, {}, b"{}")
            send(simulation, kind, "ben", payload, max_attempts=1)
            waiting = of_ben(simulation)
            assert (waiting.status, waiting.attempt, len(receiver.requests)) == ("pending", 0, 5)
            assert "is not answering" in (waiting.error or "")
            simulation.advance(timedelta(seconds=32))
            arrived = of_ben(simulation)
            assert (arrived.status, arrived.attempt, arrived.error) == ("completed", 1, None)
            assert {run.status for run in simulation.runs() if run.owner == "ann"} == {"failed"}


def test_what_waits_for_a_host_that_stays_dead_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """More wait than are let through to find out whether it is back: the last ones are never tried, and fail some day.
    A quarter of an hour stands for that day."""
    monkeypatch.setattr("duetime.net.host_limits._PATIENCE", 15 * MINUTE)
    with Receiver(lambda request: GONE) as receiver, simulated(allowed_hosts=("127.0.0.1",)) as simulation:
        for number in range(20):
            send(simulation, "request", f"owner-{number}", {"url": receiver.url, "retries": 0})
        simulation.advance(timedelta(minutes=14))
        assert [run.status for run in simulation.runs()].count("failed") == len(receiver.requests) < 12
        simulation.advance(timedelta(minutes=10))
        assert {run.status for run in simulation.runs()} == {"failed"}
        assert len(receiver.requests) < 15


def test_a_broken_path_is_no_dead_host() -> None:
    """Two owners often call the same host, and each has paths of its own."""
    with Receiver() as receiver, simulated(allowed_hosts=("127.0.0.1",)) as simulation:
        receiver.behave = lambda request: Behaviour(500 if request.path == "/broken" else 200)
        for _ in range(6):
            send(simulation, "request", "ann", {"url": f"{receiver.url}/broken", "retries": 0})
        send(simulation, "request", "ben", {"url": f"{receiver.url}/good", "retries": 0})
        assert of_ben(simulation).status == "completed"
