"""The dead letter queue, the logs and the signing keys of QStash's API."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant, SystemClock
from duetime.engine.kind import Caller
from duetime.engine.outcome import Failed
from duetime.engine.store import RunQuery
from duetime.engine.validation import NewSchedule
from duetime.kinds.requests.signing_keys import SigningKeys
from duetime.kinds.requests.wire import KIND, dlq_id
from duetime.stores.base import BaseStore
from duetime.stores.sqlite.store import SqliteStore
from tests.support.qstash import CRON, HOOK, TAKEN, QStashHarness, counter, turned_down
from tests.support.shell import write
from tests.support.tokens import SECRET

# -- the dead letter queue -------------------------------------------------------------------------------------------


@pytest.fixture
def dead(harness: QStashHarness) -> list[dict[str, Any]]:
    """Seven failures: of two labels, to two hosts, with two answers, one of them by a schedule."""
    gone = Failed("no", permanent=True)
    harness.requester.answer = lambda outgoing: turned_down(outgoing) if outgoing.url == HOOK else gone
    for number in range(6):
        url = HOOK if number % 2 else "https://b.example/"
        harness.publish(url, Upstash_Retries="0", Upstash_Label="odd" if number % 2 else "even,all")
        harness.simulation.advance(timedelta(seconds=1))
    harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Retries="0", Upstash_Schedule_Id="daily")
    harness.simulation.advance(timedelta(seconds=54))
    harness.ask("PATCH", "/v2/schedules/daily/pause")
    listed: list[dict[str, Any]] = harness.ask("GET", "/v2/dlq")["messages"]
    assert len(listed) == 7
    return listed


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("label=odd", 3),
        ("label=all&label=odd", 6),
        ("label=all,odd", 6),
        ("label=odd&responseStatus=0", 0),
        ("responseStatus=503", 4),
        ("responseStatus=0", 3),
        ("scheduleId=daily", 1),
        ("url=https://b.example/", 3),
        ("host=a.example", 4),
        ("path=/hook", 4),
        ("topicName=t", 0),
        ("fromDate=1772323203000", 4),
        ("toDate=1772323203000", 4),
        ("fromDate=1772323201000&toDate=1772323203000", 3),
        ("count=2", 2),
        ("count=0", 1),
        ("count=1000", 7),
    ],
)
def test_the_dlq_is_filtered(harness: QStashHarness, dead: list[dict[str, Any]], query: str, found: int) -> None:
    assert len(harness.ask("GET", f"/v2/dlq?{query}")["messages"]) == found


def test_the_dlq_comes_in_pages_in_either_order(harness: QStashHarness, dead: list[dict[str, Any]]) -> None:
    for order, expected in (("", dead), ("&order=latestFirst", dead[::-1])):
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = harness.ask("GET", f"/v2/dlq?count=3{order}{cursor}")
            found += page["messages"]
            if "cursor" not in page:
                break
            cursor = f"&cursor={page['cursor']}"
        assert found == expected


def test_a_page_leaves_out_nothing_when_earlier_ones_are_removed(
    harness: QStashHarness, dead: list[dict[str, Any]]
) -> None:
    page = harness.ask("GET", "/v2/dlq?count=3")
    harness.ask("DELETE", "/v2/dlq", body={"dlqIds": [page["messages"][0]["dlqId"]]})
    harness.ask("POST", f"/v2/dlq/retry/{page['messages'][1]['dlqId']}")
    rest = harness.ask("GET", f"/v2/dlq?cursor={page['cursor']}")["messages"]
    assert rest == dead[3:]


@pytest.mark.parametrize("query", ["cursor=nonsense", "cursor=WzAsbnVsbF0", "count=many", "fromDate=x", "toDate=-1"])
def test_a_list_that_cannot_be_given_is_refused(harness: QStashHarness, query: str) -> None:
    for path in ("/v2/dlq", "/v2/events", "/v2/logs"):
        harness.ask("GET", f"{path}?{query}", status=400)


def test_what_failed_as_another_kind_is_no_letter(harness: QStashHarness) -> None:
    scheduler = harness.simulation.duetime.app.scheduler
    task = {"task": "shorten", "args": ["a text", 0], "kwargs": {}}
    scheduler.create(Caller("ada"), NewSchedule("job", "cut", "once", {"run_at": "now"}, task))
    harness.simulation.settle()
    [run] = harness.simulation.runs()
    assert run.status == "failed"
    for method, path in (("GET", "/v2/dlq"), ("DELETE", "/v2/dlq"), ("POST", "/v2/dlq/retry")):
        harness.ask(method, f"{path}/{dlq_id(run.id)}", status=404)
    assert harness.ask("GET", "/v2/dlq") == {"messages": []}
    assert harness.simulation.runs() == [run]


def test_letters_are_removed(harness: QStashHarness, dead: list[dict[str, Any]]) -> None:
    ids = [each["dlqId"] for each in dead]
    harness.ask("DELETE", f"/v2/dlq/{ids[0]}")
    harness.ask("DELETE", f"/v2/dlq/{ids[0]}", status=404)
    harness.ask("GET", f"/v2/dlq/{ids[0]}", status=404)
    assert harness.ask("DELETE", "/v2/dlq", body={"dlqIds": [*ids[:2], "dlq_999", ids[1]]}) == {"deleted": 1}
    harness.ask("DELETE", "/v2/dlq", status=400)
    for ignored in ("lable=odd", "state=DELIVERED", "label=", "all=true&state=DELIVERED", "all=true&count=0"):
        harness.ask("DELETE", f"/v2/dlq?{ignored}", status=400)
    harness.ask("DELETE", "/v2/dlq?dlqIds=x&label=odd", status=400)
    harness.ask("DELETE", "/v2/dlq", status=400, body={"label": []})
    one = harness.ask("DELETE", "/v2/dlq", body={"label": "odd", "count": 1, "order": "latestFirst"})
    assert one.pop("cursor") and one == {"deleted": 1}
    harness.ask("GET", f"/v2/dlq/{ids[5]}", status=404)
    assert harness.ask("DELETE", "/v2/dlq?label=odd") == {"deleted": 1}
    assert harness.ask("DELETE", f"/v2/dlq?dlqIds={ids[2]},{ids[4]}") == {"deleted": 2}
    assert [each["dlqId"] for each in harness.ask("GET", "/v2/dlq")["messages"]] == ids[6:]
    assert harness.ask("DELETE", "/v2/dlq?all=true") == {"deleted": 1}
    runs = harness.simulation.duetime.app.store.runs(RunQuery(kind=KIND)).items
    assert {run.status for run in runs} == {"failed"}, "the history stays"
    assert harness.schedules()[0]["scheduleId"] == "daily"


def test_letters_are_sent_again_with_the_same_ids(harness: QStashHarness, dead: list[dict[str, Any]]) -> None:
    harness.requester.sent.clear()
    harness.requester.answer = lambda outgoing: TAKEN
    harness.ask("PATCH", "/v2/schedules/daily/resume")
    first = dead[0]
    assert harness.ask("POST", f"/v2/dlq/retry/{first['dlqId']}") == {"messageId": first["messageId"]}
    harness.ask("POST", f"/v2/dlq/retry/{first['dlqId']}", status=404)
    done = harness.ask("POST", "/v2/dlq/retry?label=odd")["responses"]
    assert done == [{"messageId": each["messageId"]} for each in dead if each.get("label") == "odd"]
    harness.ask("POST", "/v2/dlq/retry", body={"dlqIds": [each["dlqId"] for each in dead]})
    harness.simulation.settle()
    assert sorted(each.id for each in harness.sent) == sorted(each["messageId"] for each in dead)
    assert harness.ask("GET", "/v2/dlq") == {"messages": []}


def test_a_letter_that_fails_again_is_back(harness: QStashHarness, dead: list[dict[str, Any]]) -> None:
    harness.ask("POST", f"/v2/dlq/retry/{dead[1]['dlqId']}")
    assert len(harness.ask("GET", "/v2/dlq")["messages"]) == 6
    harness.simulation.settle()
    assert len(harness.ask("GET", "/v2/dlq")["messages"]) == 7


def test_a_letter_is_not_changed_in_silence(harness: QStashHarness, dead: list[dict[str, Any]]) -> None:
    path = f"/v2/dlq/retry/{dead[0]['dlqId']}"
    assert "not offered" in harness.ask("POST", path, status=501, Upstash_Retries="5")["error"]
    harness.ask("POST", path, Upstash_Telemetry_Sdk="1")


# -- what outlives its schedule ---------------------------------------------------------------------------------------


def made_and_deleted(harness: QStashHarness, **headers: Any) -> list[dict[str, Any]]:
    """The dead letters of a schedule that failed three times and was deleted then."""
    harness.requester.answer = turned_down
    harness.ask(
        "POST",
        f"/v2/schedules/{HOOK}",
        **CRON,
        body=b"hush-body",
        Upstash_Retries="0",
        Upstash_Schedule_Id="daily",
        Upstash_Label="often",
        Upstash_Forward_X_Key="hush-key",
        **headers,
    )
    harness.simulation.advance(timedelta(minutes=3))
    before: list[dict[str, Any]] = harness.ask("GET", "/v2/dlq")["messages"]
    assert len(before) == 3
    harness.ask("DELETE", "/v2/schedules/daily")
    return before


def test_what_a_deleted_schedule_did_stays_in_the_dlq_and_the_logs(harness: QStashHarness) -> None:
    before = made_and_deleted(harness)
    after = harness.ask("GET", "/v2/dlq")["messages"]
    gone = {"body", "header"}
    assert [{name: each[name] for name in each.keys() - gone} for each in after] == [
        {name: each[name] for name in each.keys() - gone} for each in before
    ]
    assert "hush" not in json.dumps(after)
    assert harness.ask("GET", f"/v2/dlq/{after[0]['dlqId']}") == after[0]
    assert len(harness.ask("GET", "/v2/dlq?scheduleId=daily&label=often&url=" + HOOK)["messages"]) == 3
    assert states(harness).count("FAILED") == 3
    assert states(harness, f"?messageId={after[0]['messageId']}")[0] == "FAILED"
    harness.ask("GET", f"/v2/messages/{after[0]['messageId']}", status=404)
    harness.ask("GET", "/v2/schedules/daily", status=404)


def test_they_are_still_their_owners_alone(harness: QStashHarness) -> None:
    [letter, *_] = made_and_deleted(harness)
    harness.owner = "ben"
    assert harness.ask("GET", "/v2/dlq")["messages"] == []
    assert states(harness) == states(harness, f"?messageId={letter['messageId']}") == []
    for method, path in (("GET", "/v2/dlq/"), ("DELETE", "/v2/dlq/"), ("POST", "/v2/dlq/retry/")):
        harness.ask(method, path + letter["dlqId"], status=404)
    assert harness.ask("DELETE", "/v2/dlq?all=true") == {"deleted": 0}


def test_they_can_be_removed_and_not_sent_again(harness: QStashHarness) -> None:
    """What they carried is gone. Whoever looks into the store sees the same letters."""

    def dead() -> list[str]:
        found = harness.simulation.duetime.app.store.runs(RunQuery(kind=KIND, status="dead", oldest_first=True)).items
        return [f"dlq_{run.id}" for run in found]

    letters = [each["dlqId"] for each in made_and_deleted(harness)]
    assert dead() == letters
    refused = harness.ask("POST", f"/v2/dlq/retry/{letters[0]}", status=409)
    assert refused == {"error": "it is deleted, so it cannot be retried"}
    assert harness.ask("POST", "/v2/dlq/retry?all=true") == {"responses": []}
    harness.ask("DELETE", f"/v2/dlq/{letters[0]}")
    assert [each["dlqId"] for each in harness.ask("GET", "/v2/dlq")["messages"]] == dead() == letters[1:]


def test_a_message_that_was_deleted_keeps_its_story(harness: QStashHarness) -> None:
    """Here none can be, but elsewhere."""
    id = harness.publish()
    harness.simulation.settle()
    scheduler = harness.simulation.duetime.app.scheduler
    scheduler.delete(Caller("ada"), id)
    assert states(harness) == states(harness, f"?messageId={id}") == ["DELIVERED", "ACTIVE", "CREATED"]
    harness.ask("DELETE", f"/v2/messages/{id}", status=404)


def test_what_a_version_deleted_that_kept_nothing_is_not_told(harness: QStashHarness) -> None:
    made_and_deleted(harness)
    store = harness.simulation.duetime.app.store
    assert isinstance(store, BaseStore)
    write(store, "UPDATE schedules SET payload = 'null'")
    assert harness.ask("GET", "/v2/dlq")["messages"] == []
    assert states(harness) == []


# -- logs ------------------------------------------------------------------------------------------------------------


def states(harness: QStashHarness, query: str = "") -> list[str]:
    return [each["state"] for each in harness.ask("GET", f"/v2/events{query}")["events"]]


def test_the_story_of_a_message(harness: QStashHarness) -> None:
    harness.requester.answer = lambda outgoing: turned_down(outgoing) if len(harness.sent) == 1 else TAKEN
    id = harness.publish(Upstash_Delay="5s", Upstash_Retry_Delay="1000", Upstash_Label="l", body=b"hello")
    assert states(harness) == ["CREATED"]
    harness.simulation.advance(timedelta(seconds=5.5))
    assert states(harness) == ["RETRY", "ERROR", "ACTIVE", "CREATED"]
    harness.simulation.advance(timedelta(seconds=1))
    told = harness.ask("GET", "/v2/logs")["events"]
    start = 1_772_323_200_000
    assert [(each["state"], each["time"] - start) for each in told] == [
        ("DELIVERED", 6000),
        ("ACTIVE", 6000),
        ("RETRY", 5000),
        ("ERROR", 5000),
        ("ACTIVE", 5000),
        ("CREATED", 0),
    ]
    for each in told:
        assert (each["messageId"], each["url"], each["label"], each["maxRetries"]) == (id, HOOK, "l", 3)
        assert base64.b64decode(each["body"]) == b"hello"
    assert told[3]["error"] == "host answered 503"
    assert told[-1]["nextDeliveryTime"] == start + 5000


def test_how_messages_end(harness: QStashHarness) -> None:
    harness.requester.answer = lambda outgoing: Failed("no", permanent=True)
    failed, taken_back = harness.publish(), harness.publish(Upstash_Delay="1h")
    harness.simulation.settle()
    harness.ask("DELETE", f"/v2/messages/{taken_back}", status=202)
    assert states(harness, f"?messageId={failed}") == ["FAILED", "ERROR", "ACTIVE", "CREATED"]
    assert states(harness, f"?messageId={taken_back}") == ["CANCELED", "CREATED"]
    assert len(states(harness, f"?messageIds={failed}&messageIds={taken_back}")) == 6
    assert len(states(harness)) == 6
    assert sorted(states(harness, "?state=IN_PROGRESS")) == ["ACTIVE", "ERROR"]
    assert states(harness, "?state=CANCELED,FAILED&url=https://none.example") == []
    [last] = harness.ask("GET", "/v2/events?state=ERROR")["events"]
    assert (last["responseStatus"], last["responseBody"]) == (0, "no")


def test_what_a_schedule_missed_is_told(harness: QStashHarness) -> None:
    harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Schedule_Id="daily")
    harness.simulation.clock.move_to(Instant(harness.simulation.clock.now() + 10 * 60 * SECOND))
    harness.simulation.settle()
    called_off = harness.ask("GET", "/v2/events?state=CANCELED&scheduleId=daily")["events"]
    assert [each["scheduleId"] for each in called_off] == ["daily"]
    assert states(harness, "?state=DELIVERED") == ["DELIVERED"]


def test_logs_come_in_pages(harness: QStashHarness) -> None:
    for number in range(5):
        harness.publish(Upstash_Label=str(number), Upstash_Delay="1s" if number == 2 else "0s")
    harness.simulation.settle()
    whole = harness.ask("GET", "/v2/events")["events"]
    assert len(whole) == 4 * 3 + 1
    found: list[Any] = []
    cursor = ""
    for _ in range(20):
        page = harness.ask("GET", f"/v2/events?count=2{cursor}")
        assert len(page["events"]) <= 2
        found += page["events"]
        if "cursor" not in page:
            break
        cursor = f"&cursor={page['cursor']}"
    assert sorted(found, key=json.dumps) == sorted(whole, key=json.dumps)


def test_a_log_does_not_repeat_long_bodies(harness: QStashHarness) -> None:
    harness.publish(body=b"x" * 5000)
    assert "body" not in harness.ask("GET", "/v2/events")["events"][0]


# -- keys ------------------------------------------------------------------------------------------------------------


def test_keys_rotate_for_their_owner_alone(harness: QStashHarness) -> None:
    first = harness.ask("GET", "/v2/keys")
    assert first == harness.ask("GET", "/v2/keys")
    assert harness.keys.current("ada") == first["current"] != first["next"]
    second = harness.ask("POST", "/v2/keys/rotate")
    assert second["current"] == first["next"]
    assert second == harness.ask("GET", "/v2/keys")
    assert harness.keys.current("ada") == second["current"]
    harness.owner = "bob"
    others = harness.ask("GET", "/v2/keys")
    assert not {*others.values()} & {*first.values(), *second.values()}
    assert harness.keys.current("bob") == others["current"]


def test_a_run_of_an_agent_sees_no_keys(harness: QStashHarness) -> None:
    """With them it could pass anything off as a delivery of its owner's, long after it is over."""
    before = harness.ask("GET", "/v2/keys")
    harness.depth = 1
    for method, path in (("GET", "/v2/keys"), ("POST", "/v2/keys/rotate")):
        refused = harness.ask(method, path, status=403)
        assert not {*before.values()} & {*refused.values()}
    harness.depth = 0
    assert harness.ask("GET", "/v2/keys") == before


def test_rotations_have_a_limit_per_hour(harness: QStashHarness) -> None:
    for _ in range(10):
        harness.ask("POST", "/v2/keys/rotate")
    keys = harness.ask("GET", "/v2/keys")
    refused = harness.ask("POST", "/v2/keys/rotate", status=429)
    assert "when the hour is over" in refused["error"]
    assert harness.ask("GET", "/v2/keys") == keys
    harness.simulation.advance(timedelta(hours=1))
    assert harness.ask("POST", "/v2/keys/rotate")["current"] == keys["next"]


def test_rotations_at_once_all_count(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "one.db")
    store.migrate()

    def keys() -> SigningKeys:
        return SigningKeys(lambda: SECRET, store, SystemClock())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: keys().rotate("ada"), range(10)))
    assert store.signing_generation("ada") == 10
    store.close()


# -- on the other store -------------------------------------------------------------------------------------------


def test_postgresql_tells_the_same_story(clean_postgres_url: str) -> None:
    with counter(clean_postgres_url) as harness:
        harness.requester.answer = lambda outgoing: turned_down(outgoing) if len(harness.sent) < 3 else TAKEN
        id = harness.publish(
            Upstash_Retries="1", Upstash_Retry_Delay="1000", Upstash_Deduplication_Id="x", body=b"\x00"
        )
        assert harness.ask("POST", f"/v2/publish/{HOOK}", status=202, Upstash_Deduplication_Id="x")["messageId"] == id
        harness.simulation.advance(timedelta(seconds=1))
        [letter] = harness.ask("GET", "/v2/dlq")["messages"]
        assert (letter["messageId"], letter["body"], letter["responseStatus"]) == (id, "\x00", 503)
        harness.ask("POST", f"/v2/dlq/retry/{letter['dlqId']}")
        harness.simulation.settle()
        assert harness.ask("GET", "/v2/dlq") == {"messages": []}
        first = harness.ask("GET", "/v2/events?count=3")
        rest = harness.ask("GET", f"/v2/events?cursor={first['cursor']}")
        assert [each["state"] for each in first["events"]] == ["DELIVERED", "ACTIVE", "RETRY"]
        assert [each["state"] for each in rest["events"]][-1] == "CREATED"
        harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Schedule_Id="daily")
        harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Schedule_Id="daily", body=b"two")
        harness.simulation.advance(timedelta(minutes=1))
        assert harness.sent[-1].body == b"two"
        harness.ask("DELETE", "/v2/schedules/daily")
        assert harness.schedules() == []
