"""QStash's API: what is refused and stores nothing, what a destination may look like, and who may see what."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from duetime.engine.outcome import Failed
from duetime.engine.store import ScheduleQuery
from tests.support.qstash import CRON, HOOK, QStashHarness
from tests.support.receiver import Receiver
from tests.support.web import Site, site
from tests.support.workers import eventually

MINUTE = timedelta(minutes=1)


def stored(harness: QStashHarness) -> int:
    return harness.simulation.duetime.app.store.search(ScheduleQuery()).total


# -- what is refused -------------------------------------------------------------------------------------------------

BAD_PUBLISHES: dict[str, tuple[str, dict[str, str]]] = {
    "no destination": ("", {}),
    "an API of theirs": ("api/llm", {}),
    "another scheme": ("ftp://a.example/", {}),
    "no host": ("https://", {}),
    "retries in words": (HOOK, {"Upstash_Retries": "many"}),
    "negative retries": (HOOK, {"Upstash_Retries": "-1"}),
    "too many retries": (HOOK, {"Upstash_Retries": "100"}),
    "a delay without sense": (HOOK, {"Upstash_Delay": "soon"}),
    "a delay in the wrong order": (HOOK, {"Upstash_Delay": "5s1h"}),
    "a delay of centuries": (HOOK, {"Upstash_Delay": "99999d"}),
    "not before what": (HOOK, {"Upstash_Not_Before": "tomorrow"}),
    "not before the end of time": (HOOK, {"Upstash_Not_Before": "999999999999"}),
    "a timeout without sense": (HOOK, {"Upstash_Timeout": "long"}),
    "no time at all": (HOOK, {"Upstash_Timeout": "0s"}),
    "a formula that is none": (HOOK, {"Upstash_Retry_Delay": "__import__('os')"}),
    "a method that is none": (HOOK, {"Upstash_Method": "EXPLODE"}),
    "a callback that is no URL": (HOOK, {"Upstash_Callback": "my-callback"}),
    "a failure callback that is no URL": (HOOK, {"Upstash_Failure_Callback": "file:///etc/passwd"}),
    "a callback's retries": (HOOK, {"Upstash_Callback": HOOK, "Upstash_Callback_Retries": "x"}),
    "a callback's formula": (HOOK, {"Upstash_Callback": HOOK, "Upstash_Callback_Retry_Delay": "x"}),
    "a callback's host": (HOOK, {"Upstash_Callback": HOOK, "Upstash_Callback_Forward_Host": "b.example"}),
    "a forwarded host": (HOOK, {"Upstash_Forward_Host": "b.example"}),
    "a forwarded length": (HOOK, {"Upstash_Forward_Content_Length": "1"}),
    "an empty label": (HOOK, {"Upstash_Label": " "}),
    "redacting what is not there": (HOOK, {"Upstash_Redact_Fields": "everything"}),
}


@pytest.mark.parametrize("case", BAD_PUBLISHES)
def test_a_bad_publish_is_refused_in_words_and_stores_nothing(harness: QStashHarness, case: str) -> None:
    destination, headers = BAD_PUBLISHES[case]
    refused = harness.ask("POST", f"/v2/publish/{destination}", status=400, **headers)
    assert list(refused) == ["error"]
    assert len(refused["error"]) > 15
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    [message] = [{"destination": destination, "headers": headers}]
    in_a_batch = harness.ask("POST", "/v2/batch", status=400, body=[{"destination": HOOK}, message])
    assert in_a_batch["error"] == f"message 1: {refused['error']}"
    assert stored(harness) == 0


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Upstash_Cron": " "},
        {"Upstash_Cron": "every day"},
        {"Upstash_Cron": "61 * * * *"},
        {"Upstash_Cron": "0 0 30 2 *"},
        {"Upstash_Cron": "CRON_TZ=Europe/Nowhere * * * * *"},
        {"Upstash_Cron": "CRON_TZ=Europe/Berlin"},
        {**CRON, "Upstash_Schedule_Id": "a/b"},
        {**CRON, "Upstash_Schedule_Id": ""},
        {**CRON, "Upstash_Delay": "soon"},
        {**CRON, "Upstash_Delay": "400d"},
        {**CRON, "Upstash_Retries": "x"},
    ],
)
def test_a_bad_schedule_is_refused_in_words_and_stores_nothing(harness: QStashHarness, headers: dict[str, str]) -> None:
    refused = harness.ask("POST", f"/v2/schedules/{HOOK}", status=400, **headers)
    assert len(refused["error"]) > 15
    assert stored(harness) == 0


@pytest.mark.parametrize(
    "body",
    [
        b"no JSON",
        b"",
        {},
        [7],
        [{}],
        [{"destination": 7}],
        [{"destination": HOOK, "headers": []}],
        [{"destination": HOOK, "headers": {"Upstash-Retries": 3}}],
        [{"destination": HOOK, "body": {"a": 1}}],
        [{"destination": HOOK, "headers": {"Upstash-Forward-X": "a\r\nHost: b"}}],
        [{"destination": HOOK, "headers": {"Upstash-Label": "\ud800"}}],
        [{"destination": HOOK}] * 1001,
    ],
)
def test_a_bad_batch_is_refused_as_a_whole(harness: QStashHarness, body: Any) -> None:
    refused = harness.ask("POST", "/v2/batch", status=400, body=body)
    assert list(refused) == ["error"]
    assert stored(harness) == 0


def test_too_large_a_body_is_refused(harness: QStashHarness) -> None:
    refused = harness.ask("POST", f"/v2/publish/{HOOK}", status=413, body=b"x" * (256 * 1024 + 1))
    assert "262144" in refused["error"]
    just_too_long = harness.ask("POST", f"/v2/publish/{HOOK}", status=400, body=b'"' * (200 * 1024))
    assert "payload" in just_too_long["error"]
    assert stored(harness) == 0


def test_an_owner_has_no_more_schedules_than_allowed(harness: QStashHarness) -> None:
    drafter = harness.simulation.duetime.app.scheduler.drafter
    drafter.limits = replace(drafter.limits, schedules=20)
    harness.ask("POST", "/v2/batch", body=[{"destination": HOOK, "headers": {"Upstash-Delay": "1h"}}] * 20)
    assert "limit" in harness.ask("POST", f"/v2/publish/{HOOK}", status=412)["error"]


ABSENT = [
    ("POST", "/v2/queues"),
    ("GET", "/v2/queues"),
    ("DELETE", "/v2/queues/q"),
    ("POST", f"/v2/enqueue/q/{HOOK}"),
    ("GET", "/v2/topics"),
    ("POST", "/v2/topics/t/endpoints"),
    ("GET", "/v2/flowControl"),
    ("GET", "/v2/flowControl/key"),
    ("GET", "/v2/bulkActions"),
    ("POST", "/v2/workflows/runs"),
]


@pytest.mark.parametrize(("method", "path"), ABSENT)
def test_what_is_not_offered_says_so(harness: QStashHarness, method: str, path: str) -> None:
    assert "not offered" in harness.ask(method, path, status=501)["error"]


@pytest.mark.parametrize("group", ["g", "my-group", "my_group.2"])
def test_url_groups_are_not_offered_wherever_one_may_be_named(harness: QStashHarness, group: str) -> None:
    in_a_batch = [{"destination": HOOK}, {"destination": group}]
    for path, body, headers in (
        (f"/v2/publish/{group}", b"", {}),
        (f"/v2/schedules/{group}", b"", {"Upstash_Cron": "* * * * *"}),
        ("/v2/batch", in_a_batch, {}),
    ):
        assert "URL groups are not offered" in harness.ask("POST", path, status=501, body=body, **headers)["error"]
    assert stored(harness) == 0


def test_a_message_with_a_cron_is_not_sent_at_once(harness: QStashHarness) -> None:
    assert "/v2/schedules" in harness.ask("POST", f"/v2/publish/{HOOK}", status=501, Upstash_Cron="0 9 * * *")["error"]
    message = {"destination": HOOK, "headers": {"Upstash-Cron": "bad"}}
    assert harness.raw("POST", "/v2/batch", body=[message]).status_code == 501
    assert stored(harness) == 0


@pytest.mark.parametrize("name", ["Upstash-Queue-Name", "Upstash-Flow-Control-Key", "Upstash-Flow-Control-Value"])
def test_headers_that_would_change_the_order_are_not_ignored(harness: QStashHarness, name: str) -> None:
    for path, more in ((f"/v2/publish/{HOOK}", {}), (f"/v2/schedules/{HOOK}", {"Upstash-Cron": "* * * * *"})):
        assert harness.raw("POST", path, headers={name: "a", **more}).status_code == 501
    message = {"destination": HOOK, "headers": {name: "a"}}
    assert harness.raw("POST", "/v2/batch", body=[message]).status_code == 501
    assert harness.raw("POST", "/v2/batch", body=[{"destination": HOOK, "queue": "q"}]).status_code == 501
    assert stored(harness) == 0


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2"),
        ("GET", "/v2/"),
        ("GET", "/v2/nowhere"),
        ("PUT", "/v2/schedules"),
        ("GET", "/v2/batch"),
        ("POST", "/v2/messages"),
        ("PUT", "/v2/keys"),
    ],
)
def test_what_is_nowhere_is_told_in_json(harness: QStashHarness, method: str, path: str) -> None:
    assert "no such route" in harness.ask(method, path, status=404)["error"]


# -- destinations ----------------------------------------------------------------------------------------------------

DESTINATIONS = [
    "https://a.example",
    "https://a.example/",
    "http://a.example:8080/x",
    "https://a.example//double//slashes/",
    "https://a.example/x?y=1&z=2",
    "https://a.example/x?y=%20&z=a%2Fb",
    "https://a.example/%2F%3F?next=https%3A%2F%2Fb.example%2F%3Fc",
    "https://a.example/x?next=https://b.example//c?d=e",
    "https://a.example/caf%C3%A9",
    "https://a.example/line%0Abreak",
    "https://a.example/v2/publish/https://b.example",
    "https://a.example/pause",
    "https://[2001:db8::1]:8443/x",
    "HTTPS://A.example/X",
]


@pytest.mark.parametrize("destination", DESTINATIONS)
def test_a_destination_is_kept_as_it_stands_in_the_path(served: Site, destination: str) -> None:
    """Over a real socket: what a server makes of a path is part of the question."""
    ada = served.bearer()
    made = served.ask("POST", f"/v2/publish/{destination}", {**ada, "Upstash-Delay": "1h"})
    assert made.status == 200, made.body
    assert served.ask("GET", f"/v2/messages/{made.json['messageId']}", ada).json["url"] == destination
    made = served.ask("POST", f"/v2/schedules/{destination}", {**ada, "Upstash-Cron": "0 9 * * *"})
    assert made.status == 200, made.body
    assert served.ask("GET", f"/v2/schedules/{made.json['scheduleId']}", ada).json["destination"] == destination


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (quote("https://a.example/x?y=1", safe=""), "https://a.example/x?y=1"),
        ("https:/a.example/x", "https://a.example/x"),
    ],
    ids=["wholly encoded", "a slash lost on the way"],
)
def test_what_clients_and_proxies_do_to_a_destination_is_undone(served: Site, written: str, meant: str) -> None:
    ada = served.bearer()
    made = served.ask("POST", f"/v2/publish/{written}", {**ada, "Upstash-Delay": "1h"}).json
    assert served.ask("GET", f"/v2/messages/{made['messageId']}", ada).json["url"] == meant


@pytest.mark.parametrize(
    "destination",
    [
        "https://user:password@a.example/",
        "https://a.example:99999/",
        "https://127.1/",
        "https://0x7f000001/",
        "https://a..example/",
        "https://%61.example/",
        "javascript://a.example/%0aalert(1)",
    ],
)
def test_odd_destinations_are_refused_and_not_repeated(served: Site, destination: str) -> None:
    ada = served.bearer()
    for route, more in (("publish", {}), ("schedules", {"Upstash-Cron": "* * * * *"})):
        refused = served.ask("POST", f"/v2/{route}/{destination}", {**ada, **more})
        assert refused.status == 400
        assert "password" not in refused.json["error"]


def test_private_destinations_end_in_the_dlq_and_nothing_is_dialled(tmp_path: Path) -> None:
    with site(tmp_path) as here, Receiver() as receiver:
        ada = here.bearer()
        engine = here.room.engine()
        engine.start()
        try:
            urls = [
                receiver.url + "/hook?token=secret",
                f"http://localhost:{receiver.port}/",
                "http://169.254.169.254/",
            ]
            for url in urls:
                assert here.ask("POST", f"/v2/publish/{url}", ada).status == 200
            dead = eventually(
                lambda: [] if len(found := here.ask("GET", "/v2/dlq", ada).json["messages"]) < 3 else found,
                30,
                "all of them are refused",
            )
        finally:
            engine.stop(1)
        assert [each["url"] for each in dead] == urls
        for each in dead:
            assert each["responseStatus"] == 0
            assert "only public hosts may be called" in each["responseBody"]
            assert "secret" not in each["responseBody"]
        assert receiver.connections == 0


# -- who may see what ------------------------------------------------------------------------------------------------


def test_what_belongs_to_another_is_answered_as_what_does_not_exist(harness: QStashHarness) -> None:
    harness.requester.answer = lambda outgoing: Failed("no", permanent=True)
    harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON, Upstash_Schedule_Id="daily")
    own = harness.ask("POST", f"/v2/schedules/{HOOK}", **CRON)["scheduleId"]
    later, failed = harness.publish(Upstash_Delay="1h"), harness.publish(Upstash_Deduplication_Id="x")
    harness.simulation.advance(MINUTE)
    letters = [each["dlqId"] for each in harness.ask("GET", "/v2/dlq")["messages"]]
    assert len(letters) == 3
    before = harness.ask("GET", "/v2/events")["events"]

    harness.owner = "bob"
    for method, path in [
        *[(method, f"/v2/schedules/{id}") for id in (own, "daily") for method in ("GET", "DELETE")],
        *[(method, f"/v2/messages/{id}") for id in (later, failed) for method in ("GET", "DELETE")],
        *[(method, f"/v2/dlq/{id}") for id in letters for method in ("GET", "DELETE")],
        *[("POST", f"/v2/dlq/retry/{id}") for id in letters],
        *[("PATCH", f"/v2/schedules/{id}/{verb}") for id in (own, "daily") for verb in ("pause", "resume")],
    ]:
        theirs = harness.ask(method, path, status=404)
        nobodys = harness.ask(method, path.replace(path.split("/")[3 + ("retry" in path)], "zzz"), status=404)
        assert theirs["error"].replace(path.split("/")[3 + ("retry" in path)], "zzz") == nobodys["error"]
    assert harness.ask("GET", "/v2/schedules") == []
    assert harness.ask("GET", "/v2/dlq") == {"messages": []}
    assert harness.ask("GET", "/v2/events") == {"events": []}
    assert harness.ask("GET", f"/v2/events?messageId={failed}") == {"events": []}
    assert harness.ask("DELETE", "/v2/messages", status=202) == {"cancelled": 0}
    assert harness.ask("DELETE", "/v2/messages", status=202, body={"messageIds": [later]}) == {"cancelled": 0}
    assert harness.ask("DELETE", "/v2/dlq", body={"dlqIds": letters}) == {"deleted": 0}
    assert harness.ask("POST", "/v2/dlq/retry", body={"dlqIds": letters}) == {"responses": []}
    assert "deduplicated" not in harness.ask("POST", f"/v2/publish/{HOOK}", Upstash_Deduplication_Id="x")
    harness.ask("POST", "/v2/schedules/https://b.example", **CRON, Upstash_Schedule_Id="daily")

    harness.owner = "ada"
    assert {each["destination"] for each in harness.schedules()} == {HOOK}
    assert harness.ask("GET", "/v2/events")["events"] == before
    assert harness.ask("GET", f"/v2/messages/{later}")["messageId"] == later


@pytest.mark.parametrize(
    "id", ["zzz", "scd_", "msg_", "msg_" + "0" * 32 + "_1", "dlq_1", "dlq_" + "9" * 18, "%00", "x" * 500]
)
def test_any_text_may_be_asked_for(harness: QStashHarness, id: str) -> None:
    for path in (f"/v2/schedules/{id}", f"/v2/messages/{id}", f"/v2/dlq/{id}"):
        assert "not found" in harness.ask("GET", path, status=404)["error"]
        assert "not found" in harness.ask("DELETE", path, status=404)["error"]


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [("DELETE", "/v2/messages", "messageIds"), ("DELETE", "/v2/dlq", "dlqIds"), ("POST", "/v2/dlq/retry", "dlqIds")],
)
def test_a_request_takes_a_thousand_ids_at_most(harness: QStashHarness, method: str, path: str, name: str) -> None:
    many = [f"msg_{number:032x}" for number in range(1001)]
    refused = harness.ask(method, path, body={name: many}, status=400)
    assert refused["error"] == f"{name}: has 1001 ids, and a request takes at most 1000; send several"
    assert harness.ask(method, f"{path}?{name}={','.join(many)}", status=400) == refused
    harness.ask(method, path, body={name: many[:3]}, status=202 if path == "/v2/messages" else 200)
