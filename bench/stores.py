"""Stores for measurements: new and empty ones, and one with many schedules and past runs that several of them share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

import psycopg

from bench.processes import run_duetime
from tests.support.postgres import empty_database, server_url

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
        return self._stack.enter_context(server_url())

    def fresh(self, store: str) -> AbstractContextManager[str]:
        """Return a context with the URL of an empty store, which is removed at the end."""
        return empty_database(self._server) if store == "postgres" else _file()

    def filled(self, store: str) -> str:
        """Return the URL of a store with many schedules, each of which has run once. It is made on first use."""
        if store not in self._filled:
            url = self._stack.enter_context(self.fresh(store))
            run_duetime("fill", url=url, count=self._filled_size)
            if store == "postgres":
                with psycopg.connect(url, autocommit=True) as connection:
                    connection.execute("VACUUM ANALYZE")
                    connection.execute("CHECKPOINT")
            self._filled[store] = url
        return self._filled[store]


@contextmanager
def _file() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder:
        yield str(Path(folder) / "store.db")
