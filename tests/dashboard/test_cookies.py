"""What a browser may do with its cookie, and what is asked of it besides."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from starlette.routing import Route

from duetime.http.sessions import Proofs, Sessions
from tests.support.browsing import (
    FORM,
    Browser,
    made,
    page_of,
    signed_in,
    words,
)
from tests.support.tokens import SECRET, MemoryRevocations, tokens_with
from tests.support.web import ACCEPT, INITIALIZE, Site, site


def test_a_cookie_opens_neither_mcp_nor_what_programs_use(served: Site, local: Browser) -> None:
    assert served.post(INITIALIZE, local.headers).status == 401
    for path in ("/mcp", "/v2/schedules", "/v2/messages/x", "/metrics", "/api/openapi.json", "/nowhere"):
        assert local.get(path).status == 401, path


def test_a_session_is_no_bearer_token_and_a_bearer_token_no_session(served: Site, local: Browser) -> None:
    name, _, session = local.cookie.partition("=")
    assert served.post(INITIALIZE, {"Authorization": f"Bearer {session}"}).status == 401
    assert served.ask("GET", "/api/v1/whoami", {"Authorization": f"Bearer {session}"}).status == 401
    token = served.bearer()["Authorization"].split()[1]
    assert Browser(served, f"{name}={token}").get("/").status == 401


def test_the_api_takes_a_cookie_and_for_changes_a_proof(served: Site, local: Browser) -> None:
    assert local.get("/api/v1/whoami").json["owner"] == "local"
    body = json.dumps({"trigger": {"type": "cron", "expression": "0 9 * * *"}}).encode()
    as_json = {**local.headers, "Content-Type": "application/json"}
    refused = served.ask("POST", "/api/v1/preview", as_json, body)
    assert (refused.status, refused.headers["content-type"]) == (403, "application/problem+json")
    other = signed_in(served).proof()
    assert served.ask("POST", "/api/v1/preview", {**as_json, "X-CSRF-Token": other}, body).status == 403
    proven = {**as_json, "X-CSRF-Token": local.proof()}
    assert served.ask("POST", "/api/v1/preview", proven, body).status == 200
    foreign = {**proven, "Sec-Fetch-Site": "same-site"}
    assert served.ask("POST", "/api/v1/preview", foreign, body).status == 403


def posts(served: Site) -> list[str]:
    """Every address that takes a form, found from the application's own routes."""
    routes = [route for route in served.app.routes if isinstance(route, Route) and "POST" in (route.methods or ())]
    found = [
        re.sub(r"{[a-z]+:int}", "1", route.path)
        for route in routes
        if not route.path.startswith(("/v2", "/api", "/login", "/hooks"))
    ]
    assert {"/new", "/schedules", "/sign-out", "/dead-letters"} <= set(found)
    return [re.sub(r"{[a-z]+}", "pause", path) for path in found]


def test_a_proof_is_known_to_whoever_has_the_secret_and_to_nobody_else(served: Site, tmp_path: Path) -> None:
    def proofs(secret: bytes) -> Proofs:
        return Proofs(tokens_with(MemoryRevocations(), tmp_path / "auth", served.room.clock, secret))

    proof = proofs(SECRET).of("a session")
    assert Proofs(served.tokens).fits("a session", proof), "in every process, and after a restart"
    assert not proofs(SECRET).fits("another session", proof)
    assert not proofs(b"y" * 64).fits("a session", proof)
    assert not Proofs(None).fits("a session", Proofs(None).of("a session")), "where there is no secret, one of its own"


def test_no_form_does_anything_without_its_proof(served: Site, local: Browser) -> None:
    other = signed_in(served).proof()
    for path in posts(served):
        for proof in ("", "x", other, "0" * 64):
            reply = local.send(path, {"csrf": proof, "action": "pause", "id": "1"})
            assert (reply.status, "out of date" in words(reply)) == (403, True), (path, proof)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://localhost:1", "Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "none"},
    ],
    ids=str,
)
def test_forms_of_other_origins_are_refused_even_with_a_proof(
    served: Site, local: Browser, headers: dict[str, str]
) -> None:
    schedule = made(served, "stays")
    for path in (page_of(schedule, "pause"), "/login", "/sign-out"):
        assert local.send(path, {}, headers).status == 403, path
    assert "scheduled" in local.text(page_of(schedule))


def test_forms_of_our_own_pages_are_taken(served: Site, local: Browser) -> None:
    schedule = made(served, "goes")
    for headers in (
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},  # as browsers send it from a page without a referrer
        {"Origin": f"http://127.0.0.1:{served.port}", "Sec-Fetch-Site": "same-origin"},
        {"Origin": f"http://127.0.0.1:{served.port}"},
    ):
        assert local.send(page_of(schedule, "pause"), {}, headers).status == 303


def test_from_another_machine_over_plain_http_forms_work_as_well(tmp_path: Path) -> None:
    """There browsers send no Sec-Fetch-Site; with a referrer policy that sends nothing, they would send no Origin."""
    with site(tmp_path, hosts=("duetime.example",)) as there:
        browser, host = signed_in(there), {"Host": "duetime.example"}
        browser.cookie = browser.cookie.replace(f"_{there.port}", "")
        assert there.ask("GET", "/", {**host, **browser.headers}).headers["referrer-policy"] == "same-origin"
        secured = there.ask("GET", "/", {**host, "X-Forwarded-Proto": "https"})
        assert secured.headers["referrer-policy"] == "no-referrer"
        schedule = made(there, "from afar")
        proof = Proofs(there.tokens).of(session_of(there, browser))
        for origin, expected in (("http://duetime.example", 303), ("http://duetime.example:81", 403), ("null", 403)):
            headers = {**host, "Origin": origin}
            assert browser.send(page_of(schedule, "pause"), {"csrf": proof}, headers).status == expected, origin


def session_of(there: Site, browser: Browser) -> str:
    return Sessions(there.tokens, there.room.clock).verify(browser.cookie.partition("=")[2]).id


def test_what_is_no_form_is_refused(served: Site, local: Browser) -> None:
    for content_type, body in (
        ("multipart/form-data; boundary=x", b"--x--"),
        ("text/plain", b"a=b"),
        (FORM["Content-Type"], b"\xff"),
    ):
        reply = served.ask("POST", "/new", {**local.headers, "Content-Type": content_type}, body)
        assert reply.status == 415


def test_without_tokens_nobody_signs_in_but_forms_are_still_proven(tmp_path: Path) -> None:
    with site(tmp_path, auth=False) as open_site:
        browser = Browser(open_site)
        assert "Sign out" not in browser.text("/")
        assert "Workers" in browser.text("/"), "whoever reaches this address is the one who runs it"
        assert open_site.ask("GET", "/login?token=x").headers["location"] == "/"
        schedule = made(open_site, "here")
        assert browser.send(page_of(schedule, "pause"), {"csrf": "x"}).status == 403
        assert browser.send(page_of(schedule, "pause"), {}, {"Sec-Fetch-Site": "cross-site"}).status == 403
        assert browser.send(page_of(schedule, "pause"), {}).status == 303
        body, as_json = (
            json.dumps({"trigger": {"type": "interval", "hours": 1}}).encode(),
            {"Content-Type": "application/json"},
        )
        assert open_site.ask("POST", "/api/v1/preview", as_json, body).status == 200, "a program"
        own = {**as_json, "Sec-Fetch-Site": "same-origin"}
        assert open_site.ask("POST", "/api/v1/preview", own, body).status == 403, "a browser without a proof"
        assert open_site.ask("POST", "/api/v1/preview", {**own, "X-CSRF-Token": browser.proof()}, body).status == 200
        assert open_site.post(INITIALIZE, ACCEPT).status == 200
