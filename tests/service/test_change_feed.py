"""What a listener hears: everything once, in order, whoever did it and however late it was committed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duetime.engine.clock import MINUTE, SECOND, Instant
from duetime.engine.kind import Caller
from duetime.engine.model import Run, RunId
from duetime.engine.outcome import Failed
from duetime.engine.validation import NewSchedule
from duetime.service.change_feed import BATCH, SLACK, Event, Follower, Position, position_of
from duetime.service.presenters import run_view
from duetime.service.services import Call, Services
from duetime.testing import Simulation
from tests.support.api import START
from tests.support.drafts import once
from tests.support.hand import Hand, create

ADA = Caller("ada")
HOURLY = NewSchedule("job", "n", "interval", {"hours": 1}, {"task": "echo"})


@pytest.fixture(params=["sqlite", "postgres"])
def simulation(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    url = ":memory:" if request.param == "sqlite" else request.getfixturevalue("clean_postgres_url")
    with Simulation(START, url=url) as made:
        yield made


class Listener:
    def __init__(
        self, simulation: Simulation, caller: Caller = ADA, since: Position | None = None, owner: str | None = None
    ) -> None:
        self.simulation, self.scheduler = simulation, simulation.duetime.scheduler
        owner = owner if caller.operator else caller.owner
        self.follower = Follower(Call(Services(self.scheduler), caller, "UTC"), owner, since)

    def hear(self) -> list[Event]:
        found = self.follower.look()
        self.position = found.position
        return found.events

    def types(self) -> list[str]:
        return [event.type for event in self.hear()]

    def wait(self, seconds: float) -> None:
        clock = self.simulation.clock
        clock.move_to(Instant(clock.now() + int(seconds * SECOND)))


def make(simulation: Simulation, count: int = 1, caller: Caller = ADA) -> list[str]:
    made = simulation.duetime.scheduler.create_many(caller, [HOURLY] * count)
    return [each.definition.public_id for each in made]


def test_everything_is_heard_once_however_often_one_looks(simulation: Simulation) -> None:
    ada = Listener(simulation)
    assert ada.types() == []
    [id] = make(simulation)
    assert ada.types() == ["schedule.created"]
    heard: list[str] = []
    for _ in range(8):
        heard += ada.types()
        ada.wait(SLACK / 2)
    assert heard == []
    simulation.clock.move_to(Instant(simulation.clock.now() + 60 * MINUTE))
    simulation.settle()
    assert ada.types() == ["run.fired", "run.ended"]
    for _ in range(8):
        heard += ada.types()
        ada.wait(SLACK / 2)
    assert heard == []
    ada.scheduler.pause(ADA, id)
    ada.scheduler.resume(ADA, id)
    assert ada.types() == ["schedule.changed"], "two changes between two looks are told as one"
    ada.scheduler.delete(ADA, id)
    assert ada.types() == ["schedule.deleted"]


def test_what_was_there_before_is_no_news(simulation: Simulation) -> None:
    make(simulation)
    simulation.settle()
    assert Listener(simulation).types() == []


def test_a_run_that_lives_long_is_heard_to_end(simulation: Simulation) -> None:
    hand = Hand(simulation.duetime.app.store, now=simulation.clock.now())  # type: ignore[arg-type]
    now = simulation.clock.now()
    create(simulation.duetime.app.store, once(now), once(now, owner="bob"))  # type: ignore[arg-type]
    ada = Listener(simulation)
    claims = hand.claim(now)
    assert ada.types() == ["run.fired"]
    for _ in range(5):
        ada.wait(SLACK * 2)
        assert ada.types() == []
    hand.record(claims, simulation.clock.now(), Failed("no"))
    [event] = ada.hear()
    assert (event.type, event.data["status"], event.data["schedule_status"]) == ("run.ended", "failed", "failed")


def test_a_run_that_lived_already_is_heard_to_end(simulation: Simulation) -> None:
    hand = Hand(simulation.duetime.app.store, now=simulation.clock.now())  # type: ignore[arg-type]
    now = simulation.clock.now()
    create(simulation.duetime.app.store, once(now))  # type: ignore[arg-type]
    claims = hand.claim(now)
    ada = Listener(simulation)
    assert ada.types() == []
    hand.record(claims, now)
    assert ada.types() == ["run.ended"]


def test_a_commit_that_comes_late_is_heard(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """On some stores a lower id may appear after a higher one: another process was slower to commit."""
    store = simulation.duetime.app.store
    hand = Hand(store, now=simulation.clock.now())  # type: ignore[arg-type]
    now = simulation.clock.now()
    create(store, once(now), once(now))  # type: ignore[arg-type]
    ada = Listener(simulation)
    first, second = sorted(hand.claim(now), key=lambda claim: claim.run.id)
    late: set[RunId] = {first.run.id}
    runs = store.runs

    def without_late(query: object) -> object:
        page = runs(query)  # type: ignore[arg-type]
        return page._replace(items=[run for run in page.items if run.id not in late])

    monkeypatch.setattr(store, "runs", without_late)
    assert [event.data["run_id"] for event in ada.hear()] == [second.run.id]
    ada.wait(1)
    late.clear()
    assert [event.data["run_id"] for event in ada.hear()] == [first.run.id]


def test_a_retry_that_ends_between_two_looks_is_heard_each_time(simulation: Simulation) -> None:
    store = simulation.duetime.app.store
    hand = Hand(store, now=simulation.clock.now())  # type: ignore[arg-type]
    create(store, once(simulation.clock.now()))  # type: ignore[arg-type]
    ada = Listener(simulation)
    [claim] = hand.claim(simulation.clock.now())
    hand.record([claim], simulation.clock.now(), Failed("no"))
    assert ada.types() == ["run.fired", "run.ended"]
    for _ in range(3):
        ada.wait(SLACK * 3)
        assert ada.types() == []
        ada.scheduler.retry(ADA, claim.run.id)
        hand.record(hand.claim(simulation.clock.now()), simulation.clock.now(), Failed("no"))
        assert ada.types() == ["schedule.changed", "run.fired", "run.ended"]
        assert ada.types() == []


def test_more_than_can_be_told_is_a_gap_and_then_it_goes_on(simulation: Simulation) -> None:
    ada = Listener(simulation)
    make(simulation, BATCH + 100)
    heard = ada.types()
    assert heard.count("schedule.created") == BATCH
    assert heard[-1] == "gap"
    simulation.clock.move_to(Instant(simulation.clock.now() + 60 * MINUTE))
    simulation.settle()
    heard = ada.types()
    assert heard.count("run.ended") == BATCH
    assert heard[-1] == "gap"
    ada.wait(SLACK * 3)
    ada.types()
    make(simulation)
    assert ada.types() == ["schedule.created"]


def test_a_listener_that_comes_back_hears_what_it_missed(simulation: Simulation) -> None:
    ada = Listener(simulation)
    make(simulation)
    ada.hear()
    position = ada.position
    assert position_of(str(position)) == position
    [second] = make(simulation)
    simulation.clock.move_to(Instant(simulation.clock.now() + 60 * MINUTE))
    simulation.settle()
    back = Listener(simulation, since=position)
    heard = [(event.type, event.data.get("id")) for event in back.hear()]
    assert ("schedule.created", second) in heard
    assert [type for type, _ in heard].count("run.ended") == 2
    assert back.types() == []


@pytest.mark.parametrize("text", [None, "", "x", "1-", "-1", "1-2-3", "g-1", "1" * 40 + "-1", "\u0661-\u0661"])
def test_what_no_stream_said_is_no_position(text: str | None) -> None:
    assert position_of(text) is None


def test_an_operator_hears_all_and_others_their_own(simulation: Simulation) -> None:
    root, bob = Listener(simulation, Caller("root", operator=True)), Listener(simulation, Caller("bob"))
    make(simulation)
    make(simulation, caller=Caller("bob"))
    assert root.types() == ["schedule.created"] * 2
    [event] = bob.hear()
    assert event.data["owner"] == "bob"


def test_an_operator_may_listen_to_one_owner_alone(simulation: Simulation) -> None:
    root = Listener(simulation, Caller("root", operator=True), owner="ada")
    make(simulation)
    make(simulation, caller=Caller("bob"))
    simulation.clock.move_to(Instant(simulation.clock.now() + 60 * MINUTE))
    simulation.settle()
    heard = root.hear()
    assert sorted(event.type for event in heard) == ["run.ended", "run.fired", "schedule.created"]
    assert {event.data["owner"] for event in heard} == {"ada"}


def test_what_began_before_a_listener_left_and_ended_meanwhile_is_heard_to_end(simulation: Simulation) -> None:
    hand = Hand(simulation.duetime.app.store, now=simulation.clock.now())  # type: ignore[arg-type]
    now = simulation.clock.now()
    create(simulation.duetime.app.store, once(now))  # type: ignore[arg-type]
    ada = Listener(simulation)
    claims = hand.claim(now)
    assert ada.types() == ["run.fired"]
    ada.wait(60)
    assert ada.types() == []
    hand.record(claims, simulation.clock.now())
    assert "run.ended" in Listener(simulation, since=ada.position).types()


def test_what_somebody_with_a_slow_clock_made_is_heard(simulation: Simulation) -> None:
    """Its instant lies a little before what was looked at already."""
    ada = Listener(simulation)
    ada.wait(60)
    assert ada.types() == []
    before = Instant(simulation.clock.now() - int(SLACK * SECOND))
    create(simulation.duetime.app.store, once(simulation.clock.now(), created=before))  # type: ignore[arg-type]
    assert ada.types() == ["schedule.created"]
    assert ada.types() == []


def test_missed_occurrences_end_without_having_begun(simulation: Simulation) -> None:
    ada = Listener(simulation)
    skip = NewSchedule("job", "n", "interval", {"hours": 1}, {"task": "echo"}, {"catch_up": "skip"})
    ada.scheduler.create(ADA, skip)
    ada.hear()
    simulation.clock.move_to(Instant(simulation.clock.now() + 150 * MINUTE))
    simulation.settle()
    [event] = ada.hear()
    assert (event.type, event.data["status"], event.data["occurrences"]) == ("run.ended", "missed", 2)
    [run] = [each for each in simulation.runs() if each.status == "missed"]
    for number, at_least in ((2, False), (-2, True)):  # below zero where nobody counted to the end
        view = run_view(run._replace(number=number), "UTC")
        assert (view["occurrences"], view["at_least"]) == (2, at_least)


def test_nothing_large_is_told(simulation: Simulation) -> None:
    ada = Listener(simulation)
    long = NewSchedule("job", "n", "once", {"run_at": "now"}, {"task": "echo", "args": ["x" * 5000]})
    ada.scheduler.create(ADA, long)
    simulation.settle()
    runs: list[Run] = simulation.runs()
    assert runs[0].result is not None
    for event in ada.hear():
        assert "result" not in event.data
