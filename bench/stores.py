"""Stores for measurements: new and empty ones, and one with many schedules and past runs that several of them share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

from bench.processes import run_duetime, say

STORES = ("sqlite", "postgres")


class Stores:
    """Opens stores in a temporary folder, and databases on one PostgreSQL server for the whole run."""

    def __init__(self, filled: int) -> None:
        self._filled_size = filled
        self._filled: dict[str, str] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Stores:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def _server(self) -> str:
        from tests.support.postgres import server_url

        return self._stack.enter_context(server_url())

    def fresh(self, store: str) -> AbstractContextManager[str]:
        """Return a context with the URL of an empty store, which is removed at the end."""
        return _database(self._server) if store == "postgres" else _file()

    def filled(self, store: str) -> str:
        """Return the URL of a store with many schedules, each of which has run once. It is made on first use."""
        if store not in self._filled:
            url = self._stack.enter_context(self.fresh(store))
            say(f"filling a store on {store} with {self._filled_size:,} schedules and runs")
            run_duetime("fill", url=url, count=self._filled_size)
            if store == "postgres":
                _vacuum(url)
            self._filled[store] = url
        return self._filled[store]


# Processes that measure import this module as well, but do not need what they would wait for here.


def _database(server: str) -> AbstractContextManager[str]:
    from tests.support.postgres import empty_database

    return empty_database(server)


def _vacuum(url: str) -> None:
    """Do at once what PostgreSQL would otherwise do during the measurement."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


@contextmanager
def _file() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder:
        yield str(Path(folder) / "store.db")
