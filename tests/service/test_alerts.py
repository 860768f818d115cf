"""Alerts from a failure to a person: where they go, what they say, and when there are none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duetime import Duetime
from duetime.engine.policy.options import ALERTS
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.kinds.jobs.registry import Registry
from duetime.settings import ChannelSettings, NotificationSettings, Settings
from duetime.testing import Simulation
from tests.support.receiver import Behaviour, Receiver

EVENING = datetime(2026, 3, 2, 22, 0, tzinfo=UTC)


@pytest.fixture
def phone() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


def tasks(failing: list[bool]) -> Registry:
    registry = Registry()

    @registry.task
    def water() -> str:
        if failing:
            raise RuntimeError("no water in tank 7")
        return "watered"

    return registry


def simulation(phone: Receiver, failing: list[bool], **notifications: Any) -> Simulation:
    settings = Settings(
        db=":memory:",
        timezone="UTC",
        notifications=NotificationSettings(**notifications),
        channels={"phone": ChannelSettings(phone.url, "POST", {}, "{title}: {message}")},
    )
    return Simulation(EVENING, settings=settings, registry=tasks(failing))


def arrived(phone: Receiver) -> list[str]:
    return [request.body.decode() for request in phone.requests]


def alerts(now: Simulation) -> list[str]:
    """Return the titles of the messages about what goes wrong, oldest first, delivered or not."""
    messages = now.duetime.app.store.search(ScheduleQuery(kind="notification", subject=ALERTS, limit=1000)).items
    return [json.loads(each.definition.payload)["title"] for each in messages]


def pass_time(now: Simulation, **time: float) -> None:
    """Let time pass, and the owners be told, as a worker does."""
    now.advance(timedelta(**time))
    now.tell()
    now.settle()


@pytest.mark.parametrize(
    ("settings", "reaches_phone"),
    [
        ({}, False),
        ({"topic": "phone"}, True),
        ({"alerts": "phone"}, True),
        ({"topic": "phone", "alerts": "inbox"}, False),
    ],
)
def test_a_failure_reaches_a_person_once_and_so_does_its_end(
    phone: Receiver, settings: dict[str, str], reaches_phone: bool
) -> None:
    failing = [True]
    with simulation(phone, failing, **settings) as now:
        now.duetime.schedule("water", every=timedelta(hours=1), name="plants")
        for _ in range(3):
            pass_time(now, hours=1)
        failing.clear()
        for _ in range(3):
            pass_time(now, hours=1)
        assert alerts(now) == ["plants failed", "plants works again"]
        texts = ["plants failed: RuntimeError: no water in tank 7", "plants works again: plants works again"]
        assert arrived(phone) == (texts if reaches_phone else [])


def test_a_phone_that_cannot_be_reached_is_no_further_problem(phone: Receiver) -> None:
    phone.behave = lambda request: Behaviour(404)
    with simulation(phone, [True], alerts="phone") as now:
        now.duetime.schedule("water", every=timedelta(hours=1), name="plants", pause_after=0)
        for _ in range(30):
            pass_time(now, hours=1)
        assert {each.name for each in now.duetime.app.store.incidents(None, 100)} == {"plants"}
        assert alerts(now) == ["plants failed", "Still open: plants failed"]


# -- a laptop that sleeps --------------------------------------------------------------------------------------------


TIMES: list[dict[str, Any]] = [
    {"cron": "*/20 * * * *"},
    {"cron": "0 3 * * *"},
    {"every": timedelta(minutes=30)},
    {"every": timedelta(hours=5)},
    {"at": EVENING + timedelta(hours=4)},
    {"rrule": "FREQ=HOURLY;BYMINUTE=15"},
]


def everything(duetime: Duetime) -> None:
    """Schedules of every kind and every trigger, with the policies that they have by default."""
    for number, times in enumerate(TIMES):
        duetime.schedule("water", name=f"job {number}", **times)
        duetime.create("prompt", {"prompt": f"prompt {number}"}, **times)
        duetime.create("notification", {"message": f"message {number}", "topic": "inbox"}, **times)


def take_all(duetime: Duetime) -> None:
    """Let an agent take whatever waits."""
    while task := duetime.take_prompt():
        duetime.finish_prompt(task.run_id, "done")


@pytest.mark.parametrize("nights", [1, pytest.param(3, marks=pytest.mark.later)])
def test_a_night_of_sleep_is_no_message(phone: Receiver, nights: int) -> None:
    with simulation(phone, []) as now:
        everything(now.duetime)
        for _ in range(nights):
            for _ in range(6):
                pass_time(now, minutes=10)
                take_all(now.duetime)
            now.clock.move_to(now.now + timedelta(hours=9))
            now.settle()
            take_all(now.duetime)
            for _ in range(30):
                pass_time(now, minutes=10)
                take_all(now.duetime)
        pass_time(now, days=0.01)
        assert alerts(now) == []
        assert now.duetime.app.store.incidents(None, 100) == []
        assert now.duetime.app.store.runs(RunQuery(status="missed", limit=1)).total > 10, "much was missed"


@pytest.mark.parametrize("waits", [False, True])
def test_work_that_a_sleep_interrupts_is_no_message(phone: Receiver, waits: bool) -> None:
    """The laptop closes while prompts wait, or runs are in progress, whose worker is found dead in the morning."""
    with simulation(phone, []) as now:
        everything(now.duetime)
        for _ in range(5):
            pass_time(now, minutes=10)
            take_all(now.duetime)
        now.advance(timedelta(minutes=9))
        now.clock.move_to(now.now + timedelta(minutes=1))
        now.settle() if waits else now.crash()
        assert now.duetime.app.store.runs(RunQuery(status="waiting", limit=1)).total == (2 if waits else 0)
        now.clock.move_to(now.now + timedelta(hours=9))
        for _ in range(30):
            pass_time(now, minutes=10)
            take_all(now.duetime)
        assert alerts(now) == []
