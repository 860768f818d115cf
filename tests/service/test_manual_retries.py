"""A manual retry changes no number of the past, and every interface says who retried the run, and when."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime.dashboard.schedule_stats import schedule_stats
from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import RunId
from duetime.engine.outcome import Failed
from duetime.service.operations.status import day_figures
from duetime.service.services import Call
from duetime.stores.base import BaseStore
from tests.support.browsing import Browser, signed_in_as
from tests.support.cli import Cli
from tests.support.drafts import once
from tests.support.hand import Hand, create
from tests.support.web import Site, site

PAYLOAD = '{"task": "echo", "args": ["hello"], "kwargs": {}}'
LATE = 10_000
"""Microseconds between the due time and the first start."""


class Scene:
    """A run that failed twice ten minutes ago, and that a person retries in the dashboard."""

    def __init__(self, there: Site) -> None:
        self.there = there
        assert isinstance(there.room.store, BaseStore)
        self.store = there.room.store
        self.now = there.room.clock.now()
        self.metrics()  # they count from here on
        due = Instant(self.now - 10 * MINUTE)
        given = {"owner": LOCAL, "payload": PAYLOAD, "max_attempts": 2, "backoff": 1, "grace": HOUR}
        [made] = create(self.store, once(due, created=Instant(due - HOUR), **given))
        self.schedule = made.definition.public_id
        self.hand = Hand(self.store, now=self.now)
        self.run = self.fail(due + LATE)
        self.fail(due + SECOND)

    @property
    def browser(self) -> Browser:
        return signed_in_as(self.there, "ada", owner=LOCAL)

    def fail(self, now: int) -> RunId:
        (claim,) = self.hand.claim(now)
        self.hand.record([claim], now + 1, Failed("it broke"))
        return claim.run.id

    def retry(self) -> None:
        assert self.browser.send(f"/runs/{self.run}/retry", {}).status == 303

    def json(self) -> Any:
        return self.there.ask("GET", f"/api/v1/runs/{self.run}", self.there.bearer(LOCAL)).json

    def metrics(self) -> str:
        return self.there.ask("GET", "/metrics", self.there.bearer(LOCAL, scopes=["operator"])).body.decode()

    def lateness(self) -> float | None:
        return day_figures(Call(self.there.room.services, Caller(LOCAL), "UTC")).lateness.value


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with site(tmp_path) as there:
        yield Scene(there)


def test_lateness_is_the_first_start_everywhere(scene: Scene, cli: Cli) -> None:
    def shown() -> list[Any]:
        printed = cli("run", "show", str(scene.run), "--db", scene.there.room.settings.db).out
        metrics = scene.metrics()
        return [
            scene.lateness(),
            scene.json()["late_seconds"],
            "late by 10 ms" in scene.browser.text(f"/runs/{scene.run}"),
            re.search(r"failed +.*\b10 ms\b", printed) is not None,
            re.findall(r'duetime_lateness_seconds_sum\{kind="job"} (.*)', metrics),
        ]

    before = shown()
    assert before == [LATE, LATE / SECOND, True, True, [str(LATE / SECOND)]]
    scene.retry()
    assert (scene.lateness(), scene.json()["late_seconds"]) == (LATE, LATE / SECOND), "while it waits"
    scene.fail(scene.there.room.clock.now() + SECOND)
    scene.fail(scene.there.room.clock.now() + MINUTE)
    assert shown() == before


def test_the_trace_says_who_retried_the_run_and_numbers_attempts_through(scene: Scene, cli: Cli) -> None:
    scene.retry()
    scene.fail(scene.there.room.clock.now() + SECOND)
    scene.fail(scene.there.room.clock.now() + MINUTE)

    _, page = re.split(" Due (?:Today|Yesterday) ", scene.browser.text(f"/runs/{scene.run}"), maxsplit=1)
    steps = re.findall(r"Attempt \d failed|Retried by ada \(dashboard\) \d\d:\d\d:\d\d", page)
    assert [step[:10] for step in steps] == ["Attempt 1 ", "Attempt 2 ", "Retried by", "Attempt 3 ", "Attempt 4 "], page
    assert "attempt 4 of 2" not in page

    run = scene.json()
    assert (run["attempt"], [each["attempt"] for each in run["attempts"]]) == (4, [1, 2, 3])
    assert [each["retried_by"] for each in run["attempts"]] == [None, "ada (dashboard)", None]
    assert [each["retried"] is not None for each in run["attempts"]] == [False, True, False]

    printed = cli("run", "show", str(scene.run), "--db", scene.there.room.settings.db).out
    assert re.search(r"retried .*by ada \(dashboard\)", printed), printed
    document = cli("run", "show", str(scene.run), "--json", "--db", scene.there.room.settings.db).document
    assert [each["retried_by"] for each in document["attempts"]] == [None, "ada (dashboard)", None]


def test_a_retried_run_is_still_a_failure_in_the_statistics(scene: Scene) -> None:
    path = f"/schedules/{scene.schedule}"
    assert "0 of 1 run in 30 days" in _statistics(scene, path)
    scene.retry()
    assert "0 of 1 run in 30 days" in _statistics(scene, path)
    assert scene.json()["attempt"] == 2, "the next attempt is the third"


def _statistics(scene: Scene, path: str) -> str:
    schedule = scene.store.find(scene.schedule)
    assert schedule is not None
    return schedule_stats(Call(scene.there.room.services, Caller(LOCAL), "UTC"), schedule).success_of


def test_a_run_says_who_started_it(scene: Scene) -> None:
    assert scene.json()["started_by"] is None
    reply = scene.browser.send(f"/schedules/{scene.schedule}/run", {})
    assert reply.status == 303
    run = scene.store.newest_run()
    shown = scene.there.ask("GET", f"/api/v1/runs/{run}", scene.there.bearer(LOCAL)).json
    assert shown["started_by"] == "ada (dashboard)"
    assert "started by ada (dashboard)" in scene.browser.text(f"/runs/{run}")
