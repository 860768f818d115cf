"""The inbox: messages as Markdown, read and dismissed; prompts answered, dismissed and handed to an agent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from duetime.dashboard.templates import markdown
from duetime.engine.kind import Caller
from duetime.engine.store import RunQuery
from duetime.settings import AgentSettings
from tests.support.browsing import Browser, made, signed_in, signed_in_as, working
from tests.support.browsing import found as as_it_is
from tests.support.web import Site, site
from tests.support.workers import eventually

NOW = ("once", {"run_at": "now"})


@pytest.fixture(params=["sqlite", "postgres"])
def inbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """Three equal messages and an urgent one have arrived, and a prompt waits."""
    db = request.getfixturevalue("clean_postgres_url") if request.param == "postgres" else ""
    agents = {"scribe": AgentSettings(type="command", command=("cat",))}
    with site(tmp_path, db=db, agents=agents) as there:
        with working(there):
            for number in range(3):
                said = {"message": f"**Build {number}**", "topic": "builds", "title": "Done"}
                made(there, "Done", NOW, kind="notification", payload=said)
            urgent = {"message": "Call back", "topic": "me", "priority": 5, "tags": ["phone", "garden"]}
            made(there, "urgent", NOW, kind="notification", payload=urgent)
            made(there, "mail", NOW, kind="prompt", payload={"prompt": "Read my *mail*", "agent": "inbox"})
            done = RunQuery(kind="notification", status="completed", count_to=9)
            eventually(lambda: there.room.store.runs(done).total == 4, 20, "all arrived")
            eventually(lambda: there.room.store.runs(RunQuery(status="waiting")).items, 20, "the prompt waits")
        yield there


def act(browser: Browser, pattern: str) -> str:
    """Press the first button whose value matches, and return the text of the page that follows."""
    found = re.search(rf'name="do" value="({pattern}:[\d,]+)"', browser.get("/inbox").body.decode())
    assert found is not None, pattern
    return browser.follow(browser.send("/inbox", {"do": found[1]}))


def test_messages_are_grouped_marked_and_dismissed(inbox: Site) -> None:
    browser = signed_in(inbox)
    page = browser.get("/inbox").body.decode()
    assert page.count('<article class="message unread"') == 2 and "3\u00d7" in page
    assert "<strong>Build 2</strong>" in page and "Urgent" in page
    assert "Unread (4)" in browser.text("/inbox")
    assert "1 item marked as read" in act(browser, "read") and "Unread (3)" in browser.text("/inbox")
    assert "No messages for this topic." in browser.text("/inbox?topic=elsewhere")
    assert "3 items marked as read" in browser.follow(browser.send("/inbox", {"all": "read"}))
    assert "No unread messages." in browser.text("/inbox?show=unread")
    assert "1 item resolved" in act(browser, "resolve")
    assert "Call back" not in browser.text("/inbox") and "Build" in browser.text("/inbox")
    assert inbox.room.store.runs(RunQuery(kind="notification", status="completed")).total == 4, "the history keeps it"
    dismissed = browser.get("/inbox?show=dismissed").body.decode()
    found = re.search(r'name="do" value="(reopen:\d+)"', dismissed)
    assert "Call back" in dismissed and found is not None
    assert "1 item reopened" in browser.follow(browser.send("/inbox", {"do": found[1], "back": "show=dismissed"}))
    assert "No resolved messages." in browser.text("/inbox?show=dismissed") and "Call back" in browser.text("/inbox")


def test_a_message_names_its_schedule_and_shows_its_tags_as_a_phone_does(inbox: Site) -> None:
    page = signed_in(inbox).get("/inbox").body.decode()
    assert re.search(r'<a href="/schedules/[^"]+">urgent</a>', page) is not None
    assert re.search(r'<a href="/schedules/[^"]+">Schedule</a>', page) is not None, "where the title is the name"
    assert 'aria-label="phone" title="phone">\u260e' in page and '<span class="tag">garden</span>' in page


def test_a_message_about_a_run_leads_to_that_run(inbox: Site) -> None:
    said = {"message": "The disk is full", "topic": "me", "tags": ["rotating_light", "run-7"]}
    with working(inbox):
        made(inbox, "backup failed", NOW, kind="notification", payload=said)
        done = RunQuery(kind="notification", status="completed", count_to=9)
        eventually(lambda: inbox.room.store.runs(done).total == 5, 20, "it arrived")
    page = signed_in(inbox).get("/inbox").body.decode()
    assert 'about <a href="/runs/7">run 7</a>' in page and '<span class="tag">run-7' not in page


def test_what_belongs_to_others_is_neither_read_nor_answered(inbox: Site) -> None:
    stranger = signed_in_as(inbox, "ada")
    [message, *_] = inbox.room.store.runs(RunQuery(kind="notification")).items
    [prompt] = inbox.room.store.runs(RunQuery(status="waiting")).items
    assert "Nothing was resolved." in stranger.follow(stranger.send("/inbox", {"do": f"dismiss:{message.id}"}))
    for action, fields in (("answer", {"answer": "x"}), ("wake", {"agent": "scribe"}), ("dismiss", {})):
        assert stranger.send(f"/waiting/{prompt.id}/{action}", fields).status == 404
    run = inbox.room.store.run(prompt.id)
    assert run is not None and (run.status, run.holder) == ("waiting", None)


def test_a_waiting_prompt_is_dismissed_from_any_page(inbox: Site) -> None:
    browser = signed_in(inbox)
    [prompt] = inbox.room.store.runs(RunQuery(status="waiting")).items
    reply = browser.send(f"/waiting/{prompt.id}/dismiss", {"to": "/"})
    assert reply.headers["location"] == "/?did=dismissed"
    run = inbox.room.store.run(prompt.id)
    assert run is not None and run.status == "cancelled"


def test_a_waiting_prompt_is_answered_by_a_person(inbox: Site) -> None:
    browser = signed_in(inbox)
    [prompt] = inbox.room.store.runs(RunQuery(status="waiting")).items
    page = browser.get("/inbox").body.decode()
    assert "Read my <em>mail</em>" in page and "Wake scribe now" in page
    assert browser.send(f"/waiting/{prompt.id}/answer", {"answer": "  "}).status == 422
    assert browser.send(f"/waiting/{prompt.id}/answer", {"answer": "x" * 20_001}).status == 422, "it is not cut"
    assert browser.send(f"/waiting/{prompt.id}/explode", {}).status == 404
    assert "Answered." in browser.follow(browser.send(f"/waiting/{prompt.id}/answer", {"answer": "Nothing new."}))
    run = inbox.room.store.run(prompt.id)
    assert run is not None and (run.status, json.loads(run.result or "")) == ("completed", {"text": "Nothing new."})
    assert browser.send(f"/waiting/{prompt.id}/answer", {"answer": "again"}).status == 409


def test_an_agent_is_woken_for_a_waiting_prompt(inbox: Site) -> None:
    browser = signed_in(inbox)
    [prompt] = inbox.room.store.runs(RunQuery(status="waiting")).items
    assert browser.send(f"/waiting/{prompt.id}/wake", {"agent": "nobody"}).status == 422
    with working(inbox):
        reply = browser.send(f"/waiting/{prompt.id}/wake", {"agent": "scribe"})
        assert reply.headers["location"] == f"/runs/{prompt.id}?did=woken"
        ended = RunQuery(ids=(prompt.id,), status="completed")
        eventually(lambda: inbox.room.store.runs(ended).items, 20, "the agent answered")
    assert "Waiting for an agent" not in browser.text("/inbox")


def test_waking_an_agent_for_a_run_with_its_own_input_keeps_the_input_of_the_schedule(inbox: Site) -> None:
    browser = signed_in(inbox)
    prompt = made(inbox, "daily", kind="prompt", payload={"prompt": "Read the news", "agent": "inbox"})
    own = {"prompt": "Read only page 7", "agent": "inbox"}
    started = inbox.room.scheduler.run_with(Caller("local"), prompt, own)
    run = started
    with working(inbox):
        eventually(lambda: inbox.room.store.runs(RunQuery(ids=(run.id,), status="waiting")).items, 20, "it waits")
        assert browser.send(f"/waiting/{run.id}/wake", {"agent": "scribe"}).status == 303
        eventually(lambda: inbox.room.store.runs(RunQuery(ids=(run.id,), status="completed")).items, 20, "answered")
    payload = json.loads(as_it_is(inbox, prompt).definition.payload)
    assert (payload["prompt"], payload["agent"]) == ("Read the news", "scribe")
    ended = inbox.room.store.run(run.id)
    assert ended is not None and "Read only page 7" in (ended.result or ""), "the run keeps its own input"


@pytest.mark.parametrize(
    ("text", "made_of_it"),
    [
        ("**bold** [log](https://example.org)", '<a href="https://example.org" rel="noopener noreferrer nofollow">'),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("[x](data:text/html,hi)", "[x](data:text/html,hi)"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("![x](https://example.org/x.png)", '!<a href="https://example.org/x.png"'),
        ("# Heading", '<p class="md-heading">Heading</p>'),
        ("```python\nx\n```", "<pre><code>x"),
        ("to \u202egnp.exe", "⟨U+202E⟩"),
        ("x" * 30_000, '<div class="plain-text">xxx'),
    ],
)
def test_markdown_has_no_active_parts_but_safe_links(text: str, made_of_it: str) -> None:
    shown = str(markdown(text))
    assert made_of_it in shown
    assert not re.search(r"<(script|img|h1)|style=|href=\"(?!https?:|mailto:)", shown)


def test_markdown_cannot_ask_for_thousands_of_cells() -> None:
    table = "\n".join(["|a" * 256, "|-" * 256, *["|"] * 256])
    assert len(str(markdown(table))) < 5 * len(table)
