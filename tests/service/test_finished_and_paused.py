"""Answers about schedules that are finished or paused: finished ones are found, no time in a pause is shown as if it
fired, and a new schedule says that everything else is paused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bench.instructions import statements_in
from duetime import Duetime
from duetime.engine.clock import Instant
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import ScheduleState
from duetime.engine.policy.decision import Change, Decision
from duetime.engine.policy.rows import Writes
from duetime.engine.validation import NewSchedule
from duetime.kinds import load_specs
from duetime.settings import Settings
from tests.support.agent import Agent
from tests.support.answers import INTERFACES as CHANGING
from tests.support.answers import Refusal, Target
from tests.support.browsing import browser_of, words
from tests.support.cli import Cli
from tests.support.interfaces import PAYLOADS, Interface
from tests.support.stage import PACIFIC, Stage
from tests.support.web import Site, site

OWNER = Caller(LOCAL)
INTERFACES = {each.__name__: each for each in Interface.__subclasses__()}
pytestmark = pytest.mark.filterwarnings("ignore:nothing fires yet")


def finish(there: Site, kind: str, name: str) -> str:
    """Create a one-off that has run."""
    new = NewSchedule(kind, name, "once", {"run_at": "2098-01-01T00:00:00Z"}, PAYLOADS[kind])
    created = there.room.scheduler.create(OWNER, new)
    id = created.definition.id

    def end(change: Change) -> Decision[Any]:
        over = change.schedule.progress._replace(state=ScheduleState.ENDED, next=None, last_status="completed")
        return Writes(progress={id: over}, due_gone_of=[id]), None

    there.room.store.change(id, there.room.scheduler.clock.now(), end)
    return created.definition.public_id


@pytest.mark.parametrize(("kind", "interface", "by"), [*product(load_specs(), INTERFACES, ("id", "name"))])
def test_a_finished_schedule_is_found_and_deleted(
    there: Site, on_site: Cli, kind: str, interface: str, by: str
) -> None:
    """A page finds a schedule by its id alone."""
    name = f"{kind}-over-{interface}-{by}"
    id = finish(there, kind, name)
    INTERFACES[interface](there, on_site).delete(kind, id if by == "id" or interface == "Dashboard" else name)
    schedule = there.room.store.find(id)
    assert schedule is not None and schedule.progress.state == ScheduleState.DELETED


@pytest.mark.parametrize("interface", [name for name in CHANGING if name != "Mcp"])
def test_what_cannot_be_done_with_a_finished_schedule_is_said(there: Site, on_site: Cli, interface: str) -> None:
    id = finish(there, "notification", f"said {interface}")
    for operation in ("pause", "resume", "cancel"):
        refusal = CHANGING[interface](there, on_site).do(operation, Target(id))
        assert isinstance(refusal, Refusal)
        assert refusal.code in (None, "not_possible") and "t has ended, so it cannot be" in refusal.message


def test_agents_hear_that_it_was_finished(there: Site) -> None:
    agent = Agent(there.room.services, OWNER, "UTC")
    job, prompt, message = (finish(there, kind, f"{kind} over") for kind in ("job", "prompt", "notification"))
    assert agent.knows("cancel_job", job_id="job over")["error"] == f"Job already completed: {job}"
    refused = agent.knows("schedule_cancel", id=prompt)
    assert refused["hint"] == "It is completed: prompt_result shows what came of it, and delete_schedule removes it."
    for tool in ("pause_schedule", "resume_schedule"):
        assert "it has ended, so it cannot be" in agent.knows(tool, schedule_id=message)["error"]
    for id in (job, int(prompt), "notification over"):
        assert agent.knows("delete_schedule", schedule_id=id)["note"] == "It was completed before."


# -- times in a pause --------------------------------------------------------------------------------------------------


def test_prompts_are_shown_with_their_times_after_a_pause(both: Stage) -> None:
    """At Feb 10, 2026 12:00 PM PST."""
    daily, once = both.make("look", cron="30 7 * * *"), both.make("call", at="tomorrow 9am")
    endless, later = both.make("rest", cron="0 8 * * *"), both.make("after", at="in 5 days")
    for number in (daily, once, later):
        both.ada.knows("pause_schedule", schedule_id=number, until="2026-02-12 12:00")
    both.ada.knows("pause_schedule", schedule_id=endless)
    rows = {row["id"]: row["fire_at"] for row in both.ada.knows("schedule_list", status="paused")["tasks"]}
    noon = "2026-02-12T12:00:00-08:00"
    assert rows == {daily: "2026-02-13T07:30:00-08:00", once: noon, later: "2026-02-15T12:00:00-08:00", endless: None}
    text = both.ada.hears("schedule_list", status="paused")
    paused = "(paused until Feb 12, 2026 12:00 PM PST)"
    assert f"#{daily}  Feb 13, 2026 7:30 AM PST  [paused]  look  {paused}" in text
    assert f"#{endless}  no time  [paused]  rest" in text
    hears = {number: both.ada.hears("prompt_result", id=number) for number in (daily, endless)}
    until = "it is paused until Feb 12, 2026 12:00 PM PST and then set for Feb 13, 2026 7:30 AM PST."
    assert hears[daily] == f"Task #{daily} has not run yet; {until}"
    assert hears[endless] == f"Task #{endless} has not run yet; it is paused."
    shown = both.ada.knows("prompt_result", id=daily)
    assert (shown["prompt"], shown["status"], shown["next_run"]) == ("look", "paused", rows[daily])
    both.time.advance(timedelta(days=3))
    assert both.ada.knows("prompt_result", id=once)["due"] == "2026-02-11T09:00:00-08:00", "it was held until the end"


def test_a_one_off_that_its_pause_loses_has_no_time(stage: Stage) -> None:
    number = stage.make("call", at="tomorrow 9am", catch_up="skip")
    told = stage.ada.knows("pause_schedule", schedule_id=number, until="in 3 days")
    assert "it will be missed, because catch_up is skip" in told["falls_into_pause"]
    [row] = stage.ada.knows("schedule_list", status="paused")["tasks"]
    assert row["fire_at"] is None


def test_notifications_are_shown_with_their_times_after_a_pause(both: Stage) -> None:
    def message(delay: str) -> str:
        given = {"message": "tea", "notification_topic": "kitchen", "delay": delay}
        return str(both.ada.knows("schedule_notification", given)["message_id"])

    held, later, endless = message("1h"), message("3d"), message("2h")
    for id in (held, later):
        both.ada.knows("pause_schedule", schedule_id=id, until="in 2 days", note="away")
    both.ada.knows("pause_schedule", schedule_id=endless)
    rows = {row["message_id"]: row for row in both.ada.knows("list_scheduled_notifications")["messages"]}
    times = {id: row["scheduled_time"] for id, row in rows.items()}
    assert times == {held: "2026-02-12T12:00:00-08:00", later: "2026-02-13T12:00:00-08:00", endless: None}
    assert (rows[held]["paused"], rows[held]["note"]) == (True, "away")


def test_the_command_line_and_python_show_the_time_after_a_pause(cli: Cli, tmp_path: Path) -> None:
    db = str(tmp_path / "duetime.db")
    with closing(Duetime(settings=Settings(db=db, timezone="UTC"))) as duetime:
        prompt = duetime.prompt("look", cron="30 7 * * *")
        duetime.pause(prompt.id, until="2098-01-05 12:00")
        [task] = duetime.list_scheduled_tasks(status="paused")
        assert task.fire_at is not None and task.fire_at.isoformat() == "2098-01-06T07:30:00+00:00"
    edited = cli("prompt", "edit", prompt.id, "--text", "look again", "--db", db)
    assert "next   2098-01-06 07:30" in edited.out, edited.out + edited.err


# -- a new schedule while everything is paused -------------------------------------------------------------------------


def codes(stage: Stage, agent: Agent | None = None) -> list[str]:
    given = {"name": "new", "task": "echo", "args": ["hi"], "when": "every day at 9"}
    found: list[str] = (agent or stage.ada).knows("schedule_job", given).get("warning_codes", [])
    return found


def test_a_new_schedule_says_that_everything_else_is_paused(both: Stage) -> None:
    ada, bob = both.ada, both.agent("bob")
    assert codes(both) == [], "nothing is paused"
    first, second = (str(both.make(name, cron="0 7 * * *")) for name in ("first", "second"))
    ada.knows("pause_schedule", schedule_id=first)
    assert codes(both) == [], "others are not"
    both.time.advance(timedelta(minutes=1))
    ada.knows("change_schedules", action="pause", all=True, until="2026-03-01 08:00")
    both.time.advance(timedelta(minutes=1))
    given = {"message": "milk", "notification_topic": "home", "delay": "1h"}
    told = ada.knows("schedule_notification", given)
    until = "2026-03-01T08:00:00-08:00"
    sentence = f"Everything scheduled earlier is paused until {until}; this one is not, so it fires."
    assert sentence in told["warnings"] and "all_paused" in told["warning_codes"]
    assert codes(both) == ["all_paused"], "what was created since is no reason to keep silent"
    assert codes(both, bob) == [], "bob has paused nothing"
    assert ada.knows("schedule_notification", {**given, "idempotency_key": "k"})["warning_codes"].count("all_paused")
    ada.knows("resume_schedule", schedule_id=second)
    assert codes(both) == []


def test_one_that_was_paused_long_ago_is_not_everything(both: Stage) -> None:
    both.ada.knows("pause_schedule", schedule_id=both.make("old", cron="0 7 * * *"))
    assert [codes(both) for _ in range(3)] == [["all_paused"], [], []], "there is more that is not paused"


def test_a_pause_of_another_process_is_known_after_a_second(both: Stage, tmp_path: Path) -> None:
    number = str(both.make("first", cron="0 7 * * *"))
    assert codes(both) == []
    with closing(Duetime(settings=both.app.settings, clock=both.time.clock)) as other:
        for id in (number, both.ada.knows("list_jobs")["jobs"][0]["job_id"]):
            other.app.scheduler.pause(Caller("ada"), id)
    both.time.clock.move_to(Instant(both.time.clock.now() + 1_000_000))
    assert codes(both) == ["all_paused"]


def test_it_costs_no_statement_while_nothing_is_paused(tmp_path: Path) -> None:
    counts = Counter[str]()
    with (
        statements_in(counts),
        closing(Duetime(settings=Settings(db=str(tmp_path / "a.db"), timezone=PACIFIC))) as made,
    ):
        for _ in range(3):
            counts.clear()
            made.create("job", {"task": "echo", "args": ["hi"]}, delay="3h")
        assert not [text for text in counts if "paused" in text]


@pytest.fixture(scope="module")
def paused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site on which everything is paused."""
    with site(tmp_path_factory.mktemp("paused")) as made:
        for _ in range(20):
            new = NewSchedule("job", "rest", "cron", {"expression": "0 9 * * *"}, PAYLOADS["job"])
            made.room.scheduler.pause(OWNER, made.room.scheduler.create(OWNER, new).definition.public_id)
        yield made


CREATES = ("mcp", "http", "command line", "python", "dashboard")


@pytest.mark.parametrize("interface", CREATES)
def test_every_interface_says_so(paused: Site, cli: Cli, interface: str) -> None:
    db, body = paused.room.settings.db, {"kind": "job", "name": "new", "payload": PAYLOADS["job"], "when": "every day"}
    said = "Everything scheduled earlier is paused"
    match interface:
        case "mcp":
            agent = Agent(paused.room.services, OWNER, "UTC")
            told = agent.knows("schedule", prompt="look", cron="0 9 * * *")
            assert "all_paused" in told["warning_codes"]
            assert said in agent.hears("schedule", prompt="look", cron="0 9 * * *")
        case "http":
            headers = {**paused.bearer(LOCAL), "Content-Type": "application/json"}
            reply = paused.ask("POST", "/api/v1/schedules", headers, json.dumps(body).encode())
            assert "all_paused" in json.loads(reply.body)["warning_codes"]
        case "command line":
            added = cli("job", "add", "new", "--task", "echo", "--arg", "hi", "--every", "1d", "--db", db)
            assert said in added.out + added.err
        case "python":
            with closing(Duetime(settings=Settings(db=db, timezone="UTC"))) as duetime:
                assert "all_paused" in duetime.schedule("echo", args=["hi"], every="1d").warning_codes
        case _:
            browser, proof = browser_of(paused)
            form = {"kind": "prompt", "prompt": "look", "when": "cron", "expression": "0 9 * * *", "timezone": "UTC"}
            reply = browser.send("/new", {**form, "csrf": proof})
            assert said in words(browser.get(reply.headers["location"]))
