"""A run that is started by hand: every interface gives the same warnings, notes and error codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from duetime import Duetime, DuetimeError
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.result import Ok
from duetime.engine.validation import NewSchedule
from tests.support.agent import Agent
from tests.support.cli import Cli
from tests.support.web import Site, site

LAST = "It is the last of 1 that max_runs allows, so that nothing follows; raise max_runs to let it go on."


class StartAnswer(NamedTuple):
    status: str
    codes: list[str]
    notes: str


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture
def last_one(there: Site) -> str:
    """A schedule that may run once more."""
    new = NewSchedule("job", "same", "cron", {"expression": "0 9 * * *"}, {"task": "echo"}, {"max_runs": 1})
    made = there.room.scheduler.create(Caller(LOCAL), new)
    assert isinstance(made, Ok)
    return made.value.definition.public_id


def over_mcp(there: Site, _cli: Cli, id: str) -> StartAnswer:
    answer = Agent(there.room.services, Caller(LOCAL), "UTC").knows("run_now", schedule_id=id)
    note, _, rest = answer["note"].partition(" It has not ended yet")
    assert rest
    return StartAnswer(answer["run"]["status"], answer["warning_codes"], note)


def over_http(there: Site, _cli: Cli, id: str) -> StartAnswer:
    reply = there.ask("POST", f"/api/v1/schedules/{id}/run", there.bearer(LOCAL))
    answer = json.loads(reply.body)
    assert reply.status == 202, answer
    return StartAnswer(answer["status"], answer["warning_codes"], " ".join(answer["notes"]))


def in_python(there: Site, _cli: Cli, id: str) -> StartAnswer:
    with closing(Duetime(settings=there.room.settings)) as duetime:
        run = duetime.run_now(id)
    return StartAnswer(run.status, run.warning_codes, " ".join(run.notes))


def on_terminal(there: Site, cli: Cli, id: str) -> StartAnswer:
    answer = json.loads(cli("run", id, "--json", "--db", there.room.settings.db).out)
    return StartAnswer(answer["run"]["status"], answer["warning_codes"], answer["note"])


INTERFACES = [over_mcp, over_http, in_python, on_terminal]


@pytest.mark.parametrize("start", INTERFACES)
def test_a_start_warns_and_says_that_it_is_the_last(
    there: Site, cli: Cli, monkeypatch: pytest.MonkeyPatch, last_one: str, start: Any
) -> None:
    monkeypatch.chdir(Path(there.room.settings.db).parent)
    assert start(there, cli, last_one) == StartAnswer("pending", ["no_worker"], LAST)


def test_what_cannot_be_started_has_the_same_code(there: Site, cli: Cli) -> None:
    reply = there.ask("POST", "/api/v1/schedules/nothing/run", there.bearer(LOCAL))
    with closing(Duetime(settings=there.room.settings)) as duetime, pytest.raises(DuetimeError) as raised:
        duetime.run_now("nothing")
    problem = json.loads(reply.body)
    assert (reply.status, problem["type"].rpartition(":")[2]) == (404, raised.value.code) == (404, "not_found")
