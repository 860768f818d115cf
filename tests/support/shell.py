"""Changes that somebody with a database shell might make to a store, bypassing the product."""

from __future__ import annotations

from duetime.engine.model import ScheduleId
from duetime.stores.base import BaseStore
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.sqlite.store import SqliteStore


def write(store: BaseStore, statement: str, *values: object) -> None:
    """Execute a statement, with `?` for parameters on either store."""
    if isinstance(store, PostgresStore):
        with store._writers.lend() as connection:
            connection.execute(statement.replace("?", "%s").encode(), values or None)
            connection.commit()
    else:
        assert isinstance(store, SqliteStore)
        with store._write():
            store._writer.execute(statement, values)


def break_trigger(store: BaseStore, schedule: ScheduleId) -> None:
    write(store, "UPDATE schedules SET trigger = 'x' WHERE id = ?", schedule)


def break_policy(store: BaseStore, schedule: ScheduleId) -> None:
    write(store, "UPDATE schedules SET policy = 'x' WHERE id = ?", schedule)


def go_back(store: BaseStore, schedule: ScheduleId, to: int) -> None:
    """Make the schedule plan from `to` on, although it has been there before."""
    write(store, "UPDATE progress SET next = ?, through = NULL WHERE schedule = ?", to, schedule)
