"""Credentials are taken out of what is kept and logged of a failure, in every form in which a text may quote them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib import parse

import pytest

from duetime.engine import redaction
from duetime.engine.kind import Caller
from duetime.engine.outcome import Alert, Cancelled, Completed, Failed, Outcome, Retry, Returned
from duetime.engine.redaction import (
    mask_text,
    masked,
    redacted,
    redacted_outcome,
    redacted_trace,
    remember_secrets,
    secrets_in,
    secrets_of,
)
from duetime.kinds.jobs.registry import Registry
from duetime.security.redaction import secrets_of as secrets_of_settings
from duetime.settings import Settings
from duetime.settings.sections import AgentSettings, ChannelSettings, NotificationSettings
from duetime.testing import Simulation
from tests.support.stage import NOON, Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(str(tmp_path / "my.db"))
    yield made
    made.time.close()


KEY = "s3cr3t/va lue+'\"é"
PAYLOADS: list[Any] = [
    {"kwargs": {"api_key": KEY}},
    {"args": [{"nested": [{"password": KEY}]}]},
    {"headers": {"Authorization": f"Bearer {KEY.replace(' ', '')}"}},
    {"body": json.dumps({"password": KEY})},
    {"body_base64": base64.b64encode(json.dumps({"token": KEY}).encode()).decode()},
    {"credentials": ["first-one", KEY]},
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_what_a_run_was_given_is_not_quoted(payload: Any) -> None:
    for key in (KEY, KEY.replace(" ", "")):
        for quoted in (key, repr(key), json.dumps(key), str(payload)):
            secrets = secrets_of(json.dumps(payload))
            if any(key in secret for secret in secrets):
                assert "s3cr3t" not in redacted(f"cannot sign in with {quoted}", secrets)


@pytest.mark.parametrize(
    "address",
    [
        "https://ada:hunter2hunter2@example.org/x",
        "https://example.org/x?token=hunter2hunter2&page=2",
        "postgresql://ada:hunter2hunter2@db/x",
        "https://example.org/?sig=hunter2hunter2",
    ],
)
def test_the_credentials_of_an_address_are_not_quoted(address: str) -> None:
    secrets = secrets_of(json.dumps({"task": f"fetch('{address}')"}))
    assert "hunter2hunter2" in secrets
    shown = redacted(f"{address} answered 401: hunter2hunter2 is wrong", secrets)
    assert "hunter2hunter2" not in shown
    assert "answered 401" in shown


def test_what_is_no_credential_stays() -> None:
    payload = json.dumps({"task": "report", "kwargs": {"max_tokens": 5, "city": "Berlin", "pass": "no"}})
    words = "KeyError: 'token' of Berlin; 5 tries"
    assert redacted(words, secrets_of(payload)) == words


OUTCOMES: list[Outcome] = [
    Failed("hunter2hunter2", result=json.dumps({"said": "hunter2hunter2", "token": "other"})),
    Retry("hunter2hunter2", 5, json.dumps({"body": base64.b64encode(b"hunter2hunter2").decode()})),
    Cancelled("hunter2hunter2"),
    Returned("hunter2hunter2", alert=Alert("key", "hunter2hunter2", "hunter2hunter2")),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda each: type(each).__name__)
def test_no_part_of_a_failure_quotes_it(outcome: Outcome) -> None:
    shown = redacted_outcome(outcome, json.dumps({"kwargs": {"password": "hunter2hunter2"}}))
    assert type(shown) is type(outcome)
    assert "hunter2hunter2" not in str(shown)
    assert base64.b64encode(b"hunter2hunter2").decode() not in str(shown)


@pytest.mark.parametrize("outcome", [Failed("x" * 9_000), Retry("x" * 9_000), Cancelled("x" * 9_000)])
def test_no_reason_that_is_stored_is_long(outcome: Failed | Retry | Cancelled) -> None:
    shown = redacted_outcome(outcome, "{}")
    assert len(shown.reason if isinstance(shown, Cancelled) else shown.error) == 2_000


def test_what_came_of_a_success_is_its_owners() -> None:
    done = Completed(json.dumps("hunter2hunter2"))
    assert redacted_outcome(done, json.dumps({"kwargs": {"password": "hunter2hunter2"}})) is done


def test_a_trace_with_its_causes_quotes_nothing() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    payload = json.dumps({"kwargs": {"password": "hunter2hunter2"}})
    try:
        try:
            raise ValueError("hunter2hunter2 first")
        except ValueError as error:
            raise RuntimeError("hunter2hunter2 then") from error
    except RuntimeError as error:
        trace = redacted_trace(error, payload)
    assert "first" in trace
    assert "then" in trace
    assert "hunter2hunter2" not in trace.replace('"hunter2hunter2', "")  # the source lines of this very test
    assert redacted_trace(Broken(), payload)


def test_the_credentials_of_the_process_are_known() -> None:
    settings = Settings(
        db="postgresql://duetime:of-the-database@db/duetime",
        notifications=NotificationSettings(token="tk_of_ntfy", qstash_token="of-qstash"),
        channels={
            "phone": ChannelSettings(url="tgram://123456789:of-telegram/chat"),
            "hook": ChannelSettings(
                url="https://hooks.example.org/services/of-the-path", headers={"X-Api-Key": "of-a-header"}
            ),
        },
        agents={"hook": AgentSettings(secret="of-the-agent")},
    )
    environment = {
        "CRM_API_KEY": "of-the-environment",
        "PGPASSWORD": "of-postgres",
        "HOME": "/home/ada",
        "A_KEY": "of-a-key",
    }
    found = set(secrets_of_settings(settings, environment))
    assert {"of-the-database", "tk_of_ntfy", "of-qstash", "of-the-path", "of-a-header", "of-the-agent"} <= found
    assert {"of-the-environment", "of-postgres", "of-a-key"} <= found
    assert "tgram://123456789:of-telegram/chat" in found
    assert not {"/home/ada", "hooks.example.org", "services"} & found


def test_of_the_address_of_a_store_only_the_password_is_a_secret() -> None:
    """An error has to say which file is locked, or which server does not answer."""
    assert set(secrets_of_settings(Settings(db="/home/ada/.local/share/duetime/duetime.db"), {})) == set()
    url = "postgresql://ada:of-the-database@db.example.org:5432/schedules_of_ada?sslpassword=of-the-key-file"
    assert set(secrets_of_settings(Settings(db=url), {})) == {
        "of-the-database", "ada:of-the-database", "of-the-key-file",
    }  # fmt: skip


def test_the_user_of_an_address_in_the_environment_is_no_secret() -> None:
    """A user named `duetime` must not mask that word in every log and result, as it did in containers."""
    url = "postgresql://duetime:of-the-database@database/duetime"
    secrets = set(secrets_of_settings(Settings(db=url), {"DUETIME_DB": url}))
    assert secrets == {"of-the-database", "duetime:of-the-database"}
    assert redacted(f"duetime.worker: {url}", secrets) == "duetime.worker: postgresql://***@database/duetime"
    assert "sk_live_of_a_shop" in secrets_in("https://sk_live_of_a_shop:@example.org/x")
    assert "ghp_of_a_user" in secrets_in("https://ghp_of_a_user:x-oauth-basic@example.org/x")


@pytest.mark.parametrize("address", ["%s:x-oauth-basic", "%s:api_token", "%s:X", "%s:", "%s"])
def test_the_token_of_an_address_is_a_secret_whatever_stands_in_place_of_the_password(address: str) -> None:
    token = "1971800d4d82861d8f2c"
    payload = json.dumps({"url": f"https://{address % token}@api.example.org/me"})
    assert redacted(f"401: unknown key {token}", secrets_of(payload)) == "401: unknown key ***"


def test_what_was_made_known_is_in_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.engine.redaction._known", set())
    remember_secrets(["of-this-process", "short"])
    assert redacted("of-this-process is short") == "*** is short"
    many = [f"secret-number-{number}" for number in range(3000)]
    assert "of-this-process" not in redacted("of-this-process", many)


def test_what_a_task_raises_is_stored_without_it() -> None:
    registry = Registry()

    @registry.task
    def sign_in(password: str) -> None:
        raise RuntimeError(f"cannot sign in with {password}")

    with Simulation(NOON, registry=registry) as simulation:
        password = {"password": "hunter2hunter2"}
        id = simulation.duetime.schedule("sign_in", kwargs=password, every="1h", max_attempts=2).id
        simulation.advance(timedelta(hours=3))
        app = simulation.duetime.app
        runs = simulation.runs()
        attempts = [attempt for run in runs for attempt in app.store.attempts(run.id)]
        schedule = app.store.find(id)
        assert schedule is not None
        kept = f"{[run.error for run in runs]} {attempts} {schedule.progress}"
    assert "cannot sign in with ***" in kept
    assert "hunter2hunter2" not in kept


def test_what_an_agent_says_of_a_failure_is_stored_without_it(stage: Stage) -> None:
    stage.due("use password=hunter2hunter2")
    caller = Caller("ada", holder="agent")
    taken = stage.app.scheduler.take(caller, "prompt")
    assert taken is not None
    ended = stage.app.scheduler.finish(caller, taken.run.id, Failed("hunter2hunter2 was refused", permanent=True))
    assert ended.error == "*** was refused"


def test_many_credentials_are_spelled_once_for_all_texts_of_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver may answer with hundreds of headers to a request with thousands of credentials."""
    spelled: list[str] = []

    def quote(value: str, **more: str) -> str:
        spelled.append(value)
        return value

    monkeypatch.setattr(redaction, "quote", quote)
    secrets = [f"credential-{number}" for number in range(100)]
    body = base64.b64encode(b"it was credential-7").decode()
    result = {"header": {f"x-{number}": ["seen credential-42 here"] for number in range(100)}, "body": body}
    shown = redacted_outcome(Retry("404", result=json.dumps(result)), json.dumps({"token": secrets}))
    assert shown.result is not None
    read = json.loads(shown.result)
    assert set(map(tuple, read["header"].values())) == {("seen *** here",)}
    assert base64.b64decode(read["body"]) == b"it was ***"
    assert sorted(spelled) == ["credential-4", "credential-42", "credential-7"], (
        "each once, and none that occurs nowhere"
    )


@pytest.mark.parametrize(
    "value",
    ["a/b c-secret", "é'\"secret", "%41%42secret", "%4secret%", "日本語日本語", "a\ud800bsecret", "line-one\nline-two"],
)
def test_a_credential_is_found_in_every_form(value: str) -> None:
    forms = [value, repr(value)[1:-1], json.dumps(value)[1:-1], parse.unquote(value)]
    forms += [parse.quote(value, safe=safe, errors="replace") for safe in ("", "/")]
    for form in forms:
        assert redacted(f"x{form}x", [value]) == "x***x"


@pytest.mark.parametrize(
    "piece", ["a-", "eyJ-", "://", "://a:", "x-token: ", "token=", "bearer ", "https://a:b", '{"a":', "a: "]
)
def test_no_text_takes_long(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    began = time.process_time()
    list(secrets_of(json.dumps({"prompt": text})))
    assert time.process_time() - began < 2


IN_TEXTS = [
    ("https://ada:p@ss-word@example.org/x", "https://***@example.org/x"),
    ("https://ghp_ab12cd34@example.org/x", "https://***@example.org/x"),
    ("password=\"it's me\" and 'token': 'a \"b\" c'", "password=\"***\" and 'token': '***'"),
    (":token => 'abc'", ":token => '***'"),
    ("password=ab#cd and ?token=abc#access_token=def", "password=*** and ?token=***#access_token=***"),
    ("AWS_SECRET_ACCESS_KEY=abc/def+g", "AWS_SECRET_ACCESS_KEY=***"),
    ("Your password:\nhunter2", "Your password:\n***"),
    ("Api-Key: abc def-12", "Api-Key: ***"),
    ("This is the cookie:\nabc12 and more", "This is the cookie:\n*** and more"),
    ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic ***"),
    ("tokens=9f8a7b6c", "tokens=***"),
    ("max_tokens=4096, tokens: 12,345", "max_tokens=4096, tokens: 12,345"),
    ("if token == None", "if token == None"),
    ("password==hunter2X9", "password==***"),
    ("password=>hunter2X9", "password=>***"),
    ("-H 'X-Token: topsecretword'", "-H 'X-Token: ***'"),
    ("Authorization: opensesame", "Authorization: ***"),
]


@pytest.mark.parametrize(("text", "view"), IN_TEXTS)
def test_errors_and_other_texts_are_masked_by_the_same_patterns(text: str, view: str) -> None:
    assert mask_text(text) == masked(text) == view
    assert mask_text(view) == masked(view) == view


@pytest.mark.parametrize(
    ("text", "view"),
    [
        ("invalid password: swordfish", "invalid password: ***"),
        ("Bearer of tokens", "Bearer *** tokens"),
        ("ssh://git@example.org/x", "ssh://***@example.org/x"),
        ("two-factor-auth: on", "two-factor-auth: ***"),
    ],
)
def test_a_plain_word_is_a_credential_in_an_error_and_none_in_prose(text: str, view: str) -> None:
    assert mask_text(text) == view
    assert masked(text) == text
    assert secrets_of(json.dumps({"prompt": text})) == []


@pytest.mark.parametrize("name", ["body", "body_base64", "sourceBody"])
def test_a_body_in_base64_is_read(name: str) -> None:
    body = base64.b64encode(b"password=hunter2hunter2&page=2").decode()
    view = masked({name: body, "other": body})
    assert base64.b64decode(view[name]) == b"password=***&page=2"
    assert view["other"] == body
    assert secrets_of(json.dumps({name: body})) == ["hunter2hunter2"]
    binary = base64.b64encode(b"\xff\xfetoken=").decode()
    assert masked({name: binary}) == {name: binary}


def test_json_within_json_is_read_to_the_same_depth() -> None:
    text = "password=hunter2hunter2"
    for _ in range(12):
        text = f"{'[' * 40}{json.dumps(text)}{']' * 40}"
    assert "hunter2" not in masked(text)
    assert all("hunter2" in secret for secret in secrets_in({"prompt": text})), "and it ends without an exception"
    inner = json.dumps({"prompt": json.dumps([json.dumps(["password=hunter2hunter2"])])})
    assert "hunter2hunter2" in secrets_of(inner)


def test_the_credentials_of_a_link_after_a_name_are_masked() -> None:
    text = "Reset your password: https://example.org/?token=abc&page=2"
    assert masked(text) == text.replace("abc", "***")
    assert secrets_of(json.dumps({"prompt": text.replace("abc", "hunter2")})) == ["hunter2"]
