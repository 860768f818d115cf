"""PostgreSQL goes away and comes back: nobody who lives is rescued, nothing is lost, and work goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.model import WorkerId
from duetime.engine.validation import NewSchedule
from tests.support.postgres import PostgresServer
from tests.support.refusals import refusal_of
from tests.support.size import FULL
from tests.support.workers import CALLER, CLOCK, Crew, crew, eventually

LEASE = 1.0


@pytest.fixture
def private(private_postgres: PostgresServer, tmp_path: Path) -> Iterator[Crew]:
    with crew(private_postgres.url, tmp_path, lease=LEASE) as made:
        yield made


def let_pass(seconds: float) -> None:
    """Time itself is what is tested here."""
    with pytest.raises(AssertionError, match="time passes"):
        eventually(lambda: False, seconds, "time passes")


@pytest.mark.later
@pytest.mark.parametrize("mode", ["immediate", *(["fast"] if FULL else [])])
def test_nobody_who_lives_is_rescued_when_the_database_was_away_for_two_leases(
    private: Crew, private_postgres: PostgresServer, mode: str
) -> None:
    gate, later = private.gate(), private.gate("later")
    workers = private.start(4, threads=4)
    before = set(_beats(private))
    private.add("insist", [f"meanwhile{number}" for number in range(6)], gate=str(gate))
    private.add("insist", [f"after{number}" for number in range(6)], gate=str(later))
    eventually(lambda: len(private.events("begun")) == 12, 30, "twelve runs are under way")

    private_postgres.stop("fast" if mode == "fast" else "immediate")
    gate.touch()
    eventually(lambda: len(private.events("ended")) == 6, 30, "six of them end while there is no database")
    refused = refusal_of(
        lambda: private.app.scheduler.create(
            CALLER, NewSchedule("job", "x", "interval", {"minutes": 1}, {"task": "mark", "kwargs": {"key": "x"}})
        )
    )
    assert refused.code == "store_unavailable"
    let_pass(2 * LEASE)
    private_postgres.start()
    back = CLOCK.monotonic()

    eventually(lambda: private.statuses()["completed"] == 6, 30, "what ended meanwhile is recorded")
    again = "the store is available again"
    eventually(lambda: all(again in worker.log for worker in workers), 30, "each worker says so")
    private.add("mark", ["fresh"])
    eventually(lambda: private.statuses()["completed"] == 7, 30, "work goes on by itself")
    print(f"the database was back for {CLOCK.monotonic() - back:.2f} s")  # noqa: T201 - a figure for the reader
    beats = _beats(private)
    eventually(lambda: all(_beats(private)[id] > beats[id] for id in before), 30, "everybody beats again")
    later.touch()
    private.settled(30, 13)

    assert set(_beats(private)) == before, "everybody kept his row"
    assert "dead" not in private.logs()
    runs = private.runs()
    assert {(run.status, run.attempt, run.deaths) for run in runs} == {("completed", 1, 0)}
    assert set(private.count("begun").values()) == {1}
    private.check()


@pytest.mark.skipif(not FULL, reason="takes long; the judge's unit test shows the same; DUETIME_FULL=1 runs it")
def test_a_dead_worker_is_found_after_the_database_was_away_too(
    private: Crew, private_postgres: PostgresServer
) -> None:
    gate = private.gate()
    (victim,) = private.start(1)
    private.add("hold", ["h"], gate=str(gate))
    eventually(lambda: len(private.events("begun")) == 1, 30, "it is under way")
    private.start(1)
    private_postgres.stop("immediate")
    victim.kill()
    private_postgres.start()
    gate.touch()
    private.settled(LEASE + 30, 1)
    assert [(run.status, run.deaths) for run in private.runs()] == [("completed", 1)]
    private.check()


def test_a_worker_that_was_stopped_in_mid_transaction_keeps_nobody_from_beating(
    postgres_url: str, tmp_path: Path
) -> None:
    """Its row stays locked until the server ends its session: rescue has to come back later, not to wait for it."""
    with crew(postgres_url, tmp_path, lease=LEASE) as team:
        gate = team.gate()
        (worker,) = team.start(1)
        team.add("hold", ["h"], gate=str(gate))
        eventually(lambda: len(team.events("begun")) == 1, 30, "it is under way")
        now, lease = Instant(CLOCK.now()), int(LEASE * SECOND)
        dead = team.app.store.register("stopped in mid-transaction", ["job"], False, now, lease)
        with psycopg.connect(postgres_url) as stopped:
            stopped.execute("SELECT 1 FROM workers WHERE id = %s FOR KEY SHARE", (dead,))
            let_pass(3 * LEASE)
            assert team.events("told") == [], "the living worker kept its lease"
            assert dead in _beats(team)
        eventually(lambda: dead not in _beats(team), LEASE + 30, "rescue comes back")
        gate.touch()
        team.settled(30, 1)
        assert worker.terminate() == 0


def _beats(team: Crew) -> dict[WorkerId, int]:
    return {row.id: row.beat for row in team.app.store.workers()}
