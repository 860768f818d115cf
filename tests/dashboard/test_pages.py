"""The pages of the dashboard: what keeps them to themselves, and how they show what strangers wrote."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from duetime.dashboard.filters import is_web_address, visible
from duetime.dashboard.filters import linked as linked_text
from duetime.engine.store import RunQuery
from duetime.service.distribution import documentation
from tests.support.browsing import (
    Browser,
    field,
    filled,
    found,
    made,
    page_of,
    signed_in,
    signed_in_as,
    words,
    working,
)
from tests.support.cli import ROOT
from tests.support.drafts import once
from tests.support.web import Site, site
from tests.support.workers import eventually

PAGES = [
    "/",
    "/timeline",
    "/timeline?span=7d",
    "/schedules",
    "/new",
    "/new?kind=prompt",
    "/new?kind=notification",
    "/inbox",
    "/dead-letters",
    "/settings",
    "/connect",
    "/help",
    "/preferences",
]


def test_every_page_keeps_to_itself(served: Site, local: Browser) -> None:
    schedule = made(served, "a page of its own")
    for path in [*PAGES, page_of(schedule), page_of(schedule, "edit"), page_of(schedule, "delete"), "/schedules/none"]:
        headers = local.get(path).headers
        policy = headers["content-security-policy"]
        assert {each.strip() for each in policy.split(";")} == {
            "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'",
            "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'",
        }, path  # fmt: skip
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    sign_in = served.ask("GET", "/").headers
    assert sign_in["content-security-policy"].startswith("default-src 'none'")


def test_no_page_has_a_script_or_a_style_of_its_own(served: Site, local: Browser) -> None:
    """The policy would keep them from running; none is written in the first place."""
    schedule = made(served, "plain")
    for path in [*PAGES, page_of(schedule), page_of(schedule, "edit"), page_of(schedule, "cancel")]:
        page = local.get(path).body.decode()
        assert re.findall(r"<script[^>]*>([^<]*)", page) == [""], path
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", page), path
        addresses = re.findall(r'(?:src|href|action)="([^"]*)"', page)
        assert all(address.startswith(("/", "#")) or address == documentation() for address in addresses), path


def test_every_form_brings_its_proof_along(served: Site, local: Browser) -> None:
    """In the form itself: without a script there is nothing that could add it."""
    schedule = made(served, "with forms")
    local.send(page_of(schedule, "run"), {})
    [run] = served.room.store.runs(RunQuery(schedule=schedule.definition.id)).items
    asked = local.send("/schedules", [("id", schedule.definition.public_id), ("action", "cancel")])
    of_schedule = [page_of(schedule, *more) for more in ([], ["edit"], ["cancel"], ["delete"])]
    actions = set()
    form = re.compile(r'<form [^>]*method="post" action="([^"]+)"[^>]*>(.*?)</form>', re.DOTALL)
    for reply in (*map(local.get, [*PAGES, *of_schedule, f"/runs/{run.id}"]), asked):
        page = reply.body.decode()
        proof, forms = re.search('name="csrf" content="([0-9a-f]+)"', page), form.findall(page)
        assert proof is not None
        assert all(f'name="csrf" value="{proof[1]}"' in inner for _, inner in forms), [action for action, _ in forms]
        actions |= {action for action, _ in forms}
    changing = {page_of(schedule, each) for each in ("edit", "pause", "run", "cancel", "delete")}
    assert actions >= {"/sign-out", "/preferences", "/new", "/schedules", f"/runs/{run.id}/cancel", *changing}


def test_a_page_may_be_read_in_another_zone(served: Site) -> None:
    schedule = made(served, "in Berlin", ("cron", {"expression": "0 9 * * *", "timezone": "Europe/Berlin"}))
    tokyo = signed_in(served, "Asia/Tokyo").text(page_of(schedule))
    assert "Times in Asia/Tokyo" in tokyo
    assert "09:00 Europe/Berlin" in tokyo, "and beside it the schedule's own clock"
    assert "Times in UTC" in signed_in(served, "Nowhere/Land").text("/")


@pytest.mark.later
def test_every_page_is_the_same_on_postgresql(tmp_path: Path, clean_postgres_url: str) -> None:
    with site(tmp_path, db=clean_postgres_url) as there:
        browser = signed_in(there)
        schedule = made(there, "on PostgreSQL")
        with working(there):
            browser.follow(browser.send(page_of(schedule, "run"), {}))
            eventually(lambda: "completed" in browser.text(page_of(schedule)), 20, "it ran")
        for path in [*PAGES, page_of(schedule, "edit"), page_of(schedule, "delete"), "/runs/1"]:
            assert browser.get(path).status == 200, path
        assert "on PostgreSQL" in browser.text("/schedules?text=postgres&kind=job&status=pending")
        for odd in (
            "/schedules?text=%00",
            "/schedules?owner=%00%ff",
            "/inbox?topic=%00",
            "/timeline?owner=%00",
            "/dead-letters?text=%00&page=x",
        ):
            assert browser.get(odd).status == 200, odd
        for odd in ("/schedules?status=%00", "/schedules?cursor=%00", "/inbox?cursor=x"):
            assert browser.get(odd).status == 422, odd
        assert browser.get("/schedules/%00").status == 404


HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 401), ("/schedules/x/y/z", 404), ("/mcp", 401)])
def test_who_strays_in_a_browser_is_told_by_a_page(served: Site, local: Browser, path: str, status: int) -> None:
    page = local.get(path, **HTML)
    assert (page.status, "There is no page at this address" in words(page)) == (status, True)
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    program = local.get(path, Accept="*/*")
    assert program.status == status
    assert not program.headers["content-type"].startswith("text/html")
    assert page.headers.get("www-authenticate") == program.headers.get("www-authenticate")


def test_programs_read_problems_and_pages_refuse_as_pages(local: Browser) -> None:
    assert local.get("/api/v1/nowhere", **HTML).headers["content-type"] == "application/problem+json"
    assert "Not found There is no such schedule." in words(local.get("/schedules/none", **HTML))


def test_without_tokens_one_can_stray_as_well(tmp_path: Path) -> None:
    with site(tmp_path, auth=False) as there:
        page = there.ask("GET", "/nowhere", HTML)
    assert (page.status, "There is no page at this address" in words(page)) == (404, True)


def test_static_files_are_kept_by_their_version(served: Site) -> None:
    page = served.ask("GET", "/login").body.decode()
    for address in re.findall(r'"(/static/[^"]+)"', page):
        reply = served.ask("GET", address)
        assert reply.status == 200
        assert "immutable" in reply.headers["cache-control"]
        assert reply.headers["content-security-policy"] == "default-src 'none'", "a drawing opened alone runs nothing"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert served.ask("GET", address.partition("?")[0]).headers["cache-control"] == "no-cache"
    for name in ("../routes.py", "..%2froutes.py", "duetime.css.map"):
        assert served.ask("GET", f"/static/{name}").status in (401, 404)


@pytest.mark.later
def test_the_wheel_holds_the_pages(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    source = ROOT / "src"
    folders = [source / "duetime" / "dashboard" / "static", *(source / "duetime").rglob("templates")]
    files = [path for folder in folders for path in folder.iterdir()]
    assert len(folders) > 5 and len(files) > 20
    assert {path.relative_to(source).as_posix() for path in files} <= names


# -- what strangers wrote ---------------------------------------------------------------------------------------------


def test_text_is_text_whatever_it_looks_like(served: Site) -> None:
    nasty = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}'
    browser = signed_in_as(served, "stranger")
    schedule = made(served, nasty, owner="stranger")
    own = [page_of(schedule, *more) for more in ((), ("edit",), ("delete",))]
    for path in ("/", "/schedules", "/timeline", *own):
        reply = browser.get(path)
        assert "<script>alert" not in reply.body.decode(), path
        assert "<img src=x" not in reply.body.decode(), path
        assert nasty in words(reply), path
    assert field(browser.get(own[1]), "name") == nasty


def test_letters_that_hide_or_turn_text_around_are_shown(served: Site, local: Browser) -> None:
    name = "pay \u202e100\u202c to\u200b \x1b[31mbob\U000e0041"
    schedule = made(served, name)
    page = local.text("/schedules")
    assert "pay ⟨U+202E⟩100⟨U+202C⟩ to⟨U+200B⟩ ⟨U+001B⟩[31mbob⟨U+E0041⟩" in page
    assert "\u202e" not in page
    assert field(local.get(page_of(schedule, "edit")), "name") == name, "a form sends back what is stored"
    assert visible("a\tb\nc") == "a\tb\nc"


@pytest.mark.parametrize(
    ("address", "linked"),
    [
        ("https://example.org/a?b=c#d", True),
        ("http://127.0.0.1:8080/", True),
        ("javascript:alert(1)", False),
        ("JaVaScRiPt:alert(1)", False),
        ("data:text/html,x", False),
        ("//example.org", False),
        ("https://", False),
        ("https://exa mple.org", False),
        ("https://example.org/\u202e", False),
        ('https://example.org/"onclick="x', False),
        ("vbscript:x", False),
        ("https:example.org", False),
        ("http://[::1", False),
        ("see https://example.org", False),
    ],
)
def test_only_addresses_of_the_web_are_links(address: str, linked: bool) -> None:
    assert is_web_address(address) == linked
    assert ("<a " in linked_text(address)) == linked


def test_a_link_leads_away_without_a_trace(served: Site, local: Browser) -> None:
    payload = {"message": "look", "topic": "links", "click": "https://example.org/x"}
    schedule = made(served, "with a link", kind="notification", payload=payload)
    page = local.get(page_of(schedule)).body.decode()
    assert '<a href="https://example.org/x" rel="noopener noreferrer nofollow">' in page


def test_secrets_are_hidden_and_survive_an_edit(served: Site, local: Browser) -> None:
    kwargs = {"value": {"api_token": "s3cret", "password": "hunter2", "city": "Berlin"}}
    schedule = made(served, "with secrets", payload={"task": "echo", "kwargs": kwargs})
    for path in (page_of(schedule), page_of(schedule, "edit")):
        page = local.get(path).body.decode()
        assert "s3cret" not in page
        assert "hunter2" not in page
        assert "Berlin" in page
    form = filled(local, schedule)
    form["arg-json-value"] = form["arg-json-value"].replace("Berlin", "Paris")
    local.follow(local.send(page_of(schedule, "edit"), form))
    stored = json.loads(found(served, schedule).definition.payload)
    assert stored["kwargs"]["value"] == {"api_token": "s3cret", "password": "hunter2", "city": "Paris"}


def test_headers_of_a_request_are_not_shown_at_all(served: Site, local: Browser) -> None:
    payload = {
        "url": "https://example.org/hook",
        "method": "POST",
        "headers": {"X-Anything": "private", "Accept": "*/*"},
    }
    schedule = made(served, "a request", kind="request", payload=payload)
    assert "X-Anything" in local.text(page_of(schedule))
    edit = local.get(page_of(schedule, "edit"))
    for page in (local.get(page_of(schedule)), edit):
        assert "private" not in page.body.decode()
    form = filled(local, schedule)
    form["payload"] = form["payload"].replace("/hook", "/other")
    local.follow(local.send(page_of(schedule, "edit"), form))
    stored = json.loads(found(served, schedule).definition.payload)
    assert stored["url"] == "https://example.org/other"
    assert stored["headers"] == {"X-Anything": "private", "Accept": "*/*"}


def test_what_a_request_hides_is_shown_neither_with_it_nor_with_its_callback(served: Site, local: Browser) -> None:
    payload = {"url": "https://example.org/hook", "method": "POST", "body": "hush", "redact": ["body"]}
    source = made(served, "hides", kind="request", payload={**payload, "headers": {"X-Anything": "private"}})
    about = {"payload": source.definition.payload, "result": None}
    told = json.dumps({"url": "https://example.org/cb", "method": "POST", "about": about})
    [(callback, _)] = served.room.store.create([once(kind="request", owner="local", payload=told)])
    for schedule in (source, callback):
        for path in (page_of(schedule), page_of(schedule, "edit")):
            page = local.get(path).body.decode()
            assert "hush" not in page and "private" not in page
    assert "REDACTED:" in local.text(page_of(callback))
    form = filled(local, source)
    form["payload"] = form["payload"].replace("/hook", "/other")
    local.follow(local.send(page_of(source, "edit"), form))
    stored = json.loads(found(served, source).definition.payload)
    assert (stored["url"], stored["body"]) == ("https://example.org/other", "hush")
