"""How one gets into the dashboard, and out of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import pytest

from duetime.app import tokens_for_command
from duetime.engine.clock import SECOND, SystemClock, instant_of
from duetime.http.sessions import Sessions
from duetime.security.claims import InvalidToken
from duetime.settings import load_settings
from duetime.testing import SettableClock
from tests.support.browsing import (
    FORM,
    Browser,
    cookie_of,
    field,
    made,
    page_of,
    signed_in,
    signed_in_as,
    words,
)
from tests.support.cli import Cli
from tests.support.tokens import MemoryRevocations, tokens_with
from tests.support.web import Site

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


def test_the_command_line_makes_such_links_for_a_server_that_runs(cli: Cli) -> None:
    link = cli("token", "link", "--port", "1").out.strip()
    address, _, token = link.partition("?token=")
    assert address == "http://127.0.0.1:1/login"
    with tokens_for_command(load_settings()) as tokens:
        sessions = Sessions(tokens, SystemClock())
        assert sessions.verify(sessions.by_link(token)).owner == "local"
    assert "browser" in cli("token", "list").out, "where it can be revoked"


def test_too_many_sign_ins_with_a_token_are_refused_with_what_to_do(served: Site) -> None:
    form = urlencode({"token": served.tokens.issue("mallory", 3600 * 1_000_000)}).encode()
    replies = [served.ask("POST", "/login", FORM, form) for _ in range(61)]
    assert [reply.status for reply in replies] == [303] * 60 + [429]
    assert "has signed in 60 times within an hour" in words(replies[-1])


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_behind_tls_the_cookie_stays_there(served: Site, scheme: str) -> None:
    link = Sessions(served.tokens, served.room.clock).link()
    reply = served.ask("GET", f"/login?token={link}", {"X-Forwarded-Proto": scheme})
    assert ("Secure" in reply.headers["set-cookie"]) == (scheme == "https")


def test_a_link_ends_after_ten_minutes_and_cannot_be_forged(tmp_path: Path) -> None:
    clock = SettableClock(instant_of(datetime(2026, 3, 1, tzinfo=UTC)))
    sessions = Sessions(tokens_with(MemoryRevocations(), tmp_path, clock), clock)
    late, good = sessions.link(), sessions.link()
    assert sessions.verify(sessions.by_link(good)).operator
    clock.jump(timedelta(minutes=10))
    with pytest.raises(InvalidToken, match="older than 10 minutes"):
        sessions.by_link(late)
    head, nonce, proof = sessions.link().split(".")
    longer, other = f"{int(head, 16) + 60:x}.{nonce}.{proof}", f"{head}.{'0' * 16}.{proof}"
    for forged in (longer, other, "", "a.b.c", f"{head}.{nonce}"):
        with pytest.raises(InvalidToken, match="not a sign-in link of this server"):
            sessions.by_link(forged)


def test_a_session_ends_by_its_time(tmp_path: Path) -> None:
    clock = SettableClock(instant_of(datetime(2026, 3, 1, tzinfo=UTC)))
    tokens = tokens_with(MemoryRevocations(), tmp_path, clock)
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


def test_where_one_wanted_to_is_known_to_its_last_word_and_after_a_mistake(served: Site) -> None:
    wanted = "/schedules?status=failed&text=a%20b%26c"
    asked = served.ask("GET", wanted)
    assert field(asked, "goal") == wanted
    mistaken = served.ask("POST", "/login", FORM, urlencode({"token": "nonsense", "goal": wanted}).encode())
    assert (mistaken.status, field(mistaken, "goal")) == (401, wanted)
    token = served.tokens.issue("ada", 3600 * SECOND)
    reply = served.ask("POST", "/login", FORM, urlencode({"token": token, "goal": wanted}).encode())
    assert (reply.status, reply.headers["location"]) == (303, wanted)


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


def test_who_listens_hears_nothing_more_after_signing_out(served: Site) -> None:
    browser = signed_in(served)
    connection = HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.request("GET", "/api/v1/events", headers=browser.headers)
    stream = connection.getresponse()
    assert (stream.status, stream.readline()) == (200, b"retry: 2000\n")
    browser.send("/sign-out", {})
    while stream.readline():
        pass  # until it ends, or the connection's own patience does
    connection.close()
