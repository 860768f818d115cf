"""Deliveries of other services: who is accepted, what they are answered, and what their secret does not open."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

import pytest

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.errors import LimitReached, StoreUnavailable
from duetime.engine.kind import Caller
from duetime.http import hooks as receiver
from duetime.http.bodies import MOST_BYTES
from duetime.security.webhook_signatures import SCHEMES
from duetime.service.operations.hooks import MOST_DELIVERIES, PREFIX, CreateHook, create_hook
from duetime.service.services import Call
from tests.support import workers
from tests.support.browsing import FORM, signed_in
from tests.support.web import ACCEPT, Reply, Site, paths, site
from tests.support.webhooks import sign


def eventually(holds: Callable[[], bool]) -> None:
    workers.eventually(holds, 20, "what was to happen")


SIGNED = [each for each in SCHEMES if each != "url"]
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def there(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    databases = request.getfixturevalue("clean_databases") if request.param == "postgres" else None
    with (
        nullcontext("") if databases is None else databases.lend() as db,
        site(tmp_path_factory.mktemp("site"), db=db, body_timeout=1.0) as made,
    ):
        yield made


class Sender:
    """A service that knows the secret of one hook."""

    def __init__(self, there: Site, scheme: str, owner: str = "ada") -> None:
        self.there, self.scheme, self.bearer = there, scheme, there.bearer(owner)
        self.name = f"{scheme}{len(there.room.store.hooks(None, 1000))}"
        given = json.dumps({"name": self.name, "scheme": scheme}).encode()
        made = there.ask("POST", "/api/v1/hooks", {**self.bearer, **JSON}, given)
        assert made.status == 201, made.body
        self.id, self.secret = made.json["id"], made.json["secret"]
        self.path = f"/hooks/{self.id}" + (f"/{self.secret}" if scheme == "url" else "")

    def send(self, data: Any, id: str = "msg_1", late: int = 0, **headers: str) -> Reply:
        """Send a delivery, signed as many microseconds ago as it is late."""
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        now = Instant(self.there.room.clock.now() - late)
        signed = sign(self.scheme, self.secret, id, body, now)
        return self.there.ask("POST", self.path, {**JSON, **signed, **headers}, body)

    def view(self) -> Any:
        [view] = [
            each for each in self.there.ask("GET", "/api/v1/hooks", self.bearer).json["hooks"] if each["id"] == self.id
        ]
        return view

    def rows(self, number: int) -> list[dict[str, Any]]:
        """Return the deliveries that are listed, once there are so many."""
        eventually(lambda: len(self.view()["deliveries"]) >= number)
        found: list[dict[str, Any]] = self.view()["deliveries"]
        return found


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_delivery_is_an_event_and_a_repeated_one_is_the_same_event(there: Site, scheme: str) -> None:
    sender = Sender(there, scheme)
    first = sender.send({"type": "deploy.done", "id": "evt_1"})
    assert (first.status, first.json["duplicate"]) == (202, False), first.body
    again = sender.send({"type": "deploy.done", "id": "evt_1"})
    assert (again.status, again.json) == (202, {"event_id": first.json["event_id"], "duplicate": True})
    other = sender.send({"type": "deploy.done", "id": "evt_2", "more": 1}, id="msg_2")
    assert other.json["event_id"] != first.json["event_id"] and not other.json["duplicate"]
    name = {"github": ".push", "standard": ".deploy.done", "stripe": ".deploy.done"}.get(scheme, "")
    rows = sender.rows(3)
    assert [row["event"] for row in rows] == [f"{sender.name}{name}"] * 3
    assert [row["duplicate"] for row in rows] == [False, True, False]
    assert sender.view()["last_used"] == rows[0]["at"]


@pytest.mark.parametrize("scheme", SIGNED)
def test_what_is_not_signed_with_the_secret_is_refused(there: Site, scheme: str) -> None:
    sender, body = Sender(there, scheme), b'{"id": "evt_1"}'
    signed = sign(scheme, sender.secret, "msg_1", body, there.room.clock.now())
    for headers, sent in ((JSON, body), ({**JSON, **signed}, body + b" "), ({**JSON, **signed}, b"")):
        refused = there.ask("POST", sender.path, headers, sent)
        assert refused.status == 401 and "secret" in refused.json["error"], refused.body
        assert sender.secret not in refused.body.decode()
    [row] = sender.rows(1)
    eventually(lambda: sender.view()["deliveries"][0].get("count") == 3)
    assert row["status"] == 401 and "event" not in row and sender.view()["last_used"] is None
    assert there.ask("POST", f"{sender.path}/{sender.secret}", {**JSON, **signed}, body).status == 404


@pytest.mark.parametrize("scheme", ["standard", "stripe"])
def test_an_old_delivery_is_refused(there: Site, scheme: str) -> None:
    sender = Sender(there, scheme)
    for late in (6 * MINUTE, -6 * MINUTE):
        refused = sender.send({"id": "evt_1"}, late=late)
        assert refused.status == 401 and "5 minutes" in refused.json["error"]
    assert sender.send({"id": "evt_1"}, late=4 * MINUTE).status == 202


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_hook_without_a_secret_accepts_nothing(there: Site, scheme: str) -> None:
    call = Call(there.room.services, Caller("ada"), "UTC")
    id = create_hook(call, CreateHook(name=f"none_{scheme}", scheme=scheme, has_secret=False)).value["id"]
    signed = sign("hmac" if scheme == "standard" else scheme, "", "msg_1", b"{}", there.room.clock.now())
    for path in (f"/hooks/{id}", f"/hooks/{id}/", f"/hooks/{id}/x"):
        assert there.ask("POST", path, {**JSON, **signed}, b"{}").status in (401, 404)
    assert there.ask("POST", f"/hooks/{id}", {**JSON, **signed}, b"{}").status == 401


def test_a_secret_address_is_unknown_without_its_secret(there: Site) -> None:
    sender = Sender(there, "url")
    for path in (f"/hooks/{sender.id}", f"/hooks/{sender.id}/", f"/hooks/{sender.id}/{sender.secret[:-1]}"):
        assert there.ask("POST", path, JSON, b"{}").status == 404, path
    assert there.ask("POST", f"/hooks/{sender.id}/%C3%A9", JSON, b"{}").status == 404
    assert sender.send({}).status == 202
    assert [row["event"] for row in sender.rows(1)] == [sender.name], "who guesses fills no list"


@pytest.mark.parametrize("id", ["x", PREFIX, f"{PREFIX}{'0' * 32}", "%00", "hook_1%2F..", "é", "a" * 5000])
def test_an_unknown_hook_is_not_found(there: Site, id: str) -> None:
    reply = there.ask("POST", f"/hooks/{id.encode('unicode_escape').decode()}", JSON, b"{}")
    assert (reply.status, reply.json) == (404, {"error": "There is no such hook."})


def test_a_hook_is_only_posted_to(there: Site) -> None:
    sender = Sender(there, "github")
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS"):
        assert there.ask(method, sender.path).status in (404, 405), method
    page = signed_in(there).get(sender.path, Accept="text/html")
    assert page.status in (404, 405)


def test_a_body_may_have_256_kib(there: Site) -> None:
    sender = Sender(there, "standard")
    frame = len(json.dumps({"text": ""}))
    assert sender.send({"text": "x" * (MOST_BYTES - frame)}).status == 202
    refused = sender.send({"text": "x" * (MOST_BYTES - frame + 1)}, id="msg_2")
    assert refused.status == 413 and str(MOST_BYTES) in refused.json["error"]
    assert there.ask("POST", "/hooks/none", JSON, b"x" * (MOST_BYTES + 1)).status == 413


def test_a_slow_body_is_given_up(there: Site) -> None:
    sender = Sender(there, "standard")
    with socket.create_connection(("127.0.0.1", there.port), timeout=30) as line:
        head = f"POST {sender.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n" + "{"
        line.sendall(head.encode())
        answer = line.recv(65536)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert sender.send({}).status == 202, "others are served meanwhile"


@pytest.mark.parametrize(
    ("content_type", "body", "data"),
    [
        ("application/x-www-form-urlencoded", urlencode({"payload": '{"ref": "main"}'}).encode(), {"ref": "main"}),
        ("application/x-www-form-urlencoded; charset=utf-8", b"a=1&b=&a=2", {"a": "2", "b": ""}),
        ("application/json", b"[1, 2]", {"value": [1, 2]}),
        ("application/json", b"", {}),
        ("text/plain", "grüße".encode(), {"text": "grüße"}),
        ("application/octet-stream", b"\xff\x00", {"text": "\ufffd\x00"}),
        ("application/x-www-form-urlencoded", b"a&" * 2000, {"text": "a&" * 2000}),
        ("application/json", b"[" * 40_000, {"text": "[" * 40_000}),
    ],
)
def test_any_body_is_data(content_type: str, body: bytes, data: dict[str, Any]) -> None:
    assert receiver.data_of(content_type, body) == data


def test_a_body_with_too_many_values_is_refused(there: Site) -> None:
    reply = Sender(there, "url").send(b"[" + b"1," * 60_000 + b"1]")
    assert reply.status == 413 and "values" in reply.json["error"]


def test_a_store_that_is_away_is_said_and_the_retry_is_one_event(there: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    sender, store = Sender(there, "github"), there.room.store
    assert sender.send({"n": 0}).status == 202
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "emit", _fail(StoreUnavailable("/secret/path is gone")))
        away = sender.send({"n": 1})
    assert (away.status, away.headers["retry-after"]) == (503, "1") and b"/secret" not in away.body
    later = sender.send({"n": 1})
    assert (later.status, later.json["duplicate"]) == (202, False)
    assert sender.send({"n": 1}).json == {"event_id": later.json["event_id"], "duplicate": True}


def test_an_answer_that_was_lost_is_repeated_as_one_event(there: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event is stored, but its sender hears of nothing and sends it again."""
    sender, store = Sender(there, "github"), there.room.store
    emit = type(store).emit

    def lose(self: Any, *arguments: Any) -> None:
        emit(self, *arguments)
        raise StoreUnavailable("the connection broke")

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "emit", lose)
        assert sender.send({"n": 1}).status == 503
    assert sender.send({"n": 1}).json["duplicate"]


def test_too_many_events_are_answered_with_429(there: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = Sender(there, "hmac")
    limit = LimitReached("the limit of 20,000 events a minute is reached; wait", code="too_many_requests")
    with monkeypatch.context() as patch:
        patch.setattr(type(there.room.store), "emit", _fail(limit))
        refused = sender.send({})
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    [row] = sender.rows(1)
    assert row["status"] == 429 and "20,000" in row["error"]


def _fail(error: Exception) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


def test_a_new_secret_replaces_the_old_one(there: Site) -> None:
    sender = Sender(there, "standard")
    assert sender.send({}, id="msg_1").status == 202
    made = there.ask("POST", f"/api/v1/hooks/{sender.id}/rotate", {**sender.bearer, **JSON}, b"{}")
    assert made.status == 200 and made.json["secret"] != sender.secret
    eventually(lambda: sender.send({}, id="msg_2").status == 401)
    sender.secret = made.json["secret"]
    assert sender.send({}, id="msg_3").status == 202
    assert there.ask("DELETE", f"/api/v1/hooks/{sender.id}", sender.bearer).status == 204
    eventually(lambda: sender.send({}, id="msg_4").status == 404)


def test_keys_of_one_hook_say_nothing_about_those_of_another(there: Site) -> None:
    one, other = Sender(there, "hmac"), Sender(there, "url")
    first = one.send({}, id="same").json
    assert not first["duplicate"] and not other.send({}, id="same").json["duplicate"]


def test_many_deliveries_list_the_latest(there: Site) -> None:
    sender = Sender(there, "url")
    for number in range(25):
        assert sender.send({}, id=f"key {number}").status == 202
    eventually(lambda: len(sender.view()["deliveries"]) == MOST_DELIVERIES)
    ids = [row["event_id"] for row in sender.view()["deliveries"]]
    assert ids == sorted(ids, reverse=True)


def test_refused_deliveries_displace_none_that_was_accepted(there: Site) -> None:
    sender = Sender(there, "github")
    assert sender.send({}).status == 202
    for _ in range(MOST_DELIVERIES + 2):
        assert there.ask("POST", sender.path, JSON, b"{}").status == 401
    eventually(lambda: sum(row.get("count", 1) for row in sender.view()["deliveries"]) == MOST_DELIVERIES + 3)
    view = sender.view()
    assert len(view["deliveries"]) == 2 and view["last_used"] is not None


SPARED = re.compile(r"/hooks/.*|/healthz|/readyz|/static/.*|/login|/\.well-known/.*|/api/openapi\.json|/calendar/.*")
"""Paths that anybody may read, or that are the hook's own."""


@pytest.mark.parametrize(
    "scheme", ["github", *(pytest.param(each, marks=pytest.mark.later) for each in ("standard", "url"))]
)
def test_the_secret_and_the_id_open_nothing_else(there: Site, scheme: str) -> None:
    sender = Sender(there, scheme)
    body = b"{}"
    signed = sign(scheme, sender.secret, "msg_1", body, there.room.clock.now())
    words = (sender.id, sender.secret)
    tried = 0
    for path in sorted(set(paths(list(there.app.routes)))):
        if SPARED.fullmatch(path):
            continue
        for word in words:
            filled = re.sub(r"\{[^}]+\}", word, path)
            for headers in (
                {"Authorization": f"Bearer {word}", **signed},
                {"Authorization": f"Basic {word}", **signed},
                {"Cookie": f"duetime_session_{there.port}={word}", "X-CSRF-Token": word, **FORM, **signed},
            ):
                for method in ("GET", "POST", "DELETE"):
                    reply = there.ask(method, filled, {**ACCEPT, **headers}, None if method == "GET" else body)
                    assert reply.status in (401, 403, 404, 405), (method, filled, headers, reply.status)
                    tried += 1
    assert tried > 500
    for word in words:
        assert there.ask("GET", f"/calendar/{word}.ics").status == 404
        assert there.ask("GET", f"/login?token={word}").status != 303
        assert there.ask("POST", "/login", FORM, urlencode({"token": word}).encode()).status != 303


def test_a_token_is_no_signature(there: Site) -> None:
    sender = Sender(there, "github")
    assert there.ask("POST", sender.path, {**sender.bearer, **JSON}, b"{}").status == 401
    assert there.ask("POST", sender.path, {**there.bearer("root", scopes=["operator"]), **JSON}, b"{}").status == 401


def test_guessing_ids_does_not_slow_a_known_hook(there: Site) -> None:
    sender = Sender(there, "url")
    assert sender.send({}).status == 202
    lines = [HTTPConnection("127.0.0.1", there.port, timeout=30) for _ in range(40)]
    try:
        for number, line in enumerate(lines):
            line.request("POST", f"/hooks/{PREFIX}{number:032x}", b"{}", JSON)
        assert sender.send({}, id="msg_2").status == 202
        assert {line.getresponse().status for line in lines} <= {404, 429}
    finally:
        for line in lines:
            line.close()
