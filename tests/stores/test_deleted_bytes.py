"""What is deleted forever is in no row, and in no byte of the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from duetime.engine.clock import DAY, HOUR, MINUTE, Instant
from duetime.engine.model import ScheduleId
from duetime.engine.policy import changes
from duetime.engine.policy.changes import Edit
from duetime.stores.base import BaseStore
from duetime.stores.sqlite.store import SqliteStore
from tests.support.drafts import T0, every
from tests.support.hand import Hand, create, create_one, runs_of

CANARY = "canary-of-the-payload"
CALLBACK = {"on": "always", "kind": "request", "payload": {"url": "https://example.org/hook"}}
SIZES = {"small": 1, "beyond a page": 1000}
TABLES = {"schedules", "progress", "runs", "attempts", "tombstones", "incidents", "due"}


def forever(store: BaseStore, schedule: ScheduleId, now: int = T0 + HOUR) -> None:
    store.change(schedule, Instant(now), partial(changes.delete, forever=True))


def forever_after_a_delete(store: BaseStore, schedule: ScheduleId) -> None:
    remembered = ("task",)
    store.change(schedule, Instant(T0 + HOUR), partial(changes.delete, remembered=remembered))
    forever(store, schedule, T0 + 2 * HOUR)


def after_a_day(store: BaseStore, schedule: ScheduleId) -> None:
    store.change(schedule, Instant(T0 + HOUR), changes.delete)
    store.drop_tombstones(Instant(T0 + HOUR + DAY))


def forever_after_a_restore(store: BaseStore, schedule: ScheduleId) -> None:
    store.change(schedule, Instant(T0 + HOUR), changes.delete)
    store.change(schedule, Instant(T0 + HOUR), changes.restore)
    forever(store, schedule)


WAYS: dict[str, Callable[[BaseStore, ScheduleId], None]] = {
    "forever": forever,
    "forever after a delete": forever_after_a_delete,
    "forever after a restore": forever_after_a_restore,
    "a day after a delete": after_a_day,
}


def bytes_of(store: BaseStore, folder: Path) -> bytes:
    """Return everything that is stored: all rows, and all files after a checkpoint."""
    rows = [repr(store._rows(f"SELECT * FROM {table}", ())) for table in sorted(TABLES)]  # noqa: S608 - constants
    if isinstance(store, SqliteStore) and not store.in_memory:
        for file in folder.glob("backup*"):
            file.unlink()
        store.backup(str(folder / "backup.db"))
        assert list(store._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")) == [(0, 0, 0)]
    return b"".join([*(row.encode() for row in rows), *(file.read_bytes() for file in folder.iterdir())])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_deleted_is_nowhere(store: BaseStore, hand: Hand, tmp_path: Path, way: str, size: str) -> None:
    payload = '{"task": "%s"}' % (CANARY * SIZES[size])
    others = [every(HOUR, payload='{"task": "%s"}' % ("x" * number)) for number in range(0, 400, 9)]
    create(store, *others[::2])
    callbacks = [CALLBACK] if way != "a day after a delete" else []  # like inputs, they are history
    schedule = create_one(store, every(HOUR, payload=payload, callbacks=callbacks))
    create(store, *others[1::2])
    edit = Edit(payload=payload.replace("task", "text"))
    store.change(schedule, T0, lambda change: changes.edit(change, edit))
    if callbacks:
        store.change(schedule, Instant(T0 + MINUTE), lambda change: changes.fire(change, payload=payload))
        hand.record(hand.claim(T0 + MINUTE), T0 + MINUTE)
    assert CANARY.encode() in bytes_of(store, tmp_path)
    WAYS[way](store, schedule)
    assert CANARY.encode() not in bytes_of(store, tmp_path)
    assert b"xxxxxxxxx" in bytes_of(store, tmp_path), "that of others is"
    assert runs_of(store, schedule), "its history stays"
    kept = store._rows("SELECT payload FROM schedules WHERE substr(key, 1, 5) = '~run:'", ())
    assert [json.loads(text)["about"]["payload"] for (text,) in kept] == ["null"] * len(callbacks)
    assert all(json.loads(text)["url"] == "https://example.org/hook" for (text,) in kept), "it can still be sent"
