"""An edit means the same on every interface: what is not given stays, and a time moves the next occurrence alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from duetime import Duetime, DuetimeError
from duetime.engine.clock import datetime_of
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.times import iso_local
from duetime.engine.validation import NewSchedule
from duetime.settings import Settings
from tests.support.agent import Agent
from tests.support.cli import Cli
from tests.support.web import Site

LIMITS: dict[str, Any] = {"start": "2098-01-01T00:00:00Z", "end": "2099-12-31T00:00:00Z", "jitter": 300}
STORED = {"start": "2098-01-01T00:00:00.000000Z", "end": "2099-12-31T00:00:00.000000Z", "jitter_us": 300_000_000}
pytestmark = pytest.mark.filterwarnings("ignore:nothing fires yet")
Edit = Callable[..., dict[str, Any]]


@pytest.fixture(params=["mcp", "rest", "python", "cli"])
def edit(request: pytest.FixtureRequest, there: Site, on_site: Cli) -> Edit:
    """Return a function that edits a schedule through one of the interfaces and returns its answer."""

    def by_mcp(id: str, **given: Any) -> dict[str, Any]:
        return Agent(there.room.services, Caller(LOCAL), "UTC").knows("edit_schedule", schedule_id=id, **given)

    def by_rest(id: str, **given: Any) -> dict[str, Any]:
        if "cron" in given:
            given["trigger"] = {"type": "cron", "expression": given.pop("cron")}
        if "rrule" in given:
            given["trigger"] = {"type": "rrule", "rrule": given.pop("rrule")}
        if "at" in given:
            given["next"] = given.pop("at")
        body = {name: None if value == "none" else value for name, value in given.items()}
        headers = {**there.bearer(LOCAL), "Content-Type": "application/json"}
        reply = there.ask("PATCH", f"/api/v1/schedules/{id}", headers, json.dumps(body).encode())
        return reply.json if reply.status == 200 else {"error": reply.json["detail"]}

    def by_python(id: str, **given: Any) -> dict[str, Any]:
        duetime = Duetime(settings=Settings(db=there.room.settings.db, timezone="UTC"))
        changes: dict[str, Any] = {name: None if value == "none" else value for name, value in given.items()}
        try:
            return duetime.edit(id, **changes).as_dict()
        except DuetimeError as error:
            return {"error": str(error)}
        finally:
            duetime.close()

    def by_cli(id: str, **given: str) -> dict[str, Any]:
        done = on_site("job", "edit", id, *(f"--{name}={value}" for name, value in given.items()), "--json")
        return {"error": done.out + done.err} if done.code else done.document

    edits: dict[str, Edit] = {"mcp": by_mcp, "rest": by_rest, "python": by_python, "cli": by_cli}
    return edits[request.param]


def make(there: Site, type_: str = "cron", **config: Any) -> str:
    rule = {"expression": "0 9 * * *", **config} if type_ == "cron" else config
    made = there.room.scheduler.create(Caller(LOCAL), NewSchedule("job", "mine", type_, rule, {"task": "echo"}))
    return made.definition.public_id


def trigger(there: Site, id: str) -> dict[str, Any]:
    schedule = there.room.store.find(id)
    assert schedule is not None
    stored: dict[str, Any] = json.loads(schedule.definition.trigger)
    return stored


def test_a_new_rule_keeps_what_limits_the_old_one(there: Site, edit: Edit) -> None:
    id = make(there, dst="literal", **LIMITS)
    before = trigger(there, id)
    assert before.items() >= STORED.items()
    edit(id, cron="30 10 * * *")
    assert trigger(there, id) == before | {"expression": "30 10 * * *"}
    edit(id, cron="0 8 * * *", end="none")
    assert trigger(there, id) == {n: v for n, v in before.items() if n != "end"} | {"expression": "0 8 * * *"}


def test_an_end_is_edited_alone(there: Site, edit: Edit) -> None:
    id = make(there, **LIMITS)
    before = trigger(there, id)
    edit(id, end="2098-06-01T00:00:00Z")
    assert trigger(there, id) == before | {"end": "2098-06-01T00:00:00.000000Z"}
    edit(id, end="none")
    assert "end" not in trigger(there, id)


def test_a_time_moves_the_next_occurrence_and_says_what_is_left_out(there: Site, edit: Edit) -> None:
    id = make(there, end="2099-12-31T00:00:00Z")
    before = trigger(there, id)
    first = edit(id, at="2098-01-01T15:00:00Z")
    assert trigger(there, id) == before
    assert "more than 1000 further runs" in first["warnings"][0]
    late = edit(id, at="2100-01-01T15:00:00Z")["error"]
    assert "is after its end" in late and "or a later end" in late


def test_a_time_that_the_clock_skips_is_told(there: Site, edit: Edit) -> None:
    zone = {"tz" if edit.__name__ == "by_cli" else "timezone": "Europe/Berlin"}
    march = datetime_of(there.room.clock.now()).date().replace(month=3, day=31)
    march = march.replace(year=march.year + 1)
    day = march - timedelta(days=march.isoweekday() % 7)  # the last Sunday
    moved = edit(make(there), at=f"{day} 02:30", **zone)
    assert moved["next_run"][:16] in (f"{day}T03:30", f"{day}T01:30")
    assert "clocks go forward over that time in Europe/Berlin" in moved["warnings"][0]


def test_a_new_rule_alone_can_begin_later(there: Site, edit: Edit) -> None:
    refused = edit(make(there), at="2098-01-01T15:00:00Z", starting="2097-01-01T00:00:00Z")["error"]
    assert "a time moves the next run alone; give a rule" in refused
    assert ("--starting: " if edit.__name__ == "by_cli" else "starting: ") in refused


def next_run(there: Site, id: str) -> str:
    schedule = there.room.store.find(id)
    assert schedule is not None and schedule.progress.next is not None
    return iso_local(schedule.progress.next, "UTC")


@pytest.mark.parametrize(
    ("type_", "rule"),
    [("interval", {"hours": 2}), ("interval", {"days": 2}), ("rrule", {"rrule": "FREQ=DAILY"})],
)
def test_a_start_that_is_still_to_come_is_moved_and_taken_back(
    there: Site, edit: Edit, type_: str, rule: dict[str, Any]
) -> None:
    id = make(there, type_, start="2090-01-01T09:00:00Z", **rule)
    for start in ("2098-01-02T12:30:00", "2080-01-02T12:30:00"):
        edit(id, start=f"{start}Z")
        assert next_run(there, id).startswith(start)
    edit(id, start="none")
    assert next_run(there, id) < "2080"


@pytest.mark.parametrize(
    ("type_", "rule"),
    [
        ("interval", {"hours": 2, "start": "2020-01-01T09:17:00Z"}),
        ("interval", {"hours": 2, "anchor": "2020-01-01T09:17:00Z", "start": "2090-01-01T09:00:00Z"}),
        ("rrule", {"rrule": "FREQ=DAILY", "dtstart": "2020-01-01T09:17:00Z", "start": "2090-01-01T09:00:00Z"}),
    ],
)
def test_a_start_that_a_rule_does_not_wait_for_leaves_its_times(
    there: Site, edit: Edit, type_: str, rule: dict[str, Any]
) -> None:
    id = make(there, type_, **rule)
    edit(id, start="2095-01-01T00:00:00Z")
    assert next_run(there, id)[:4] == "2095" and next_run(there, id)[14:16] == "17"
    edit(id, start="none")
    assert next_run(there, id)[:4] < "2090" and next_run(there, id)[14:16] == "17"


def test_weeks_are_counted_from_a_new_start(there: Site, edit: Edit) -> None:
    """1 January 2098 is a Wednesday."""
    id = make(there)
    rule = "FREQ=WEEKLY;INTERVAL=2;BYDAY=WE;BYHOUR=16;BYMINUTE=0;BYSECOND=0"  # of "every second wednesday at 4pm"
    firsts = {"2098-01-01": "2098-01-01", "2098-01-08": "2098-01-08", "2098-01-02T00:00:00Z": "2098-01-08"}
    for start, first in firsts.items():
        edit(id, rrule=rule, start=start)
        assert next_run(there, id)[:16] == f"{first}T16:00"
    for start, first in {"2098-01-15": "2098-01-15", **firsts}.items():  # the start alone
        edit(id, start=start)
        assert next_run(there, id)[:16] == f"{first}T16:00"
    edit(id, rrule=rule, start="none", starting="2098-01-16T00:00:00Z")
    assert trigger(there, id)["after"]["dtstart"] == "2098-01-22T16:00:00"


def test_a_start_and_an_end_are_read_as_a_time_is(there: Site, edit: Edit) -> None:
    id = make(there, timezone="Europe/Berlin")
    edit(id, start="2098-01-01 09:00", end="2099-12-24")
    assert (
        trigger(there, id).items()
        >= {
            "start": "2098-01-01T09:00:00.000000Z",
            "end": "2099-12-24T23:59:59.999999Z",
            "timezone": "Europe/Berlin",
        }.items()
    )
    zone = {"tz" if edit.__name__ == "by_cli" else "timezone": "America/New_York"}
    edit(id, at="2099-12-20 09:00", end="2099-12-24 17:00", **zone)
    assert next_run(there, id) == "2099-12-20T14:00:00+00:00"
    assert trigger(there, id)["end"] == "2099-12-24T22:00:00.000000Z"


def test_an_agent_names_the_zone_of_an_end_alone(there: Site) -> None:
    id, agent = make(there, timezone="Europe/Berlin"), Agent(there.room.services, Caller(LOCAL), "UTC")
    agent.knows("edit_schedule", schedule_id=id, end="2099-12-24 17:00", timezone="America/New_York")
    assert trigger(there, id)["end"] == "2099-12-24T22:00:00.000000Z"
    assert trigger(there, id)["timezone"] == "Europe/Berlin"
