"""Schedules of QStash's API on a settable clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from duetime.engine.kind import Caller
from duetime.engine.outcome import Failed
from duetime.engine.store import ScheduleQuery
from duetime.kinds.requests.qstash_api.messages import MOST_BODY_BYTES
from duetime.kinds.requests.wire import KIND
from tests.support.qstash import CRON, HOOK, TAKEN, QStashHarness, turned_down

MINUTE = timedelta(minutes=1)


def test_a_schedule_is_shown_with_all_it_has(harness: QStashHarness) -> None:
    id = harness.ask(
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
    assert harness.ask("GET", f"/v2/schedules/{id}") == {
        "scheduleId": id,
        "destination": "https://a.example/x?y=1",
        "cron": "CRON_TZ=Europe/Berlin  0 9 * * 1-5",
        "createdAt": harness.milliseconds(),
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


def test_the_list_leaves_out_bodies_that_together_are_too_long(harness: QStashHarness) -> None:
    half = b"x" * (MOST_BODY_BYTES // 10)
    made = [harness.ask("POST", f"/v2/schedules/{HOOK}", body=half, **CRON)["scheduleId"] for _ in range(12)]
    listed = {each["scheduleId"]: each for each in harness.ask("GET", "/v2/schedules")}
    assert set(listed) == set(made) and sum("body" in each for each in listed.values()) == 10
    assert len(harness.ask("GET", f"/v2/schedules/{made[0]}")["body"]) == len(half)


def test_each_occurrence_is_sent_and_the_last_one_is_shown(harness: QStashHarness) -> None:
    id = harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON)["scheduleId"]
    harness.simulation.advance(3 * MINUTE)
    assert len({each.id for each in harness.sent}) == 3
    shown = harness.ask("GET", f"/v2/schedules/{id}")
    assert shown["lastScheduleTime"] == harness.milliseconds()
    assert shown["lastScheduleStates"] == {harness.sent[-1].id: "SUCCESS"}
    harness.requester.answer = lambda outgoing: Failed("gone", permanent=True)
    harness.simulation.advance(MINUTE)
    shown = harness.ask("GET", f"/v2/schedules/{id}")
    assert (shown["error"], shown["lastScheduleStates"]) == ("gone", {harness.sent[-1].id: "FAIL"})


def test_long_ids_that_differ_at_their_end_are_two_schedules(harness: QStashHarness) -> None:
    ids = [f"{'x' * 99}{each}" for each in "ab"]
    for id in ids:
        assert harness.ask("POST", f"/v2/schedules/{HOOK}", Upstash_Schedule_Id=id, **CRON)["scheduleId"] == id
    assert sorted(each["scheduleId"] for each in harness.schedules()) == ids
    harness.ask("DELETE", f"/v2/schedules/{ids[0]}")
    assert [each["scheduleId"] for each in harness.schedules()] == ids[1:]


def test_a_paused_schedule_sends_nothing(harness: QStashHarness) -> None:
    id = harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON)["scheduleId"]
    for method in ("PATCH", "POST"):
        for _ in range(2):
            harness.ask(method, f"/v2/schedules/{id}/pause")
        assert harness.schedules()[0]["isPaused"] is True
        harness.simulation.advance(2 * MINUTE)
        assert harness.sent == []
        for _ in range(2):
            harness.ask(method, f"/v2/schedules/{id}/resume")
        assert harness.schedules()[0]["isPaused"] is False
    harness.simulation.advance(MINUTE)
    assert len(harness.sent) == 1
    harness.ask("DELETE", f"/v2/schedules/{id}")
    harness.simulation.advance(2 * MINUTE)
    assert len(harness.sent) == 1
    assert harness.schedules() == []


def test_a_message_that_is_retried_holds_up_none_of_the_following(harness: QStashHarness) -> None:
    harness.requester.answer = turned_down
    harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Retry_Delay="90000", Upstash_Retries="1")
    harness.simulation.advance(3 * MINUTE)
    numbers = [each.headers["Upstash-Retried"] for each in harness.sent]
    assert numbers == ["0", "0", "1", "0"]


def test_failures_never_pause_a_schedule(harness: QStashHarness) -> None:
    harness.requester.answer = lambda outgoing: Failed("no", permanent=True)
    harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON)
    harness.simulation.advance(15 * MINUTE)
    assert len(harness.sent) == 15
    assert len(harness.ask("GET", "/v2/dlq")["messages"]) == 15


def test_a_schedule_with_a_delay_sends_later(harness: QStashHarness) -> None:
    harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Delay="90s")
    harness.simulation.advance(timedelta(minutes=2, seconds=29))
    assert harness.sent == []
    harness.simulation.advance(timedelta(seconds=1))
    assert len(harness.sent) == 1
    assert harness.sent[0].headers["Upstash-Retried"] == "0"


def test_the_same_id_changes_the_schedule(harness: QStashHarness) -> None:
    named: dict[str, Any] = {"Upstash_Schedule_Id": "daily"}
    first = harness.ask(
        "POST", f"/v2/schedules/{HOOK}", body=b"one", **CRON, **named, Upstash_Callback="https://b.example"
    )
    assert first == {"scheduleId": "daily"}
    created = harness.milliseconds()
    harness.simulation.advance(MINUTE)
    harness.ask("POST", "/v2/schedules/https://z.example/new", body=b"two", Upstash_Cron="0 9 * * *", **named)
    [shown] = harness.schedules()
    assert (shown["scheduleId"], shown["destination"], shown["cron"], shown["body"], shown["createdAt"]) == (
        "daily",
        "https://z.example/new",
        "0 9 * * *",
        "two",
        created,
    )
    assert "callback" not in shown
    harness.simulation.advance(timedelta(days=1))
    assert [each.url for each in harness.sent] == [HOOK, "https://b.example", "https://z.example/new"]
    assert harness.sent[-1].headers["Upstash-Schedule-Id"] == "daily"
    harness.ask("DELETE", "/v2/schedules/daily")
    harness.ask("GET", "/v2/schedules/daily", status=404)
    harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON, **named)
    assert harness.schedules()[0]["destination"] == HOOK


def test_a_schedule_can_be_mended_while_its_messages_fail(harness: QStashHarness) -> None:
    """Nothing that is on its way is lost: it goes where the schedule now says."""
    harness.requester.answer = lambda outgoing: TAKEN if "right" in outgoing.url else turned_down(outgoing)
    named: dict[str, Any] = {
        "Upstash_Schedule_Id": "daily",
        "Upstash_Cron": "0 9 * * *",
        "Upstash_Retry_Delay": "3600000",
    }
    harness.ask("POST", "/v2/schedules/https://a.example/wrong", **named)
    harness.simulation.advance(timedelta(hours=9))
    assert len(harness.sent) == 1
    harness.ask("POST", "/v2/schedules/https://a.example/right", **named)
    harness.simulation.advance(timedelta(hours=1))
    assert [each.url for each in harness.sent] == ["https://a.example/wrong", "https://a.example/right"]
    assert harness.sent[0].id == harness.sent[1].id


def test_a_schedule_that_was_cancelled_elsewhere_can_be_made_again(harness: QStashHarness) -> None:
    harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Schedule_Id="daily")
    app = harness.simulation.duetime.app
    [made] = app.store.search(ScheduleQuery(kind=KIND)).items
    app.scheduler.cancel(Caller("ada"), made.definition.public_id)
    harness.ask("GET", "/v2/schedules/daily", status=404)
    harness.ask("POST", f"/v2/schedules/{HOOK}", status=400, Upstash_Cron="0 0 30 2 *", Upstash_Schedule_Id="daily")
    assert app.store.search(ScheduleQuery(kind=KIND)).total == 1, "a refused request deletes nothing"
    harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Schedule_Id="daily")
    assert len(harness.schedules()) == 1
