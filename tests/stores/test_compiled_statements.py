"""SQLite compiles the statements of workers once, whatever values are bound to them, and plans them as it would with
the values."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from duetime.stores.search import load_queries
from duetime.stores.sqlite.store import SqliteStore

SQL = load_queries("sqlite")


@pytest.mark.parametrize(
    ("name", "values_of"),
    [
        ("due_entries", lambda number: (f"lane {number}", number, number, 10)),
        ("due_heads", lambda number: (f"lane {number}", number, number, 10)),
        ("schedule_by_id", lambda number: (number,)),
    ],
)
def test_a_statement_is_compiled_once(tmp_path: Path, name: str, values_of: Callable[[int], tuple[Any, ...]]) -> None:
    store = SqliteStore(tmp_path / "my.db")
    store.migrate()
    compiled: list[str] = []

    def note(*_: Any) -> int:
        compiled.append(name)
        return apsw.SQLITE_OK

    try:
        for connection in (store._writer, store._worker_reader):
            compiled.clear()
            connection.authorizer = note  # SQLite asks it whenever it compiles a statement
            connection.execute(SQL[name], values_of(1)).fetchall()
            assert compiled, "the authorizer is asked"
            compiled.clear()
            connection.execute(SQL[name], values_of(2)).fetchall()
            assert compiled == []
            connection.authorizer = None
    finally:
        store.close()


@pytest.mark.parametrize("value", [5, "x", "[1, 2]"])
def test_the_plans_do_not_depend_on_the_values(tmp_path: Path, value: object) -> None:
    store = SqliteStore(tmp_path / "my.db")
    store.migrate()
    planned = 0
    try:
        for name, statement in SQL.items():
            if statement.startswith(("CREATE", "PRAGMA")):
                continue
            once, anew = plan(store._writer, statement, value, 1), plan(store._writer, statement, value, 0)
            assert once == anew, name
            planned += 1
    finally:
        store.close()
    assert planned > 150


def plan(connection: apsw.Connection, statement: str, value: object, compiles_once: int) -> list[str]:
    """Return the plan of a statement with the same value for each of its parameters."""
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, compiles_once)
    for number in range(60):
        with suppress(apsw.BindingsError):
            return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", [value] * number)]
    raise AssertionError("it has more parameters")
