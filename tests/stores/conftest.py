"""Fixtures that run a test on every store and check at its end what must always hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from duetime.kinds.notifications.delivery import MESSENGER
from duetime.stores.base import BaseStore
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.sqlite.store import MEMORY, SqliteStore
from tests.support.hand import Hand
from tests.support.invariants import invariants

Engine = Literal["memory", "file", "postgres"]
Opener = Callable[[], BaseStore]


@pytest.fixture(params=["memory", "file", "postgres"])
def engine(request: pytest.FixtureRequest) -> Engine:
    chosen: Engine = request.param
    return chosen


@pytest.fixture
def opener(engine: Engine, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the same place again and again, as several processes would. In memory there is only one way in."""
    opened: list[BaseStore] = []
    database = getattr(request.module, "DATABASE", "clean_postgres_url")

    def open_again() -> BaseStore:
        if engine == "memory" and opened:
            return opened[0]
        if engine == "postgres":
            opened.append(PostgresStore(request.getfixturevalue(database), messenger=MESSENGER))
        else:
            opened.append(SqliteStore(MEMORY if engine == "memory" else tmp_path / "due.db", messenger=MESSENGER))
        return opened[-1]

    if engine == "postgres":
        request.getfixturevalue(database)  # asked for first, so that it is dropped last
    yield open_again
    for store in opened:
        store.close()


@pytest.fixture
def store(opener: Opener) -> Iterator[BaseStore]:
    opened = opener()
    opened.migrate()
    yield opened
    invariants(opened)


@pytest.fixture
def hand(store: BaseStore) -> Hand:
    return Hand(store)
