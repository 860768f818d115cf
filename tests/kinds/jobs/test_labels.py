"""Work that needs a label: `@task(needs="gpu")` runs on workers with that label, and who waits for one is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duetime.engine.errors import InvalidInput
from duetime.engine.model import Trouble
from duetime.engine.store import ScheduleQuery
from duetime.engine.worker.worker import Worker, WorkerOptions
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.pipeline import Planner
from duetime.kinds.jobs.registry import InvalidTask, Registry
from duetime.service.operations.attention import ListAttention, attention
from duetime.service.operations.status import status
from duetime.service.services import Call
from duetime.settings import Settings, load_settings
from duetime.testing import Simulation
from tests.support.isolated import registry as isolated

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Painters:
    """A store with a worker, which has no label, or these."""

    def __init__(self, url: str, *labels: str) -> None:
        self.calls: list[str] = []
        self.registry = Registry()
        settings = Settings(db=url, timezone="UTC", labels=labels)

        @self.registry.task(needs="gpu")
        def paint(text: str = "sky") -> str:
            self.calls.append(text)
            return text

        @self.registry.task(needs="mac")
        def sign(text: str) -> str:
            return text

        @self.registry.task
        def plain(text: str = "plain") -> str:
            self.calls.append(text)
            return text

        self.simulation = Simulation(NOON, settings=settings, registry=self.registry)
        self.duetime = self.simulation.duetime
        self.store = self.duetime.app.store

    def beside(self, *labels: str, registry: Registry | None = None) -> Worker:
        """Register another worker on the store, with these labels."""
        kinds = {"job": JobKind(registry or self.registry, labels=labels)}
        worker = Worker(self.store, kinds, self.simulation.clock, WorkerOptions(name="other", lead=0))
        worker.register()
        return worker

    def lanes(self) -> list[str]:
        return sorted(self.store.lanes())

    def call(self, owner: str = "local") -> Call:
        call = self.duetime.app.call
        return call._replace(caller=call.caller._replace(owner=owner, operator=owner == "local"))


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return ":memory:" if request.param == "sqlite" else request.getfixturevalue("clean_postgres_url")


@pytest.fixture
def painters(url: str) -> Iterator[Painters]:
    made = Painters(url)
    yield made
    made.simulation.close()


@pytest.fixture
def gifted(url: str) -> Iterator[Painters]:
    """With the label."""
    made = Painters(url, "gpu")
    yield made
    made.simulation.close()


def names_label(warnings: Iterable[object]) -> bool:
    return any("has the label gpu;" in str(each) for each in warnings)


def test_a_worker_without_the_label_leaves_the_work_alone(painters: Painters) -> None:
    painters.duetime.schedule("paint", delay=10)
    painters.duetime.schedule("plain", delay=10)
    painters.duetime.schedule("paint", delay=10, at_most_once=True)
    assert painters.lanes() == ["job", "job@gpu", "job@gpu:exact"]
    painters.simulation.advance(timedelta(hours=1))
    assert painters.calls == ["plain"]
    assert [run.status for run in painters.simulation.runs()] == ["completed"]


def test_a_worker_with_the_label_does_both(gifted: Painters) -> None:
    gifted.duetime.schedule("paint", args=["one"], every="1h", max_runs=2)
    gifted.duetime.schedule("plain", delay=10)
    gifted.duetime.schedule("paint", args=["once"], delay=20, at_most_once=True)
    gifted.simulation.advance(timedelta(hours=2))
    assert gifted.calls == ["plain", "once", "one", "one"]


def test_what_a_dead_worker_held_stays_with_its_label(gifted: Painters) -> None:
    gifted.duetime.schedule("paint", delay=10)
    gifted.simulation.clock.move_to(NOON + timedelta(seconds=11))
    gifted.simulation.crash()
    other = gifted.beside()
    gifted.simulation.advance(timedelta(seconds=1))
    while gifted.lanes() != ["job@gpu:solo"]:
        gifted.simulation.clock.move_to(gifted.simulation.now + timedelta(seconds=1))
        other.beat()
        other.rescue()
    other.notice()
    assert not other.tick() and gifted.calls == []
    gifted.simulation.advance(MINUTE)
    assert gifted.calls == ["sky"]


def test_a_pipeline_needs_what_its_tasks_need(gifted: Painters) -> None:
    gifted.duetime.schedule("plain('a') | paint", delay=10)
    assert gifted.lanes() == ["job@gpu"]
    with pytest.raises(InvalidInput, match="different labels, gpu and mac"):
        gifted.duetime.schedule("paint | sign", delay=10)
    gifted.simulation.advance(MINUTE)
    assert gifted.calls == ["a", "a"]


def test_an_edit_follows_the_task(painters: Painters) -> None:
    schedule = painters.duetime.schedule("plain", every="1h")
    schedule.edit(fields={"task": "paint"})
    assert painters.lanes() == ["job@gpu"]
    schedule.edit(max_attempts=3)
    assert painters.lanes() == ["job@gpu"]
    schedule.edit(fields={"task": "plain"})
    assert painters.lanes() == ["job"]
    painters.simulation.advance(timedelta(hours=1))
    assert painters.calls == ["plain"]


def test_work_that_is_older_than_its_need_waits_with_a_reason(gifted: Painters) -> None:
    """Its schedule has no label yet, so any worker takes it; the one without the label gives it back."""
    schedule = gifted.duetime.schedule("plain", every="1h")
    newer = Registry()
    newer.task(name="plain", needs="gpu")(lambda text="": gifted.calls.append(text))
    other = gifted.beside(registry=newer)
    gifted.simulation.clock.move_to(NOON + timedelta(hours=1))
    other.notice()
    while other.tick():
        pass
    [run] = gifted.simulation.runs()
    assert run.status == "pending" and "plain needs the label gpu, which this worker lacks" in str(run.error)
    assert gifted.calls == []
    gifted.simulation.advance(MINUTE)
    assert gifted.calls == ["plain"]
    gifted.duetime.app.services.kind(JobKind)._planner = Planner(newer)
    schedule.edit(max_attempts=2)
    assert gifted.lanes() == ["job@gpu"], "an edit brings it up to date"


def test_a_simulation_has_every_label() -> None:
    registry, calls = Registry(), list[int]()
    registry.task(needs="gpu", name="paint", every="1h")(lambda: calls.append(1))
    with Simulation(NOON, registry=registry) as simulation:
        simulation.advance(timedelta(hours=2))
        [schedule] = simulation.duetime.app.store.search(ScheduleQuery(limit=5)).items
    assert len(calls) == 2 and '"needs":"gpu"' in schedule.definition.policy


@pytest.mark.parametrize("label", ["GPU", "a b", "a,b", "job:x", "a@b", "é"])
def test_a_label_that_cannot_be_one(label: Any) -> None:
    with pytest.raises(InvalidTask, match="needs must be a label such as 'gpu'"):
        isolated.task(needs=label, name="odd")(lambda: None)
    with pytest.raises(InvalidInput, match="labels"):
        load_settings({"labels": (label,)}, environment={})


# -- who waits for a label is told ----------------------------------------------------------------------------------


def test_a_create_warns_if_no_worker_has_the_label(painters: Painters) -> None:
    assert names_label(painters.duetime.schedule("paint", every="1h").warnings)
    assert not names_label(painters.duetime.schedule("plain", every="1h").warnings)
    painters.beside("gpu")
    assert not names_label(painters.duetime.schedule("paint", every="2h").warnings)


def test_the_status_names_the_label(painters: Painters) -> None:
    assert not names_label(status(painters.call()).warnings)
    painters.duetime.schedule("paint", every="1h")
    answer = status(painters.call())
    [told] = [each for each in answer.warnings if each.code == "no_worker_for_label"]
    assert names_label([told.text]) and answer.value["all_right"] is False
    assert not names_label(status(painters.call("ann")).warnings), "of others, nobody hears"
    painters.beside("gpu", "mac")
    assert not names_label(status(painters.call()).warnings)
    assert [each.labels for each in painters.duetime.workers()] == [[], ["gpu", "mac"]]


def test_what_waits_for_a_label_is_one_incident_until_it_is_taken(painters: Painters) -> None:
    first = painters.duetime.schedule("paint", args=["first"], delay=60)
    for _ in range(3):
        painters.duetime.schedule("paint", delay=70)
    painters.simulation.advance(1.5 * MINUTE)
    painters.simulation.tell()
    assert painters.store.incidents(None, 5) == [], "a worker may be restarting"
    painters.simulation.advance(MINUTE)
    for _ in range(3):
        painters.simulation.tell()
    [incident] = painters.store.incidents(None, 5)
    assert (incident.public_id, incident.trouble, incident.number) == (first.id, Trouble.UNTAKEN, 1)
    assert "has the label gpu; start one with --label gpu" in incident.text
    [row] = attention(painters.call(), ListAttention()).value.items
    assert "waits" in row["headline"] and "Start a worker with the label" in row["next_step"]

    other = painters.beside("gpu")
    other.notice()
    while other.tick():
        pass
    assert sorted(painters.calls) == ["first", "sky", "sky", "sky"]
    assert painters.store.incidents(None, 5) == []
    painters.simulation.tell()
    assert painters.store.incidents_of([incident.schedule]) == [], "it is over"


def test_a_cancelled_one_makes_room_for_the_next(painters: Painters) -> None:
    first, second = [painters.duetime.schedule("paint", delay=60 + number) for number in range(2)]
    painters.simulation.advance(3 * MINUTE)
    painters.simulation.tell()
    first.cancel()
    painters.simulation.tell()
    assert [each.public_id for each in painters.store.incidents(None, 5)] == [second.id]


# -- lists and turns ------------------------------------------------------------------------------------------------


def test_lists_of_what_comes_contain_it(painters: Painters) -> None:
    paint = painters.duetime.schedule("paint", every="1h")
    plain = painters.duetime.schedule("plain", every="2h")
    painters.duetime.notify("tea", delay="30m", topic="kitchen")
    for kind, expected in (("job", [paint.id, plain.id]), ("notification", 1), (None, 3)):
        items = painters.store.search(ScheduleQuery(kind=kind, firing=True, limit=10)).items
        found = [each.definition.public_id for each in items]
        assert found == expected if isinstance(expected, list) else len(found) == expected


def test_neither_work_with_a_label_nor_work_without_one_waits_for_the_other(gifted: Painters) -> None:
    """Beside a backlog of each, a worker that claims one at a time takes both in turns."""
    for task in ("paint", "plain"):
        for _ in range(20):
            gifted.duetime.schedule(task, delay=10)
    gifted.simulation.clock.move_to(NOON + timedelta(seconds=20))
    worker = gifted.simulation.worker
    worker.batch = 1
    for _ in range(12):
        worker.tick()
    assert {gifted.calls.count("sky"), gifted.calls.count("plain")} <= {5, 6, 7}
