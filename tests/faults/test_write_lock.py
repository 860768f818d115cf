"""A process that holds SQLite's write lock for longer than a lease: it hinders everybody, and it kills nobody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import StoreUnavailable
from duetime.engine.model import WorkerId
from duetime.stores.sqlite.store import SqliteStore
from tests.support.size import FULL
from tests.support.workers import CLOCK, Crew, crew, eventually, quickest

LEASE, HELD = (4.0, 25.0) if FULL else (1.0, 3.0)
"""Seconds. The long case also outlasts whoever waits for the lock with the patience of a command."""


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Crew]:
    with crew(str(tmp_path / "store.db"), tmp_path, lease=LEASE, threads=6) as made:
        yield made


@contextmanager
def write_lock(path: str) -> Iterator[None]:
    """Held by a connection of its own, as a frozen process would."""
    connection = apsw.Connection(path)
    connection.set_busy_timeout(5000)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


def beats(team: Crew) -> dict[WorkerId, int]:
    return {row.id: row.beat for row in team.app.store.workers()}


def let_pass(seconds: float) -> None:
    """Time itself is what is tested here."""
    with pytest.raises(AssertionError, match="time passes"):
        eventually(lambda: False, seconds, "time passes")


def test_nobody_is_declared_dead_while_nobody_can_write(team: Crew) -> None:
    gate = team.gate()
    team.start(2)
    living = set(beats(team))
    once = [f"once{number}" for number in range(3)]
    team.add("insist", once, gate=str(gate), policy={"at_most_once": True})
    often = [f"often{number}" for number in range(4)]
    team.add("insist", often, gate=str(gate))
    eventually(lambda: len(team.events("begun")) == 7, 30, "all are under way")
    eventually(lambda: min(beats(team).values()) >= 3, 30, "both workers beat")
    with write_lock(team.url):
        let_pass(LEASE / 2)  # the beats wait for the lock before the outcomes do
        gate.touch()
        eventually(lambda: len(team.events("ended")) == 7, 30, "they end while nothing can be recorded")
        let_pass(HELD - LEASE / 2)
    seen = beats(team)
    assert set(seen) == living
    team.settled(30, 7)
    eventually(lambda: all(beats(team).get(each, 0) > seen[each] for each in living), 30, "both beat again")
    assert set(beats(team)) == living, "everybody has kept his row"
    assert "is dead" not in team.logs()
    assert {(run.status, run.attempt, run.deaths) for run in team.runs()} == {("completed", 1, 0)}
    assert team.count("begun") == dict.fromkeys([*once, *often], 1), "nothing was executed twice"
    team.check()


def test_a_worker_waits_for_the_write_lock_for_less_than_its_lease(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    store.migrate()
    store.register("worker", ["job"], False, Instant(0), lease=2 * SECOND)

    def seconds_of_waiting() -> float:
        began = CLOCK.monotonic()
        with pytest.raises(StoreUnavailable, match="locked"):
            store.probe()
        return CLOCK.monotonic() - began

    with write_lock(store.path):
        assert quickest(seconds_of_waiting, 2.0) < 2.0
    store.probe()
    store.close()
