"""What programs and pages are shown of schedules: without credentials, and in words that can be sent back."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from duetime.engine.clock import HOUR, SECOND, Instant
from duetime.engine.model import Schedule
from duetime.engine.policy.options import make_policy, policy_to_json
from duetime.engine.policy.rows import begin
from duetime.engine.redaction import DEEPEST, MASK
from duetime.engine.triggers import build_trigger, trigger_to_json
from duetime.service.masking import masked, masked_payload, unmasked, unmasked_payload
from duetime.service.presenters import (
    message_shape,
    next_instants,
    policy_shape,
    run_shape,
    schedule_shape,
    trigger_shape,
)
from duetime.service.when import read_policy
from tests.support.drafts import T0, every, once
from tests.support.jobs import make_work

SECRETS: list[tuple[Any, Any]] = [
    ({"Authorization": "Bearer abc"}, {"Authorization": MASK}),
    ({"headers": {"X-Api-Key": "abc", "Accept": "text/html"}}, {"headers": {"X-Api-Key": MASK, "Accept": "text/html"}}),
    (
        {"headers": {"Upstash-Forward-Authorization": ["Bearer abc"]}},
        {"headers": {"Upstash-Forward-Authorization": MASK}},
    ),
    ({"accessToken": "abc", "max_tokens": 500}, {"accessToken": MASK, "max_tokens": 500}),
    ({"password": "", "secret": None}, {"password": "", "secret": None}),
    ({"secretary": "Ada", "tokens": "abc"}, {"secretary": "Ada", "tokens": MASK}),
    ({"url": "https://ada:hunter2@example.org/x"}, {"url": f"https://{MASK}@example.org/x"}),
    ({"url": "https://example.org/@ada"}, {"url": "https://example.org/@ada"}),
    (["Bearer abcdefgh123", "a bearer of news"], [f"Bearer {MASK}", "a bearer of news"]),
    ("see eyJhbGciOiJIUzUxMiJ9.eyJzdWIiOiJhIn0.c2ln", f"see {MASK}"),
    ({"args": [1, 2.5, True, None, "plain"]}, {"args": [1, 2.5, True, None, "plain"]}),
    (
        {"pwd": "a", "auth": "b", "passphrase": "c", "author": "d"},
        {"pwd": MASK, "auth": MASK, "passphrase": MASK, "author": "d"},
    ),
    (
        {"url": "https://example.org/?api_key=hunter2&page=2&token=abc#access_token=x"},
        {"url": f"https://example.org/?api_key={MASK}&page=2&token={MASK}#access_token={MASK}"},
    ),
    ({"url": "https://example.org/?tokens=&secretary=Ada"}, {"url": "https://example.org/?tokens=&secretary=Ada"}),
    ({"body": '{"password":"hun\\"ter2","n":1}'}, {"body": f'{{"password": "{MASK}", "n": 1}}'}),
    ({"body": '{"user": "ada",  "n": [1.50]}'}, {"body": '{"user": "ada",  "n": [1.50]}'}),
    ({"body": '[{"tokens": ["a", "b"]}]'}, {"body": f'[{{"tokens": "{MASK}"}}]'}),
    ({"body": '{"inner": "{\\"pwd\\": \\"x\\"}"}'}, {"body": json.dumps({"inner": json.dumps({"pwd": MASK})})}),
    ({"body": "grant=1&password=hunter2&x=2"}, {"body": f"grant=1&password={MASK}&x=2"}),
    (
        ["""curl -d '{"password": "hunter2"}' --header x""", "API_KEY=hunter2 ./sync --token=abc"],
        [f"""curl -d '{{"password": "{MASK}"}}' --header x""", f"API_KEY={MASK} ./sync --token={MASK}"],
    ),
    ("the password: of course not", "the password: of course not"),
]


@pytest.mark.parametrize(("value", "shown"), SECRETS, ids=[json.dumps(value)[:50] for value, _ in SECRETS])
def test_credentials_are_hidden_and_nothing_else(value: Any, shown: Any) -> None:
    before = json.dumps(value)
    assert masked(value) == shown
    assert json.dumps(value) == before


@pytest.mark.parametrize(("value", "shown"), SECRETS, ids=[json.dumps(value)[:50] for value, _ in SECRETS])
def test_what_is_sent_back_hidden_stays_as_it_was(value: Any, shown: Any) -> None:
    assert unmasked(shown, value) == value


@pytest.mark.parametrize(
    "text",
    [
        r'upstream said: {"private_key": "-----BEGIN\nHUSH\n-----END\n", "user": "ada"}',
        r'cut: {"token": "ab\\cdHUSH", "user": "ada"',
        r'nested: "{\"token\": \"x\\nHUSH\", \"user\": \"ada\"}"',
        "curl -H 'X-Api-Key: HUSH12345' https://example.org/ada",
        "curl https://example.org/ada -H Content-Type:application/json -H X-Api-Key:HUSH12345",
        "curl -H 'authorization: Token HUSH12345' ada",
        "Cookie: session=HUSH12345\nada",
        "password: HUSH\nuser: ada",
        "The password: HUSH-hush, user: ada",
        "ada: the Wi-Fi password: HUSH12 and the name is home",
        "ada's API key: HUSH-1234abcd",
        "note: client_secret: HUSH12345 (ada)",
        "db_passwd = HUSH12345 for ada",
        "{'user': 'ada', 'password': 'HUSH and more', 'token': 'HUSH123'}",
        "passphrase: 'HUSH and more' ada",
        "token: HUSH12345. Then ada.",
    ],
)
def test_of_a_credential_in_a_text_nothing_is_shown(text: str) -> None:
    shown = masked({"args": [text]})["args"][0]
    assert "HUSH" not in shown and MASK in shown
    assert "ada" in shown, "what stands beside it is"


@pytest.mark.parametrize(
    "text",
    [
        "token: see the docs",
        "well-known: the usual suspects",
        "read-only: nothing to see",
        "Password: required",
        "Wrong password: try again, or ask Ada",
        "password: 8 characters or more",
        "Reset your password: https://example.org/reset",
        "tokens: 128,000 of 200,000",
        "secret: read-only, and it's well-known",
        "unexpected token: identifier",
        "API key: none",
    ],
)
def test_what_is_no_credential_is_shown(text: str) -> None:
    assert masked(text) == text


def test_what_was_changed_is_taken() -> None:
    stored = {"token": "abc", "url": "https://a:b@example.org/", "args": [1, {"password": "x"}]}
    given = {"token": MASK, "url": "https://example.org/", "args": [2, {"password": MASK}], "new": MASK}
    expected = {"token": "abc", "url": "https://example.org/", "args": [2, {"password": "x"}], "new": MASK}
    assert unmasked(given, stored) == expected
    assert unmasked({"token": "new"}, stored) == {"token": "new"}
    assert unmasked({"secret": MASK}, stored) == {"secret": MASK}, "there is nothing that it could stand for"


def test_of_a_list_that_grew_or_shrank_what_is_hidden_stays_as_it_was() -> None:
    stored = ["Bearer abcdefgh1", 2, {"password": "x", "user": "ada"}, "Bearer abcdefgh2"]
    shown = masked(stored)
    assert unmasked([*shown, 5], stored) == [*stored, 5]
    assert unmasked([0, *shown], stored) == [0, *stored]
    assert unmasked(shown[1:3], stored) == stored[1:3]
    assert unmasked([shown[2], shown[2]], stored) == [stored[2], shown[2]], "there was only one"


REDACTED: dict[str, Any] = {
    "url": "https://example.org/",
    "method": "POST",
    "body": "hush",
    "headers": {"X-Mine": "hushed", "X-Other": "seen", "Authorization": "Bearer hushed-too"},
    "redact": ["body", "header[x-mine]"],
}


def test_what_a_request_hides_is_hidden_and_stays_when_it_is_sent_back() -> None:
    shown = masked_payload("request", REDACTED)
    assert "hush" not in json.dumps(shown)
    assert shown["body"].startswith("REDACTED:") and shown["headers"]["X-Mine"].startswith("REDACTED:")
    assert (shown["headers"]["X-Other"], shown["headers"]["Authorization"]) == ("seen", MASK)
    assert unmasked_payload("request", {**shown, "method": "PUT"}, REDACTED) == {**REDACTED, "method": "PUT"}
    other = {**shown, "body": "new", "headers": {"X-Mine": "new", "X-Added": "too"}}
    assert unmasked_payload("request", other, REDACTED) == {**REDACTED, "body": "new", "headers": other["headers"]}


@pytest.mark.parametrize("body", [{"body_base64": "aHVzaA=="}, {}])
def test_a_hidden_body_of_any_form_comes_back_as_it_was(body: dict[str, str]) -> None:
    stored = {"url": "https://example.org/", "method": "POST", "redact": ["body"], **body}
    shown = masked_payload("request", stored)
    assert shown["body"].startswith("REDACTED:") and "body_base64" not in shown
    assert unmasked_payload("request", shown, stored) == stored


def test_a_body_in_base64_with_a_credential_comes_back_as_it_was() -> None:
    body = base64.b64encode(b"password=hunter2&page=2").decode()
    stored = {"url": "https://example.org/", "method": "POST", "body_base64": body}
    view = masked_payload("request", stored)
    assert base64.b64decode(view["body_base64"]) == b"password=***&page=2"
    assert unmasked_payload("request", {**view, "method": "PUT"}, stored) == {**stored, "method": "PUT"}


def test_all_headers_are_hidden_and_other_kinds_hide_nothing_more() -> None:
    shown = masked_payload("request", {**REDACTED, "redact": ["headers"]})
    assert shown["headers"]["X-Other"].startswith("REDACTED:") and shown["body"] == "hush"
    kwargs = {"redact": ["body"], "body": "seen"}
    assert masked_payload("job", kwargs) == kwargs
    assert masked_payload("request", None) is None, "of one that was deleted"


def test_what_a_callback_tells_is_opened_and_hidden_as_its_source_is() -> None:
    answer = {"status": 500, "header": {"Set-Cookie": ["hush"]}, "body": ""}
    about = {"run": 7, "payload": json.dumps(REDACTED), "result": json.dumps(answer), "error": None}
    shown = masked_payload("request", {"url": "https://example.org/cb", "method": "POST", "about": about})
    assert "hush" not in json.dumps(shown)
    assert shown["about"]["payload"] == masked_payload("request", REDACTED)
    assert shown["about"]["result"] == {**answer, "header": {"Set-Cookie": MASK}}


@pytest.mark.parametrize(
    "piece",
    [
        "a-",
        "eyJ-",
        "\\",
        "-a",
        "x-token: ",
        "token: ",
        "token: a, ",
        'token"',
        "token=",
        "bearer ",
        "https://a",
        '["token",',
    ],
)
def test_no_text_takes_long(piece: str) -> None:
    """Whoever lists schedules must not wait for what somebody wrote into one: some of these once took minutes."""
    text = "token" + piece * (200_000 // len(piece))
    began = time.process_time()
    masked({"body": text})
    assert time.process_time() - began < 10


def test_what_lies_too_deep_is_not_shown() -> None:
    deep: Any = "x"
    for _ in range(DEEPEST + 10):
        deep = [deep]
    assert "x" not in json.dumps(masked(deep))


@pytest.mark.parametrize(
    ("type_", "config"),
    [
        ("once", {"run_at": "2027-01-15T08:00:00+00:00"}),
        ("interval", {"seconds": 5400, "anchor": "2027-01-15T08:00:00+00:00"}),
        ("interval", {"seconds": 0.5}),
        ("cron", {"expression": "0 9 * * 1-5", "dst": "literal"}),
        ("rrule", {"rrule": "FREQ=DAILY", "dtstart": "2027-01-15T08:00:00"}),
        ("cron", {"expression": "@daily", "start": "2027-02-01", "end": "2027-03-01", "jitter": 1.5}),
    ],
)
def test_a_trigger_is_shown_as_it_is_given(type_: str, config: dict[str, Any]) -> None:
    now = Instant(T0 - 30 * HOUR)
    trigger = build_trigger(type_, config, zone="Europe/Berlin", now=now)
    shape = trigger_shape(trigger_to_json(trigger))
    assert shape.pop("type") == type_
    again = build_trigger(type_, shape, zone="UTC", now=now)
    assert again == trigger
    assert config.keys() <= shape.keys()


@pytest.mark.parametrize("text", ["[]", "null", "{}", '{"type": "moon"}'])
def test_a_trigger_that_nobody_knows_is_shown_all_the_same(text: str) -> None:
    assert "type" in trigger_shape(text)


def test_a_policy_is_shown_as_it_is_given() -> None:
    asked = {"timeout_seconds": 2.5, "backoff_seconds": 3, "max_attempts": 4, "catch_up": "all", "grace_seconds": 0}
    text = policy_to_json(make_policy(read_policy(asked)))
    shape = policy_shape(text)
    assert shape is not None
    assert shape | asked == shape
    assert "callbacks" not in shape
    assert policy_shape("[]") is None


def schedule(**changes: Any) -> Schedule:
    definition, progress, _ = begin(every(HOUR, T0), 7)  # type: ignore[arg-type]
    made = {name: value for name, value in changes.items() if name in definition._fields}
    done = {name: value for name, value in changes.items() if name in progress._fields}
    return Schedule(definition._replace(**made), progress._replace(**done))


def test_the_next_instants_begin_with_the_one_that_was_moved() -> None:
    moved = schedule(next=Instant(T0 + 90 * 60 * SECOND))
    assert next_instants(moved, T0, 3) == [T0 + 90 * 60 * SECOND, T0 + 2 * HOUR, T0 + 3 * HOUR]
    assert next_instants(schedule(policy='{"max_runs":3}', run_count=1), T0, 5) == [T0 + HOUR, T0 + 2 * HOUR]
    assert next_instants(schedule(policy='{"max_runs":3}', run_count=3), T0, 5) == []
    for nothing in ({"state": "paused"}, {"next": None}, {"trigger": "{}"}, {"policy": "[]"}):
        assert next_instants(schedule(**nothing), T0, 5) == []


def test_a_schedule_that_was_spoilt_by_hand_is_shown() -> None:
    spoilt = schedule(trigger='{"type":"cron"}', policy="[]", payload='{"token":"abc"}', state="broken", note="why")
    shape = schedule_shape(spoilt, "UTC")
    assert (shape["status"], shape["note"]) == ("broken", "why")
    assert shape["reads_as"].startswith("cannot be read: timezone must be text"), "and why"
    assert shape["payload"] == {"token": MASK}


@pytest.mark.parametrize("result", [None, "5", "[]", '"text"'])
def test_a_message_without_words_is_still_a_message(result: str | None) -> None:
    run = make_work("echo").claim.run._replace(result=result)
    assert message_shape(run, "UTC")["channel"] == "inbox"
    assert once().definition.kind == "job"


def test_only_what_is_in_hands_is_taken_until_then() -> None:
    run = make_work("echo").claim.run._replace(expires=T0, holder=None)
    assert run_shape(run, {}, "UTC")["taken_until"] is None
    assert run_shape(run._replace(holder="ada"), {}, "UTC")["taken_until"] == "2027-01-15T08:00:00+00:00"
