"""A prompt with a condition costs no model call as long as nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from duetime.kinds.jobs.registry import Registry
from duetime.kinds.prompts.agents.models import EXAMPLE
from duetime.settings import AgentSettings, Settings
from duetime.testing import Simulation
from tests.support.model_server import ModelServer, say
from tests.support.notifying import START
from tests.support.size import FULL


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer([say("It is news.")]) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture(params=[pytest.param(":memory:", marks=pytest.mark.later), "file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("clean_postgres_url"))
    return str(tmp_path / "due.db") if request.param == "file" else str(request.param)


def test_a_thousand_polls_without_a_change_call_no_model_and_are_one_row(model: ModelServer, url: str) -> None:
    polls = 1000 if FULL or url == ":memory:" else 30
    registry, pages = Registry(), ["as ever"]
    registry.task(name="page")(lambda: pages[-1])
    settings = Settings(
        db=url,
        timezone="UTC",
        model=EXAMPLE,
        agent="reporter",
        agents={"reporter": AgentSettings(type="builtin")},
    )
    with Simulation(START, settings=settings, registry=registry) as simulation:
        simulation.duetime.prompt("Tell me what is new.", every="1m", only_if="page() | changed()")
        simulation.advance(timedelta(minutes=polls + 1))  # the first is a look without anything to compare with
        (row,) = simulation.runs()
        assert (row.status, row.number, row.error) == ("skipped", polls + 1, "nothing has changed")
        assert model.requests == []
        pages.append("something else")
        simulation.advance(timedelta(minutes=1))
        assert len(model.requests) == 1, "it would have been called"
        assert "something else" in model.requests[0].said[0]
        simulation.advance(timedelta(minutes=10))
        rows = [(run.status, run.number) for run in simulation.runs()]
        assert rows == [("skipped", polls + 1), ("completed", 1), ("skipped", 10)]
        assert len(model.requests) == 1
