"""Messages of QStash's API on a settable clock: when they go out, how often, and what follows."""

from __future__ import annotations

import base64
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.clock import SECOND
from duetime.engine.outcome import Failed, Retry
from duetime.engine.store import ScheduleQuery
from duetime.kinds.requests.wire import RETRIES
from tests.support.qstash import CRON, HOOK, TAKEN, QStashHarness, turned_down
from tests.support.web import site

MINUTE = timedelta(minutes=1)


# -- messages --------------------------------------------------------------------------------------------------------


def test_a_message_is_shown_while_it_is_on_its_way(harness: QStashHarness) -> None:
    id = harness.publish(body=b"\xff\x00", Upstash_Delay="1h", Upstash_Label="l", Content_Type="a/b")
    now = harness.milliseconds()
    assert harness.ask("GET", f"/v2/messages/{id}") == {
        "messageId": id,
        "url": HOOK,
        "method": "POST",
        "header": {"Content-Type": ["a/b"]},
        "bodyBase64": base64.b64encode(b"\xff\x00").decode(),
        "label": "l",
        "labels": ["l"],
        "maxRetries": RETRIES,
        "notBefore": now + 3_600_000,
        "createdAt": now,
    }
    harness.simulation.advance(timedelta(minutes=59, seconds=59))
    assert harness.sent == []
    harness.simulation.advance(timedelta(seconds=1))
    assert [(each.id, each.body) for each in harness.sent] == [(id, b"\xff\x00")]
    harness.ask("GET", f"/v2/messages/{id}", status=404)


def test_a_run_of_an_agent_cancels_and_retries_one_message_at_a_time(harness: QStashHarness) -> None:
    harness.requester.answer = turned_down
    [first, *others] = [harness.publish(Upstash_Delay="1h") for _ in range(3)]
    failed = [harness.publish(Upstash_Retries="0", Upstash_Label=f"failed {number}") for number in range(3)]
    harness.simulation.advance(timedelta(seconds=1))
    dead = [each["dlqId"] for each in harness.ask("GET", "/v2/dlq")["messages"]]
    harness.depth = 1
    for method, path, body in (
        ("DELETE", "/v2/messages", b""),
        ("DELETE", "/v2/messages?label=failed", b""),
        ("DELETE", "/v2/messages", {"messageIds": others}),
        ("POST", "/v2/dlq/retry?all=true", b""),
        ("POST", "/v2/dlq/retry", {"dlqIds": dead}),
        ("DELETE", "/v2/dlq?all=true", b""),
        ("DELETE", "/v2/dlq", {"dlqIds": dead}),
    ):
        assert "an agent's run cannot change many" in harness.ask(method, path, body=body, status=403)["error"]
    assert len(harness.ask("GET", "/v2/dlq")["messages"]) == len(failed)
    assert harness.ask("DELETE", "/v2/messages", body={"messageIds": [first]}, status=202) == {"cancelled": 1}
    assert harness.ask("DELETE", "/v2/dlq", body={"dlqIds": dead[:1]}) == {"deleted": 1}
    assert len(harness.ask("POST", "/v2/dlq/retry", body={"dlqIds": dead[1:2]})["responses"]) == 1
    assert [harness.ask("GET", f"/v2/messages/{id}")["messageId"] for id in others] == others


@pytest.mark.parametrize(
    ("headers", "after"),
    [
        ({}, 0),
        ({"Upstash_Delay": "0s"}, 0),
        ({"Upstash_Delay": "90"}, 90),
        ({"Upstash_Delay": "1d10h30m50s"}, 124_250),
        ({"Upstash_Not_Before": "1772323260"}, 60),
        ({"Upstash_Not_Before": "1772323200"}, 0),
        ({"Upstash_Not_Before": "1000000000"}, 0),
        ({"Upstash_Not_Before": "1772323260", "Upstash_Delay": "1h"}, 60),
    ],
)
def test_when_a_message_goes_out(harness: QStashHarness, headers: dict[str, str], after: int) -> None:
    harness.publish(**headers)
    harness.simulation.advance(timedelta(days=3))
    [run] = harness.simulation.runs()
    assert run.due - 1_772_323_200 * SECOND == after * SECOND


def test_attempts_follow_the_formula_and_then_it_is_dead(harness: QStashHarness) -> None:
    harness.requester.answer = turned_down
    start = harness.simulation.now
    times = []

    def noted(outgoing: Any) -> Any:
        times.append((harness.simulation.now - start).total_seconds())
        return turned_down(outgoing)

    harness.requester.answer = noted
    id = harness.publish(Upstash_Retries="2", Upstash_Retry_Delay="1000 * (1 + retried)")
    harness.simulation.advance(timedelta(hours=1))
    assert times == [0, 1, 3]
    assert {each.id for each in harness.sent} == {id}
    [dead] = harness.ask("GET", "/v2/dlq")["messages"]
    assert (dead["messageId"], dead["responseStatus"], dead["responseBody"]) == (id, 503, "no")


def test_the_formula_begins_anew_after_a_retry_by_hand(harness: QStashHarness) -> None:
    harness.requester.answer = turned_down
    harness.publish(Upstash_Retries="2", Upstash_Retry_Delay="60000 * (1 + retried)")
    harness.simulation.advance(timedelta(hours=1))
    [run] = harness.simulation.runs()
    harness.simulation.duetime.retry(run.id)
    for sent, minutes in ((4, 0), (5, 1), (6, 2)):
        harness.simulation.advance(timedelta(minutes=minutes))
        assert len(harness.sent) == sent


def test_a_receiver_that_asks_for_patience_gets_just_that(harness: QStashHarness) -> None:
    slow_down = Retry("slow down", after=0, result='{"status": 429, "body": ""}')
    harness.requester.answer = lambda outgoing: slow_down if len(harness.sent) == 1 else TAKEN
    harness.publish()
    harness.simulation.advance(timedelta(milliseconds=1))
    assert len(harness.sent) == 2


def test_without_retries_one_attempt_is_all(harness: QStashHarness) -> None:
    harness.requester.answer = turned_down
    harness.publish(Upstash_Retries="0")
    harness.simulation.advance(timedelta(days=2))
    assert len(harness.sent) == 1


def test_messages_are_taken_back_one_by_one_by_filter_or_all(harness: QStashHarness) -> None:
    harness.requester.answer = turned_down
    one, two, three = (harness.publish(Upstash_Delay="1h", Upstash_Label=label) for label in ("a", "b,c", "a"))
    harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Retry_Delay="99999999")
    harness.simulation.advance(MINUTE)
    [retried] = harness.sent
    assert harness.ask("GET", f"/v2/messages/{retried.id}")["scheduleId"].startswith("scd_")
    assert harness.ask("DELETE", f"/v2/messages/{one}", status=202) == {"cancelled": 1}
    harness.ask("DELETE", f"/v2/messages/{one}", status=404)
    assert harness.ask("DELETE", "/v2/messages", status=202, body={"messageIds": []}) == {"cancelled": 0}
    assert harness.ask("DELETE", "/v2/messages?label=c", status=202) == {"cancelled": 1}
    assert harness.ask("DELETE", "/v2/messages", status=202, body={"queueName": "q"}) == {"cancelled": 0}
    for typo in ("lable=a", "fromDate=yesterday", "order=latestFirst", "count=0"):
        harness.ask("DELETE", f"/v2/messages?{typo}", status=400)
    harness.ask("DELETE", "/v2/messages", status=400, body={"lable": "a"})
    harness.ask("DELETE", "/v2/messages", status=400, body=b"no JSON")
    assert harness.ask("GET", f"/v2/messages/{three}")["messageId"] == three
    assert harness.ask("DELETE", "/v2/messages", status=202) == {"cancelled": 2}
    for id in (one, two, three, retried.id):
        harness.ask("GET", f"/v2/messages/{id}", status=404)
    harness.simulation.advance(timedelta(seconds=59))
    assert len(harness.sent) == 1


NOT_FILTERS: list[tuple[str, Any]] = [
    *((query, b"") for query in ("state=DELIVERED", "label=", "scheduleId=", "url=", "fromDate=", "cursor=abc")),
    *(("", {"label": empty}) for empty in ("", None)),
    *(("", body) for body in (b'{"label": []}', b'{"state": ["ACTIVE"]}', b'{"messageIds": null}', b"5", b"null")),
    ("", {"messageIds": ["x"], "label": "a"}),
]


def test_no_filter_that_is_given_is_ignored_when_messages_are_cancelled(harness: QStashHarness) -> None:
    for label in "abc":
        harness.publish(Upstash_Delay="1h", Upstash_Label=label)
    for query, body in NOT_FILTERS:
        refused = harness.ask("DELETE", f"/v2/messages?{query}", status=400, body=body)["error"]
        assert refused.startswith((query.partition("=")[0] or "").strip() or ("state", "label", "messageIds")), refused
    assert harness.ask("DELETE", "/v2/messages?count=1", status=202) == {"cancelled": 1}
    assert harness.ask("DELETE", "/v2/messages", status=202, body={"count": 1, "label": "a"}) == {"cancelled": 1}
    assert harness.ask("DELETE", "/v2/messages", status=202) == {"cancelled": 1}


def test_redacted_parts_are_sent_and_never_shown(harness: QStashHarness) -> None:
    harness.requester.answer = lambda outgoing: Failed("no", permanent=True)
    secret: dict[str, Any] = {"Upstash_Forward_Authorization": "Bearer secret", "Upstash_Forward_X": "shown"}
    redact: dict[str, Any] = {"Upstash_Redact_Fields": "body, header[authorization]"}
    later = harness.publish(body=b"my secret", Upstash_Delay="1h", **secret, **redact)
    harness.publish(body=b"my secret", **secret, Upstash_Redact_Fields="body,header")
    id = harness.ask("POST", f"/v2/schedules/{HOOK}", body=b"my secret", **CRON, **secret, **redact)["scheduleId"]
    harness.simulation.settle()
    assert harness.sent[0].body == b"my secret"
    assert harness.sent[0].headers["Authorization"] == "Bearer secret"
    shown = [
        harness.ask("GET", path) for path in (f"/v2/messages/{later}", f"/v2/schedules/{id}", "/v2/dlq", "/v2/events")
    ]
    assert "secret" not in json.dumps(shown)
    assert base64.b64encode(b"my secret").decode() not in json.dumps(shown)
    assert shown[0]["body"] == f"REDACTED:{hashlib.sha256(b'my secret').hexdigest()}"
    assert shown[0]["header"]["X"] == ["shown"]
    assert shown[2]["messages"][0]["header"]["X"][0].startswith("REDACTED:")


# -- deduplication ---------------------------------------------------------------------------------------------------


def test_the_same_id_is_sent_once_in_ten_minutes(harness: QStashHarness) -> None:
    harness.simulation.advance(timedelta(minutes=9))
    first = harness.ask("POST", f"/v2/publish/{HOOK}", Upstash_Deduplication_Id="x", body=b"one")
    assert "deduplicated" not in first
    again = {"messageId": first["messageId"], "deduplicated": True}
    for minutes in (0, 5, 4.9):
        harness.simulation.advance(timedelta(minutes=minutes))
        made = harness.ask(
            "POST", "/v2/publish/https://other.example", status=202, Upstash_Deduplication_Id="x", body=b"two"
        )
        assert made == again
    for other in ("y", "", ""):  # an empty one is none
        assert "deduplicated" not in harness.ask("POST", f"/v2/publish/{HOOK}", Upstash_Deduplication_Id=other)
    harness.simulation.advance(timedelta(minutes=0.1))
    assert "deduplicated" not in harness.ask("POST", f"/v2/publish/{HOOK}", Upstash_Deduplication_Id="x")
    harness.simulation.settle()
    assert len(harness.sent) == 5


def test_the_same_content_is_sent_once_in_ten_minutes(harness: QStashHarness) -> None:
    same: dict[str, Any] = {"Upstash_Content_Based_Deduplication": "True", "Upstash_Forward_X": "1"}
    first = harness.publish(body=b"hello", **same)
    assert harness.ask("POST", f"/v2/publish/{HOOK}", status=202, body=b"hello", **same)["messageId"] == first
    for changed in (
        {"body": b"hello!"},
        {"body": b"hello", "Upstash_Forward_X": "2"},
        {"body": b"hello", "Content_Type": "a/b"},
        {"body": b"hello", "Upstash_Content_Based_Deduplication": "false"},
    ):
        assert "deduplicated" not in harness.ask("POST", f"/v2/publish/{HOOK}", **{**same, **changed})
    assert "deduplicated" not in harness.ask("POST", "/v2/publish/https://b.example", body=b"hello", **same)


def test_content_that_is_no_text_is_told_apart_too(harness: QStashHarness) -> None:
    same: dict[str, Any] = {"Upstash_Content_Based_Deduplication": "true"}
    first = harness.publish(body=b"\xff1", **same)
    assert harness.publish(body=b"\xff2", **same) != first
    assert harness.ask("POST", f"/v2/publish/{HOOK}", status=202, body=b"\xff1", **same)["messageId"] == first


def test_a_batch_is_deduplicated_too(harness: QStashHarness) -> None:
    known = harness.publish(Upstash_Deduplication_Id="known")

    def message(id: str | None) -> dict[str, Any]:
        return {"destination": HOOK, "headers": {"Upstash-Deduplication-Id": id} if id else {}, "body": "b"}

    made = harness.ask("POST", "/v2/batch", body=[message(each) for each in ("known", "new", "new", None, None)])
    assert [("deduplicated" in each) for each in made] == [True, False, True, False, False]
    assert made[0]["messageId"] == known
    assert made[1]["messageId"] == made[2]["messageId"]
    assert len({each["messageId"] for each in made}) == 4
    harness.simulation.settle()
    assert len(harness.sent) == 4


def test_of_many_at_once_one_is_made(tmp_path: Path) -> None:
    """Over real sockets, so that they do come at once."""
    with site(tmp_path) as here:
        ada = here.bearer()

        def publish(number: int) -> dict[str, Any]:
            headers = {**ada, "Upstash-Delay": "1h", "Upstash-Deduplication-Id": "same"}
            made: dict[str, Any] = here.ask("POST", f"/v2/publish/{HOOK}", headers, str(number % 2).encode()).json
            return made

        def schedule(number: int) -> int:
            headers = {**ada, "Upstash-Cron": "0 9 * * *", "Upstash-Schedule-Id": "daily"}
            return here.ask("POST", f"/v2/schedules/{HOOK}", headers, str(number).encode()).status

        with ThreadPoolExecutor(8) as threads:
            made = list(threads.map(publish, range(16)))
            assert set(threads.map(schedule, range(16))) == {200}
        assert len({each["messageId"] for each in made}) == 1
        assert sum("deduplicated" not in each for each in made) == 1
        assert len(here.ask("GET", "/v2/schedules", ada).json) == 1
        assert here.room.store.search(ScheduleQuery()).total == 2


# -- callbacks -------------------------------------------------------------------------------------------------------


def test_callbacks_are_configured_by_headers_of_their_own(harness: QStashHarness) -> None:
    harness.publish(
        body=b"hello",
        Upstash_Forward_Own="0",
        Upstash_Retries="2",
        Upstash_Callback="https://b.example/cb",
        Upstash_Callback_Method="PUT",
        Upstash_Callback_Timeout="7s",
        Upstash_Callback_Delay="30s",
        Upstash_Callback_Retries="1",
        Upstash_Callback_Retry_Delay="5000",
        Upstash_Callback_Forward_X="1",
        Upstash_Callback_Y="2",
        Upstash_Failure_Callback="https://c.example",
    )
    harness.simulation.settle()
    assert len(harness.sent) == 1
    harness.requester.answer = turned_down
    harness.simulation.advance(MINUTE)
    source, first, second = harness.sent
    assert first.id == second.id != source.id
    assert (first.url, first.method, first.patience) == ("https://b.example/cb", "PUT", 7)
    assert first.again(0) == 5 * SECOND
    assert first.headers["X"] == "1"
    assert first.headers["Y"] == "2"
    assert "Own" not in first.headers
    told = json.loads(first.body)
    assert (told["status"], told["body"], told["sourceMessageId"], told["maxRetries"]) == (200, "b2s=", source.id, 2)
    assert "dlqId" not in told


@pytest.mark.parametrize(("headers", "attempts"), [({}, RETRIES + 1), ({"Upstash_Retries": "1"}, 2)])
def test_a_callback_is_retried_as_often_as_what_it_follows(
    harness: QStashHarness, headers: dict[str, str], attempts: int
) -> None:
    harness.requester.answer = lambda outgoing: TAKEN if outgoing.url == HOOK else turned_down(outgoing)
    harness.publish(Upstash_Callback="https://b.example/cb", Upstash_Callback_Retry_Delay="1000", **headers)
    harness.simulation.advance(MINUTE)
    assert [each.url for each in harness.sent] == [HOOK, *["https://b.example/cb"] * attempts]


def test_a_failure_is_called_back_when_its_attempts_are_used_up(harness: QStashHarness) -> None:
    harness.requester.answer = lambda outgoing: turned_down(outgoing) if outgoing.url == HOOK else TAKEN
    more = {"Upstash_Callback": "https://b.example", "Upstash_Failure_Callback": "https://c.example"}
    harness.publish(Upstash_Retries="1", Upstash_Retry_Delay="60000", **more)
    harness.simulation.settle()
    assert len(harness.sent) == 1
    harness.simulation.advance(MINUTE)
    assert [each.url for each in harness.sent] == [HOOK, HOOK, "https://b.example", "https://c.example"]
    [dead] = harness.ask("GET", "/v2/dlq")["messages"]
    for each in harness.sent[2:]:
        told = json.loads(each.body)
        assert (told["status"], told["retried"], told["maxRetries"], told["dlqId"]) == (503, 1, 1, dead["dlqId"])


@pytest.mark.parametrize("body", [b"hush", b"hush\xff"])
def test_a_callback_hides_what_its_source_hides_and_sends_it(harness: QStashHarness, body: bytes) -> None:
    harness.requester.answer = lambda outgoing: Failed("no", permanent=True)
    hidden: dict[str, Any] = {"Upstash_Redact_Fields": "body,header[x-api-key]", "Upstash_Forward_X_Api_Key": "hushed"}
    harness.publish(body=body, Upstash_Callback="https://b.example", Upstash_Forward_Other="seen", **hidden)
    harness.simulation.settle()
    whole = json.loads(harness.sent[1].body)
    assert (base64.b64decode(whole["sourceBody"]), whole["sourceHeader"]["X-Api-Key"]) == (body, ["hushed"])
    [letter] = harness.ask("GET", "/v2/dlq?url=https://b.example")["messages"]
    events = harness.ask("GET", f"/v2/events?messageId={letter['messageId']}")["events"]
    logged = base64.b64decode(events[0]["body"]).decode()
    for shown in (letter["body"], logged):
        told = json.loads(shown)
        assert base64.b64decode(told["sourceBody"]).decode() == f"REDACTED:{hashlib.sha256(body).hexdigest()}"
        assert told["sourceHeader"]["X-Api-Key"][0].startswith("REDACTED:")
        assert told["sourceHeader"]["Other"] == ["seen"]


def test_a_callback_that_fails_calls_nobody_back(harness: QStashHarness) -> None:
    harness.requester.answer = lambda outgoing: Failed("no", permanent=True)
    harness.publish(Upstash_Callback="https://b.example", Upstash_Failure_Callback="https://c.example")
    harness.simulation.advance(timedelta(days=1))
    assert len(harness.sent) == 3
    dead = harness.ask("GET", "/v2/dlq")["messages"]
    assert {each["url"] for each in dead} == {HOOK, "https://b.example", "https://c.example"}
    told = next(json.loads(each["body"]) for each in dead if each["url"] == "https://b.example")
    assert told["sourceMessageId"] == harness.sent[0].id


@pytest.mark.parametrize("setting", ["Delay", "Timeout", "Retries"])
@pytest.mark.parametrize("prefix", ["Upstash", "Upstash-Callback", "Upstash-Failure-Callback"])
def test_a_setting_that_cannot_be_read_is_named_by_its_header(
    harness: QStashHarness, prefix: str, setting: str
) -> None:
    header = f"{prefix}-{setting}"
    callbacks = {"Upstash_Callback": HOOK, "Upstash_Failure_Callback": HOOK}
    for wrong in ("soon", "999999999999"):
        answer = harness.ask("POST", f"/v2/publish/{HOOK}", status=400, **callbacks, **{header: wrong})
        assert answer["error"].startswith(f"{header}: ")
    for header, route in (("Upstash-Callback", "publish"), ("Upstash-Schedule-Id", "schedules")):
        answer = harness.ask("POST", f"/v2/{route}/{HOOK}", status=400, **CRON, **{header: "no/pe"})
        assert answer["error"].startswith(f"{header}: ")
    answer = harness.ask("POST", f"/v2/schedules/{HOOK}", status=400, Upstash_Cron="0 0 30 2 *")
    assert answer["error"].startswith("Upstash-Cron: ")
