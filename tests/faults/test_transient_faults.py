"""No descriptors, no memory, a read that failed: work goes on when it has passed, and no schedule is given up."""

from __future__ import annotations

import errno
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.errors import TRANSIENT, StoreUnavailable, StoreUnusable, UnknownZone
from duetime.engine.model import ScheduleState
from duetime.engine.store import RunQuery
from duetime.engine.times import zones
from duetime.engine.triggers import IntervalTrigger
from duetime.engine.triggers import build as serialization
from duetime.engine.worker.lease import ExchangeAge
from duetime.engine.worker.threads import Engine
from duetime.engine.worker.worker import WorkerOptions
from duetime.stores.sqlite.error_translation import translated
from duetime.stores.sqlite.store import SqliteStore
from tests.support.drafts import T0, draft, once
from tests.support.hand import Hand, create_one, the
from tests.support.unreliable import Play
from tests.support.workers import CLOCK, eventually

FAULTS = {
    "no descriptors": OSError(errno.EMFILE, "Too many open files"),
    "no descriptors in the system": OSError(errno.ENFILE, "Too many open files in system"),
    "a failed read": OSError(errno.EIO, "Input/output error"),
    "no memory": MemoryError(),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "due.db")
    opened.migrate()
    yield opened
    opened.close()


class Failing:
    """A store of which the first calls of each named method fail."""

    def __init__(self, store: SqliteStore, error: Exception, calls: int = 1) -> None:
        self._store, self._error, self._calls = store, error, calls
        self.failed: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._faulty(name, found) if name in ("record_and_claim", "workers", "beat", "wait") else found

    def _faulty(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.failed[name] < self._calls:
                self.failed[name] += 1
                raise self._error
            return method(*args, **kwargs)

        return call


@pytest.mark.parametrize("fault", FAULTS)
def test_a_worker_outlives_the_fault_and_breaks_nothing(
    store: SqliteStore, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    ids = [create_one(store, once(at=CLOCK.now())) for _ in range(3)]
    failing = Failing(store, FAULTS[fault])
    engine = Engine(failing, {"job": Play()}, CLOCK, WorkerOptions(threads=2, lease=2.0))
    with caplog.at_level(logging.WARNING, "duetime.worker"):
        engine.start()
        eventually(lambda: store.runs(RunQuery(status="completed", limit=1)).total == 3, 30, "all of it runs")
        eventually(lambda: len(failing.failed) == 4, 30, "every thread met the fault")
    assert engine.stop() == 0
    assert engine.failure is None
    assert [the(store, id).progress.state for id in ids] == [ScheduleState.ENDED] * 3
    assert "retried" in caplog.text


def test_a_worker_that_is_too_old_for_the_store_leaves_its_work_to_others(store: SqliteStore) -> None:
    outdated, current = (
        Engine(store, {"job": Play()}, CLOCK, WorkerOptions(threads=2, lease=1.0, known_schema=schema))
        for schema in (1, store.known_schema)
    )
    outdated.start()
    eventually(lambda: isinstance(outdated.failure, StoreUnusable), 30, "it hears of the upgrade with a heartbeat")
    create_one(store, once(at=CLOCK.now()))
    current.start()
    eventually(lambda: store.runs(RunQuery(status="completed", limit=1)).total == 1, 30, "the other one runs it")
    eventually(lambda: len(store.workers()) == 1, 20, "and finds the outdated one silent")
    current.stop()
    outdated.stop()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_zone_that_cannot_be_read_just_now_breaks_no_schedule(
    store: SqliteStore, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand(store)
    trigger = IntervalTrigger(timezone="Antarctica/Troll", period=MINUTE, anchor=T0)
    schedule = create_one(store, draft(trigger, Instant(T0 + MINUTE)))
    _forget_zones()

    def fail(name: str) -> Any:
        raise FAULTS[fault]

    with monkeypatch.context() as patch:
        patch.setattr(zones, "ZoneInfo", fail)
        with pytest.raises(TRANSIENT):
            hand.claim(T0 + MINUTE)
    assert the(store, schedule).progress.state == ScheduleState.ACTIVE
    [claim] = hand.claim(T0 + MINUTE)
    assert claim.definition.id == schedule


def test_no_descriptor_for_a_zone_file_is_not_an_unknown_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    _forget_zones()

    def fail(name: str) -> Any:
        raise FAULTS["no descriptors"]

    monkeypatch.setattr(zones, "ZoneInfo", fail)
    with pytest.raises(OSError, match="Too many open files"):
        zones.known_zone("Antarctica/Troll")


@pytest.mark.parametrize("name", ["America", "Europe/Berlin/Mitte", "Mars/Olympus"])
def test_a_name_without_a_zone_file_is_still_unknown(name: str) -> None:
    with pytest.raises(UnknownZone):
        zones.known_zone(name)


def test_zones_read_at_the_start_need_no_file_later(monkeypatch: pytest.MonkeyPatch) -> None:
    _forget_zones()
    zones.preload()

    def fail(*_: object) -> Any:
        raise FAULTS["no descriptors"]

    monkeypatch.setattr(zones, "ZoneInfo", fail)
    monkeypatch.setattr(zones, "available_timezones", fail)
    assert zones.known_zone("Antarctica/Troll").key == "Antarctica/Troll"
    assert zones.suggestions("Asia/Tokio")[0] == "Asia/Tokyo"


def test_a_database_file_that_is_there_is_opened_again_later(tmp_path: Path, store: SqliteStore) -> None:
    with pytest.raises(StoreUnavailable, match="retried"), translated(store.path):
        raise apsw.CantOpenError("unable to open database file")
    with pytest.raises(StoreUnusable), translated(str(tmp_path / "nowhere" / "due.db")):
        raise apsw.CantOpenError("unable to open database file")
    with pytest.raises(StoreUnavailable), translated(store.path):
        raise MemoryError


def test_the_age_of_the_last_exchange_is_known_while_a_worker_runs(store: SqliteStore) -> None:
    failing = Failing(store, FAULTS["a failed read"], calls=10**6)
    age = ExchangeAge(CLOCK)
    engine = Engine(failing, {"job": Play()}, CLOCK, WorkerOptions(threads=1, lease=2.0), age)
    assert age.seconds is None
    engine.start()
    create_one(store, once(at=CLOCK.now()))
    eventually(lambda: age.too_old, 30, "nothing was exchanged for longer than half a lease")
    failing._calls = 0
    eventually(lambda: not age.too_old, 30, "the exchange goes on")
    engine.stop()
    assert age.seconds is None


def _forget_zones() -> None:
    zones._zone.cache_clear()
    serialization.trigger_from_json.cache_clear()
    serialization._built.clear()
