"""What only PostgreSQL has: a server that goes away, a password to keep, a planner to lead."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from duetime.engine.clock import HOUR, SECOND, Instant
from duetime.engine.errors import InvalidInput, StoreUnavailable, StoreUnusable
from duetime.engine.model import RunId
from duetime.engine.outcome import Completed
from duetime.engine.policy import changes
from duetime.engine.policy.record import Receipt
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.stores.postgres.connections import Address
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.postgres.transaction import SQL
from duetime.stores.run_search import run_count
from duetime.stores.search import firing_page
from tests.support.drafts import T0, every, once
from tests.support.filling import OWNER, fill_runs
from tests.support.hand import Hand, create, create_one, the_run
from tests.support.invariants import checked_store, invariants
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer
from tests.support.workers import CLOCK, eventually

pytestmark = pytest.mark.postgres

OF_WORKERS = ("earliest", "earliest_but", "unreachable", "other_owners", "usages", "starts_at")
"""What workers read without a transaction."""


@pytest.fixture
def store(clean_postgres_url: str) -> Iterator[PostgresStore]:
    with checked_store(clean_postgres_url) as opened:
        yield opened


@pytest.fixture
def new_store(postgres_url: str) -> Iterator[PostgresStore]:
    """A store of the test's own, of whose tables the server has no statistics yet."""
    with checked_store(postgres_url) as opened:
        yield opened


class HandClock:
    """Monotonic time that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> Instant:
        return T0

    def monotonic(self) -> float:
        return self.seconds

    def boottime(self) -> float:
        return self.seconds


def test_a_process_that_is_forked_opens_connections_of_its_own(store: PostgresStore) -> None:
    pool = store._readers
    with pool.lend() as connection:
        session = connection.info.backend_pid
    read, write = os.pipe()
    child = os.fork()
    if not child:
        with pool.lend() as own:
            os.write(write, b"%d" % own.info.backend_pid)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        assert int(told.read()) != session
    os.waitpid(child, 0)
    with pool.lend() as connection:
        assert connection.info.backend_pid == session
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_server_that_goes_away_and_comes_back(private_postgres: PostgresServer) -> None:
    clock = HandClock()
    store = PostgresStore(private_postgres.url, clock)
    store.migrate()
    hand = Hand(store)
    schedule = create_one(store, once())
    (claim,) = hand.claim(T0)
    private_postgres.stop("immediate")
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            hand.record([claim], T0)
        with pytest.raises(StoreUnavailable):
            store.get(schedule)
        assert store.wait(0) is False
    private_postgres.start()
    clock.seconds += 10
    assert store.get(schedule) is not None
    assert hand.record([claim], T0) == [Receipt.RECORDED]
    assert hand.record([claim], T0) == [Receipt.ALREADY]
    invariants(store)
    store.close()


def test_a_restart_between_two_calls_goes_unnoticed(private_postgres: PostgresServer) -> None:
    store = PostgresStore(private_postgres.url)
    store.migrate()
    create(store, once())
    store.search(ScheduleQuery())
    private_postgres.stop()
    private_postgres.start()
    create(store, once())
    assert store.search(ScheduleQuery()).total == 2
    store.close()


def test_after_a_refusal_the_next_question_comes_later(private_postgres: PostgresServer) -> None:
    clock = HandClock()
    store = PostgresStore(private_postgres.url, clock)
    store.migrate()
    private_postgres.stop()
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        create(store, once())
    private_postgres.start()
    with pytest.raises(StoreUnavailable, match="continues when it is back"):
        create(store, once())
    clock.seconds += 0.1
    create(store, once())
    store.close()


def test_what_fires_next_is_read_along_the_queue_before_the_server_knows_how_much_an_owner_has(
    new_store: PostgresStore,
) -> None:
    """Statistics come a minute after a burst of creates: until then a plan by what an owner has would read it all."""
    create(new_store, *[once(T0 + number) for number in range(3_000)])
    statement, values = firing_page(ScheduleQuery(owner="ada", firing=True, limit=20), "job")
    plan = "\n".join(row[0] for row in new_store._rows(f"EXPLAIN {statement}", values))
    assert "due_by_owner" in plan
    assert "Sort" not in plan and "progress_by" not in plan and "schedules_by" not in plan


@pytest.mark.later
@pytest.mark.parametrize(
    "query",
    [
        ScheduleQuery(owner="ada"),
        ScheduleQuery(owner="ada", newest_first=True),
        ScheduleQuery(owner="ada", kind="job"),
        ScheduleQuery(owner="ada", status="pending"),
        ScheduleQuery(owner="ada", status="running"),
        ScheduleQuery(owner="ada", firing=True, due_to=Instant(T0 + HOUR)),
        ScheduleQuery(),
    ],
    ids=["own", "newest", "kind", "pending", "running", "firing", "all"],
)
def test_a_list_costs_what_it_shows_whatever_the_server_knows_about_the_tables(
    new_store: PostgresStore, query: ScheduleQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right after a burst of creates there are no statistics; when they come, the planner has other reasons to read
    everything that an owner has."""
    create(new_store, *[once(T0 + number) for number in range(4_000)])
    read_rows, blocks = new_store._rows, 0

    def measured(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        nonlocal blocks
        [([plan],)] = read_rows(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", values)
        blocks += plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
        return read_rows(statement, values)

    monkeypatch.setattr(new_store, "_rows", measured)
    for statistics in ("missing", "present"):
        blocks = 0
        shown = len(new_store.search(replace(query, limit=100, count_to=200)).items)
        assert blocks < 100 + 8 * shown, f"{blocks:,} blocks were read while statistics were {statistics}"
        with new_store._readers.lend() as connection:
            connection.execute("ANALYZE")


def test_progress_is_updated_on_its_page_without_new_index_entries(store: PostgresStore) -> None:
    """Two updates a run, at its claim and at its end; neither changes a column that an index of `progress` names."""
    runs = 200
    create(store, *[every(HOUR, T0) for _ in range(runs)])
    hand = Hand(store)
    before = _updates(store)
    for number in range(3):
        now = T0 + (number + 1) * HOUR
        claims = hand.claim(now, limit=runs)
        assert len(claims) == runs
        hand.record(claims, now)
    updated, without_index = (after - earlier for after, earlier in zip(_updates(store), before, strict=True))
    assert updated == 3 * 2 * runs
    assert without_index >= 0.95 * updated  # a few find their page full


def _updates(store: PostgresStore) -> tuple[int, int]:
    """Return how many rows of `progress` were updated, and how many of them without a new index entry."""
    with store._writers.lend() as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        connection.commit()
    counts = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'progress'"
    [(updated, without_index)] = store._rows(counts, ())
    return updated, without_index


IDLE = """SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND state = 'idle in transaction'"""  # other tests may share the server


def test_a_session_that_is_ended_by_the_server_loses_its_transaction(store: PostgresStore) -> None:
    create(store, once())
    with pytest.raises(StoreUnavailable), store._write() as tx:
        tx.new_schedule_ids(1)
        [(pid,)] = store._rows(IDLE, ())
        store._rows("SELECT pg_terminate_backend(?)", (pid,))
        tx.new_schedule_ids(1)
    create(store, once())
    assert store.search(ScheduleQuery()).total == 2


def test_the_server_ends_a_transaction_that_is_idle(store: PostgresStore) -> None:
    schedule = create_one(store, once())
    with pytest.raises(StoreUnavailable, match="connection was lost"), store._write() as tx:
        tx._db.execute("SET idle_in_transaction_session_timeout = 20")
        assert tx.lock_schedule(schedule) is not None
        # Waits for the lock, which comes free only because the server ends the idle transaction.
        store.change(schedule, T0, changes.pause)
        tx.run(RunId(1))
    store.change(schedule, T0, changes.resume)


STOPPED = """
import os, signal, sys
import psycopg
from duetime.stores.postgres import connections
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.postgres.transaction import SQL

connections.WRITER_SETTINGS["idle_in_transaction_session_timeout"] = "200ms"
connections.WRITER_SETTINGS["tcp_user_timeout"] = "1s"
url, schedule, place = sys.argv[1:]
send = psycopg.Cursor.execute

def execute(cursor, statement, *values, **options):
    send(cursor, statement, *values, **options)
    if place == "amid" and statement == SQL["lock_progress"]:
        os.kill(os.getpid(), signal.SIGSTOP)
    return cursor

psycopg.Cursor.execute = execute
with PostgresStore(url)._write() as tx:
    tx.lock_schedule(int(schedule))
    if place == "before it reads":
        tx._db.pgconn.send_query(b"SELECT repeat('x', 1000) FROM generate_series(1, 50000)")
        tx._db.pgconn.flush()
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.parametrize("place", ["amid", "between"])
def test_a_process_that_is_stopped_in_a_transaction_does_not_keep_its_locks(
    store: PostgresStore, clean_postgres_url: str, place: str
) -> None:
    """It is stopped between two bursts of statements, or after the first statement of a burst."""
    change_beside_one_that_is_stopped(store, clean_postgres_url, place)


@pytest.mark.later
def test_nor_does_one_that_is_stopped_before_it_reads_much(private_postgres: PostgresServer) -> None:
    """The server waits for room to send the rest, and only the network can tell it that nobody reads."""
    port = free_port()
    private_postgres.stop()
    with (private_postgres._data / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write(f"listen_addresses = '127.0.0.1'\nport = {port}\n")
    private_postgres.start()
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    with checked_store(url) as store:
        change_beside_one_that_is_stopped(store, url, "before it reads")


def change_beside_one_that_is_stopped(store: PostgresStore, url: str, place: str) -> None:
    schedule = create_one(store, once())
    child = subprocess.Popen([sys.executable, "-c", STOPPED, url, str(schedule), place])
    try:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        store.change(schedule, T0, changes.pause)
    finally:
        child.kill()
        child.wait()


def test_no_message_shows_the_password(private_postgres: PostgresServer) -> None:
    url = private_postgres.url.replace("postgres@", "postgres:hunter2@")
    store = PostgresStore(url)
    assert "hunter2" not in store.url
    assert "hunter2" not in repr(store.__dict__["url"])
    store.migrate()
    assert "hunter2" not in str(store.health(T0))
    private_postgres.stop()
    with pytest.raises(StoreUnavailable) as caught:
        store.create([once()])
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in str(caught.value.__cause__)
    store.close()


@pytest.mark.parametrize("url", ["postgresql://u:hunter2@h:port/x", "hunter2", "postgresql://u:hunter2@h/x?nonsense=1"])
def test_an_address_that_cannot_be_read_is_not_repeated(url: str) -> None:
    with pytest.raises(StoreUnusable, match="postgresql://user:password@host") as caught:
        PostgresStore(url).migrate()
    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_of_several_servers_the_one_that_accepts_writes_is_used(private_postgres: PostgresServer) -> None:
    """A standby is listed first; here, a server that answers as one does."""
    place = private_postgres.url.partition("host=")[2]
    store = PostgresStore(f"postgresql://postgres@/postgres?host=/nowhere,{place}")
    store.migrate()
    create(store, once())
    with psycopg.connect(private_postgres.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        connection.execute("SELECT pg_reload_conf()")
    store.close()
    one, several = PostgresStore(private_postgres.url), PostgresStore(f"{private_postgres.url},/nowhere")
    with pytest.raises(StoreUnavailable, match=r"accepts no writes here.* name them all in the URL"):
        create(one, once())
    with pytest.raises(StoreUnavailable, match=r"no server that accepts writes \(only a standby answers\)"):
        create(several, once())
    one.close()
    several.close()


def test_the_server_that_was_used_last_comes_first_without_a_look_at_the_others(
    private_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The DNS may take 10 seconds to refuse the name of a server that was removed."""
    looked_up, look_up = list[str](), socket.getaddrinfo

    def slow(host: str, *more: Any, **named: Any) -> Any:
        looked_up.append(host)
        return look_up(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    place = private_postgres.url.partition("host=")[2]
    address = Address(f"postgresql://postgres@/postgres?host=removed.invalid,{place}")
    first, second = address.connect({}), address.connect({})
    assert looked_up == ["removed.invalid"]
    private_postgres.stop()
    with pytest.raises(StoreUnavailable):
        address.connect({})
    assert looked_up == ["removed.invalid"] * 2, "all are tried after a failure"
    private_postgres.start()
    third = address.connect({})
    private_postgres.signal(signal.SIGSTOP)
    try:
        assert not address.answers(third) and address._last is None, "a server that hangs is not tried twice"
    finally:
        private_postgres.signal(signal.SIGCONT)
    for each in (first, second, third):
        each.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hunter2@one:1,two:2/db", "postgresql://me@one:1,two:2/db"),
        ("postgresql://me@one,two/db?port=5", "postgresql://me@one:5,two:5/db"),
        ("postgresql://me@one/db", "postgresql://me@one/db"),
    ],
)
def test_an_address_names_its_servers(url: str, shown: str) -> None:
    store = PostgresStore(url)
    assert store.url == shown
    store.close()


def test_a_pooler_that_shares_sessions_is_named(store: PostgresStore) -> None:
    """It gives a transaction another session, in which nothing was prepared."""
    create(store, once())
    with store._writers.lend() as connection:
        connection.execute("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")
    with pytest.raises(StoreUnusable, match=r"transaction mode.* session mode, with 11 connections"):
        create(store, once())
    with store._writers.lend() as connection:
        connection.close()


def test_a_server_that_hangs_is_left(private_postgres: PostgresServer) -> None:
    store = PostgresStore(private_postgres.url)
    store.migrate()
    lease = 2 * SECOND
    store.register("worker", ["job"], False, T0, lease)
    create(store, once())
    assert store.wait(0) is False  # it listens
    private_postgres.signal(signal.SIGSTOP)
    try:
        begun = CLOCK.monotonic()
        with pytest.raises(StoreUnavailable):
            create(store, once())
        assert CLOCK.monotonic() - begun < 15
        eventually(lambda: not any(map(is_open, list(store._watchdog.lent))), 10, "the idle ones are ended, too")
        assert store.wait(0) is False
    finally:
        private_postgres.signal(signal.SIGCONT)
    eventually(lambda: not fails(lambda: create(store, once())), 30, "it is used again")
    store.close()


def test_a_statement_that_takes_long_goes_on(store: PostgresStore) -> None:
    store._watchdog.patience = 0.0
    assert store._rows("SELECT 1 FROM pg_sleep(2.5)", ()) == [(1,)]
    assert store._watchdog._answered > 0, "the server was asked"


def is_open(connection: psycopg.Connection[Any]) -> bool:
    poll = select.poll()
    try:
        poll.register(connection.fileno(), select.POLLIN)
    except psycopg.OperationalError:  # it is closed
        return False
    return not poll.poll(0)


def fails(call: Callable[[], object]) -> bool:
    try:
        call()
    except StoreUnavailable:
        return True
    return False


def test_a_refusal_says_why(private_postgres: PostgresServer) -> None:
    store = PostgresStore(private_postgres.url.replace("/postgres?", "/nowhere?"))
    with pytest.raises(StoreUnavailable, match='database "nowhere" does not exist'):
        store.migrate()
    store.close()


def test_a_schema_of_its_own_is_made(clean_postgres_url: str, store: PostgresStore) -> None:
    other = PostgresStore(f"{clean_postgres_url}&options=-csearch_path%3Dapart")
    other.migrate()
    other.migrate()
    create(other, once(), once())
    create(store, once())
    assert other.search(ScheduleQuery()).total == 2
    assert store.search(ScheduleQuery()).total == 1
    other.close()


def test_an_outcome_with_nul_is_refused_whole(store: PostgresStore) -> None:
    hand = Hand(store)
    create(store, once(), once())
    claims = hand.claim(T0)
    with pytest.raises(InvalidInput, match="NUL"):
        hand.record(claims, T0, Completed('"a\0b"'))
    assert {the_run(store, claim.run.id).status for claim in claims} == {"running"}
    assert hand.record(claims, T0) == [Receipt.RECORDED] * 2


def test_what_is_too_large_for_an_index_is_refused(store: PostgresStore) -> None:
    import random

    noise = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=9000))
    with pytest.raises(InvalidInput, match="too large"):
        store.create([once(), once(owner=noise)])
    assert store.search(ScheduleQuery()).total == 0


def test_a_claim_reads_the_queue_in_its_order_and_no_further(new_store: PostgresStore) -> None:
    """Whatever the planner knows or does not know about the tables."""
    create(new_store, *[once(T0 + number) for number in range(2000)])
    for _ in range(2):
        with new_store._writers.lend() as connection:
            text = SQL["due_entries"].replace("%s", "{}").format("'job'", 0, 0, T0 + SECOND, T0, 5)
            plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN (ANALYZE, COSTS OFF) {text}".encode()))
            connection.rollback()
        assert "Sort" not in plan
        assert "Seq Scan" not in plan
        assert "Hash" not in plan
        assert "Index Scan using due_pkey on due" in plan.replace("Index Only Scan", "Index Scan")
        with new_store._readers.lend() as connection:
            connection.execute("ANALYZE")


def test_no_statement_reads_a_whole_table(new_store: PostgresStore) -> None:
    """Whatever the values are: statements that are executed often get such plans, and 1,000,000 rows take a second."""
    create(new_store, *[once(T0 + number) for number in range(20_000)])
    found = []
    for connections, names in ((new_store._writers, SQL), (new_store._readers, OF_WORKERS)):
        with connections.lend() as connection:
            connection.execute("ANALYZE")
            connection.execute("SET plan_cache_mode = force_generic_plan")
            for name in names:
                plan = generic_plan(connection, name)
                whole = (line for line in plan if re.search("Seq Scan on (due|progress|runs|schedules)", line))
                found += [(name, line.strip()) for line in whole]
            connection.rollback()
    assert found == []


def test_what_is_over_is_looked_up_by_its_key_when_old_schedules_are_deleted(new_store: PostgresStore) -> None:
    """Comparing each of 5,000 with all of them took a second and more for every batch of old history."""
    create(new_store, *[once(T0 + number) for number in range(6_000)])
    with new_store._writers.lend() as connection:
        connection.execute("BEGIN")
        connection.execute("UPDATE progress SET state = 'ended'")
        plan = generic_plan(connection, "prune_schedules")
        connection.rollback()
    assert sum("progress_over" in line for line in plan) == 1, "the oldest are read along it, and nothing else"


def test_the_runs_of_an_owner_are_counted_along_their_index(postgres_url: str) -> None:
    """Of a table larger than a quarter of its memory, the server keeps nothing that it reads as a whole, and reads it
    again for every page."""
    fill_runs(postgres_url, 20_000, T0)
    statement, values = run_count(RunQuery(owner=OWNER))
    with closing(PostgresStore(postgres_url)) as store:
        plan = "\n".join(row[0] for row in store._rows(f"EXPLAIN (ANALYZE, COSTS OFF) {statement}", values))
    assert "Index Only Scan Backward using runs_owner on runs" in plan


def generic_plan(connection: psycopg.Connection[Any], name: str) -> list[str]:
    """Return the lines of the plan that serves any values."""
    first, *rest = SQL[name].split("%s")
    text = first + "".join(f"${number}{part}" for number, part in enumerate(rest, start=1))
    connection.execute(f"PREPARE planned AS {text}".encode())
    values = f"({', '.join('NULL' for _ in rest)})" if rest else ""
    plan = connection.execute(f"EXPLAIN EXECUTE planned {values}".encode()).fetchall()
    connection.execute("DEALLOCATE planned")
    return [line for (line,) in plan]


def test_creates_and_runs_store_none_of_the_columns_apart(new_store: PostgresStore) -> None:
    """A function in FROM stores what it returns first, and a create has 18 arrays."""
    found = {}
    with new_store._writers.lend() as connection:
        for name in (
            *("create_few", "insert_schedules", "insert_progress", "insert_due", "insert_runs"),
            *("insert_claimed_runs", "insert_plain_runs", "update_progress", "start_progress", "update_runs"),
            *("complete_progress", "delete_due"),
        ):
            plan = generic_plan(connection, name)
            assert any("ProjectSet" in line for line in plan), name
            found[name] = sum("Function Scan" in line for line in plan)
        connection.rollback()
    assert found.pop("create_few") == 2, "those of the counters"
    assert not any(found.values()), found


def test_durability_is_never_switched_off(clean_postgres_url: str) -> None:
    store = PostgresStore(f"{clean_postgres_url}&options=-csynchronous_commit%3Doff")
    with store._writers.lend() as connection:
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    store.close()


def test_the_server_tells_the_time(store: PostgresStore) -> None:
    first, second = store.now(), store.now()
    assert first is not None
    assert second is not None
    assert T0 - 10**15 < first <= second


def test_own_commits_wake_nobody_here_and_distant_ones_nobody_at_all(
    store: PostgresStore, clean_postgres_url: str
) -> None:
    other = PostgresStore(clean_postgres_url)
    assert store.wait(0) is False
    create(store, once())
    create(other, once(T0 + 3600 * SECOND))
    assert store.wait(0.05) is False
    create(other, once())
    assert store.wait(30) is True
    other.close()


def test_more_threads_than_connections_take_turns(store: PostgresStore) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                create(store, once())
                store.search(ScheduleQuery(limit=1))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert store.search(ScheduleQuery()).total == 60
    sessions = store._rows("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'duetime'", ())[0][0]
    assert sessions <= 9


def test_without_the_driver_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['psycopg'] = None\nimport duetime.stores.postgres.store"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode
    assert "install duetime[postgres]" in done.stderr
