"""Keeping: migrations, retention, health, waking, closing."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from duetime.engine.clock import DAY, HOUR, MINUTE, Instant
from duetime.engine.errors import StoreUnavailable, StoreUnusable
from duetime.engine.model import Cap, RunStatus, Used
from duetime.engine.outcome import Failed, Waiting
from duetime.engine.policy import changes
from duetime.engine.store import ClaimRequest, RunQuery
from duetime.engine.worker.worker import Worker, WorkerOptions
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.registry import Registry
from duetime.stores.base import BaseStore
from duetime.stores.postgres import transaction as postgres
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.search import load_migrations, load_queries
from duetime.stores.sqlite import transaction as sqlite
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import SettableClock
from tests.stores.conftest import Engine, Opener
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create, create_one, runs_of, the_run
from tests.support.shell import write

DATABASE = "postgres_url"
"""An empty database of its own for every test: these change the schema."""


def schema_of(store: BaseStore) -> int:
    assert isinstance(store, SqliteStore | PostgresStore)
    return store.health(T0).schema


def set_schema(store: BaseStore, version: int) -> None:
    if isinstance(store, SqliteStore):
        store._writer.execute(f"PRAGMA user_version = {version}")
    else:
        upsert = "INSERT INTO meta VALUES ('schema', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        write(store, upsert, version)


def test_every_query_is_there_for_both() -> None:
    """Reads that the flow asks for by name, in each dialect."""
    shared = {"schedule_by_id", "schedule_by_public_id", "schedules_ahead", "workers", "held_by", "earliest"}
    shared |= {"run_by_id", "attempts_of", "taken_since", "live_runs", "oldest_queued", "last_manual_due", "health"}
    for dialect in ("sqlite", "postgres"):
        assert shared <= set(load_queries(dialect))


def test_migrations_are_numbered_without_a_gap_and_alike() -> None:
    numbers = [[number for number, _ in load_migrations(dialect)] for dialect in ("sqlite", "postgres")]
    assert numbers[0] == numbers[1] == list(range(1, len(numbers[0]) + 1))


def test_migrating_from_empty_and_again_changes_nothing(opener: Opener) -> None:
    store = opener()
    store.migrate()
    schedule = create_one(store, every(MINUTE))
    store.migrate()
    opener().migrate()
    assert schema_of(store) == store.known_schema
    assert store.get(schedule) is not None


@pytest.mark.parametrize("version", range(1, len(load_migrations("sqlite"))))
def test_migrating_up_from_every_earlier_version(engine: Engine, opener: Opener, version: int) -> None:
    """A store as an earlier version left it."""
    migrations = load_migrations("postgres" if engine == "postgres" else "sqlite")
    store = opener()
    for number, script in migrations[:version]:
        write(store, script)
        set_schema(store, number)
    store.migrate()
    assert schema_of(store) == migrations[-1][0]


def test_both_dialects_have_the_same_versions() -> None:
    assert [number for number, _ in load_migrations("sqlite")] == [number for number, _ in load_migrations("postgres")]


def test_several_may_migrate_at_once(opener: Opener) -> None:
    stores = [opener() for _ in range(4)]
    failures: list[BaseException] = []

    def migrate(store: BaseStore) -> None:
        try:
            store.migrate()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=migrate, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert schema_of(stores[0]) == stores[0].known_schema


def test_a_newer_schema_is_used_above_its_floor_and_refused_below_it(opener: Opener, store: BaseStore) -> None:
    create(store, once())
    set_schema(store, 99)
    older = opener()
    older.migrate()
    assert schema_of(older) == 99, "it changes nothing"
    assert older.fits(99)
    create(older, once())
    assert len(Hand(older).claim(T0)) == 2
    write(store, "UPDATE meta SET value = 98 WHERE key = 'floor'")
    with pytest.raises(StoreUnusable, match=r"schema 99.* knows schema 98.* install a newer Duetime"):
        opener().migrate()
    assert not older.fits(99) and not older.fits(older.known_schema - 1)
    set_schema(store, 1)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_each_migration_has_a_number_of_its_own(dialect: str) -> None:
    numbers = [number for number, _ in load_migrations(dialect)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_worker_below_the_floor_claims_nothing(store: BaseStore) -> None:
    """Its process began before the store was upgraded. What is due stays for newer workers."""
    create(store, once())
    worker = Worker(store, {"job": JobKind(Registry())}, SettableClock(T0), WorkerOptions(known_schema=20))
    with pytest.raises(StoreUnusable, match="too old to write to it; install a newer Duetime"):
        worker.tick()
    worker.notice()
    assert worker.record_and_claim() is False and worker.claimed == {}
    assert len(Hand(store).claim(T0)) == 1


def test_tables_of_another_program_are_left_alone(opener: Opener) -> None:
    store = opener()
    write(store, "CREATE TABLE runs (name text)")
    with pytest.raises(StoreUnusable, match="another program"):
        store.migrate()
    assert store._rows("SELECT * FROM runs", ()) == []


def test_more_columns_than_this_code_knows_do_no_harm(store: BaseStore, hand: Hand) -> None:
    """What a newer version adds; the floor says when the older one has to stop."""
    for table in ("schedules", "progress", "runs", "attempts", "workers", "due"):
        write(store, f"ALTER TABLE {table} ADD COLUMN novelty text")
    schedule = create_one(store, every(MINUTE, max_attempts=2, backoff=1))
    hand.record(hand.claim(T0 + MINUTE), T0 + MINUTE, Failed("no"))
    hand.record(hand.claim(T0 + MINUTE + 2), T0 + MINUTE + 2)
    assert len(runs_of(store, schedule)) == 1
    assert len(store.attempts(runs_of(store, schedule)[0].id)) == 1
    assert len(store.workers()) == 1


def test_neither_do_they_in_tables_of_incidents_and_of_what_owners_use(store: BaseStore, hand: Hand) -> None:
    for table in ("incidents", "usage", "spent", "stored_bytes"):
        write(store, f"ALTER TABLE {table} ADD COLUMN novelty text")
    create(store, every(MINUTE))
    wants = [ClaimRequest("job", 1, Instant(T0 + MINUTE))]
    [claim] = store.record_and_claim(hand.id, Instant(T0 + MINUTE), [], wants, budget=10).claims
    hand.record([claim], T0 + MINUTE, Failed("no"))
    [incident] = store.incidents("ada", 10)
    assert (incident.name, incident.kind, incident.run) == ("water the plants", "job", claim.run.id)
    assert store.tell_incidents(Instant(T0 + MINUTE)) == 1
    store.spend("ada", T0, [Cap("all", "all prompts", Used(runs=5))], Used(runs=1))
    assert store.spent("ada", T0) == [(T0, "all", Used(runs=1))]
    store.add_bytes("ada", 1, 10_000, T0)


def test_prune_deletes_old_runs_in_batches(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, max_attempts=2, backoff=1))
    for step in range(1, 11):
        hand.record(hand.claim(T0 + step * MINUTE), T0 + step * MINUTE)
    (failing,) = hand.claim(T0 + 11 * MINUTE)
    hand.record([failing], T0 + 11 * MINUTE, Failed("no"))
    hand.record(hand.claim(T0 + 12 * MINUTE), T0 + 12 * MINUTE)
    before = Instant(T0 + 6 * MINUTE)
    assert store.prune(before, 3) == 3
    assert store.prune(before, 3) == 2
    assert store.prune(before, 3) == 0
    assert store.runs(RunQuery(schedule=schedule)).total == 7 - 1 + 1
    store.prune(Instant(T0 + DAY), 100)
    assert store.attempts(failing.run.id) == []


def test_prune_keeps_what_lives_and_what_still_grows(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    (claim,) = hand.claim(T0 + MINUTE)
    hand.claim(T0 + 2 * MINUTE)
    assert store.prune(Instant(T0 + DAY), 100) == 0
    hand.claim(T0 + 3 * MINUTE)
    _, skipped = runs_of(store, schedule)
    assert (skipped.status, skipped.number) == (RunStatus.SKIPPED, 2)
    hand.record([claim], T0 + 3 * MINUTE)


def test_what_has_to_stay_keeps_no_other_history(store: BaseStore, hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts that nobody takes wait without limit: a look at the oldest rows must not find them alone."""
    for queries, name in ((sqlite.SQL, "prunable_runs"), (postgres.SQL, "prune_runs")):
        assert "LIMIT 5000" in queries[name]
        monkeypatch.setitem(queries, name, queries[name].replace("LIMIT 5000", "LIMIT 4"))
    create(store, *(once() for _ in range(5)))
    hand.record(hand.claim(T0), T0, Waiting())
    busy = create_one(store, every(MINUTE))
    hand.claim(T0 + MINUTE)
    hand.claim(T0 + 2 * MINUTE)
    later = create_one(store, once(T0 + 3 * MINUTE))
    hand.record([claim for claim in hand.claim(T0 + 3 * MINUTE) if claim.run.schedule == later], T0 + 3 * MINUTE)
    assert store.prune(Instant(T0 + DAY), 100) == 2
    assert store.get(later) is None
    assert [run.status for run in runs_of(store, busy)] == ["running", "skipped"]


def test_a_tombstone_goes_with_its_last_run(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    hand.record(hand.claim(T0 + MINUTE), T0 + MINUTE)
    store.change(schedule, Instant(T0 + MINUTE), changes.delete)
    assert store.prune(Instant(T0 + 30), 100) == 0
    assert store.get(schedule) is not None
    assert store.prune(Instant(T0 + DAY), 100) == 2
    assert store.get(schedule) is None
    assert create_one(store, once()) > schedule


def test_a_one_off_that_is_over_goes_with_its_last_run(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once())
    living = create_one(store, once(T0 + 2 * DAY))
    hand.record(hand.claim(T0), T0 + MINUTE)
    assert store.prune(Instant(T0 + 30), 100) == 0
    assert store.prune(Instant(T0 + DAY), 100) == 2
    assert store.get(schedule) is None
    assert store.get(living) is not None


@pytest.mark.parametrize("key", ["duetime-file:nightly:jobs.a", "duetime:task:tasks:report"])
def test_what_a_file_or_code_declares_stays_until_it_is_deleted(
    store: BaseStore, hand: Hand, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its row, it would be created again. More of them than one look covers keep nothing else."""
    for queries in (sqlite.SQL, postgres.SQL):
        monkeypatch.setitem(queries, "prune_schedules", queries["prune_schedules"].replace("LIMIT 5000", "LIMIT 1"))
    ended, cancelled = create_one(store, once(key=key)), create_one(store, every(MINUTE, key=f"{key}2"))
    retired = create_one(store, every(MINUTE, key=f"{key}3", fingerprint="retired"))
    other = create_one(store, once())
    hand.record(hand.claim(T0), T0 + MINUTE)
    for each in (cancelled, retired):
        store.change(each, Instant(T0 + MINUTE), changes.cancel)
    while store.prune(Instant(T0 + DAY), 100):
        pass
    assert runs_of(store, ended) == []
    assert [store.get(each) is not None for each in (ended, cancelled, retired, other)] == [True, True, False, False]
    store.change(cancelled, Instant(T0 + 2 * MINUTE), changes.delete)
    assert store.prune(Instant(T0 + DAY), 100) == 1
    assert store.get(cancelled) is None


def test_what_was_skipped_before_the_end_is_no_reason_to_stay(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    (claim,) = hand.claim(T0 + MINUTE)
    hand.claim(T0 + 2 * MINUTE)
    hand.record([claim], T0 + 2 * MINUTE)
    store.change(schedule, Instant(T0 + 2 * MINUTE), changes.delete)
    assert store.prune(Instant(T0 + DAY), 100) == 3
    assert store.get(schedule) is None


def test_ids_of_runs_are_never_used_again(store: BaseStore, hand: Hand) -> None:
    create(store, once())
    (claim,) = hand.claim(T0)
    hand.record([claim], T0)
    store.prune(Instant(T0 + DAY), 100)
    create(store, once())
    (later,) = hand.claim(T0)
    assert later.run.id > claim.run.id


def test_health_counts(store: BaseStore, hand: Hand) -> None:
    create(store, once(T0 + 1), once(T0 + 2), once(T0 + HOUR))
    hand.claim(T0 + 1, limit=1)
    health = store.health(Instant(T0 + MINUTE))
    assert (health.schedules, health.due, health.overdue, health.running) == (3, 2, 1, 1)
    assert health.oldest_due == T0 + 2
    assert health.details["engine"].split()[0] in {"SQLite", "PostgreSQL"}


def test_reading_whole_tables_keeps_little_of_them_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.stores.sqlite.store.SCAN_KILOBYTES", 16)

    class Busy(SqliteStore):
        def _rows(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
            if statement == sqlite.SQL["schedules_ahead"]:  # as a server at its start, which counts in another thread
                self.health(T0)
            return super()._rows(statement, values)

    store = Busy(tmp_path / "due.db")
    store.migrate()
    create(store, *[once(T0 + number) for number in range(3000)])
    assert store.ahead(T0, 10) == []
    readers = store._reader, store._worker_reader, store._scanner
    assert sum(each.status(apsw.SQLITE_DBSTATUS_CACHE_USED)[0] for each in readers) < 100_000
    store.close()


def test_waiting_ends_when_another_process_writes(engine: Engine, opener: Opener, store: BaseStore) -> None:
    if engine == "memory":
        pytest.skip("a store in memory has one process")
    other = opener()
    assert store.wait(0.01) is False
    heard: list[bool] = []
    waiting = threading.Thread(target=lambda: heard.append(store.wait(30)))
    waiting.start()
    while waiting.is_alive():
        create(other, once())
        waiting.join(0.05)
    assert heard == [True]


def test_closing_ends_the_waiting(opener: Opener) -> None:
    store = opener()
    store.migrate()
    heard: list[bool] = []
    begun = threading.Event()

    def wait() -> None:
        begun.set()
        heard.append(store.wait(60))

    waiting = threading.Thread(target=wait)
    waiting.start()
    begun.wait()
    store.close()
    waiting.join(30)
    assert heard == [False]


def test_a_closed_store_says_so(opener: Opener) -> None:
    store = opener()
    store.migrate()
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.create([once()])
    with pytest.raises(StoreUnavailable, match="closed"):
        store.workers()


def test_backups(engine: Engine, store: BaseStore, tmp_path: Path) -> None:
    schedule = create_one(store, every(MINUTE))
    target = tmp_path / "copy.db"
    if engine == "postgres":
        with pytest.raises(StoreUnusable, match="pg_dump"):
            store.backup(str(target))
        return
    store.backup(str(target))
    copy = SqliteStore(target)
    assert copy.get(schedule) == store.get(schedule)
    copy.close()
    assert [path.name for path in tmp_path.glob("copy*.partial")] == []


def test_a_backup_of_a_busy_store_comes_to_an_end(tmp_path: Path) -> None:
    """Another process commits between any two steps of the copy, which shows what was there when it began."""
    store, other = SqliteStore(tmp_path / "busy.db"), SqliteStore(tmp_path / "busy.db")
    store.migrate()
    store.create([once(payload=json.dumps("x" * 60_000)) for _ in range(150)])
    parts: list[float] = []

    def told(done: float) -> None:
        parts.append(done)
        assert len(parts) < 100, "it begins again and again"
        create(other, once())

    store.backup(str(tmp_path / "copy.db"), told)
    assert len(parts) > 1 and parts == sorted(parts) and parts[-1] == 1
    copy = SqliteStore(tmp_path / "copy.db")
    assert copy.health(T0).schedules == 150 < store.health(T0).schedules
    for each in (store, other, copy):
        each.close()


def test_a_run_that_was_pruned_is_not_there(store: BaseStore, hand: Hand) -> None:
    create(store, once())
    (claim,) = hand.claim(T0)
    hand.record([claim], T0)
    assert the_run(store, claim.run.id).status == RunStatus.COMPLETED
    store.prune(Instant(T0 + DAY), 1)
    assert store.run(claim.run.id) is None
