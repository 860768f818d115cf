"""Readiness and metrics: what an operator's tools ask every few seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import StoreUnavailable
from duetime.engine.kind import Caller
from duetime.engine.model import RunId
from duetime.engine.outcome import Failed
from duetime.engine.store_interfaces import UNKNOWN, Living, Tally
from duetime.engine.validation import NewSchedule
from duetime.http.metrics import SLACK, Tallies
from tests.support.api import Api, serving_api
from tests.support.drafts import every, once
from tests.support.hand import Hand, create

ADA = Caller("ada")


@pytest.fixture(params=["sqlite", "postgres"])
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Api]:
    url = ":memory:" if request.param == "sqlite" else request.getfixturevalue("clean_postgres_url")
    with serving_api(tmp_path, url=url) as made:
        yield made


class Figures:
    """What a scrape says, by name and labels."""

    def __init__(self, api: Api) -> None:
        reply = api.http.get("/metrics", headers=api.bearer("root", "operator"))
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"].startswith("text/plain; version=")
        self._samples = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(reply.text)
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        return self._samples.get((f"duetime_{name}", tuple(sorted(labels.items()))), 0.0)


def schedule(api: Api, *news: NewSchedule) -> None:
    api.room.scheduler.create_many(ADA, news)


def hourly(task: str = "echo", **policy: object) -> NewSchedule:
    return NewSchedule("job", "n", "interval", {"hours": 1}, {"task": task}, policy)


# -- metrics ----------------------------------------------------------------------------------------------------------


def test_what_ran_is_counted_once_however_often_one_asks(api: Api) -> None:
    assert Figures(api)("runs_ended_total", kind="job", status="completed") == 0
    schedule(api, hourly(), hourly("fail"))
    told = Figures(api)
    for hours in range(1, 4):
        api.pass_time(hours=1)
        for _ in range(2):
            told = Figures(api)
            assert told("runs_ended_total", kind="job", status="completed") == hours
            assert told("runs_ended_total", kind="job", status="failed") == hours
            assert told("runs_claimed_total", kind="job") == 2 * hours
            api.pass_time(seconds=3)
    assert told("lateness_seconds_count", kind="job") == 6
    assert told("duration_seconds_count", kind="job") == 6
    assert told("duration_seconds_bucket", kind="job", le="0.005") == 6


def test_runs_that_take_long_are_counted_when_they_end(api: Api) -> None:
    Figures(api)
    hand = Hand(api.room.store, now=api.room.clock.now())  # type: ignore[arg-type]
    start = api.room.clock.now()
    create(api.room.store, once(start), once(start), once(start))  # type: ignore[arg-type]
    first, second, third = hand.claim(start)
    told = Figures(api)
    assert told("live_runs", kind="job", status="running") == 3
    assert told("runs_claimed_total", kind="job") == 3
    for _ in range(3):
        api.simulation.clock.move_to(Instant(api.room.clock.now() + 6 * SECOND))
        assert Figures(api)("runs_ended_total", kind="job", status="completed") == 0
    hand.record([first], api.room.clock.now())
    assert Figures(api)("runs_ended_total", kind="job", status="completed") == 1
    hand.record([second], api.room.clock.now(), Failed("no"))
    hand.record([third], api.room.clock.now())
    for _ in range(2):
        told = Figures(api)
        assert told("runs_ended_total", kind="job", status="completed") == 2
        assert told("runs_ended_total", kind="job", status="failed") == 1
        assert told("runs_claimed_total", kind="job") == 3
        assert told("duration_seconds_sum", kind="job") == pytest.approx(3 * 18)
        assert told("duration_seconds_bucket", kind="job", le="10.0") == 0
        assert told("duration_seconds_bucket", kind="job", le="30.0") == 3
        api.simulation.clock.move_to(Instant(api.room.clock.now() + 6 * SECOND))


def test_what_ran_before_the_process_began_is_not_counted(api: Api, tmp_path: Path) -> None:
    schedule(api, hourly())
    api.pass_time(hours=2)
    assert Figures(api)("runs_ended_total", kind="job", status="completed") == 0
    api.pass_time(hours=1)
    assert Figures(api)("runs_ended_total", kind="job", status="completed") == 1


def test_missed_occurrences_are_counted_one_by_one(api: Api) -> None:
    Figures(api)
    schedule(api, hourly(catch_up="skip"))
    api.simulation.clock.move_to(Instant(api.room.clock.now() + 5 * 3600 * SECOND + 600 * SECOND))
    assert Figures(api)("due_lag_seconds") == 4 * 3600 + 600
    assert Figures(api)("queue_depth", lane="job") == 1
    api.simulation.settle()
    told = Figures(api)
    assert told("runs_ended_total", kind="job", status="missed") == 5
    assert told("due_lag_seconds") == 0
    assert told("queue_depth", lane="job") == 0


def test_what_a_worker_died_with_is_due_as_well(api: Api) -> None:
    """It waits in a lane of its own, where one at a time is tried."""
    hand, start = Hand(api.room.store, now=api.room.clock.now()), api.room.clock.now()  # type: ignore[arg-type]
    create(api.room.store, once(start))  # type: ignore[arg-type]
    hand.claim(start)
    assert Figures(api)("due_lag_seconds") == 0
    hand.die(start)
    api.simulation.clock.move_to(Instant(start + 600 * SECOND))
    told = Figures(api)
    assert told("queue_depth", lane="job:solo") == 1
    assert 500 < told("due_lag_seconds") <= 600


class SlowStore:
    """Ids that another process was slow to commit appear below those that were seen already."""

    def __init__(self) -> None:
        self.ids: set[int] = set()

    def newest_run(self) -> RunId:
        return RunId(max(self.ids, default=0))

    def living(self) -> list[Living]:
        return []

    def tally(self, above: RunId, upto: RunId, _without: Sequence[RunId] = ()) -> list[Tally]:
        number = sum(above < id <= upto for id in self.ids)
        return [Tally("job", "completed", 1, UNKNOWN, UNKNOWN, number, 0, 0)]


def test_a_commit_that_comes_late_is_counted(api: Api) -> None:
    store: Any = SlowStore()
    clock = api.simulation.clock
    tallies = Tallies(store, clock)
    for appeared in ({1, 2}, {3, 9}, {5}, {10}, {11}):  # 5 within the time that a commit may take
        store.ids |= appeared
        assert tallies.look([]).ended["job", "completed"] == len(store.ids)
        clock.move_to(Instant(clock.now() + int((SLACK - 1 if appeared == {3, 9} else SLACK + 1) * SECOND)))


def test_workers_that_live(api: Api) -> None:
    api.simulation.worker.beat()
    assert Figures(api)("workers", session="0") == 1
    create(api.room.store, every())  # type: ignore[arg-type]
    api.simulation.clock.move_to(Instant(api.room.clock.now() + 60 * SECOND))
    assert Figures(api)("workers", session="0") == 0


def test_metrics_are_for_operators_and_for_whoever_runs_it_alone(api: Api, tmp_path: Path) -> None:
    assert api.http.get("/metrics").status_code == 401
    assert api.http.get("/metrics", headers=api.bearer("ada")).status_code == 403
    with serving_api(tmp_path, auth=False) as open_house:
        assert open_house.http.get("/metrics").status_code == 200


def test_a_store_that_is_away_leaves_metrics_away(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.room.store, "_rows", away)
    reply = api.http.get("/metrics", headers=api.bearer("root", "operator"))
    assert reply.status_code == 503
    assert "secret" not in reply.text


def away(*_: object) -> None:
    raise StoreUnavailable("/home/ada/secret/duetime.db is locked")


# -- readiness --------------------------------------------------------------------------------------------------------


def test_ready_while_a_worker_lives(api: Api) -> None:
    api.simulation.worker.beat()
    reply = api.http.get("/readyz")
    assert (reply.status_code, reply.json()["status"]) == (200, "ready")
    assert reply.json()["checks"] == {"store": "ok", "schema": "ok", "worker": "ok", "exchange": "ok"}
    api.simulation.clock.move_to(Instant(api.room.clock.now() + 60 * SECOND))
    reply = api.http.get("/readyz")
    assert (reply.status_code, reply.json()["status"]) == (503, "not ready")
    assert "duetime worker" in reply.json()["checks"]["worker"]
    assert api.http.get("/healthz").status_code == 200


def test_not_ready_without_its_store(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.room.store, "_rows", away)
    reply = api.http.get("/readyz")
    assert (reply.status_code, reply.json()["checks"]["store"]) == (503, "cannot be reached")
    assert "secret" not in reply.text


def test_not_ready_with_another_schema(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.simulation.worker.beat()
    monkeypatch.setattr(api.room.store, "known_schema", 1)
    reply = api.http.get("/readyz")
    assert reply.status_code == 503
    assert "this program knows 1" in reply.json()["checks"]["schema"]


def test_ready_beside_a_newer_schema_that_lets_older_code_write(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the first node that is upgraded would take all others out of the load balancer."""
    api.simulation.worker.beat()
    monkeypatch.setattr(api.room.store, "schema", lambda: api.room.store.known_schema + 1)
    assert api.http.get("/readyz").status_code == 200


def test_not_ready_while_the_worker_of_this_process_completes_no_exchange(api: Api) -> None:
    api.room.exchange_age.completed()
    api.simulation.worker.beat()
    assert api.http.get("/readyz").status_code == 200
    api.simulation.clock.move_to(Instant(api.room.clock.now() + 8 * SECOND))
    api.simulation.worker.beat()
    reply = api.http.get("/readyz")
    assert reply.status_code == 503
    assert reply.json()["checks"]["exchange"].startswith("the worker here has completed no exchange with the store")
    assert Figures(api)("exchange_age_seconds") == 8
