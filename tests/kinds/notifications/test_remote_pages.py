"""The API and the dashboard where notifications are kept at QStash: they make none here, and say where they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from duetime import Duetime, Settings
from duetime.engine.kind import Caller
from duetime.engine.store import ScheduleQuery
from duetime.engine.validation import NewSchedule
from duetime.kinds.notifications.kind import NotificationKind
from duetime.kinds.notifications.result import Ok
from duetime.settings import NotificationSettings
from tests.support.agent import TOOLS as ALL_TOOLS
from tests.support.api import Api, Client, serving_api
from tests.support.browsing import signed_in, words
from tests.support.notifying import Agent
from tests.support.qstash_standin import TOKEN, StandIn
from tests.support.receiver import Behaviour
from tests.support.web import site

BODY: dict[str, Any] = {"kind": "notification", "name": "told", "payload": {"message": "hi", "topic": "home"}}
CRON = {"type": "cron", "expression": "0 9 * * *"}
NOTE = "Notifications are kept at QStash and are not in this list"
MAKE = "make one with `duetime notify add`"


@pytest.fixture
def kept_there(qstash: StandIn) -> NotificationSettings:
    return NotificationSettings(
        backend="qstash", server="https://ntfy.example.org", qstash_url=qstash.url, qstash_token=TOKEN
    )


@pytest.fixture
def api(tmp_path: Path, kept_there: NotificationSettings) -> Iterator[Api]:
    with serving_api(tmp_path, notifications=kept_there) as made:
        yield made


@pytest.mark.parametrize("trigger", [CRON, {"type": "once", "run_at": "in 2 hours"}, {"type": "interval", "hours": 1}])
def test_the_api_makes_no_notification_here(api: Api, ada: Client, trigger: dict[str, Any]) -> None:
    problem = ada.refused("POST", "/schedules", 409, json={**BODY, "trigger": trigger})
    assert (problem["type"], problem["field"]) == ("urn:duetime:problem:kept_elsewhere", "kind")
    assert MAKE in problem["detail"] and "schedule_cron_notification" in problem["detail"]
    assert api.room.store.search(ScheduleQuery()).total == 0
    assert ada.job()["kind"] == "job", "other kinds stay here"


def test_what_the_same_key_made_before_the_switch_is_answered(api: Api, ada: Client) -> None:
    given = NewSchedule("notification", "told", "cron", {"expression": "0 9 * * *"}, BODY["payload"], {}, "UTC", "k")
    before = api.room.scheduler.create(Caller("ada"), given)
    body = {**BODY, "trigger": CRON, "timezone": "UTC", "idempotency_key": "k"}
    assert ada.post("/schedules", body, 200)["id"] == before.definition.public_id


def test_lists_of_the_api_say_what_they_do_not_hold(ada: Client) -> None:
    for kind in ({}, {"kind": "notification"}):
        [note] = ada.get("/schedules", **kind)["notes"]
        assert note.startswith(NOTE)
    assert "notes" not in ada.get("/schedules", kind="job")


def test_what_fires_next_there_is_told_with_what_fires_here(api: Api, ada: Client, qstash: StandIn) -> None:
    agent = Agent(api.room, Caller("ada"), "UTC")
    once = agent.once(delay="30m", message="Tea")
    again = agent.cron(cron="0 9 * * *", timezone="UTC")
    job = ada.job()["id"]
    told = ada.get("/upcoming", count=4)
    assert [(row["id"], row["at"]) for row in told["upcoming"][:2]] == [
        (once, "2026-02-10T14:30:00+00:00"),
        (job, "2026-02-10T15:00:00+00:00"),
    ]
    assert {row["owner"] for row in told["upcoming"]} == {"ada"} and "warnings" not in told
    assert told["more"] is False and [row["id"] for row in told["upcoming"][2:]] == [again]
    assert again in {row["id"] for row in ada.get("/upcoming", count=30)["upcoming"]}
    operator = api.client("root", "operator")
    own = Agent(api.room, Caller("root"), "UTC").once(delay="20m", message="Coffee")
    assert own in {row["id"] for row in operator.get("/upcoming")["upcoming"]}
    assert {row["id"] for row in operator.get("/upcoming", owner="ada")["upcoming"]} == {job}
    qstash.refuses = [Behaviour(500, {}, TOKEN.encode())] * 20
    silent = ada.get("/upcoming")
    assert {row["id"] for row in silent["upcoming"]} == {job}
    [warning] = silent["warnings"]
    assert warning.startswith("Notifications are missing here") and TOKEN not in warning


def test_the_dashboard_makes_none_and_says_where_they_are(tmp_path: Path, kept_there: NotificationSettings) -> None:
    with site(tmp_path, notifications=kept_there) as here:
        browser = signed_in(here)
        assert MAKE in browser.text("/new?kind=notification") and MAKE not in browser.text("/new?kind=job")
        fields = {"kind": "notification", "message": "hi", "topic": "home", "when": "once", "run_at": "in 3 hours"}
        reply = browser.send("/new", fields)
        assert reply.status == 409 and MAKE in words(reply)
        assert here.room.store.search(ScheduleQuery()).total == 0
        assert NOTE in browser.text("/schedules") and NOTE in browser.text("/schedules?kind=notification")
        assert NOTE not in browser.text("/schedules?kind=job")


def test_the_api_changes_what_is_kept_there(api: Api, ada: Client, qstash: StandIn) -> None:
    agent = Agent(api.room, Caller("ada"), "UTC")
    once, again = agent.once(delay="30m", message="Tea"), agent.cron(cron="0 9 * * *", timezone="UTC", message="Up")
    paused = ada.post(f"/schedules/{again}/pause")
    assert (paused["id"], paused["name"], paused["status"], paused["next_run"]) == (again, "Up", "paused", None)
    assert again in qstash.paused and paused["note"] == "kept at QStash, which sends it"
    assert "limits" not in paused and "falls_into_pause" not in paused, "those are QStash's"
    assert ada.post(f"/schedules/{again}/resume")["status"] == "pending" and again not in qstash.paused
    refused = ada.refused("POST", f"/schedules/{again}/pause?until=2026-03-01", 409)
    assert "where a pause has no end and no note" in refused["detail"] and again not in qstash.paused
    assert "goes out once, at QStash" in ada.refused("POST", f"/schedules/{once}/pause", 409)["detail"]
    many = ada.post("/schedules/change", {"action": "pause", "kind": "notification"})
    assert [(row["id"], row["name"]) for row in many["schedules"]] == [(again, "Up"), (once, "Tea")]
    assert (many["changed"], [row["id"] for row in many["failed"]]) == (1, [once])
    deleted = ada.post("/schedules/change", {"action": "delete", "ids": [again, once], "expected_count": 2})
    assert deleted["changed"] == 2 and (qstash.schedules, agent.listed()) == ({}, ([], []))
    ada.refused("POST", f"/schedules/{again}/pause", 404)


def test_what_is_kept_there_is_not_shown_or_run_here_for_the_same_reason(api: Api, ada: Client) -> None:
    agent = Agent(api.room, Caller("ada"), "UTC")
    again = agent.cron(cron="0 9 * * *", timezone="UTC")
    reason = f"{again} is kept at QStash, and so is its history; list, pause, resume and delete work there"
    for method, path in (("GET", ""), ("GET", "/runs"), ("POST", "/run")):
        problem = ada.refused(method, f"/schedules/{again}{path}", 409)
        assert (problem["type"], problem["detail"]) == ("urn:duetime:problem:kept_elsewhere", reason)
    assert reason in str(ALL_TOOLS["run_now"].answer(agent.call, {"schedule_id": again}).structured)
    ben = api.client("ben")
    ben.refused("GET", f"/schedules/{again}", 404)
    assert again not in str(ben.refused("POST", f"/schedules/{again}/run", 404)["type"])


def test_python_finds_and_ends_what_is_kept_there(tmp_path: Path, kept_there: NotificationSettings) -> None:
    settings = Settings(db=str(tmp_path / "my.db"), timezone="UTC", notifications=kept_there)
    with closing(Duetime(settings=settings)) as duetime:
        service = duetime.app.services.kind(NotificationKind).service
        new = NewSchedule("notification", "hi", "cron", {"expression": "0 9 * * *"}, BODY["payload"], {}, "UTC", None)
        for end in (duetime.cancel, duetime.delete):
            created = service.create(duetime.caller, new)
            assert isinstance(created, Ok)
            schedule = duetime.find(created.value.id)
            assert schedule is not None and schedule.status == "pending" and schedule.next_run is not None
            ended = end(schedule.id)
            assert (ended.status, ended.next_run) == ("cancelled", None)
            assert duetime.find(schedule.id) is None
