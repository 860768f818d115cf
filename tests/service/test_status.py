"""The status of an installation, as an agent, a program and a person learn of it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Cap, Used
from duetime.service.operations.status import status
from duetime.service.published import CHANGED, DIFFER
from duetime.service.services import WORKER_WARNINGS, Call
from duetime.service.warnings import EXPLANATIONS
from duetime.settings import AgentSettings
from tests.support.agent import Agent
from tests.support.agents import call, over_stdio, talk
from tests.support.cli import Cli
from tests.support.stage import Stage
from tests.support.web import site


def test_what_is_set_up_and_used(both: Stage) -> None:
    both.ada.knows("schedule_notification", message="tea", notification_topic="kitchen", delay="30m")
    both.make(every="1 hour", deliver_to="garden")
    hourly = {"trigger_type": "interval", "trigger_config": {"hours": 1}}
    both.ada.knows("schedule_job", {"name": "f", "task": "shorten", "args": ["a"], "kwargs": {"words": 0}, **hourly})
    both.time.advance(timedelta(hours=2))
    day = both.app.services.kinds["prompt"].waking._day()  # type: ignore[attr-defined]
    caps = [Cap("all", "all prompts of one owner", Used())]
    both.app.store.spend("ada", day, caps, Used(tokens=70, micros=500_000))
    told = both.ada.knows("status", timezone="UTC")
    assert (told["timezone"], told["now"][:19]) == ("UTC", "2026-02-10T22:00:00")
    assert told["topics"] == ["garden"], "the message has gone out"
    assert {"name": "inbox", "type": "inbox"} in told["channels"]
    assert [agent["name"] for agent in told["agents"] if agent.get("default")] == ["inbox"]
    assert told["spent"]["today"] == {"runs": 1, "tokens": 70, "dollars": 0.5} == told["spent"]["this_week"]
    failures = told["failures_of_the_last_day"]
    assert failures["count"] == 2 and {row["name"] for row in failures["latest"]} == {"f"}
    assert failures["latest"][0]["error"]
    assert told["limits"]["schedules"] == 10_000 and "catch_up" in told["when_off"]
    both.time.advance(timedelta(days=1))
    again = both.ada.knows("status")["spent"]
    assert again["today"]["tokens"] == 0 and again["this_week"]["tokens"] == 70
    both.time.advance(timedelta(days=6))
    assert both.ada.knows("status")["spent"]["this_week"]["tokens"] == 0


def test_another_owner_hears_nothing_of_machines(stage: Stage) -> None:
    told = stage.agent("bob").knows("status")
    assert told["server"]["workers"] == 1 and told["server"]["stays_up"] is True
    assert not {"machine", "address"} & set(told["server"]) and str(stage.app.store.url) not in str(told)
    assert told["topics"] == [] and told["failures_of_the_last_day"] == {"count": 0, "latest": []}
    own = Agent(stage.app.services, Caller(LOCAL)).knows("status")["server"]
    assert own["address"] == stage.app.store.url and own["workers"][0]["name"] == "simulation"
    assert own["workers"][0]["takes"] == ["job", "notification", "prompt", "request"], "kinds, without their lanes"


def test_agents_that_cannot_start_are_said(tmp_path: Path) -> None:
    agents = {
        "there": AgentSettings(command=("true",), owners=("*",)),
        "gone": AgentSettings(command=("/nowhere/agent",), owners=("*",)),
    }
    made = Stage(str(tmp_path / "duetime.db"), agents=agents, agent="there")
    try:
        rows = {each["name"]: each for each in Agent(made.app.services, Caller(LOCAL)).knows("status")["agents"]}
        assert rows["there"] == {"name": "there", "type": "command", "default": True, "can_start": True}
        assert rows["gone"]["can_start"] is False and "/nowhere/agent" in rows["gone"]["missing"]
        assert "can_start" not in rows["inbox"]
        told = {each["name"]: each for each in made.ada.knows("status")["agents"]}
        assert told["gone"] == {"name": "gone", "type": "command", "can_start": False}
    finally:
        made.time.close()


def test_warnings_are_explained_at_length(stage: Stage) -> None:
    told = stage.ada.knows("status")
    assert [each["code"] for each in told["warnings"]] == ["no_channel"]
    assert told["warning_codes"] == {"no_channel": EXPLANATIONS["no_channel"]}
    assert told["warnings"][0].keys() == {"code", "text"}, "each is explained once"
    for code, text in EXPLANATIONS.items():
        assert 60 < len(text) < 400 and text.endswith("."), code


SOURCE = Path(__file__).parents[2] / "src" / "duetime"
CODE = re.compile(r"""(?<![.\w])(?:ScheduleWarning|warning)\("([a-z_]+)\"""")


def test_every_warning_is_explained() -> None:
    used = {code for path in SOURCE.rglob("*.py") for code in CODE.findall(path.read_text(encoding="utf-8"))}
    assert len(used) >= 8 and {*used, *WORKER_WARNINGS, DIFFER, CHANGED} - set(EXPLANATIONS) == set()


def test_over_stdio_it_says_that_it_ends_with_its_client(tmp_path: Path) -> None:
    async def say(client: object) -> None:
        told = await call(client, "status")  # type: ignore[arg-type]
        assert told["server"]["stays_up"] is False and told["server"]["store"] == "sqlite"
        assert "session_worker_only" in {each["code"] for each in told["warnings"]}

    talk(over_stdio(tmp_path, "2026-07-28"), say)


def test_over_rest(tmp_path: Path) -> None:
    with site(tmp_path) as there:
        told = there.ask("GET", "/api/v1/status?timezone=Europe/Berlin", there.bearer("ada")).json
        assert told["timezone"] == "Europe/Berlin" and told["server"]["stays_up"] is False
        assert "no_worker" in {each["code"] for each in told["warnings"]} and "agents" in told


def test_on_the_command_line(cli: Cli) -> None:
    cli("job", "list")
    said = cli("status", "--db", "my.db")
    assert said.code == 0 and "workers   none" in said.out and "No worker is running" in said.err
    assert cli("status", "--db", "my.db", "--json").document["topics"] == []


def test_from_python(stage: Stage) -> None:
    duetime = stage.time.duetime
    told = duetime.server_status()
    assert told.as_dict() == status(Call(stage.app.services, duetime.caller, duetime.zone)).value
