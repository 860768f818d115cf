"""The dead letter queue, the logs and the signing keys of QStash's API."""

from __future__ import annotations

import base64
import hashlib
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
from duetime.kinds.requests.build import SigningKeys
from duetime.kinds.requests.wire import KIND, dlq_id
from duetime.stores.base import BaseStore
from duetime.stores.sqlite.store import SqliteStore
from tests.support.qstash import CRON, HOOK, TAKEN, Counter, counter, turned_down
from tests.support.shell import write
from tests.support.tokens import SECRET

# -- the dead letter queue -------------------------------------------------------------------------------------------


@pytest.fixture
def dead(desk: Counter) -> list[dict[str, Any]]:
    """Seven failures: of two labels, to two hosts, with two answers, one of them by a schedule."""
    gone = Failed("no", permanent=True)
    desk.requester.answer = lambda outgoing: turned_down(outgoing) if outgoing.url == HOOK else gone
    for number in range(6):
        url = HOOK if number % 2 else "https://b.example/"
        desk.publish(url, Upstash_Retries="0", Upstash_Label="odd" if number % 2 else "even,all")
        desk.simulation.advance(timedelta(seconds=1))
    desk.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Retries="0", Upstash_Schedule_Id="daily")
    desk.simulation.advance(timedelta(seconds=54))
    desk.ask("PATCH", "/v2/schedules/daily/pause")
    listed: list[dict[str, Any]] = desk.ask("GET", "/v2/dlq")["messages"]
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
def test_the_dlq_is_filtered(desk: Counter, dead: list[dict[str, Any]], query: str, found: int) -> None:
    assert len(desk.ask("GET", f"/v2/dlq?{query}")["messages"]) == found


def test_the_dlq_comes_in_pages_in_either_order(desk: Counter, dead: list[dict[str, Any]]) -> None:
    for order, expected in (("", dead), ("&order=latestFirst", dead[::-1])):
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = desk.ask("GET", f"/v2/dlq?count=3{order}{cursor}")
            found += page["messages"]
            if "cursor" not in page:
                break
            cursor = f"&cursor={page['cursor']}"
        assert found == expected


def test_a_page_leaves_out_nothing_when_earlier_ones_are_removed(desk: Counter, dead: list[dict[str, Any]]) -> None:
    page = desk.ask("GET", "/v2/dlq?count=3")
    desk.ask("DELETE", "/v2/dlq", body={"dlqIds": [page["messages"][0]["dlqId"]]})
    desk.ask("POST", f"/v2/dlq/retry/{page['messages'][1]['dlqId']}")
    rest = desk.ask("GET", f"/v2/dlq?cursor={page['cursor']}")["messages"]
    assert rest == dead[3:]


@pytest.mark.parametrize("query", ["cursor=nonsense", "cursor=WzAsbnVsbF0", "count=many", "fromDate=x", "toDate=-1"])
def test_a_list_that_cannot_be_given_is_refused(desk: Counter, query: str) -> None:
    for path in ("/v2/dlq", "/v2/events", "/v2/logs"):
        desk.ask("GET", f"{path}?{query}", status=400)


def test_what_failed_as_another_kind_is_no_letter(desk: Counter) -> None:
    scheduler = desk.simulation.duetime.app.scheduler
    task = {"task": "shorten", "args": ["a text", 0], "kwargs": {}}
    assert scheduler.create(Caller("ada"), NewSchedule("job", "cut", "once", {"run_at": "now"}, task)).is_ok
    desk.simulation.settle()
    [run] = desk.simulation.runs()
    assert run.status == "failed"
    for method, path in (("GET", "/v2/dlq"), ("DELETE", "/v2/dlq"), ("POST", "/v2/dlq/retry")):
        desk.ask(method, f"{path}/{dlq_id(run.id)}", status=404)
    assert desk.ask("GET", "/v2/dlq") == {"messages": []}
    assert desk.simulation.runs() == [run]


def test_letters_are_removed(desk: Counter, dead: list[dict[str, Any]]) -> None:
    ids = [each["dlqId"] for each in dead]
    desk.ask("DELETE", f"/v2/dlq/{ids[0]}")
    desk.ask("DELETE", f"/v2/dlq/{ids[0]}", status=404)
    desk.ask("GET", f"/v2/dlq/{ids[0]}", status=404)
    assert desk.ask("DELETE", "/v2/dlq", body={"dlqIds": [*ids[:2], "dlq_999", ids[1]]}) == {"deleted": 1}
    desk.ask("DELETE", "/v2/dlq", status=400)
    for ignored in ("lable=odd", "state=DELIVERED", "label=", "all=true&state=DELIVERED", "all=true&count=0"):
        desk.ask("DELETE", f"/v2/dlq?{ignored}", status=400)
    desk.ask("DELETE", "/v2/dlq?dlqIds=x&label=odd", status=400)
    desk.ask("DELETE", "/v2/dlq", status=400, body={"label": []})
    one = desk.ask("DELETE", "/v2/dlq", body={"label": "odd", "count": 1, "order": "latestFirst"})
    assert one.pop("cursor") and one == {"deleted": 1}
    desk.ask("GET", f"/v2/dlq/{ids[5]}", status=404)
    assert desk.ask("DELETE", "/v2/dlq?label=odd") == {"deleted": 1}
    assert desk.ask("DELETE", f"/v2/dlq?dlqIds={ids[2]},{ids[4]}") == {"deleted": 2}
    assert [each["dlqId"] for each in desk.ask("GET", "/v2/dlq")["messages"]] == ids[6:]
    assert desk.ask("DELETE", "/v2/dlq?all=true") == {"deleted": 1}
    runs = desk.simulation.duetime.app.store.runs(RunQuery(kind=KIND)).items
    assert {run.status for run in runs} == {"failed"}, "the history stays"
    assert desk.schedules()[0]["scheduleId"] == "daily"


def test_letters_are_sent_again_with_the_same_ids(desk: Counter, dead: list[dict[str, Any]]) -> None:
    desk.requester.sent.clear()
    desk.requester.answer = lambda outgoing: TAKEN
    desk.ask("PATCH", "/v2/schedules/daily/resume")
    first = dead[0]
    assert desk.ask("POST", f"/v2/dlq/retry/{first['dlqId']}") == {"messageId": first["messageId"]}
    desk.ask("POST", f"/v2/dlq/retry/{first['dlqId']}", status=404)
    done = desk.ask("POST", "/v2/dlq/retry?label=odd")["responses"]
    assert done == [{"messageId": each["messageId"]} for each in dead if each.get("label") == "odd"]
    desk.ask("POST", "/v2/dlq/retry", body={"dlqIds": [each["dlqId"] for each in dead]})
    desk.simulation.settle()
    assert sorted(each.id for each in desk.sent) == sorted(each["messageId"] for each in dead)
    assert desk.ask("GET", "/v2/dlq") == {"messages": []}


def test_a_letter_that_fails_again_is_back(desk: Counter, dead: list[dict[str, Any]]) -> None:
    desk.ask("POST", f"/v2/dlq/retry/{dead[1]['dlqId']}")
    assert len(desk.ask("GET", "/v2/dlq")["messages"]) == 6
    desk.simulation.settle()
    assert len(desk.ask("GET", "/v2/dlq")["messages"]) == 7


def test_a_letter_is_not_changed_in_silence(desk: Counter, dead: list[dict[str, Any]]) -> None:
    path = f"/v2/dlq/retry/{dead[0]['dlqId']}"
    assert "not offered" in desk.ask("POST", path, status=501, Upstash_Retries="5")["error"]
    desk.ask("POST", path, Upstash_Telemetry_Sdk="1")


# -- what outlives its schedule ---------------------------------------------------------------------------------------


def made_and_deleted(desk: Counter, **headers: Any) -> list[dict[str, Any]]:
    """The dead letters of a schedule that failed three times and was deleted then."""
    desk.requester.answer = turned_down
    desk.ask(
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
    desk.simulation.advance(timedelta(minutes=3))
    before: list[dict[str, Any]] = desk.ask("GET", "/v2/dlq")["messages"]
    assert len(before) == 3
    desk.ask("DELETE", "/v2/schedules/daily")
    return before


def test_what_a_deleted_schedule_did_stays_in_the_dlq_and_the_logs(desk: Counter) -> None:
    before = made_and_deleted(desk)
    after = desk.ask("GET", "/v2/dlq")["messages"]
    gone = {"body", "header"}
    assert [{name: each[name] for name in each.keys() - gone} for each in after] == [
        {name: each[name] for name in each.keys() - gone} for each in before
    ]
    assert "hush" not in json.dumps(after)
    assert desk.ask("GET", f"/v2/dlq/{after[0]['dlqId']}") == after[0]
    assert len(desk.ask("GET", "/v2/dlq?scheduleId=daily&label=often&url=" + HOOK)["messages"]) == 3
    assert states(desk).count("FAILED") == 3
    assert states(desk, f"?messageId={after[0]['messageId']}")[0] == "FAILED"
    desk.ask("GET", f"/v2/messages/{after[0]['messageId']}", status=404)
    desk.ask("GET", "/v2/schedules/daily", status=404)


def test_they_are_still_their_owners_alone(desk: Counter) -> None:
    [letter, *_] = made_and_deleted(desk)
    desk.owner = "ben"
    assert desk.ask("GET", "/v2/dlq")["messages"] == []
    assert states(desk) == states(desk, f"?messageId={letter['messageId']}") == []
    for method, path in (("GET", "/v2/dlq/"), ("DELETE", "/v2/dlq/"), ("POST", "/v2/dlq/retry/")):
        desk.ask(method, path + letter["dlqId"], status=404)
    assert desk.ask("DELETE", "/v2/dlq?all=true") == {"deleted": 0}


def test_they_can_be_removed_and_not_sent_again(desk: Counter) -> None:
    """What they carried is gone. Whoever looks into the store sees the same letters."""

    def dead() -> list[str]:
        found = desk.simulation.duetime.app.store.runs(RunQuery(kind=KIND, status="dead", oldest_first=True)).items
        return [f"dlq_{run.id}" for run in found]

    letters = [each["dlqId"] for each in made_and_deleted(desk)]
    assert dead() == letters
    refused = desk.ask("POST", f"/v2/dlq/retry/{letters[0]}", status=409)
    assert refused == {"error": "it is deleted, so it cannot be retried"}
    assert desk.ask("POST", "/v2/dlq/retry?all=true") == {"responses": []}
    desk.ask("DELETE", f"/v2/dlq/{letters[0]}")
    assert [each["dlqId"] for each in desk.ask("GET", "/v2/dlq")["messages"]] == dead() == letters[1:]


def test_a_message_that_was_deleted_keeps_its_story(desk: Counter) -> None:
    """Here none can be, but elsewhere."""
    id = desk.publish()
    desk.simulation.settle()
    scheduler = desk.simulation.duetime.app.scheduler
    assert scheduler.delete(Caller("ada"), id).is_ok
    assert states(desk) == states(desk, f"?messageId={id}") == ["DELIVERED", "ACTIVE", "CREATED"]
    desk.ask("DELETE", f"/v2/messages/{id}", status=404)


def test_what_a_version_deleted_that_kept_nothing_is_not_told(desk: Counter) -> None:
    made_and_deleted(desk)
    store = desk.simulation.duetime.app.store
    assert isinstance(store, BaseStore)
    write(store, "UPDATE schedules SET payload = 'null'")
    assert desk.ask("GET", "/v2/dlq")["messages"] == []
    assert states(desk) == []


# -- logs ------------------------------------------------------------------------------------------------------------


def states(desk: Counter, query: str = "") -> list[str]:
    return [each["state"] for each in desk.ask("GET", f"/v2/events{query}")["events"]]


def test_the_story_of_a_message(desk: Counter) -> None:
    desk.requester.answer = lambda outgoing: turned_down(outgoing) if len(desk.sent) == 1 else TAKEN
    id = desk.publish(Upstash_Delay="5s", Upstash_Retry_Delay="1000", Upstash_Label="l", body=b"hello")
    assert states(desk) == ["CREATED"]
    desk.simulation.advance(timedelta(seconds=5.5))
    assert states(desk) == ["RETRY", "ERROR", "ACTIVE", "CREATED"]
    desk.simulation.advance(timedelta(seconds=1))
    told = desk.ask("GET", "/v2/logs")["events"]
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


def test_how_messages_end(desk: Counter) -> None:
    desk.requester.answer = lambda outgoing: Failed("no", permanent=True)
    failed, taken_back = desk.publish(), desk.publish(Upstash_Delay="1h")
    desk.simulation.settle()
    desk.ask("DELETE", f"/v2/messages/{taken_back}", status=202)
    assert states(desk, f"?messageId={failed}") == ["FAILED", "ERROR", "ACTIVE", "CREATED"]
    assert states(desk, f"?messageId={taken_back}") == ["CANCELED", "CREATED"]
    assert len(states(desk, f"?messageIds={failed}&messageIds={taken_back}")) == 6
    assert len(states(desk)) == 6
    assert sorted(states(desk, "?state=IN_PROGRESS")) == ["ACTIVE", "ERROR"]
    assert states(desk, "?state=CANCELED,FAILED&url=https://none.example") == []
    [last] = desk.ask("GET", "/v2/events?state=ERROR")["events"]
    assert (last["responseStatus"], last["responseBody"]) == (0, "no")


def test_what_a_schedule_missed_is_told(desk: Counter) -> None:
    desk.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Schedule_Id="daily")
    desk.simulation.clock.move_to(Instant(desk.simulation.clock.now() + 10 * 60 * SECOND))
    desk.simulation.settle()
    called_off = desk.ask("GET", "/v2/events?state=CANCELED&scheduleId=daily")["events"]
    assert [each["scheduleId"] for each in called_off] == ["daily"]
    assert states(desk, "?state=DELIVERED") == ["DELIVERED"]


def test_logs_come_in_pages(desk: Counter) -> None:
    for number in range(5):
        desk.publish(Upstash_Label=str(number), Upstash_Delay="1s" if number == 2 else "0s")
    desk.simulation.settle()
    whole = desk.ask("GET", "/v2/events")["events"]
    assert len(whole) == 4 * 3 + 1
    found: list[Any] = []
    cursor = ""
    for _ in range(20):
        page = desk.ask("GET", f"/v2/events?count=2{cursor}")
        assert len(page["events"]) <= 2
        found += page["events"]
        if "cursor" not in page:
            break
        cursor = f"&cursor={page['cursor']}"
    assert sorted(found, key=json.dumps) == sorted(whole, key=json.dumps)


def test_a_log_does_not_repeat_long_bodies(desk: Counter) -> None:
    desk.publish(body=b"x" * 5000)
    assert "body" not in desk.ask("GET", "/v2/events")["events"][0]


# -- keys ------------------------------------------------------------------------------------------------------------


def test_keys_rotate_for_their_owner_alone(desk: Counter) -> None:
    first = desk.ask("GET", "/v2/keys")
    assert first == desk.ask("GET", "/v2/keys")
    assert desk.keys.current("ada") == first["current"] != first["next"]
    second = desk.ask("POST", "/v2/keys/rotate")
    assert second["current"] == first["next"]
    assert second == desk.ask("GET", "/v2/keys")
    assert desk.keys.current("ada") == second["current"]
    desk.owner = "bob"
    others = desk.ask("GET", "/v2/keys")
    assert not {*others.values()} & {*first.values(), *second.values()}
    assert desk.keys.current("bob") == others["current"]


def test_a_run_of_an_agent_sees_no_keys(desk: Counter) -> None:
    """With them it could pass anything off as a delivery of its owner's, long after it is over."""
    before = desk.ask("GET", "/v2/keys")
    desk.depth = 1
    for method, path in (("GET", "/v2/keys"), ("POST", "/v2/keys/rotate")):
        refused = desk.ask(method, path, status=403)
        assert not {*before.values()} & {*refused.values()}
    desk.depth = 0
    assert desk.ask("GET", "/v2/keys") == before


def test_rotations_leave_no_files(desk: Counter, tmp_path: Path) -> None:
    for _ in range(3):
        desk.ask("POST", "/v2/keys/rotate")
    assert [path for path in (tmp_path / "auth").rglob("*") if path.is_file()] == []


def test_rotations_have_a_limit_per_hour(desk: Counter) -> None:
    for _ in range(10):
        desk.ask("POST", "/v2/keys/rotate")
    keys = desk.ask("GET", "/v2/keys")
    refused = desk.ask("POST", "/v2/keys/rotate", status=429)
    assert "when the hour is over" in refused["error"]
    assert desk.ask("GET", "/v2/keys") == keys
    desk.simulation.advance(timedelta(hours=1))
    assert desk.ask("POST", "/v2/keys/rotate")["current"] == keys["next"]


def test_rotations_at_once_all_count(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "one.db")
    store.migrate()

    def keys() -> SigningKeys:
        return SigningKeys(lambda: SECRET, tmp_path, store, SystemClock())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: keys().rotate("ada"), range(10)))
    assert store.signing_generation("ada") == 10
    store.close()


def test_what_older_versions_rotated_in_files_still_counts(tmp_path: Path) -> None:
    """As the hash of `ada` names the folder."""
    store = SqliteStore(tmp_path / "one.db")
    store.migrate()
    fresh = SigningKeys(lambda: SECRET, tmp_path / "elsewhere", store, SystemClock())
    first, second = fresh.both("ada")
    folder = tmp_path / "auth" / "signing" / hashlib.sha256(b"ada").hexdigest()[:40]
    folder.mkdir(parents=True)
    (folder / "1").touch()
    keys = SigningKeys(lambda: SECRET, tmp_path / "auth", store, SystemClock())
    assert keys.current("ada") == second != first
    keys.rotate("ada")
    assert store.signing_generation("ada") == 2
    store.close()


# -- on the other store -------------------------------------------------------------------------------------------


def test_postgresql_tells_the_same_story(postgres_url: str, tmp_path: Path) -> None:
    with counter(tmp_path, postgres_url) as desk:
        desk.requester.answer = lambda outgoing: turned_down(outgoing) if len(desk.sent) < 3 else TAKEN
        id = desk.publish(Upstash_Retries="1", Upstash_Retry_Delay="1000", Upstash_Deduplication_Id="x", body=b"\x00")
        assert desk.ask("POST", f"/v2/publish/{HOOK}", status=202, Upstash_Deduplication_Id="x")["messageId"] == id
        desk.simulation.advance(timedelta(seconds=1))
        [letter] = desk.ask("GET", "/v2/dlq")["messages"]
        assert (letter["messageId"], letter["body"], letter["responseStatus"]) == (id, "\x00", 503)
        desk.ask("POST", f"/v2/dlq/retry/{letter['dlqId']}")
        desk.simulation.settle()
        assert desk.ask("GET", "/v2/dlq") == {"messages": []}
        first = desk.ask("GET", "/v2/events?count=3")
        rest = desk.ask("GET", f"/v2/events?cursor={first['cursor']}")
        assert [each["state"] for each in first["events"]] == ["DELIVERED", "ACTIVE", "RETRY"]
        assert [each["state"] for each in rest["events"]][-1] == "CREATED"
        desk.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Schedule_Id="daily")
        desk.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Schedule_Id="daily", body=b"two")
        desk.simulation.advance(timedelta(minutes=1))
        assert desk.sent[-1].body == b"two"
        desk.ask("DELETE", "/v2/schedules/daily")
        assert desk.schedules() == []
