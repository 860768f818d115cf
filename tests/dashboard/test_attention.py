"""What needs attention on the first page: failures until a later run completes, and missed ones until dismissed."""

from __future__ import annotations

import re

import pytest

from duetime.engine.clock import HOUR, MINUTE
from duetime.engine.kind import Caller
from duetime.engine.model import Run, Schedule
from duetime.engine.store import RunQuery
from duetime.kinds.jobs.registry import Task
from duetime.service.operations import overview
from tests.support.browsing import Browser, made, page_of, signed_in_as, working
from tests.support.drafts import every
from tests.support.refusals import refusal_of
from tests.support.web import Site
from tests.support.workers import eventually

ECHO = '{"task": "echo", "args": ["x"], "kwargs": {}}'


class Shop:
    """A task that fails while it is closed."""

    def __init__(self) -> None:
        self.is_open = False

    def ping(self) -> str:
        """Ping the shop."""
        if not self.is_open:
            raise ConnectionError("the shop is closed")
        return "open"


@pytest.fixture(scope="module")
def shop(served: Site) -> Shop:
    shop = Shop()
    served.room.registry.add(Task(shop.ping, name="ping"))
    return shop


def pinging(served: Site, name: str, owner: str) -> Schedule:
    return made(served, name, owner=owner, payload={"task": "ping"}, policy={"max_attempts": 1})


def run_now(served: Site, browser: Browser, schedule: Schedule) -> None:
    browser.send(page_of(schedule, "run"), {})
    eventually(lambda: not runs(served, schedule.definition.owner, "live"), 20, "it ran")


def runs(served: Site, owner: str, status: str) -> list[Run]:
    return served.room.store.runs(RunQuery(owner=owner, status=status)).items


def attention(browser: Browser) -> str:
    page = browser.text("/")
    return page.partition("Needs attention")[2].partition("successful,")[0]


def test_a_failure_that_a_later_run_heals_needs_no_attention(served: Site, shop: Shop) -> None:
    browser, schedule = signed_in_as(served, "healing"), pinging(served, "Ping the shop", "healing")
    with working(served):
        shop.is_open = False
        run_now(served, browser, schedule)
        assert "Failing" in attention(browser) and "Ping the shop" in attention(browser)
        shop.is_open = True
        run_now(served, browser, schedule)
        assert attention(browser) == ""
        assert len(runs(served, "healing", "dead")) == 1, "it can still be retried"
        assert "the shop is closed" in browser.text("/dead-letters")
        shop.is_open = False
        run_now(served, browser, schedule)
        assert "Ping the shop" in attention(browser), "it fails again"


def test_what_still_fails_is_not_hidden_by_newer_failures_that_were_healed(
    served: Site, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "LOOKED_AT", 1)
    browser = signed_in_as(served, "hidden")
    broken, healed = pinging(served, "still broken", "hidden"), pinging(served, "well again", "hidden")
    with working(served):
        shop.is_open = False
        run_now(served, browser, broken)
        run_now(served, browser, healed)
        shop.is_open = True
        run_now(served, browser, healed)
    monkeypatch.setattr(overview, "LOOKED_AT", 1)
    assert "still broken" in attention(browser) and "well again" not in attention(browser)
    [first] = [run for run in runs(served, "hidden", "dead") if run.name == "still broken"]
    browser.send(f"/runs/{first.id}/dismiss", {})
    assert attention(browser) == ""


def test_an_incident_is_resolved_and_reopened_by_its_owner_alone(served: Site, shop: Shop) -> None:
    browser, schedule = signed_in_as(served, "keeper"), pinging(served, "Ping <the> shop", "keeper")
    with working(served):
        shop.is_open = False
        for _ in range(3):
            run_now(served, browser, schedule)
    [incident] = served.room.store.incidents("keeper", 10)
    assert re.search(r"Failing failed Ping <the> shop j\d+ 3 times, first .* the shop is closed", attention(browser))
    page = browser.get("/").body.decode()
    resolve = f"/attention/incident-{incident.id}/resolve"
    assert f'formaction="{resolve}" aria-label="Resolve: Ping &lt;the&gt; shop"' in page
    assert f'href="/runs/{incident.run}"' in page and f'formaction="/runs/{incident.run}/retry"' in page
    stranger = signed_in_as(served, "nosy")
    assert stranger.send(resolve, {"to": "/"}).status == 404 and attention(stranger) == ""
    reply = browser.send(resolve, {"to": "/"})
    assert "Resolved; it stays in the history." in browser.follow(reply) and attention(browser) == ""
    [resolved] = served.room.store.incidents("keeper", 10)
    assert resolved.due is None and resolved.actor is not None and "dashboard" in resolved.actor
    key = reply.headers["location"].partition("undo=")[2]
    assert "Undone." in browser.follow(browser.send("/undo", {"undo": key, "to": "/"}))
    assert "Ping <the> shop" in attention(browser)
    assert browser.send(f"/attention/incident-{incident.id}/burn", {}).status == 404


def test_what_was_selected_is_resolved_at_once_and_undone(served: Site, shop: Shop) -> None:
    browser = signed_in_as(served, "several")
    now = served.room.clock.now()
    off = every(HOUR, now - 9 * HOUR, end=now - HOUR, owner="several", name="was off", catch_up="skip")
    served.room.store.create([off])
    with working(served):
        shop.is_open = False
        for name in ("one shop", "another shop"):
            run_now(served, browser, pinging(served, name, "several"))
        eventually(lambda: runs(served, "several", "missed"), 20, "it was missed")
    keys = re.findall(r'type="checkbox" name="key" value="([^"]+)"', browser.get("/").body.decode())
    assert len(keys) == 3
    selected = "/attention/selected/resolve"
    assert "Select at least one item first." in browser.follow(browser.send(selected, {}))
    assert signed_in_as(served, "nosy").send(selected, [("key", key) for key in keys]).status == 404
    reply = browser.send(selected, [("key", key) for key in keys])
    assert "Resolved; it stays in the history." in browser.follow(reply) and attention(browser) == ""
    key = reply.headers["location"].partition("undo=")[2]
    assert "Undone." in browser.follow(browser.send("/undo", {"undo": key, "to": "/"}))
    assert all(name in attention(browser) for name in ("one shop", "another shop", "was off"))


def test_a_missed_run_is_dismissed_and_restored(served: Site) -> None:
    now = served.room.clock.now()
    served.room.store.create(
        [every(HOUR, now - 9 * HOUR, end=now - HOUR, owner="missing", name="was off", catch_up="skip")]
    )
    with working(served):
        eventually(lambda: runs(served, "missing", "missed"), 20, "it was missed")
    browser, [run] = signed_in_as(served, "missing"), runs(served, "missing", "missed")
    assert "was off" in attention(browser) and "Resolve" in attention(browser)
    reply = browser.send(f"/runs/{run.id}/dismiss", {"to": "/"})
    assert attention(browser) == ""
    assert "resolved" in browser.text(f"/runs/{run.id}") and "missed" in browser.text(f"/runs/{run.id}")
    key = reply.headers["location"].partition("undo=")[2]
    assert "Undone." in browser.follow(browser.send("/undo", {"undo": key, "to": "/"}))
    assert "was off" in attention(browser)
    headers = served.bearer("missing")
    assert served.ask("POST", f"/api/v1/dead/{run.id}/dismiss", headers).status == 200, "as on every interface"
    assert attention(browser) == ""
    scheduler = served.room.scheduler
    scheduler.dismiss(Caller("missing"), run.id, undo=True)
    refusal_of(lambda: scheduler.dismiss(Caller("nosy"), run.id))


def test_a_missed_run_that_a_later_run_makes_up_for_needs_no_attention(served: Site, shop: Shop) -> None:
    now = served.room.clock.now()
    served.room.store.create(
        [every(HOUR, now - 9 * HOUR - MINUTE, owner="late", name="goes on", catch_up="skip", payload=ECHO)]
    )
    with working(served):
        eventually(lambda: runs(served, "late", "missed"), 20, "it was missed")
        browser = signed_in_as(served, "late")
        assert "goes on" in attention(browser)
        [schedule] = _schedules(served, "late")
        run_now(served, browser, schedule)
        assert runs(served, "late", "completed") and attention(browser) == ""


def test_the_first_page_links_to_further_missed_runs_although_one_was_made_up_for(
    served: Site, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = served.room.clock.now() - 9 * HOUR - MINUTE
    names = ("first", "second", "third")
    served.room.store.create(
        [every(HOUR, begin, owner="thrice", name=name, catch_up="skip", payload=ECHO) for name in names]
    )
    browser = signed_in_as(served, "thrice")
    with working(served):
        eventually(lambda: len(runs(served, "thrice", "missed")) == len(names), 20, "all were missed")
        run_now(served, browser, _schedules(served, "thrice")[0])
    monkeypatch.setattr(overview, "LOOKED_AT", 2)
    assert "Missed all" in attention(browser)


def _schedules(served: Site, owner: str) -> list[Schedule]:
    found = [served.room.store.get(run.schedule) for run in runs(served, owner, "missed")]
    return [each for each in found if each is not None]
