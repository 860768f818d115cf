"""A browser without scripts: it keeps cookies, reads pages as text and sends forms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Schedule
from duetime.engine.validation import NewSchedule
from duetime.http.sessions import Sessions
from tests.support.web import Reply, Site

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Browser:
    def __init__(self, site: Site, cookie: str = "", zone: str = "") -> None:
        self.site, self.cookie, self.zone = site, cookie, zone

    @property
    def headers(self) -> dict[str, str]:
        cookies = [self.cookie, f"duetime_zone={self.zone}" if self.zone else ""]
        return {"Cookie": "; ".join(filter(None, cookies))}

    def get(self, path: str, **headers: str) -> Reply:
        return self.site.ask("GET", path, {**self.headers, **headers})

    def text(self, path: str) -> str:
        """Return the text of a page, without its markup."""
        reply = self.get(path)
        assert reply.status == 200, (path, reply.status, reply.body[:300])
        return words(reply)

    def proof(self, path: str = "/new") -> str:
        match = re.search(rb'name="csrf" content="([^"]+)"', self.get(path).body)
        assert match is not None
        return match[1].decode()

    def send(self, path: str, fields: Any, headers: Mapping[str, str] | None = None) -> Reply:
        """Send one of our forms, with a CSRF token unless the fields contain one."""
        pairs = list(fields.items()) if isinstance(fields, Mapping) else list(fields)
        if all(name != "csrf" for name, _ in pairs):
            pairs.append(("csrf", self.proof()))
        return self.site.ask("POST", path, {**self.headers, **FORM, **(headers or {})}, urlencode(pairs).encode())

    def follow(self, reply: Reply) -> str:
        """Return the page after an action."""
        assert reply.status == 303, (reply.status, words(reply))
        return self.text(reply.headers["location"])


def signed_in(site: Site, zone: str = "") -> Browser:
    """Sign in with the link, as an operator."""
    link = Sessions(site.tokens, site.room.clock).link()
    return Browser(site, cookie_of(site.ask("GET", f"/login?token={link}")), zone)


def signed_in_as(site: Site, subject: str, **claims: Any) -> Browser:
    """Sign in with a pasted token."""
    token = site.tokens.issue(subject, 3600 * 1_000_000, **claims)
    return Browser(site, cookie_of(site.ask("POST", "/login", FORM, urlencode({"token": token}).encode())))


@cache
def browser_of(site: Site, owner: str = LOCAL) -> tuple[Browser, str]:
    """Return a browser for all tests of a site, which is signed in, and its CSRF token."""
    browser = signed_in(site, "UTC") if owner == LOCAL else signed_in_as(site, owner)
    return browser, browser.proof("/help")


def cookie_of(reply: Reply) -> str:
    assert reply.status == 303, words(reply)
    return reply.headers["set-cookie"].partition(";")[0]


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def words(reply: Reply) -> str:
    parser = _Words()
    parser.feed(reply.body.decode())
    return " ".join(" ".join(parser.parts).split())


def field(reply: Reply, name: str) -> str:
    """Return the value of a form field."""
    page = reply.body.decode()
    area = re.search(rf'<textarea[^>]* name="{name}"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    if area is not None:
        return unescape(area[1])
    found = re.search(rf'<input[^>]* name="{name}"[^>]* value="([^"]*)"', page)
    assert found is not None, name
    return unescape(found[1])


def chosen(page: str, name: str) -> str:
    """Return the value that a form field would send, including selects."""
    select = re.search(rf'<select[^>]* name="{name}"[^>]*>(.*?)</select>', page, re.DOTALL)
    if select is None:
        return field(Reply(200, {}, page.encode()), name)
    option = re.search(r'value="([^"]*)" selected', select[1]) or re.search(r'value="([^"]*)"', select[1])
    assert option is not None, name
    return unescape(option[1])


def filled(browser: Browser, schedule: Schedule) -> dict[str, str]:
    """Return the edit form of a schedule, as a browser would send it back."""
    whole = browser.get(page_of(schedule, "edit")).body.decode()
    form_part = re.search(r'<form[^>]* id="schedule-form">.*?</form>', whole, re.DOTALL)
    assert form_part is not None
    page = form_part[0]
    names = set(re.findall(r'<(?:input|textarea|select)[^>]* name="([a-z_-]+)"', page))
    form = {name: chosen(page, name) for name in names - {"csrf", "when", "at_most_once"}}
    when = re.search(r'name="when" value="([a-z]+)"[^>]* checked', page)
    return form | ({"when": when[1]} if when else {})


# -- data --------------------------------------------------------------------------------------------------------------

HOURLY = ("interval", {"hours": 1})
ECHO = {"task": "echo", "args": ["hi"]}


def made(
    site: Site, name: str, trigger: tuple[str, dict[str, Any]] = HOURLY, *, owner: str = "local", **more: Any
) -> Schedule:
    kind, payload = more.pop("kind", "job"), more.pop("payload", ECHO)
    result = site.room.scheduler.create(Caller(owner), NewSchedule(kind, name, *trigger, payload, **more))
    return result


def found(site: Site, schedule: Schedule) -> Schedule:
    """Return the current state of a schedule."""
    current = site.room.store.find(schedule.definition.public_id)
    assert current is not None
    return current


def page_of(schedule: Schedule, *more: str) -> str:
    return "/".join(["/schedules", schedule.definition.public_id, *more])


@contextmanager
def working(site: Site) -> Iterator[None]:
    """Run a worker for what is due."""
    engine = site.room.engine()
    engine.start()
    try:
        yield
    finally:
        engine.stop(5)
