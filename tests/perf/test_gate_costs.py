"""What a gate costs: little processor time when nothing has changed, no process, and nothing without a gate."""

from __future__ import annotations

import subprocess
from collections import Counter
from datetime import timedelta
from pathlib import Path
from time import process_time

import pytest

from bench.instructions import statements_in
from duetime.settings import Settings
from duetime.testing import Simulation
from tests.support.notifying import START
from tests.support.receiver import Behaviour, Receiver

POLLS = 100
BOUND = 0.010
PAGE = Behaviour(headers={"Content-Type": "text/html"}, body=b"<html><body><p>All is well.</p></body></html>")


def test_an_unchanged_poll_takes_less_than_ten_milliseconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of processor time in all: the queue, the page, the comparison and the record, and here the page's server, too."""
    settings = Settings(db=str(tmp_path / "due.db"), timezone="UTC", allowed_hosts=("127.0.0.1",))
    with Receiver(lambda request: PAGE) as page, Simulation(START, settings=settings) as simulation:
        simulation.duetime.schedule("echo", every="1m", only_if=f"fetch('{page.url}/status') | changed()")
        simulation.advance(timedelta(minutes=3))
        monkeypatch.setattr(subprocess.Popen, "__init__", lambda *given, **named: pytest.fail("a process was started"))
        costs = []
        for _ in range(3):  # other work of the machine makes it longer, never shorter
            begun = process_time()
            for _ in range(POLLS):
                simulation.clock.jump(timedelta(minutes=1))
                while simulation.worker.record_and_claim():
                    pass
            costs.append((process_time() - begun) / POLLS)
            if costs[-1] < BOUND:
                break
        print(f"\nan unchanged poll: {min(costs) * 1000:.2f} ms of processor time")  # noqa: T201  the figure is to be seen
        assert min(costs) < BOUND
        assert len(page.requests) == 3 + POLLS * len(costs)
        (row,) = simulation.runs()
        assert (row.status, row.number) == ("skipped", 3 + POLLS * len(costs))


def test_a_run_without_a_gate_asks_nothing_about_gates(tmp_path: Path) -> None:
    counts = Counter[str]()
    with statements_in(counts), Simulation(START, url=str(tmp_path / "due.db")) as simulation:
        simulation.duetime.schedule("echo", every="1m", max_attempts=3)
        counts.clear()
        simulation.advance(timedelta(minutes=5))
    assert counts and not any("memories" in statement or "gate" in statement for statement in counts)
