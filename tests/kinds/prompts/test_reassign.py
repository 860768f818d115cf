"""A prompt that is due and waits for an agent that is not there: whoever edits it, by whatever face, mends it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from duetime.engine.kind import Caller
from duetime.engine.model import Schedule
from duetime.service.operations.run import RunAgain, run_again
from duetime.service.services import Call
from duetime.settings import AgentSettings
from tests.support.api import Api, Client
from tests.support.browsing import filled, page_of, signed_in
from tests.support.cli import Cli
from tests.support.stage import NOON, Stage
from tests.support.tokens import tokens_with
from tests.support.web import site

MINUTE = timedelta(minutes=1)


class Waiting:
    """A prompt for `coder`, due, on a stage whose settings name no such agent."""

    def __init__(self, url: str) -> None:
        before = Stage(url, agents={"coder": AgentSettings(preset="claude")})
        self.number = before.make("water the plants", every="1 hour", at="in 2 minutes", agent="coder")
        before.time.close()
        self.url, self.stage = url, Stage(url, start=NOON + MINUTE)
        self.stage.time.advance(MINUTE)
        assert "there is no agent coder" in self.listed()["held"]

    def listed(self) -> dict[str, str]:
        [row] = self.stage.ada.knows("schedule_list", status="all")["tasks"]
        return dict(row)

    def schedule(self) -> Schedule:
        found = self.stage.app.store.find(str(self.number))
        assert found is not None
        return found

    def is_taken(self) -> bool:
        """By whoever takes what waits in the inbox: it went on with the run that was due."""
        self.stage.time.advance(MINUTE)
        taken = self.stage.ada.knows("take_prompt")
        return (taken.get("id"), taken.get("prompt")) == (self.number, "water the plants")


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    made = Waiting(str(tmp_path / "my.db"))
    yield made
    made.stage.time.close()


@pytest.fixture
def ada(waiting: Waiting, tmp_path: Path) -> Client:
    time = waiting.stage.time
    return Api(time, tokens_with(time.duetime.app.store, tmp_path / "auth", time.clock)).client("ada")


def test_by_the_command_line(waiting: Waiting, cli: Cli) -> None:
    number = str(waiting.number)
    assert cli("prompt", "edit", number, "--every", "2h").code == 0, "it applies from the next occurrence"
    edited = cli("prompt", "edit", number, "--agent", "inbox", "--json")
    assert (edited.code, edited.document["payload"]["agent"]) == (0, "inbox")
    assert waiting.is_taken()
    assert cli("prompt", "edit", number, "--text", "x").code == 0, "whoever is at work on it keeps the old text"


def test_by_the_api(waiting: Waiting, ada: Client) -> None:
    path = f"/schedules/{waiting.number}"
    payload = {**ada.get(path)["payload"], "agent": "inbox"}
    assert ada.ask("PATCH", path, json={"name": "other"}).json()["name"] == "other"
    reply = ada.ask("PATCH", path, json={"payload": payload})
    assert (reply.status_code, reply.json()["payload"]["agent"]) == (200, "inbox")
    assert waiting.is_taken()
    assert ada.ask("PATCH", path, json={"payload": {"prompt": "x"}}).status_code == 200, "from the next occurrence on"


def test_by_the_form(waiting: Waiting, tmp_path: Path) -> None:
    with site(tmp_path, db=waiting.url) as served:
        browser, schedule = signed_in(served), waiting.schedule()
        form = filled(browser, schedule)
        assert form["agent"] == "coder"
        assert "Saved." in browser.follow(browser.send(page_of(schedule, "edit"), form | {"agent": "inbox"}))
    assert json.loads(waiting.schedule().definition.payload)["agent"] == "inbox"
    assert waiting.is_taken()


def test_an_edit_says_what_becomes_of_the_run_that_waits(tmp_path: Path) -> None:
    """It has the new values at once, so whoever edits it must not start another run for them."""
    stage = Stage(
        str(tmp_path / "my.db"), agents={name: AgentSettings(type="inbox") for name in ("desk", "yard")}, agent="desk"
    )
    number = str(stage.make("water the plants", every="1 hour", at="in 2 minutes"))
    assert "applies" not in stage.ada.knows("edit_schedule", schedule_id=number, prompt="water them")
    stage.time.advance(3 * MINUTE)
    edited = stage.ada.knows("edit_schedule", schedule_id=number, prompt="water them twice")
    assert edited["applies"] == "at once to run 1, which is waiting; do not start another one"
    edited = stage.ada.knows("edit_schedule", schedule_id=number, agent="yard")
    assert edited["applies"] == "at once to run 1, which is waiting and now goes to yard; do not start another one"
    busy = stage.ada.knows("run_now", schedule_id=number)["error"]
    assert busy == "an earlier run has not started yet; wait for run 1 to end"
    stage.time.advance(MINUTE)
    busy = stage.ada.knows("run_now", schedule_id=number)["error"]
    assert busy == "an earlier run is still waiting for an agent; have one take run 1, or cancel that run"
    taken = stage.ada.knows("take_prompt", agent="yard")
    assert (taken["run_id"], taken["prompt"]) == (1, "water them twice")
    edited = stage.ada.knows("edit_schedule", schedule_id=number, prompt="water them daily", agent="desk")
    assert edited["applies"] == "from the next run; the one that runs now keeps its values"
    assert stage.ada.knows("finish_prompt", run_id=1, result="done")["status"] == "completed"
    assert stage.ada.knows("take_prompt", agent="desk")["message"] == "Nothing is due.", "nothing is done twice"
    stage.time.close()


# -- a run with an input of its own ----------------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_run_with_its_own_input_stays_with_its_agent(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Also when it is retried after its schedule has gone to another one, unless its own is no longer there."""
    url = request.getfixturevalue("clean_postgres_url") if store == "postgres" else str(tmp_path / "my.db")
    inboxes = {name: AgentSettings(type="inbox") for name in ("desk", "yard")}
    stage = Stage(url, agents=inboxes, agent="desk")
    number = stage.make("water the plants", every="1 day", max_attempts=1, overlap="allow")
    usual = stage.ada.knows("run_now", schedule_id=number)["run"]["run_id"]
    services, caller = stage.app.services, Caller("ada")
    own = run_again(Call(services, caller, "UTC"), RunAgain(run=usual, fields={"prompt": "water the cactus"})).value.id
    assert stage.ada.knows("edit_schedule", schedule_id=str(number), agent="yard")["schedule_id"] == str(number)
    for again in (False, True):
        stage.time.advance(MINUTE)
        if not again:
            assert stage.ada.knows("take_prompt", agent="yard")["run_id"] == usual, "without its own, with its schedule"
        assert stage.ada.knows("take_prompt", agent="yard")["message"] == "Nothing is due."
        taken = stage.ada.knows("take_prompt", agent="desk")
        assert (taken["run_id"], taken["prompt"]) == (own, "water the cactus")
        stage.ada.knows("finish_prompt", run_id=own, error="no water")
        assert stage.ada.knows("run_now", run_id=own)["run"]["run_id"] == own
    stage.time.close()
    without = Stage(url, start=NOON + 3 * MINUTE, agents={"yard": AgentSettings(type="inbox")})
    without.time.advance(MINUTE)
    assert without.ada.knows("take_prompt")["run_id"] == own, "nobody else is there for it"
    without.time.close()
