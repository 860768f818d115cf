"""Schedules of QStash's API on a settable clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from duetime.engine.kind import Caller
from duetime.engine.outcome import Failed
from duetime.engine.store import ScheduleQuery
from duetime.kinds.requests.qstash_api.messages import MOST_BODY_BYTES
from duetime.kinds.requests.wire import KIND
from tests.support.qstash import CRON, HOOK, TAKEN, Counter, turned_down

MINUTE = timedelta(minutes=1)


def test_a_schedule_is_shown_with_all_it_has(desk: Counter) -> None:
    id = desk.ask(
        "POST",
        "/v2/schedules/https://a.example/x?y=1",
        body=b"hello",
        Upstash_Cron="CRON_TZ=Europe/Berlin  0 9 * * 1-5",
        Content_Type="text/plain",
        Upstash_Method="put",
        Upstash_Retries="0",
        Upstash_Retry_Delay="1000",
        Upstash_Timeout="1m30s",
        Upstash_Delay="2m",
        Upstash_Label="a,b",
        Upstash_Forward_My_Header="caf\u00e9",
        Upstash_Callback="https://b.example",
        Upstash_Failure_Callback="https://c.example",
        Upstash_Failure_Callback_Forward_Why="1",
    )["scheduleId"]
    assert desk.ask("GET", f"/v2/schedules/{id}") == {
        "scheduleId": id,
        "destination": "https://a.example/x?y=1",
        "cron": "CRON_TZ=Europe/Berlin  0 9 * * 1-5",
        "createdAt": desk.milliseconds(),
        "method": "PUT",
        "header": {"Content-Type": ["text/plain"], "My-Header": ["caf\u00e9"]},
        "body": "hello",
        "callback": "https://b.example",
        "failureCallback": "https://c.example",
        "failureCallbackHeader": {"Why": ["1"]},
        "retryDelayExpression": "1000",
        "label": "a,b",
        "labels": ["a", "b"],
        "retries": 0,
        "delay": 120,
        "timeout": 90,
        "isPaused": False,
        "nextScheduleTime": 1_772_438_400_000,  # Monday, 2 March 2026, 09:00 in Berlin
    }


def test_the_list_leaves_out_bodies_that_together_are_too_long(desk: Counter) -> None:
    half = b"x" * (MOST_BODY_BYTES // 10)
    made = [desk.ask("POST", f"/v2/schedules/{HOOK}", body=half, **CRON)["scheduleId"] for _ in range(12)]
    listed = {each["scheduleId"]: each for each in desk.ask("GET", "/v2/schedules")}
    assert set(listed) == set(made) and sum("body" in each for each in listed.values()) == 10
    assert len(desk.ask("GET", f"/v2/schedules/{made[0]}")["body"]) == len(half)


def test_each_occurrence_is_sent_and_the_last_one_is_shown(desk: Counter) -> None:
    id = desk.ask("POST", f"/v2/schedules/{HOOK}", **CRON)["scheduleId"]
    desk.simulation.advance(3 * MINUTE)
    assert len({each.id for each in desk.sent}) == 3
    shown = desk.ask("GET", f"/v2/schedules/{id}")
    assert shown["lastScheduleTime"] == desk.milliseconds()
    assert shown["lastScheduleStates"] == {desk.sent[-1].id: "SUCCESS"}
    desk.requester.answer = lambda outgoing: Failed("gone", permanent=True)
    desk.simulation.advance(MINUTE)
    shown = desk.ask("GET", f"/v2/schedules/{id}")
    assert (shown["error"], shown["lastScheduleStates"]) == ("gone", {desk.sent[-1].id: "FAIL"})


def test_long_ids_that_differ_at_their_end_are_two_schedules(desk: Counter) -> None:
    ids = [f"{'x' * 99}{each}" for each in "ab"]
    for id in ids:
        assert desk.ask("POST", f"/v2/schedules/{HOOK}", Upstash_Schedule_Id=id, **CRON)["scheduleId"] == id
    assert sorted(each["scheduleId"] for each in desk.schedules()) == ids
    desk.ask("DELETE", f"/v2/schedules/{ids[0]}")
    assert [each["scheduleId"] for each in desk.schedules()] == ids[1:]


def test_a_paused_schedule_sends_nothing(desk: Counter) -> None:
    id = desk.ask("POST", f"/v2/schedules/{HOOK}", **CRON)["scheduleId"]
    for method in ("PATCH", "POST"):
        for _ in range(2):
            desk.ask(method, f"/v2/schedules/{id}/pause")
        assert desk.schedules()[0]["isPaused"] is True
        desk.simulation.advance(2 * MINUTE)
        assert desk.sent == []
        for _ in range(2):
            desk.ask(method, f"/v2/schedules/{id}/resume")
        assert desk.schedules()[0]["isPaused"] is False
    desk.simulation.advance(MINUTE)
    assert len(desk.sent) == 1
    desk.ask("DELETE", f"/v2/schedules/{id}")
    desk.simulation.advance(2 * MINUTE)
    assert len(desk.sent) == 1
    assert desk.schedules() == []


def test_a_message_that_is_retried_holds_up_none_of_the_following(desk: Counter) -> None:
    desk.requester.answer = turned_down
    desk.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Retry_Delay="90000", Upstash_Retries="1")
    desk.simulation.advance(3 * MINUTE)
    numbers = [each.headers["Upstash-Retried"] for each in desk.sent]
    assert numbers == ["0", "0", "1", "0"]


def test_failures_never_pause_a_schedule(desk: Counter) -> None:
    desk.requester.answer = lambda outgoing: Failed("no", permanent=True)
    desk.ask("POST", f"/v2/schedules/{HOOK}", **CRON)
    desk.simulation.advance(15 * MINUTE)
    assert len(desk.sent) == 15
    assert len(desk.ask("GET", "/v2/dlq")["messages"]) == 15


def test_a_schedule_with_a_delay_sends_later(desk: Counter) -> None:
    desk.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Delay="90s")
    desk.simulation.advance(timedelta(minutes=2, seconds=29))
    assert desk.sent == []
    desk.simulation.advance(timedelta(seconds=1))
    assert len(desk.sent) == 1
    assert desk.sent[0].headers["Upstash-Retried"] == "0"


def test_the_same_id_changes_the_schedule(desk: Counter) -> None:
    named: dict[str, Any] = {"Upstash_Schedule_Id": "daily"}
    first = desk.ask(
        "POST", f"/v2/schedules/{HOOK}", body=b"one", **CRON, **named, Upstash_Callback="https://b.example"
    )
    assert first == {"scheduleId": "daily"}
    created = desk.milliseconds()
    desk.simulation.advance(MINUTE)
    desk.ask("POST", "/v2/schedules/https://z.example/new", body=b"two", Upstash_Cron="0 9 * * *", **named)
    [shown] = desk.schedules()
    assert (shown["scheduleId"], shown["destination"], shown["cron"], shown["body"], shown["createdAt"]) == (
        "daily",
        "https://z.example/new",
        "0 9 * * *",
        "two",
        created,
    )
    assert "callback" not in shown
    desk.simulation.advance(timedelta(days=1))
    assert [each.url for each in desk.sent] == [HOOK, "https://b.example", "https://z.example/new"]
    assert desk.sent[-1].headers["Upstash-Schedule-Id"] == "daily"
    desk.ask("DELETE", "/v2/schedules/daily")
    desk.ask("GET", "/v2/schedules/daily", status=404)
    desk.ask("POST", f"/v2/schedules/{HOOK}", **CRON, **named)
    assert desk.schedules()[0]["destination"] == HOOK


def test_a_schedule_can_be_mended_while_its_messages_fail(desk: Counter) -> None:
    """Nothing that is on its way is lost: it goes where the schedule now says."""
    desk.requester.answer = lambda outgoing: TAKEN if "right" in outgoing.url else turned_down(outgoing)
    named: dict[str, Any] = {
        "Upstash_Schedule_Id": "daily",
        "Upstash_Cron": "0 9 * * *",
        "Upstash_Retry_Delay": "3600000",
    }
    desk.ask("POST", "/v2/schedules/https://a.example/wrong", **named)
    desk.simulation.advance(timedelta(hours=9))
    assert len(desk.sent) == 1
    desk.ask("POST", "/v2/schedules/https://a.example/right", **named)
    desk.simulation.advance(timedelta(hours=1))
    assert [each.url for each in desk.sent] == ["https://a.example/wrong", "https://a.example/right"]
    assert desk.sent[0].id == desk.sent[1].id


def test_a_schedule_that_was_cancelled_elsewhere_can_be_made_again(desk: Counter) -> None:
    desk.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Schedule_Id="daily")
    app = desk.simulation.duetime.app
    [made] = app.store.search(ScheduleQuery(kind=KIND)).items
    app.scheduler.cancel(Caller("ada"), made.definition.public_id)
    desk.ask("GET", "/v2/schedules/daily", status=404)
    desk.ask("POST", f"/v2/schedules/{HOOK}", status=400, Upstash_Cron="0 0 30 2 *", Upstash_Schedule_Id="daily")
    assert app.store.search(ScheduleQuery(kind=KIND)).total == 1, "a refused request deletes nothing"
    desk.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Schedule_Id="daily")
    assert len(desk.schedules()) == 1
