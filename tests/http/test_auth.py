"""Who comes in over HTTP: tokens, Host and Origin on every route, and what the others hear."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.clock import SECOND, SystemClock
from duetime.http.server import CannotListen, NotLoopback, listen
from tests.support.cli import Cli
from tests.support.size import in_turn
from tests.support.tokens import claims, forged
from tests.support.web import ACCEPT, INITIALIZE, MODERN, Site, paths, site
from tests.support.workers import eventually


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site"), hosts=("duetime.example:8443", "2001:db8::1")) as made:
        yield made


def current(**changes: Any) -> dict[str, Any]:
    now = SystemClock().now() // SECOND
    return claims(**{"iat": now, "exp": now + 3600, **changes})


# -- tokens -----------------------------------------------------------------------------------------------------


def test_with_a_token_one_comes_in(served: Site) -> None:
    reply = served.post(INITIALIZE, served.bearer())
    assert reply.status == 200
    assert reply.message["result"]["serverInfo"]["name"] == "duetime"


def test_the_sign_of_life_needs_no_token(served: Site) -> None:
    reply = served.ask("GET", "/healthz")
    assert (reply.status, reply.json) == (200, {"status": "ok", "service": "duetime"})


def test_without_a_token_one_is_told_how_to_get_one(served: Site) -> None:
    reply = served.post(INITIALIZE)
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == 'Bearer realm="duetime"'
    assert "duetime token issue" in reply.json["error_description"]


BAD = {
    "expired": forged(claims()),
    "wrong issuer": forged(current(iss="somebody")),
    "wrong audience": forged(current(aud="elsewhere")),
    "alg none": forged(current(), algorithm="none", secret=None),
    "HS256": forged(current(), algorithm="HS256"),
    "another secret": forged(current(), secret=b"y" * 64),
    "no expiry": forged(current(exp=None)),
    "tampered": forged(current())[:-8] + "AAAAAAAA",
    "nonsense": "nonsense",
    "two words": "a b",
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("era", [{}, MODERN], ids=["2025-11-25", "2026-07-28"])
def test_a_bad_token_is_refused_with_the_reason(served: Site, kind: str, era: dict[str, str]) -> None:
    reply = served.post(INITIALIZE, {"Authorization": f"Bearer {BAD[kind]}", **era})
    assert reply.status == 401
    assert reply.json["error"] == "invalid_token"
    assert reply.headers["www-authenticate"].startswith('Bearer realm="duetime", error="invalid_token", ')
    assert "Traceback" not in reply.body.decode()


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", "Token abc"])
def test_another_scheme_is_no_token(served: Site, header: str) -> None:
    assert served.post(INITIALIZE, {"Authorization": header}).status == 401


def test_a_revoked_token_is_refused_from_then_on(served: Site) -> None:
    bearer = served.bearer()
    assert served.post(INITIALIZE, bearer).status == 200
    served.tokens.revoke(served.tokens.verify(bearer["Authorization"].split()[1]).id)
    reply = served.post(INITIALIZE, bearer)
    assert (reply.status, reply.json["error_description"]) == (401, "The token was revoked.")


def test_a_stream_ends_when_its_token_is_revoked(served: Site) -> None:
    """Somebody who listens must not go on hearing."""
    bearer = served.bearer()
    session = served.post(INITIALIZE, bearer).headers["mcp-session-id"]
    connection = HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.request("GET", "/mcp", headers={**ACCEPT, **bearer, "Mcp-Session-Id": session})
    stream = connection.getresponse()
    assert stream.status == 200
    ended = threading.Event()

    def read() -> None:
        try:
            stream.read()
        except (OSError, HTTPException):
            pass  # cut off in the middle
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    served.tokens.revoke(served.tokens.verify(bearer["Authorization"].split()[1]).id)
    assert ended.wait(20)
    connection.close()


def test_a_session_belongs_to_the_token_that_opened_it(served: Site) -> None:
    ada, bob = served.bearer("ada"), served.bearer("bob")
    other_of_ada = served.bearer("ada")
    session = {"Mcp-Session-Id": served.post(INITIALIZE, ada).headers["mcp-session-id"]}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    unknown = served.post(ping, {**bob, "Mcp-Session-Id": "0" * 32})
    for other in (bob, other_of_ada):
        for reply in (
            served.post(ping, {**other, **session}),
            served.ask("GET", "/mcp", {**ACCEPT, **other, **session}),
            served.ask("DELETE", "/mcp", {**ACCEPT, **other, **session}),
        ):
            assert (reply.status, reply.json) == (404, unknown.json), "as if it did not exist"
    assert served.post(ping, {**ada, **session}).status == 200


def test_the_owner_and_the_zone_come_from_the_token(served: Site) -> None:
    def call(tool: str, arguments: dict[str, Any], bearer: dict[str, str]) -> Any:
        session = {"Mcp-Session-Id": served.post(INITIALIZE, bearer).headers["mcp-session-id"]}
        message = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }
        return served.post(message, {**bearer, **session}).message["result"]["structuredContent"]

    config = {"name": "n", "task": "echo", "trigger_type": "interval", "trigger_config": {"hours": 1}}
    made = call("schedule_job", config, served.bearer("ada", owner="team", timezone="Asia/Tokyo"))
    assert made["next_run"].endswith("+09:00")
    assert call("job_status", {"job_id": made["job_id"]}, served.bearer("bob", owner="team"))["name"] == "n"
    missing = {"error": f"Job not found: {made['job_id']}"}
    assert call("job_status", {"job_id": made["job_id"]}, served.bearer("ada")) == missing
    assert call("job_status", {"job_id": made["job_id"]}, served.bearer("ada", scopes=["operator"]))["name"] == "n"


# -- Host, Origin and size, on every route ----------------------------------------------------------------------


def every_path(made: Site) -> list[str]:
    found = paths(list(made.app.routes))
    assert {"/healthz", "/readyz", "/metrics", "/mcp", "/api/v1/schedules", "/api/openapi.json"} <= set(found)
    return [*found, "/", "/nowhere"]


def test_another_host_is_refused_on_every_route(served: Site) -> None:
    hosts = ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "[::2]", "", "localhost:x")
    for path, chosen in in_turn(every_path(served), hosts):
        for host in chosen:
            for method in ("GET", "POST"):
                reply = served.ask(method, path, {"Host": host, **served.bearer()})
                assert reply.status in (400, 421), (method, path, host)


def test_another_origin_is_refused_on_every_route(served: Site) -> None:
    origins = ("https://evil.example", "null", "http://localhost.evil.example", "file://localhost", "http://")
    for path, chosen in in_turn(every_path(served), origins):
        for origin in chosen:
            for method in ("GET", "POST"):
                reply = served.ask(method, path, {"Origin": origin, **served.bearer()})
                assert reply.status == 403, (method, path, origin)


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:9", "LOCALHOST.", "[::1]:80", "duetime.example", "[2001:db8::1]"]
)
def test_the_names_that_were_told_to_us_are_answered(served: Site, host: str) -> None:
    assert served.ask("GET", "/healthz", {"Host": host}).status == 200
    assert served.ask("GET", "/healthz", {"Origin": f"http://{host}"}).status == 200


def test_two_hosts_are_none(served: Site) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as raw:
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert raw.recv(100).split()[1] in (b"400", b"421")


def test_every_route_but_the_open_ones_asks_for_a_token(served: Site) -> None:
    opened = {"/healthz": 200, "/readyz": 503, "/login": 200, "/static/{name}": 404}  # no worker lives here
    opened["/calendar/{token}.ics"] = 404  # its token is in its address
    opened |= dict.fromkeys(("/hooks/{id}", "/hooks/{id}/{secret}"), 404)  # deliveries are posted, and signed
    opened["/.well-known/duetime"] = 400  # without a nonce, it proves nothing
    for path in every_path(served):
        assert served.ask("GET", path).status == opened.get(path, 401), path


def test_nobody_is_sent_elsewhere(served: Site) -> None:
    """A redirect would lose the header with the token in some clients."""
    assert served.post(INITIALIZE, served.bearer()).status == 200
    assert served.ask("GET", "/.well-known/oauth-protected-resource").status == 404


def test_a_request_that_is_too_large_is_refused(served: Site) -> None:
    headers = {**ACCEPT, **served.bearer()}
    assert served.ask("POST", "/mcp", headers, b" " * (256 * 1024 + 1)).status == 413
    assert served.ask("POST", "/healthz", headers, b" " * 20_000).status == 413, "less is taken without a token"
    for size, status in ((10_000, 200), (200_000, 413)):
        large = json.dumps({**INITIALIZE, "more": "x" * size})
        assert served.ask("POST", "/mcp", headers, large.encode()).status == status
    assert served.ask("GET", "/healthz").status == 200


def test_a_large_request_in_pieces_is_refused_as_well(served: Site) -> None:
    connection = HTTPConnection("127.0.0.1", served.port, timeout=30)
    piece = b" " * 65536
    try:
        connection.request("POST", "/mcp", iter([piece] * 140), {**ACCEPT, **served.bearer()}, encode_chunked=True)
        assert connection.getresponse().status == 413
    except OSError:
        pass  # the server hung up before the end, which is a refusal too
    finally:
        connection.close()
    assert served.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"jsonrpc": "2.0", "id": 1}'])
def test_nonsense_is_answered_without_a_trace(served: Site, body: bytes) -> None:
    for era in ({}, MODERN):
        reply = served.ask("POST", "/mcp", {**ACCEPT, **era, **served.bearer()}, body)
        assert 400 <= reply.status < 500
        assert b"Traceback" not in reply.body
        assert b"site-packages" not in reply.body
    assert served.ask("GET", "/healthz").status == 200


# -- without tokens ---------------------------------------------------------------------------------------------


def test_without_tokens_everybody_is_local(tmp_path: Path) -> None:
    with site(tmp_path, auth=False) as made:
        assert made.post(INITIALIZE).status == 200
        assert made.ask("GET", "/healthz", {"Host": "evil.example"}).status == 421
        assert made.ask("POST", "/mcp", {"Origin": "http://evil.example"}).status == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - it is refused
def test_without_tokens_only_a_loopback_address_is_listened_on(host: str) -> None:
    with pytest.raises(NotLoopback, match="tokens are needed; leave out --no-auth"):
        listen(host, 0, only_loopback=True)
    listen("localhost", 0, only_loopback=True).close()


def test_the_command_line_refuses_no_auth_elsewhere(cli: Cli) -> None:
    answer = cli("serve", "--no-auth", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - it is refused
    assert answer.code == 2
    assert answer.err == "duetime: 0.0.0.0 can be reached by others, so tokens are needed; leave out --no-auth\n"


def test_a_port_in_use_is_said(cli: Cli) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        answer = cli("serve", "--port", str(port))
    assert answer.code == 1
    assert answer.err == (
        f"duetime: port {port} on 127.0.0.1 is in use by another program; stop it, or choose another one with --port\n"
    )


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.invalid"])
def test_an_address_of_another_machine_is_said(host: str) -> None:
    with pytest.raises(CannotListen, match="not an address of this machine"):
        listen(host, 0)


def test_a_server_stops_though_somebody_listens(tmp_path: Path) -> None:
    with site(tmp_path) as made:
        bearer = made.bearer()
        session = made.post(INITIALIZE, bearer).headers["mcp-session-id"]
        connection = HTTPConnection("127.0.0.1", made.port, timeout=30)
        connection.request("GET", "/mcp", headers={**ACCEPT, **bearer, "Mcp-Session-Id": session})
        assert connection.getresponse().status == 200
    connection.close()
    eventually(lambda: not _answers(made.port), 30, "the port is free again")


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
