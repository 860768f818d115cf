"""Every fault on every store: worker processes on a file, and on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from duetime.app import open_store
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.sqlite.store import SqliteStore
from tests.support.size import FULL
from tests.support.workers import Crew, crew

RealStore = SqliteStore | PostgresStore

LEASE = 2.0

ONE_STORE = pytest.mark.parametrize("store_url", ["sqlite", "postgres"] if FULL else ["sqlite"], indirect=True)
"""For what no store has a part in: the other one is tried with DUETIME_FULL=1."""


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    url: str = request.getfixturevalue("clean_postgres_url")
    return url


@pytest.fixture
def team(store_url: str, tmp_path: Path) -> Iterator[Crew]:
    with crew(store_url, tmp_path, lease=LEASE) as made:
        yield made


@pytest.fixture
def store(store_url: str) -> Iterator[RealStore]:
    made = open_store(store_url)
    assert isinstance(made, SqliteStore | PostgresStore)
    made.migrate()
    yield made
    made.close()
