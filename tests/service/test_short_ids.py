"""Short ids such as j5 are shown and taken on every interface."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from duetime import Duetime
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.validation import NewSchedule
from duetime.settings import Settings
from tests.support.agent import Agent
from tests.support.browsing import signed_in
from tests.support.cli import Cli
from tests.support.web import Site

OWNER = Caller(LOCAL)
PAYLOADS = {
    "job": {"task": "echo"},
    "prompt": {"prompt": "water"},
    "notification": {"topic": "x", "message": "hi"},
    "request": {"url": "https://example.org"},
}


@pytest.mark.parametrize("kind", PAYLOADS)
def test_every_interface_shows_and_takes_it(there: Site, on_site: Cli, kind: str) -> None:
    new = NewSchedule(kind, f"my {kind}", "cron", {"expression": "0 9 * * *"}, PAYLOADS[kind], timezone="UTC")
    definition = there.room.scheduler.create(OWNER, new).definition
    run = there.room.scheduler.run_now(OWNER, definition.public_id)
    there.room.scheduler.cancel_run(OWNER, run.id)
    short = f"{kind[0]}{definition.id}"

    shape = there.ask("GET", f"/api/v1/schedules/{short}", there.bearer(LOCAL)).json
    assert (shape["id"], shape["short_id"]) == (definition.public_id, short)
    [listed] = there.ask("GET", f"/api/v1/runs?schedule={short}", there.bearer(LOCAL)).json["runs"]
    assert listed["schedule_short_id"] == short
    upcoming = there.ask("GET", f"/api/v1/upcoming?kind={kind}", there.bearer(LOCAL)).json["upcoming"]
    assert short in [each["short_id"] for each in upcoming]

    printed = json.loads(on_site("show", short, "--json").out)
    assert printed["short_id"] == short
    assert f"({short})" in on_site("show", short).out
    assert json.loads(on_site("runs", "list", "--json").out)["runs"][0]["schedule_short_id"] == short
    assert json.loads(on_site("runs", "show", str(run.id), "--json").out)["schedule_short_id"] == short
    assert f" {short} " in on_site("runs", "list").out

    with closing(Duetime(settings=Settings(db=there.room.settings.db, timezone="UTC"))) as duetime:
        schedule = duetime.get(short)
        assert (schedule.id, schedule.short_id) == (definition.public_id, short)
        assert duetime.history(short)[0].schedule_short_id == short

    agent = Agent(there.room.services, OWNER, "UTC")
    assert agent.knows("history", schedule_id=short)["total"] == 1
    assert agent.knows("edit_schedule", schedule_id=short, name=f"our {kind}").get("error") is None

    browser = signed_in(there, "UTC")
    page = browser.get(f"/schedules/{short}")
    assert page.status == 200 and f"/</span> {short}</p>" in page.body.decode()
    for address in (
        "/schedules?deliveries=1",
        f"/runs/{run.id}",
        f"/schedules/{short}/edit",
        "/",
        "/timeline?span=week",
    ):
        assert short in browser.get(address).body.decode(), address


def test_a_short_id_leads_to_no_schedule_of_others(there: Site) -> None:
    new = NewSchedule("job", "theirs", "cron", {"expression": "0 9 * * *"}, PAYLOADS["job"], timezone="UTC")
    definition = there.room.scheduler.create(Caller("bob"), new).definition
    assert there.ask("GET", f"/api/v1/schedules/j{definition.id}", there.bearer("ada")).status == 404
    assert there.ask("GET", f"/api/v1/schedules/p{definition.id}", there.bearer("bob")).status == 404
    assert there.ask("GET", f"/api/v1/schedules/j{definition.id}", there.bearer("bob")).status == 200
