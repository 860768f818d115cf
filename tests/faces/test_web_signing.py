"""How one gets into the dashboard and out of it, and what a cookie is good for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest
from starlette.routing import Route

from duetime.core.clock import SECOND, instant_of
from duetime.faces.http.sessions import Sessions
from duetime.faces.http.tokens import InvalidToken, Tokens
from duetime.simulation import SettableClock
from tests.support.browsing import (
    FORM,
    Browser,
    cookie_of,
    made,
    page_of,
    signed_in,
    signed_in_as,
    words,
)
from tests.support.tokens import SECRET
from tests.support.web import ACCEPT, INITIALIZE, Site, site


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture(scope="module")
def local(served: Site) -> Browser:
    return signed_in(served)


# -- signing in -------------------------------------------------------------------------------------------------------


def test_a_link_signs_in_once(served: Site) -> None:
    link = Sessions(served.tokens, served.room.clock).link()
    looked = served.ask("HEAD", f"/login?token={link}")
    assert (looked.status, "set-cookie" in looked.headers) == (200, False), "to look where it leads uses up nothing"
    reply = served.ask("GET", f"/login?token={link}")
    assert (reply.status, reply.headers["location"]) == (303, "/")
    assert (reply.headers["referrer-policy"], reply.headers["cache-control"]) == ("no-referrer", "no-store")
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    assert cookie.startswith(f"duetime_session_{served.port}=")
    assert Browser(served, cookie_of(reply)).get("/").status == 200
    again = served.ask("GET", f"/login?token={link}")
    assert (again.status, "The link was used before." in words(again)) == (401, True)
    assert link not in again.body.decode()


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_behind_tls_the_cookie_stays_there(served: Site, scheme: str) -> None:
    link = Sessions(served.tokens, served.room.clock).link()
    reply = served.ask("GET", f"/login?token={link}", {"X-Forwarded-Proto": scheme})
    assert ("Secure" in reply.headers["set-cookie"]) == (scheme == "https")


def test_a_link_ends_after_ten_minutes_and_cannot_be_forged(tmp_path: Path) -> None:
    clock = SettableClock(instant_of(datetime(2026, 3, 1, tzinfo=UTC)))
    sessions = Sessions(Tokens(SECRET, tmp_path, clock, issuer="duetime", audience="duetime"), clock)
    late, good = sessions.link(), sessions.link()
    assert sessions.verify(sessions.by_link(good)).operator
    clock.jump(timedelta(minutes=10))
    with pytest.raises(InvalidToken, match="older than 10 minutes"):
        sessions.by_link(late)
    head, nonce, proof = sessions.link().split(".")
    longer, other = f"{int(head, 16) + 60:x}.{nonce}.{proof}", f"{head}.{'0' * 16}.{proof}"
    for forged in (longer, other, "", "a.b.c", f"{head}.{nonce}"):
        with pytest.raises(InvalidToken, match="no link of this server"):
            sessions.by_link(forged)


def test_a_session_ends_by_its_time(tmp_path: Path) -> None:
    clock = SettableClock(instant_of(datetime(2026, 3, 1, tzinfo=UTC)))
    tokens = Tokens(SECRET, tmp_path, clock, issuer="duetime", audience="duetime")
    sessions = Sessions(tokens, clock)
    short = sessions.by_token(tokens.issue("ada", 3600 * SECOND))
    long = sessions.by_link(sessions.link())
    clock.jump(timedelta(hours=1))
    with pytest.raises(InvalidToken, match="expired"):
        sessions.verify(short)
    assert sessions.verify(long).owner == "local"
    clock.jump(timedelta(days=14))
    with pytest.raises(InvalidToken, match="expired"):
        sessions.verify(long)


def test_without_a_session_one_is_told_how_to_get_one(served: Site) -> None:
    for path in ("/", "/timeline", "/schedules/job_1_1", "/runs/1"):
        reply = served.ask("GET", path)
        assert reply.status == 401
        assert "duetime token link" in words(reply)
        assert f'name="goal" value="{path}"' in reply.body.decode()


def test_a_pasted_token_signs_in_with_its_own_rights(served: Site) -> None:
    mine, theirs = made(served, "of the team", owner="team"), made(served, "somebody else's", owner="bob")
    browser = signed_in_as(served, "ada", owner="team", timezone="Asia/Tokyo")
    page = browser.text("/schedules")
    assert "of the team" in page
    assert "somebody else's" not in page
    assert "Asia/Tokyo" in page
    assert browser.get(page_of(mine)).status == 200
    missing = browser.get(page_of(theirs))
    assert missing.status == 404
    assert words(missing) == words(browser.get("/schedules/nothing")), "as what does not exist"
    assert "worker" not in browser.text("/").replace("No worker is running", "")


@pytest.mark.parametrize(
    "goal", ["//evil.example", "https://evil.example", "/\\evil.example", "/mcp", "", "/schedules//x"]
)
def test_nobody_is_sent_elsewhere_after_signing_in(served: Site, goal: str) -> None:
    token = served.tokens.issue("ada", 3600 * SECOND)
    reply = served.ask("POST", "/login", FORM, urlencode({"token": token, "goal": goal}).encode())
    assert (reply.status, reply.headers["location"]) == (303, "/")


def test_one_gets_to_where_one_wanted_to(served: Site) -> None:
    token = served.tokens.issue("ada", 3600 * SECOND)
    reply = served.ask("POST", "/login", FORM, urlencode({"token": f" Bearer {token}\n", "goal": "/inbox"}).encode())
    assert (reply.status, reply.headers["location"]) == (303, "/inbox")


def test_what_is_no_token_opens_nothing(served: Site) -> None:
    run_token = served.tokens.for_run("ada", 1, 1, 1, 3600 * SECOND, "UTC")
    served.tokens.is_under_way = lambda _run, _fence: True
    for given in ("", "nonsense", "a.b.c", "x" * 9000, run_token):
        reply = served.ask("POST", "/login", FORM, urlencode({"token": given}).encode())
        assert (reply.status, "set-cookie" in reply.headers) == (401, False)
        assert not given or given not in reply.body.decode()
    assert served.ask("POST", "/login", {"Content-Type": "application/json"}, b"{}").status == 403


def test_signing_out_ends_the_session_and_not_only_the_cookie(served: Site) -> None:
    browser = signed_in(served)
    reply = browser.send("/sign-out", {})
    assert (reply.status, reply.headers["location"]) == (303, "/login")
    assert "Max-Age=0" in reply.headers["set-cookie"]
    assert browser.get("/").status == 401


def test_a_session_ends_with_the_token_that_it_came_from(served: Site) -> None:
    token = served.tokens.issue("ada", 3600 * SECOND)
    browser = Browser(served, cookie_of(served.ask("POST", "/login", FORM, urlencode({"token": token}).encode())))
    assert browser.get("/").status == 200
    served.tokens.revoke(served.tokens.verify(token).id)
    assert browser.get("/").status == 401


# -- what a cookie is good for ----------------------------------------------------------------------------------------


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
        re.sub(r"{[a-z]+:int}", "1", route.path) for route in routes if not route.path.startswith(("/v2", "/login"))
    ]
    assert {"/new", "/schedules", "/sign-out", "/dead-letters"} <= set(found)
    return [re.sub(r"{[a-z]+}", "pause", path) for path in found]


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
    assert "pending" in local.text(page_of(schedule))


def test_forms_of_our_own_pages_are_taken(served: Site, local: Browser) -> None:
    schedule = made(served, "goes")
    for headers in (
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},  # as browsers send it from a page without a referrer
        {"Origin": f"http://127.0.0.1:{served.port}", "Sec-Fetch-Site": "same-origin"},
        {"Origin": f"http://127.0.0.1:{served.port}"},
    ):
        assert local.send(page_of(schedule, "pause"), {}, headers).status == 303


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
