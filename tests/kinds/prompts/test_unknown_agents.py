"""Prompts whose agent the settings name no more: they wait, visibly, somebody is told, and another agent mends it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime.kinds.prompts.kind import UNKNOWN_TIMES
from duetime.settings import AgentSettings
from tests.support.stage import NOON, Stage
from tests.support.wordings import NO_CODER, not_editable

MINUTE = timedelta(minutes=1)
AGENTS = {"coder": AgentSettings(preset="claude"), "desk": AgentSettings(type="inbox")}
HELD = "there is no agent {} in the worker's settings; name it there, or give the task another agent"


class Installation:
    """One store, in which prompts were scheduled while the settings still named their agents."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._before = Stage(url, agents=AGENTS)
        self.made = self._before.make

    def without_agents(self) -> Stage:
        self._before.time.close()
        self.stage = Stage(self._url, start=NOON + MINUTE)
        return self.stage


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(str(tmp_path / "duetime.db"))
    yield made
    made.stage.time.close()


def told(stage: Stage) -> list[dict[str, Any]]:
    return [json.loads(run.result or "") for run in stage.time.runs() if run.kind == "notification"]


def row(stage: Stage, number: int) -> dict[str, Any]:
    rows: dict[int, dict[str, Any]] = {
        each["id"]: each for each in stage.ada.knows("schedule_list", status="all")["tasks"]
    }
    return rows[number]


@pytest.mark.parametrize("agent", ["coder", "desk"])
def test_a_list_says_why_it_waits(installation: Installation, agent: str) -> None:
    number = installation.made(at="in 2 minutes", agent=agent)
    stage = installation.without_agents()
    assert "held" not in row(stage, number)
    stage.time.advance(MINUTE)
    assert (row(stage, number)["status"], row(stage, number)["held"]) == ("running", HELD.format(agent))
    assert stage.ada.knows("prompt_result", id=number)["reason"] == HELD.format(agent)
    assert told(stage) == [], "another worker may know it"


def test_somebody_is_told_once(installation: Installation) -> None:
    """Of all that wait for the same agent, and on the topic that hears of their runs."""
    first = installation.made(at="in 2 minutes", agent="coder")
    installation.made(at="in 2 minutes", agent="coder")
    other = installation.made(at="in 2 minutes", agent="coder", deliver_to="garden", notify_on="failure")
    stage = installation.without_agents()
    stage.time.advance(UNKNOWN_TIMES * MINUTE)
    assert told(stage) == []
    stage.time.advance(10 * MINUTE)
    assert {each["topic"]: each["message"] for each in told(stage)} == {
        "duetime-alerts": f"Task #{first} is due and waits: {HELD.format('coder')}.",
        "garden": f"Task #{other} is due and waits: {HELD.format('coder')}.",
    }
    assert len(told(stage)) == 2
    assert HELD.format("coder") in row(stage, first)["held"]


def test_another_agent_mends_it_though_it_is_due(installation: Installation) -> None:
    number = installation.made("water the plants", every="1 hour", at="in 2 minutes", agent="coder")
    stage = installation.without_agents()
    stage.time.advance(MINUTE)
    for given in ({"prompt": "feed the cat"}, {"at": "in 3 hours"}, {"agent": "inbox", "at": "in 3 hours"}):
        assert stage.ada.hears("schedule_edit", given, id=number) == not_editable(number)
    assert stage.ada.hears("schedule_edit", id=number, agent="nobody") == (
        "Error: agent: there is no 'nobody'; choose from inbox"
    )
    edited = stage.ada.use("schedule_edit", id=number, agent="inbox")
    assert edited.text == f"Updated task #{number}: agent → inbox"
    assert (edited.structured["agent"], edited.structured["prompt"]) == ("inbox", "water the plants")
    stage.time.advance(MINUTE)
    assert "held" not in row(stage, number)
    taken = stage.ada.knows("take_prompt")
    assert (taken["id"], taken["prompt"]) == (number, "water the plants")
    assert stage.ada.hears("schedule_edit", id=number, agent="inbox") == not_editable(number), (
        "somebody is at work on it"
    )


def test_before_it_is_due_a_new_text_needs_an_agent_too(installation: Installation) -> None:
    number = installation.made(at="in 3 hours", agent="coder", max_runs_per_day=3)
    stage = installation.without_agents()
    assert stage.ada.hears("schedule_edit", id=number, prompt="feed the cat") == NO_CODER
    said = stage.ada.hears("schedule_edit", id=number, prompt="feed the cat", agent="inbox")
    assert said == f'Updated task #{number}: prompt → "feed the cat", agent → inbox'
    found = stage.app.scheduler.find(stage.ada.call.caller, str(number))
    assert found is not None and json.loads(found.definition.payload) == {
        "prompt": "feed the cat",
        "agent": "inbox",
        "max_runs_per_day": 3,
    }


def test_a_reminder_has_no_agent_to_change(installation: Installation) -> None:
    number = installation.made(at="in 3 hours", remind=True)
    said = installation.without_agents().ada.hears("schedule_edit", id=number, agent="inbox")
    assert said == "Error: agent: it is a reminder, which wakes no agent; schedule a new task for one."
