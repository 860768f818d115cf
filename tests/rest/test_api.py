"""The HTTP API: what it does, what it refuses, and in which words. Every answer is held against its own description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request

from duetime.engine.clock import HOUR
from duetime.engine.errors import StoreUnavailable
from duetime.engine.kind import Caller
from duetime.engine.model import Schedule
from duetime.engine.validation import Changes, NewSchedule
from duetime.http import browser_sessions
from duetime.kinds.requests.kind import RequestKind
from duetime.rest.errors import response_to
from duetime.settings import ChannelSettings
from tests.support.api import PROBLEM, V1, Api, Client, serving_api
from tests.support.wordings import BODY_MISSING, NO_CHANNEL

TYPES = "once, interval, cron, rrule, event and after"


@pytest.fixture
def ada(api: Api) -> Client:
    return api.client("ada", zone="Europe/Berlin")


# -- making -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trigger", "following"),
    [
        ({"type": "once", "run_at": "2026-02-10T16:00"}, "2026-02-10T16:00:00+01:00"),
        ({"type": "once", "run_at": "in 2 hours"}, "2026-02-10T17:00:00+01:00"),
        ({"type": "interval", "minutes": 90}, "2026-02-10T16:30:00+01:00"),
        ({"type": "cron", "expression": "0 9 * * *"}, "2026-02-11T09:00:00+01:00"),
        ({"type": "rrule", "rrule": "FREQ=DAILY;BYHOUR=8;BYMINUTE=0;BYSECOND=0"}, "2026-02-11T08:00:00+01:00"),
        ({"type": "once", "delay": "2h30m"}, "2026-02-10T17:30:00+01:00"),
        ({"type": "interval", "days": 1}, "2026-02-11T15:00:00+01:00"),
        ({"type": "interval", "hours": 2, "between": "16:30-20:00"}, "2026-02-10T16:30:00+01:00"),
        ({"type": "cron", "expression": "0 9 * * *", "timezone": "UTC"}, "2026-02-11T10:00:00+01:00"),
    ],
)
def test_a_schedule_of_every_trigger(ada: Client, trigger: dict[str, Any], following: str) -> None:
    made = ada.job(trigger=trigger)
    assert made["next_run"] == following
    assert made["status"] == "pending"
    assert made["trigger"]["type"] == trigger["type"]
    assert ada.get(f"/schedules/{made['id']}") == {
        name: made[name] for name in made if name not in ("warnings", "warning_codes", "limits")
    }


@pytest.mark.parametrize(
    ("kind", "payload", "subject"),
    [
        ("job", {"task": "echo", "args": ["x"]}, "echo"),
        ("prompt", {"prompt": "water the plants"}, "inbox"),
        ("notification", {"message": "hi", "topic": "alerts"}, "alerts"),
        ("request", {"url": "https://example.org/hook"}, "example.org"),
    ],
)
def test_a_schedule_of_every_kind(ada: Client, kind: str, payload: dict[str, Any], subject: str) -> None:
    made = ada.job(kind=kind, payload=payload)
    assert (made["kind"], made["owner"]) == (kind, "ada")
    assert made["subject"].startswith(subject)
    assert ada.ids(kind=kind) == [made["id"]]
    assert ada.ids(subject=made["subject"]) == [made["id"]]


def test_what_was_made_says_where_it_is(ada: Client) -> None:
    body = {"kind": "job", "name": "n", "trigger": {"type": "interval", "hours": 1}, "payload": {"task": "echo"}}
    reply = ada.ask("POST", "/schedules", json=body)
    assert reply.headers["location"] == f"{V1}/schedules/{reply.json()['id']}"
    assert reply.headers["etag"] == '"1"'


def test_a_policy_is_said_in_seconds_and_shown_whole(ada: Client) -> None:
    asked = {"timeout_seconds": 2.5, "max_attempts": 3, "overlap": "queue", "deliver_to": "reports"}
    policy = ada.job(policy=asked)["policy"]
    assert policy | asked == policy
    assert policy["grace_seconds"] == 60


def test_whether_anything_would_fire_it_is_said(api: Api, ada: Client) -> None:
    [arrival] = ada.notification()["warnings"]
    assert "inbox" in arrival
    [taken] = ada.job(kind="prompt", payload={"prompt": "water the plants"})["warnings"]
    assert "take_prompt" in taken
    assert ada.job(kind="prompt", payload={"prompt": "water the plants", "agent": "inbox"})["warnings"] == []
    api.pass_time(hours=1)
    worker = api.simulation.worker.id
    assert worker is not None
    api.room.store.retire(worker)
    assert "No worker is running" in ada.job()["warnings"][0]


@pytest.mark.parametrize("kind", ["job", "prompt", "notification"])
def test_where_a_result_arrives_on_no_phone_is_said(tmp_path: Path, kind: str) -> None:
    payload = {"task": "echo", "prompt": "look", "agent": "inbox", "message": "hi", "topic": "phone"}
    names = {"job": ("task",), "prompt": ("prompt", "agent"), "notification": ("message", "topic")}[kind]
    given = {"kind": kind, "payload": {name: payload[name] for name in names}}
    with serving_api(tmp_path, channels={"phone": ChannelSettings("json://127.0.0.1/x")}) as api:
        client = api.client()
        assert client.job(**given, policy={"deliver_to": "phone"})["warnings"] == []
        [warning] = client.job(**given, policy={"deliver_to": "phon"})["warnings"]
    assert warning.startswith(NO_CHANNEL)


def test_a_key_makes_it_once(ada: Client) -> None:
    first = ada.job(idempotency_key="k")
    body = {"kind": "job", "name": "water the plants", "trigger": {"type": "interval", "hours": 1}}
    body |= {"payload": {"task": "echo", "args": ["hello"]}}
    again = ada.post("/schedules", {**body, "idempotency_key": "k"}, 200)
    by_header = ada.post("/schedules", body, 200, Idempotency_Key="k")
    assert first["id"] == again["id"] == by_header["id"]
    other = ada.refused("POST", "/schedules", 422, json={**body, "name": "other", "idempotency_key": "k"})
    assert (other["type"], other["field"]) == ("urn:duetime:problem:key_reused", "idempotency_key")
    both = ada.refused(
        "POST", "/schedules", 422, json={**body, "idempotency_key": "a"}, headers={"Idempotency-Key": "b"}
    )
    assert both["field"] == "idempotency_key"
    assert len(ada.ids()) == 1


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"kind": "dance"}, "kind"),
    ({"name": ""}, "name"),
    ({"name": " "}, "name"),
    ({"name": "a\0b"}, "name"),
    ({"name": 5}, "name"),
    ({"more": 1}, "more"),
    ({"trigger": {"type": "cron", "expression": "nonsense"}}, "trigger.expression"),
    ({"trigger": {"type": "cron", "expression": "0 0 30 2 *"}}, "trigger.expression"),
    ({"trigger": {"type": "cron"}}, "trigger.expression"),
    ({"trigger": {"type": "never"}}, "trigger"),
    ({"trigger": {"type": "interval"}}, "trigger.seconds"),
    ({"trigger": {"type": "interval", "hours": -1}}, "trigger.hours"),
    ({"trigger": {"type": "interval", "hours": "1"}}, "trigger.hours"),
    ({"trigger": {"type": "interval", "seconds": 0.2}}, "trigger"),
    ({"trigger": {"type": "once", "run_at": "yesterday 9am"}}, "trigger.run_at"),
    ({"trigger": {"type": "once", "run_at": "soonish"}}, "trigger.run_at"),
    ({"trigger": {"type": "rrule", "rrule": "FREQ=OFTEN"}}, "trigger.rrule"),
    ({"trigger": {"type": "cron", "expression": "0 9 * * *", "end": "soonish"}}, "trigger.end"),
    ({"trigger": {"type": "rrule", "rrule": "FREQ=OFTEN"}, "end": "2099-01-01"}, "trigger.rrule"),
    ({"timezone": "Mars/Base"}, "timezone"),
    ({"payload": {"task": "unknown"}}, "task"),
    ({"payload": {"task": "echo", "kwargs": {"nope": 1}}}, "nope"),
    ({"payload": []}, "payload"),
    ({"policy": {"timeout_seconds": -1}}, "policy.timeout_seconds"),
    ({"policy": {"overlap": "sometimes"}}, "policy.overlap"),
    ({"policy": {"callbacks": []}}, "policy.callbacks"),
    ({"policy": {"notify_on": "failure"}}, "notify_on"),
    ({"policy": {"at_most_once": True, "max_attempts": 3}}, "max_attempts"),
]


@pytest.mark.parametrize(("change", "field"), REFUSED, ids=[json.dumps(change) for change, _ in REFUSED])
def test_what_cannot_be_made_is_refused_with_its_field(ada: Client, change: dict[str, Any], field: str) -> None:
    body = {"kind": "job", "name": "n", "trigger": {"type": "interval", "hours": 1}, "payload": {"task": "echo"}}
    problem = ada.refused("POST", "/schedules", 422, json={**body, **change})
    assert problem.get("field") == field, problem
    assert ada.ids() == []


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"cron": "nonsense"}, "Invalid cron expression: nonsense"),
    ({"cron": 5}, "cron: must be a text in quotes"),
    ({"at": "soonish"}, "at: "),
    ({"rrule": "FREQ=OFTEN"}, "rrule"),
    ({"start": "soonish", "cron": "0 9 * * *"}, "start: "),
    ({"end": "2020-01-01", "every": "1h"}, "end"),
    ({"end": "soonish", "trigger": {"type": "cron", "expression": "0 9 * * *"}}, "end: "),
    ({"every": 0}, "every: "),
    ({"delay": -1}, "delay: must be a text such as 30s, or a number of seconds"),
    ({"every": True}, "every: must be a text such as 30s, or a number of seconds"),
]


@pytest.mark.parametrize(("option", "words"), OPTIONS, ids=[json.dumps(option) for option, _ in OPTIONS])
def test_an_option_of_times_is_refused_by_its_name(ada: Client, option: dict[str, Any], words: str) -> None:
    problem = ada.refused(
        "POST", "/schedules", 422, json={"kind": "job", "name": "n", "payload": {"task": "echo"}, **option}
    )
    assert problem["field"] == next(iter(option)), problem
    assert {each["field"] for each in problem.get("errors", [])} <= {*option, "trigger"}, problem
    assert words in problem["detail"], problem


def test_an_empty_text_matches_no_dead_letters(ada: Client) -> None:
    assert ada.refused("GET", "/dead?text=", 422)["field"] == "text"


def test_all_that_is_wrong_is_told_at_once(ada: Client) -> None:
    problem = ada.refused("POST", "/schedules", 422, json={"kind": 1, "name": 2})
    assert {each["field"] for each in problem["errors"]} == {"kind", "name", "trigger", "payload"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b'{"kind": NaN}',
        b"[" * 100_000,
        b'{"kind": ' + b"9" * 5000 + b"}",
        b'{"kind": "job", "name": "\\ud800", "trigger": {"type": "once", "run_at": "\\udfff"}, "payload": {}}',
        b'{"kind": "job", "name": "n", "trigger": {"type": "\\ud800"}, "payload": {}}',
        b'{"\\ud800": 1}',
        b'{"kind": "job", "name": "n", "trigger": {"type": "interval", "hours": 1e400}, "payload": {}}',
        b'{"kind": "job", "name": "n", "trigger": {"type": "interval", "hours": 1},'
        b' "payload": {"task": "echo", "args": ["\\ud800"]}}',
        b'{"kind": "job", "name": "n", "trigger": {"type": "interval", "hours": 1},'
        b' "payload": {"task": "echo", "args": [1e999]}}',
        b'{"kind": "job", "name": "n", "trigger": {"type": "interval", "hours": 1}, "payload": '
        + b'{"a":' * 200
        + b"1"
        + b"}" * 200
        + b"}",
        '{"kind": "job"}'.encode("utf-16"),
    ],
)
def test_nonsense_is_a_clean_refusal(ada: Client, body: bytes) -> None:
    reply = ada.ask("POST", "/schedules", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code in (400, 413, 422), reply.text
    assert reply.headers["content-type"] == PROBLEM
    assert "Traceback" not in reply.text


@pytest.mark.parametrize("said", ["text/plain", "application/xml", "multipart/form-data; boundary=x", ";", "json"])
def test_a_body_of_another_kind_is_refused_as_such(ada: Client, said: str) -> None:
    headers = {"Content-Type": said}
    for method, path in (("POST", "/schedules"), ("POST", "/preview")):
        ada.refused(method, path, 415, content=b"{}", headers=headers)
    assert ada.ask("POST", "/preview", content=b"{}").status_code == 415


def test_a_body_that_is_too_large_is_refused_as_a_problem(ada: Client) -> None:
    problem = ada.refused("POST", "/schedules", 413, content=b" " * (256 * 1024 + 1))
    assert problem["type"] == "urn:duetime:problem:too_large" and "262144" in problem["detail"]


def test_a_payload_beyond_the_limit_says_the_limit(tmp_path: Path) -> None:
    body = {"kind": "job", "name": "n", "trigger": {"type": "interval", "hours": 1}}
    payload = {"task": "echo", "args": ["x" * 200_000]}
    with serving_api(tmp_path, max_payload_bytes=100_000) as api:
        problem = api.client().refused("POST", "/schedules", 422, json={**body, "payload": payload})
    assert "100000" in problem["detail"]


def test_a_payload_of_nearly_the_limit_is_accepted(ada: Client) -> None:
    body = {"kind": "job", "name": "n", "trigger": {"type": "interval", "hours": 1}}
    made = ada.ask("POST", "/schedules", json={**body, "payload": {"task": "echo", "args": ["x" * 261_000]}})
    assert made.status_code == 201, made.text


def test_a_quota_is_a_refusal_of_its_own(tmp_path: Path) -> None:
    with serving_api(tmp_path, max_schedules=1) as api:
        ada = api.client()
        made = ada.job()
        body = {name: made[name] for name in ("kind", "name", "payload")}
        trigger = {"type": "interval", "hours": 1}
        assert ada.refused("POST", "/schedules", 403, json={**body, "trigger": trigger})["type"].endswith(":quota")


# -- reading ----------------------------------------------------------------------------------------------------------


def test_pages_in_a_stable_order(ada: Client) -> None:
    made = [ada.job(name=f"job {number}")["id"] for number in range(7)]
    first = ada.get("/schedules", limit=3)
    assert (first["total"], first["total_exact"]) == (7, True)
    seen = [each["id"] for each in first["schedules"]]
    cursor = first["next_cursor"]
    while cursor is not None:
        page = ada.get("/schedules", limit=3, cursor=cursor)
        ada.job(name="added meanwhile")
        seen += [each["id"] for each in page["schedules"]]
        cursor = page["next_cursor"]
    assert seen == made[::-1], "newest first, and nothing twice"
    assert ada.ids(order="oldest")[:7] == made


def test_the_order_of_what_fires_next(ada: Client) -> None:
    late, soon = ada.job(trigger={"type": "interval", "hours": 5})["id"], ada.job()["id"]
    over, resting = ada.job()["id"], ada.job()["id"]
    ada.post(f"/schedules/{over}/cancel")
    ada.post(f"/schedules/{resting}/pause")
    assert ada.ids(order="next") == [soon, late], "what is over or rests fires at no time"
    page = ada.get("/schedules", order="next", limit=1)
    assert page["total"] == 2
    assert ada.ids(order="next", limit=1, cursor=page["next_cursor"]) == [late]


def test_filters(api: Api, ada: Client) -> None:
    plants, report = ada.job()["id"], ada.job(name="nightly report", payload={"task": "shorten", "args": ["a b"]})["id"]
    told = ada.notification()["id"]
    ada.post(f"/schedules/{plants}/pause")
    assert ada.ids(text="REPORT") == [report]
    assert ada.ids(status="paused") == [plants]
    assert ada.ids(status="pending") == [told, report]
    assert ada.ids(status="scheduled") == [told, report] and ada.ids(status="failing") == []
    assert ada.ids(kind="job", status="pending") == [report]
    for path in ("schedules", "runs", "upcoming", "dead"):
        assert "choose from job, " in ada.refused("GET", f"/{path}?kind=jobs", 422)["detail"]
    cancel = {"action": "cancel", "kind": "jobs"}
    assert "choose from job, " in ada.refused("POST", "/schedules/change", 422, json=cancel)["detail"]
    assert ada.ids(subject="alerts") == [told]
    assert ada.ids(kind="prompt") == []


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "limit=x", "status=busy", "cursor=x", "cursor=", "order=random", "timezone=Mars/Base",
     "text=%00", "kind=", "nope=1", "limit=99999999999999999999", "limit=1.5", "timezone=%00", "cursor=%F0%9F%A6%89"],
)  # fmt: skip
def test_a_query_that_makes_no_sense_is_refused(ada: Client, query: str) -> None:
    problem = ada.refused("GET", f"/schedules?{query}", 422)
    assert problem["field"] == query.partition("=")[0]


def test_times_are_shown_in_the_zone_that_was_asked_for(ada: Client) -> None:
    id = ada.job(trigger={"type": "cron", "expression": "0 9 * * *"})["id"]
    assert ada.get(f"/schedules/{id}", timezone="Asia/Tokyo")["next_run"] == "2026-02-11T17:00:00+09:00"
    assert ada.get("/schedules", timezone="UTC")["schedules"][0]["next_run"] == "2026-02-11T08:00:00+00:00"
    made = ada.job(trigger={"type": "cron", "expression": "0 9 * * *"}, timezone="Asia/Tokyo")
    assert made["next_run"].endswith("T09:00:00+09:00")
    change = {"action": "pause", "ids": [id], "until": "2026-02-20T09:00", "timezone": "Asia/Tokyo"}
    assert ada.post("/schedules/change", change)["schedules"][0]["paused_until"] == "2026-02-20T09:00:00+09:00"


def test_credentials_in_a_payload_are_not_shown_and_survive_an_edit(api: Api, ada: Client) -> None:
    payload = {"url": "https://example.org/", "headers": {"Authorization": "Bearer very-secret-thing", "X-Other": "1"}}
    made = ada.job(kind="request", payload=payload)
    for shown in (made, ada.get(f"/schedules/{made['id']}"), ada.get("/schedules")):
        assert "very-secret-thing" not in json.dumps(shown)
    payload = {**made["payload"], "method": "PUT"}
    reply = ada.ask("PATCH", f"/schedules/{made['id']}", json={"payload": payload})
    assert reply.status_code == 200, reply.text
    stored = api.room.store.find(made["id"])
    assert stored is not None
    assert "very-secret-thing" in stored.definition.payload
    assert '"PUT"' in stored.definition.payload


def test_what_stays_hidden_is_not_put_back_over_a_change_in_between(
    api: Api, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody changes the secret between the reading and the writing of an edit that named no version."""
    hidden = {"url": "https://example.org/", "headers": {"Authorization": "Bearer old-secret-thing"}}
    made = ada.job(kind="request", payload=hidden)

    def meanwhile(_kind: RequestKind, caller: Caller, _schedule: Schedule, changes: Changes) -> Changes:
        renewed = {**hidden, "headers": {"Authorization": "Bearer new-secret-thing"}}
        if "old-secret-thing" in str(changes.payload):
            api.room.scheduler.edit(caller, made["id"], Changes(payload=renewed))
        return changes

    monkeypatch.setattr(RequestKind, "adapt_edit", meanwhile)
    payload = {**made["payload"], "method": "PUT"}
    problem = edit(ada, made["id"], {"payload": payload, "version": 1}, 409)
    assert problem["type"] == "urn:duetime:problem:conflict"
    assert edit(ada, made["id"], {"payload": payload})["payload"]["method"] == "PUT"
    stored = api.room.store.find(made["id"])
    assert stored is not None and "new-secret-thing" in stored.definition.payload


def test_a_new_payload_does_not_undo_a_rename_in_between(
    api: Api, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ada.job(kind="request", payload={"url": "https://example.org/"})

    def meanwhile(_kind: RequestKind, caller: Caller, _schedule: Schedule, changes: Changes) -> Changes:
        api.room.scheduler.edit(caller, made["id"], Changes(name="renamed"))
        return changes

    monkeypatch.setattr(RequestKind, "adapt_edit", meanwhile)
    payload = {"url": "https://example.org/", "method": "PUT"}
    assert edit(ada, made["id"], {"payload": payload})["name"] == "renamed"


def test_credentials_in_a_result_are_not_shown(api: Api, ada: Client) -> None:
    value = {"password": "very-secret-thing", "city": "Berlin"}
    id = ada.job(payload={"task": "echo", "kwargs": {"value": value}}, trigger=SOON)["id"]
    api.pass_time(hours=1)
    [run] = ada.get(f"/schedules/{id}/runs")["runs"]
    for shown in (run, ada.get(f"/runs/{run['run_id']}"), *ada.get("/runs")["runs"]):
        assert shown["result"] == {"password": "***", "city": "Berlin"}


def test_an_agent_that_schedules_itself_too_deep_is_refused(api: Api, ada: Client) -> None:
    token = api.tokens.issue("ada", HOUR, depth=api.room.scheduler.limits.depth + 1)
    deep = Client(ada.http, api.described, {"Authorization": f"Bearer {token}"})
    body = {"kind": "job", "name": "n", "trigger": SOON, "payload": {"task": "echo"}}
    assert deep.refused("POST", "/schedules", 403, json=body)["type"] == "urn:duetime:problem:depth"


def test_what_a_request_hides_is_not_shown_and_survives_an_edit(api: Api, ada: Client) -> None:
    payload = {"url": "https://example.org/", "body": "hush", "headers": {"X-Mine": "hushed"}}
    made = ada.job(kind="request", payload={**payload, "redact": ["body", "headers"]})
    for shown in (made, ada.get(f"/schedules/{made['id']}"), ada.get("/schedules")):
        assert "hush" not in json.dumps(shown)
    reply = ada.ask("PATCH", f"/schedules/{made['id']}", json={"payload": {**made["payload"], "method": "PUT"}})
    assert reply.status_code == 200, reply.text
    stored = api.room.store.find(made["id"])
    assert stored is not None
    kept = json.loads(stored.definition.payload)
    assert (kept["method"], kept["body"], kept["headers"]) == ("PUT", "hush", {"X-Mine": "hushed"})


def test_the_next_instants(ada: Client) -> None:
    id = ada.job(trigger={"type": "cron", "expression": "0 9 * * *"}, policy={"max_runs": 2})["id"]
    shown = ada.get(f"/schedules/{id}/next", count=5)
    assert shown["reads_as"] == "every day at 09:00 (Europe/Berlin)"
    assert shown["next"] == [
        {"utc": "2026-02-11T08:00:00+00:00", "local": "2026-02-11T09:00:00+01:00"},
        {"utc": "2026-02-12T08:00:00+00:00", "local": "2026-02-12T09:00:00+01:00"},
    ]
    ada.post(f"/schedules/{id}/pause")
    assert ada.get(f"/schedules/{id}/next")["next"] == []


def test_a_preview_makes_nothing(ada: Client) -> None:
    body = {"trigger": {"type": "cron", "expression": "30 2 * * *"}, "timezone": "America/New_York", "count": 2}
    shown = ada.post("/preview", body)
    assert shown["reads_as"] == "every day at 02:30 (America/New_York)"
    assert shown["next"][0] == {"utc": "2026-02-11T07:30:00+00:00", "local": "2026-02-11T02:30:00-05:00"}
    assert len(shown["next"]) == 2
    assert shown["warnings"]
    assert ada.ids() == []


def test_what_fires_next_over_all_kinds(ada: Client) -> None:
    job = ada.job(trigger={"type": "interval", "hours": 2})["id"]
    told = ada.notification(trigger={"type": "once", "run_at": "in 3 hours"})["id"]
    rows = ada.get("/upcoming", until="in 5 hours")["upcoming"]
    assert [(row["id"], row["at"]) for row in rows] == [
        (job, "2026-02-10T17:00:00+01:00"),
        (told, "2026-02-10T18:00:00+01:00"),
        (job, "2026-02-10T19:00:00+01:00"),
    ]
    assert ada.get("/upcoming", count=1)["count"] == 1
    assert ada.get("/upcoming", until="2026-02-10")["count"] == 5, "all day"
    cut = ada.get("/upcoming", count=1, until="in 5 hours")
    assert cut["more"] is True and [len(row["times"]) for row in cut["upcoming"]] == [2]
    for named in (job, job.rpartition("_")[0], "water the plants"):
        assert ada.get(f"/schedules/{named}/runs")["runs"] == [] == ada.get("/runs", schedule=named)["runs"]
    assert [row["topic"] for row in ada.get("/upcoming", topic="alerts")["upcoming"]] == ["alerts"]
    assert [row["id"] for row in ada.get("/upcoming", kind="job", **{"from": "in 5 hours"}, count=1)["upcoming"]] == [
        job
    ]
    ada.post(f"/schedules/{job}/pause")
    paused = ada.get("/upcoming", include_paused="true", count=2)["upcoming"]
    assert [(row["id"], row.get("paused")) for row in paused] == [(job, True), (told, None)]
    assert ada.refused("GET", "/upcoming?until=soonish", 422)["field"] == "until"


# -- changing ---------------------------------------------------------------------------------------------------------


def edit(client: Client, id: str, body: dict[str, Any], status: int = 200, **headers: str) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = client.ask("PATCH", f"/schedules/{id}", json=body, headers=named)
    assert reply.status_code == status, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


def test_every_part_can_be_edited(ada: Client) -> None:
    id = ada.job(policy={"max_attempts": 3})["id"]
    edited = edit(
        ada,
        id,
        {
            "name": "renamed",
            "trigger": {"type": "cron", "expression": "0 9 * * *"},
            "timezone": "Asia/Tokyo",
            "payload": {"task": "echo", "args": ["other"]},
            "policy": {"overlap": "allow", "max_attempts": None},
        },
    )
    assert (edited["name"], edited["timezone"], edited["payload"]["args"]) == ("renamed", "Asia/Tokyo", ["other"])
    assert (edited["policy"]["overlap"], edited["policy"]["max_attempts"]) == ("allow", 1)
    assert edited["version"] == 2


def test_what_a_policy_does_not_name_stays(ada: Client) -> None:
    id = ada.job(policy={"max_attempts": 3, "overlap": "queue", "timeout_seconds": 9})["id"]
    policy = edit(ada, id, {"policy": {"overlap": "allow"}})["policy"]
    assert (policy["overlap"], policy["max_attempts"], policy["timeout_seconds"]) == ("allow", 3, 9)


def test_null_is_what_is_usual_for_the_kind(ada: Client) -> None:
    usual = {"overlap": "allow", "max_attempts": 10}
    chosen = {"overlap": "queue", "max_attempts": 2}
    id = ada.notification(policy=chosen)["id"]
    edited = edit(ada, id, {"policy": dict.fromkeys(chosen)})
    assert {name: edited["policy"][name] for name in usual} == usual


def test_what_was_read_can_be_sent_back(ada: Client) -> None:
    for trigger in (
        {"type": "interval", "minutes": 90, "start": "2026-02-12", "end": "2027-01-01", "jitter": 5},
        {"type": "rrule", "rrule": "FREQ=DAILY", "dtstart": "2026-02-11T08:00"},
        {"type": "cron", "expression": "0 9 * * *", "dst": "literal"},
        {"type": "once", "run_at": "in 2 hours"},
    ):
        made = ada.job(trigger=trigger)
        edited = edit(ada, made["id"], {"trigger": made["trigger"]})
        assert (edited["trigger"], edited["next_run"]) == (made["trigger"], made["next_run"])


def test_the_coming_occurrence_alone_is_moved(ada: Client) -> None:
    id = ada.job(trigger={"type": "cron", "expression": "0 9 * * *"})["id"]
    moved = edit(ada, id, {"next": "2026-02-11T10:30"})
    assert moved["next_run"] == "2026-02-11T10:30:00+01:00"
    assert moved["trigger"]["expression"] == "0 9 * * *"
    there = ada.job(trigger={"type": "cron", "expression": "0 9 * * *", "timezone": "Asia/Tokyo"})["id"]
    assert edit(ada, there, {"next": "2026-02-12T10:30"})["next_run"] == "2026-02-12T10:30:00+01:00", (
        "the caller's zone"
    )


def test_an_edit_of_what_changed_meanwhile_is_refused(ada: Client) -> None:
    id = ada.job()["id"]
    edit(ada, id, {"name": "first"}, If_Match='"1"')
    assert edit(ada, id, {"name": "second"}, 412, If_Match='"1"')["type"] == "urn:duetime:problem:changed"
    assert edit(ada, id, {"name": "second"}, 412, If_Match="nonsense")["status"] == 412
    assert edit(ada, id, {"name": "second", "version": 1}, 409)["type"] == "urn:duetime:problem:conflict"
    assert edit(ada, id, {"name": "second", "version": 1}, 422, If_Match='"2"')["field"] == "version"
    assert edit(ada, id, {"name": "second", "version": 2})["version"] == 3
    assert edit(ada, id, {"name": "third"}, If_Match='W/"3"')["version"] == 4
    assert edit(ada, id, {"name": "fourth"}, If_Match="*")["name"] == "fourth"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, None),
        ({"version": 1}, None),
        ({"name": None}, None),
        ({"name": None, "payload": None, "timezone": None, "version": 1}, None),
        ({"timezone": "UTC"}, "timezone"),
        ({"next": "soonish"}, "next"),
        ({"next": "2020-01-01"}, "next"),
        ({"payload": {"task": "nope"}}, "task"),
        ({"policy": {"timeout_seconds": 0}}, "policy.timeout_seconds"),
        ({"trigger": {"type": "cron", "expression": "x"}}, "trigger.expression"),
        ({"rrule": "FREQ=OFTEN"}, "rrule"),
        ({"end": "2020-01-01"}, "end"),
        ({"trigger": {"type": "cron", "expression": "0 9 * * *", "end": "2020-01-01"}}, "trigger.end"),
    ],
)
def test_an_edit_that_makes_no_sense_is_refused(ada: Client, body: dict[str, Any], field: str | None) -> None:
    id = ada.job()["id"]
    assert edit(ada, id, body, 422).get("field") == field
    assert ada.get(f"/schedules/{id}")["version"] == 1


def test_pause_resume_cancel_delete(ada: Client) -> None:
    id = ada.job()["id"]
    for _ in range(2):
        assert ada.post(f"/schedules/{id}/pause")["status"] == "paused"
    for _ in range(2):
        assert ada.post(f"/schedules/{id}/resume")["status"] == "pending"
    for _ in range(2):
        assert ada.post(f"/schedules/{id}/cancel")["status"] == "cancelled"
    assert ada.refused("POST", f"/schedules/{id}/pause", 409)["type"] == "urn:duetime:problem:not_possible"
    assert ada.ask("DELETE", f"/schedules/{id}").status_code == 204
    ada.refused("DELETE", f"/schedules/{id}", 404)
    ada.refused("GET", f"/schedules/{id}", 404)


@pytest.mark.parametrize(("action", "left"), [("cancel", "cancelled"), ("delete", None)])
def test_all_are_cancelled_or_deleted_only_with_their_count(
    api: Api, ada: Client, action: str, left: str | None
) -> None:
    ids = [ada.job()["id"], ada.notification()["id"]]
    others = api.client("bob").job()["id"]
    before = [ada.get(f"/schedules/{id}") for id in ids]
    change = {"action": action, "all": True}
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({}, 422, "ends schedules, so say how many; 2 match (dry_run lists them)"),
        ({"expected_count": None}, 422, "ends schedules, so say how many; 2 match (dry_run lists them)"),
        ({"expected_count": 1}, 409, "2 match, not 1, so nothing was changed"),
        ({"expected_count": 3}, 409, "2 match, not 3, so nothing was changed"),
    ]
    for count, status, words in cases:
        problem = ada.refused("POST", "/schedules/change", status, json={**change, **count})
        assert problem["field"] == "expected_count" and words in problem["detail"]
        assert [ada.get(f"/schedules/{id}") for id in ids] == before
    assert ada.post("/schedules/change", {**change, "dry_run": True, "expected_count": 2})["changed"] == 0
    assert [ada.get(f"/schedules/{id}") for id in ids] == before
    answer = ada.post("/schedules/change", {**change, "expected_count": 2})
    assert (answer["matched"], answer["changed"], answer["failed"]) == (2, 2, [])
    for id in ids:
        if left is None:
            ada.refused("GET", f"/schedules/{id}", 404)
        else:
            assert ada.get(f"/schedules/{id}")["status"] == left
    assert api.client("bob").get(f"/schedules/{others}")["status"] == "pending"


def test_run_now(api: Api, ada: Client) -> None:
    id = ada.job()["id"]
    run = ada.post(f"/schedules/{id}/run", status=202)
    assert (run["cause"], run["schedule"], run["status"]) == ("manual", id, "pending")
    ada.refused("POST", f"/schedules/{id}/run", 409)
    api.pass_time(seconds=1)
    assert ada.get(f"/runs/{run['run_id']}")["result"] == "hello"


# -- runs -------------------------------------------------------------------------------------------------------------


def test_runs_by_every_filter(api: Api, ada: Client) -> None:
    job, told = ada.job()["id"], ada.notification(trigger={"type": "interval", "hours": 2})["id"]
    failing = ada.job(
        payload={"task": "fail"}, trigger={"type": "once", "run_at": "in 30 minutes"}, policy={"alert": "off"}
    )["id"]
    api.pass_time(hours=4)
    page = ada.get("/runs", limit=2)
    assert (len(page["runs"]), page["total"], page["total_exact"]) == (2, 7, True)
    assert ada.get("/runs", limit=2, cursor=page["next_cursor"])["runs"][0]["run_id"] < page["runs"][1]["run_id"]
    assert {run["schedule"] for run in ada.get("/runs")["runs"]} == {job, told, failing}
    assert {run["schedule"] for run in ada.get("/runs", kind="notification")["runs"]} == {told}
    assert [run["schedule"] for run in ada.get("/runs", status="failed")["runs"]] == [failing]
    assert ada.get("/runs", schedule=job)["total"] == 4
    between = ada.get("/runs", **{"from": "2026-02-10T16:30", "to": "2026-02-10T17:30"}, schedule=job)["runs"]
    assert [run["due"] for run in between] == ["2026-02-10T17:00:00+01:00"]
    whole_day = ada.get("/runs", **{"from": "2026-02-10", "to": "2026-02-10"}, status="failed,missed")
    assert (whole_day["total"], whole_day["counts"]) == (1, {"completed": 6, "failed": 1})
    assert whole_day["window"]["from"] == "2026-02-10T00:00:00+01:00"
    assert ada.get("/runs", **{"from": "2026-02-10", "to": "2026-02-10"}, schedule=job)["total"] == 4, "all day"
    assert ada.refused("GET", "/runs?from=soonish", 422)["field"] == "from"
    assert ada.get("/runs", schedule="nope")["runs"] == []
    assert ada.get(f"/schedules/{job}/runs", limit=2)["total"] == 4


def test_history_is_readable_after_a_delete(api: Api, ada: Client) -> None:
    id = ada.job()["id"]
    api.pass_time(hours=1)
    ada.ask("DELETE", f"/schedules/{id}")
    [run] = ada.get(f"/schedules/{id}/runs")["runs"]
    assert (run["schedule"], run["status"]) == (id, "completed")
    assert ada.get("/runs", schedule=id)["runs"] == [run]


def test_a_run_with_its_attempts(api: Api, ada: Client) -> None:
    made = ada.job(payload={"task": "fail"}, policy={"max_attempts": 2, "backoff_seconds": 1}, trigger=SOON)
    api.pass_time(hours=1)
    [run] = ada.get(f"/schedules/{made['id']}/runs")["runs"]
    whole = ada.get(f"/runs/{run['run_id']}")
    assert (whole["status"], whole["attempt"]) == ("failed", 2)
    [attempt] = whole["attempts"]
    assert (attempt["attempt"], attempt["status"], attempt["error"]) == (1, "failed", "RuntimeError: as always")
    again = ada.post(f"/runs/{run['run_id']}/retry", status=202)
    assert (again["run_id"], again["status"]) == (run["run_id"], "pending")
    ada.refused("POST", f"/runs/{run['run_id']}/retry", 409)
    assert ada.post(f"/runs/{run['run_id']}/cancel", status=202)["status"] == "cancelled"
    ada.refused("POST", f"/runs/{run['run_id']}/cancel", 409)


SOON = {"type": "once", "run_at": "in 5 minutes"}


@pytest.mark.parametrize("id", ["0", "-1", "x", "1.5", "9" * 40, "%00", "1%00"])
def test_what_is_no_number_is_no_run(ada: Client, id: str) -> None:
    for method, path in (("GET", f"/runs/{id}"), ("POST", f"/runs/{id}/retry"), ("POST", f"/dead/{id}/retry")):
        ada.refused(method, path, 422)


def test_unknown_things_are_not_found(ada: Client) -> None:
    for id in ("nope", "job_1_1", "%00", "%F0%9F%A6%89", "a%2Fb", "a%0Ab", "a" * 300):
        for method, path in (("GET", ""), ("GET", "/runs"), ("GET", "/next"), ("POST", "/pause"), ("DELETE", "")):
            assert ada.ask(method, f"/schedules/{id}{path}").status_code in (404, 422)
    assert ada.refused("GET", "/runs/77", 404)["detail"].endswith("no such run; GET /api/v1/runs lists them")
    assert "; GET /api/v1/schedules lists them" in ada.refused("GET", "/schedules/nope", 404)["detail"]
    ada.refused("GET", "/nowhere", 404)
    ada.refused("GET", "/schedules/", 404)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/api", "/api/", "/api/v1", "/api/v2/schedules"])
def test_nothing_there_is_a_problem_too(ada: Client, method: str, path: str) -> None:
    reply = ada.http.request(method, path, headers=ada.headers)
    assert (reply.status_code, reply.headers["content-type"]) == (404, PROBLEM)
    assert "/api/openapi.json" in reply.json()["detail"]


def test_a_name_that_nobody_knows_is_told_what_to_do(ada: Client) -> None:
    asked = ada.refused("GET", "/schedules?colour=red", 422)
    given = ada.refused("POST", "/preview", 422, json={"colour": "red"})
    for problem in (asked, given):
        [found] = problem["errors"]
        assert (found["field"], problem["field"]) == ("colour", "colour"), "it ends the validation"
        assert found["message"].startswith("is not known here; leave it out")
    assert ada.refused("POST", "/preview", 422, json={})["detail"] == "trigger: is missing; give it"
    assert ada.refused("GET", "/runs?from_=today", 422)["field"] == "from_", "which only our own code says"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (b"", BODY_MISSING),
        (b"[]", "The body must be an object in braces."),
        (b'{"trigger": 5}', "trigger: must be an object in braces"),
        (b'{"trigger": {}}', f"trigger: has no type; give one of {TYPES}"),
        (b'{"trigger": {"type": "daily"}}', f"trigger: has an unknown type; give one of {TYPES}"),
        (b'{"trigger": {"type": "cron", "expression": 5}}', "trigger.expression: must be a text in quotes"),
        (b'{"when": "now", "count": "5"}', "count: must be a whole number"),
        (b'{"when": "now", "count": 0}', "count: must be at least 1"),
        (b'{"when": "a\\u0000"}', "when: must not hold NUL characters"),
    ],
)
def test_what_does_not_fit_is_told_in_plain_words(ada: Client, given: bytes, words: str) -> None:
    headers = {**ada.headers, "Content-Type": "application/json"}
    reply = ada.http.post("/api/v1/preview", headers=headers, content=given)
    assert (reply.status_code, reply.json()["detail"]) == (422, words)


def test_errors_name_fields_of_several_forms_as_the_request_does(ada: Client) -> None:
    tagged = ada.refused("POST", "/schedules", 422, json={"policy": {"tagged": "x" * 1001}})
    assert [each["field"] for each in tagged["errors"]].count("policy.tagged") == 1
    mark = ada.refused("POST", "/attention/resolve", 422, json={"ids": ["x" * 201]})
    assert [each["field"] for each in mark["errors"]] == ["ids.0"]


def test_bounds_of_texts_read_alike_everywhere_and_are_documented(api: Api, ada: Client) -> None:
    long = "x" * 201
    words = "must have at most 200 characters, and it has 201"
    headers = {**ada.headers, "Idempotency-Key": long}
    replies = (
        ada.http.get(f"/api/v1/schedules/{long}", headers=ada.headers),
        ada.http.post("/api/v1/schedules", headers=headers, json={}),
        ada.http.post("/api/v1/schedules", headers=ada.headers, json={"idempotency_key": long}),
    )
    assert [reply.status_code for reply in replies] == [422] * 3
    assert [reply.json()["errors"][0]["message"] for reply in replies[:2]] == [words] * 2
    assert words in [each["message"] for each in replies[2].json()["errors"]]
    mark = ada.refused("POST", "/attention/resolve", 422, json={"ids": [long]})
    assert "_plain" not in str(mark) and "partial" not in str(mark), "no names of functions"
    name = api.described.document["components"]["schemas"]["NewScheduleGiven"]["properties"]["name"]
    assert name["pattern"] == "^[^\\u0000]*$"


@pytest.mark.parametrize(
    ("given", "words"),
    [("AB", "String should match pattern '^[a-z]+$'"), (12345, "String should have at most 3 characters")],
)
def test_routes_of_other_packages_may_bound_texts_in_ways_of_their_own(given: object, words: str) -> None:
    class Foreign(BaseModel):
        model_config = ConfigDict(coerce_numbers_to_str=True)

        code: Annotated[str, Field(pattern="^[a-z]+$", max_length=3)]

    with pytest.raises(ValidationError) as refused:
        Foreign.model_validate({"code": given})
    answer = response_to(Request({"type": "http"}), RequestValidationError(refused.value.errors()))
    assert (answer.status_code, json.loads(bytes(answer.body))["detail"]) == (422, f"code: {words}")


def test_the_document_says_who_is_let_in(api: Api) -> None:
    document = api.described.document
    schemes = document["components"]["securitySchemes"]
    assert {name: scheme["type"] for name, scheme in schemes.items()} == {
        "token": "http", "session": "apiKey", "proof": "apiKey",
    }  # fmt: skip
    assert schemes["proof"]["name"].lower() == browser_sessions.PROOF
    assert schemes["session"]["name"] == browser_sessions.cookie_name(Headers({"host": "localhost:8765"}))
    assert {"session": [], "proof": []} in document["security"]
    assert {"session": []} in document["paths"]["/v1/schedules"]["get"]["security"]


def test_another_method_is_told_which_there_are(ada: Client) -> None:
    for path, allowed in (("/schedules", "GET, POST"), ("/schedules/x", "DELETE, GET, PATCH"), ("/whoami", "GET")):
        reply = ada.ask("PUT", path)
        assert (reply.status_code, reply.headers["allow"]) == (405, allowed)
        assert reply.headers["content-type"] == PROBLEM


# -- dead letters and the inbox ---------------------------------------------------------------------------------------


def test_what_failed_can_be_tried_again_or_dismissed(api: Api, ada: Client) -> None:
    sent = ada.job(kind="request", payload={"url": "http://127.0.0.1:9/"}, policy={"max_attempts": 1}, trigger=SOON)
    job = ada.job(payload={"task": "fail"}, trigger=SOON)
    api.pass_time(hours=10)
    [dead] = ada.get("/dead", kind="request")["runs"]
    assert (dead["schedule"], dead["status"]) == (sent["id"], "failed")
    assert ada.get("/dead", kind="notification")["runs"] == []
    [failed] = ada.get("/dead", kind="job")["runs"]
    assert failed["schedule"] == job["id"] and {run["run_id"] for run in ada.get("/dead")["runs"]} == {
        failed["run_id"],
        dead["run_id"],
    }
    dismissed = ada.post(f"/dead/{failed['run_id']}/dismiss")
    assert (dismissed["status"], dismissed["stopping"]) == ("failed", False)
    assert ada.post(f"/dead/{dead['run_id']}/retry", status=202)["status"] == "pending"
    assert ada.get("/dead")["runs"] == []
    ada.refused("POST", f"/dead/{dead['run_id']}/retry", 404)
    api.pass_time(hours=1)
    assert ada.get("/dead")["total"] == 1
    assert ada.post(f"/dead/{dead['run_id']}/dismiss")["status"] == "failed"
    assert ada.get("/dead")["runs"] == []


def test_only_the_newest_failure_of_a_recurring_schedule_is_retried_unless_all_are_asked_for(
    api: Api, ada: Client
) -> None:
    ada.job(payload={"task": "fail"}, trigger={"type": "interval", "hours": 1}, policy={"max_attempts": 1})
    api.pass_time(hours=3, minutes=5)
    newest, *earlier = (run["run_id"] for run in ada.get("/dead")["runs"])
    assert ada.post("/dead/retry", {})["runs"] == [newest]
    assert sorted(ada.post("/dead/retry", {"every_run": True})["runs"]) == sorted(earlier) != []


def test_what_arrived_is_in_the_inbox(api: Api, ada: Client) -> None:
    id = ada.notification(payload={"message": "hi", "title": "t", "topic": "alerts"}, trigger=SOON)["id"]
    ada.notification(payload={"message": "other", "topic": "news"}, trigger=SOON)
    api.pass_time(hours=1)
    [message] = ada.get("/inbox", topic="alerts")["messages"]
    expected = {"message": "hi", "title": "t", "topic": "alerts", "channel": "inbox", "schedule": id, "id": id}
    assert message | expected == message
    assert message["arrived"] == "2026-02-10T15:05:00+01:00"
    assert ada.get("/inbox")["total"] == 2
    ada.post(f"/schedules/{ada.notification()['id']}/run", status=202)
    assert ada.get("/inbox")["total"] == 2, "what is on its way has not arrived"


def test_the_inbox_is_searched_by_the_topic_that_a_message_was_sent_to(api: Api, ada: Client) -> None:
    """Whatever topic its schedule has had since."""
    id = ada.notification(payload={"message": "hi", "topic": "alerts"}, trigger={"type": "interval", "hours": 1})["id"]
    api.pass_time(minutes=61)
    assert ada.ask("PATCH", f"/schedules/{id}", json={"payload": {"message": "new", "topic": "news"}}).is_success
    api.pass_time(minutes=61)
    for topic, message in (("alerts", "hi"), ("news", "new")):
        assert [each["message"] for each in ada.get("/inbox", topic=topic)["messages"]] == [message]
    assert ada.get("/inbox", topic="alert")["messages"] == []


# -- what stands around -----------------------------------------------------------------------------------------------


def test_tasks_agents_channels_and_who_calls(tmp_path: Path) -> None:
    from duetime.settings import AgentSettings, ChannelSettings

    agents = {
        "coder": AgentSettings(preset="claude"),
        "hook": AgentSettings(type="webhook", url="https://x/?key=abc", secret="very-secret"),
    }
    channels = {"phone": ChannelSettings(url="tgram://123:very-secret/42"), "odd": ChannelSettings(url="very-secret")}
    with serving_api(tmp_path, agents=agents, channels=channels) as api:
        ada = api.client(zone="Europe/Berlin")
        assert "echo" in {task["name"] for task in ada.get("/tasks")["tasks"]}
        assert ada.get("/agents")["agents"] == [
            {"name": "inbox", "type": "inbox"},
            {"name": "coder", "type": "command"},
            {"name": "hook", "type": "webhook"},
        ]
        assert ada.get("/channels")["channels"] == [
            {"name": "inbox", "type": "inbox"},
            {"name": "phone", "type": "tgram"},
            {"name": "odd", "type": "unknown"},
        ]
        assert ada.get("/whoami") == {"owner": "ada", "operator": False, "timezone": "Europe/Berlin", "depth": 0}


def test_workers_are_for_operators(api: Api, ada: Client) -> None:
    assert ada.refused("GET", "/workers", 403)["type"] == "urn:duetime:problem:operators_only"
    [worker] = api.client("root", "operator").get("/workers")["workers"]
    assert (worker["name"], worker["alive"], worker["session"]) == ("simulation", True, False)
    assert "job" in worker["lanes"]


def test_without_tokens_whoever_comes_is_local(tmp_path: Path) -> None:
    with serving_api(tmp_path, auth=False) as api:
        local = api.nobody()
        local.job()
        assert local.get("/whoami")["owner"] == "local"
        assert local.get("/workers")["workers"]


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_without_a_token_the_refusal_is_a_problem(api: Api) -> None:
    reply = api.nobody().ask("GET", "/schedules")
    assert (reply.status_code, reply.headers["content-type"]) == (401, PROBLEM)
    assert reply.headers["www-authenticate"] == 'Bearer realm="duetime"'
    assert reply.json()["type"] == "urn:duetime:problem:token_required"
    assert "duetime token issue" in reply.json()["detail"]


def test_another_host_or_origin_is_a_problem_too(api: Api, ada: Client) -> None:
    ada.refused("GET", "/whoami", 421, headers={"Host": "evil.example"})
    ada.refused("GET", "/whoami", 403, headers={"Origin": "http://evil.example"})


def test_a_store_that_is_away_is_told_without_its_words(api: Api, ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("/home/ada/secret/duetime.db is locked")

    monkeypatch.setattr(api.room.store, "_rows", away)
    for path in ("/schedules", "/schedules/x", "/runs", "/upcoming", "/runs/1", "/events"):
        reply = ada.ask("GET", path)
        assert (reply.status_code, reply.headers["content-type"]) == (503, PROBLEM)
        assert "secret" not in reply.text
        assert reply.headers["retry-after"] == "1"


def test_what_nobody_expected_is_logged_and_not_shown(
    api: Api, ada: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret words")

    monkeypatch.setattr(api.room.scheduler, "search", broken)
    problem = ada.refused("GET", "/schedules", 500)
    assert "secret" not in json.dumps(problem)
    assert "secret words" in caplog.text
    assert ada.get("/whoami")["owner"] == "ada"


def test_a_trigger_that_cannot_be_read_any_more_is_still_shown(api: Api, ada: Client) -> None:
    id = ada.job()["id"]
    api.room.store._writer.execute("UPDATE schedules SET trigger = '{\"type\":\"cron\"}', policy = '[]'")  # type: ignore[attr-defined]
    shown = ada.get(f"/schedules/{id}")
    assert (shown["policy"], shown["trigger"]) == (None, {"type": "cron"})
    assert shown["reads_as"].startswith("cannot be read: timezone must be text"), "and why"
    assert ada.get(f"/schedules/{id}/next")["next"] == []
    assert ada.get("/upcoming")["upcoming"] == []


def test_beyond_what_is_counted_the_total_says_so(api: Api, ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    new = NewSchedule("job", "n", "interval", {"hours": 1}, {"task": "echo"})
    api.room.scheduler.create_many(Caller("ada"), [new] * 10_000)
    assert ada.get("/schedules", limit=1)["total_exact"] is True
    ada.refused(
        "POST", "/schedules", 403, json={"kind": "job", "name": "n", "trigger": SOON, "payload": {"task": "echo"}}
    )
    api.room.scheduler.create_many(Caller("bob"), [new])
    page = api.client("root", "operator").get("/schedules", limit=1)
    assert (page["total"], page["total_exact"]) == (10_000, False)
