"""The page of runs: tabs with counts, filters in the address, and changes of all that match."""

from __future__ import annotations

import json
import re
from urllib.parse import urlencode

import pytest

from duetime.dashboard import runs_page
from duetime.engine.clock import HOUR, MINUTE, SECOND
from duetime.engine.kind import Caller
from duetime.engine.model import RunId
from duetime.engine.outcome import Completed, Failed, Outcome
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.service.operations import history
from duetime.stores.base import BaseStore
from tests.support.browsing import Browser, field, signed_in_as, words
from tests.support.drafts import every
from tests.support.hand import Hand, create
from tests.support.web import Reply, Site

ENDS: dict[str, Outcome] = {
    "import": Failed("ConnectionError: shop.example <b>refused</b>", permanent=True),
    "export": Failed("TimeoutError: 30 s", permanent=True),
    "tidy": Completed('"tidied"'),
}


def filled(site: Site, owner: str) -> dict[str, list[RunId]]:
    """Three jobs that ran twice each, two hours ago and an hour ago; the second run took longer."""
    store, now = site.room.store, site.room.clock.now()
    assert isinstance(store, BaseStore)
    begin = now - 3 * HOUR
    drafts = [every(HOUR, begin, owner=owner, name=name, subject=name, created=begin) for name in ENDS]
    create(store, *drafts)
    hand = Hand(store, f"hand of {owner}", begin)
    runs: dict[str, list[RunId]] = {name: [] for name in ENDS}
    for number in (1, 2):
        due = begin + number * HOUR
        for claim in hand.claim(due):
            runs[claim.definition.name].append(claim.run.id)
            hand.record([claim], due + (number - 1) * MINUTE + SECOND, ENDS[claim.definition.name])
    return runs


def rows(page: Reply) -> list[int]:
    """Return the numbers of the listed runs."""
    return [int(number) for number in re.findall(r'name="run" value="(\d+)"', page.body.decode())]


def tabs(page: Reply) -> dict[str, str]:
    nav = page.body.decode().partition('aria-label="Statuses"')[2].partition("</nav>")[0]
    return dict(re.findall(r'>(\w+) <span class="count">([^<]*)</span>', nav))


def ask(browser: Browser, **filters: str) -> Reply:
    names = {name.rstrip("_"): value for name, value in filters.items()}
    page = browser.get(f"/runs?{urlencode(names)}")
    assert page.status == 200, words(page)
    return page


def test_tabs_and_filters(served: Site) -> None:
    runs = filled(served, "finder")
    browser = signed_in_as(served, "finder")
    newest_first = sorted((id for ids in runs.values() for id in ids), reverse=True)
    page = ask(browser)
    assert rows(page) == newest_first
    assert {name: count for name, count in tabs(page).items() if count != "0"} == {
        "All": "6",
        "Completed": "2",
        "Failed": "4",
    }
    assert "shop.example &lt;b&gt;refused" in page.body.decode(), "an error is text"
    assert '<a href="/runs" data-key="g r" aria-current="page">' in page.body.decode()
    for filters, names in (
        ({"status": "failed"}, ["export", "import"]),
        ({"status": "completed"}, ["tidy"]),
        ({"status": "pending,queued,waiting"}, []),
        ({"error": "SHOP.example <B>"}, ["import"]),
        ({"task": "export"}, ["export"]),
        ({"kind": "prompt"}, []),
        ({"schedule": "tidy"}, ["tidy"]),
        ({"owner": "local"}, ["export", "import", "tidy"]),  # only operators choose among owners
    ):
        expected = sorted((id for name in names for id in runs[name]), reverse=True)
        assert rows(ask(browser, **filters)) == expected, filters
    assert sorted(rows(ask(browser, longer_than="1m"))) == sorted(ids[1] for ids in runs.values())
    assert sorted(rows(ask(browser, shorter_than="59s", status="failed"))) == sorted(
        runs[name][0] for name in ("import", "export")
    )
    assert sorted(rows(ask(browser, from_="90 minutes ago"))) == sorted(ids[1] for ids in runs.values())
    assert sorted(rows(ask(browser, to="90 minutes ago"))) == sorted(ids[0] for ids in runs.values())
    narrow = ask(browser, error="shop", status="failed", to="tomorrow")
    assert tabs(narrow)["All"] == "2", "the tabs count what the filters let through"
    for link in re.findall(r'href="(/runs\?[^"]+)"', narrow.body.decode().partition("</nav>")[2])[:8]:
        assert "error=shop" in link and "to=tomorrow" in link, "a tab keeps the filters"
    assert 'value="shop"' in narrow.body.decode() and "api/v1/runs?status=failed&amp;error=shop" in narrow.body.decode()


def test_a_filter_that_cannot_be_read_is_explained(served: Site) -> None:
    browser = signed_in_as(served, "typist")
    for filters, problem in (
        ({"longer_than": "soon"}, "longer_than"),
        ({"from_": "whenever"}, "from: could not parse"),
        ({"schedule": "nothing"}, "no such schedule"),
        ({"status": "bad"}, "Unknown status: bad"),
        ({"kind": "bad"}, "kind"),
        ({"cursor": "bad"}, "not a cursor"),
    ):
        page = ask(browser, **filters)
        assert problem in words(page), filters
        assert rows(page) == [] and "Correct the filter" in words(page)
    assert "Nothing has run yet." in words(ask(browser))
    assert "No runs match." in words(ask(browser, error="nothing"))


def test_nobody_sees_the_runs_of_others(served: Site) -> None:
    filled(served, "secretive")
    stranger = signed_in_as(served, "stranger")
    [schedule, *_] = served.room.scheduler.search(Caller("secretive"), ScheduleQuery()).items
    for filters in ({}, {"error": "shop"}, {"task": "import"}, {"owner": "secretive"}, {"longer_than": "1s"}):
        page = ask(stranger, **filters)
        assert rows(page) == [] and set(tabs(page).values()) == {"0"}, filters
    assert "no such schedule" in words(ask(stranger, schedule=schedule.definition.public_id))
    form = [("all", "retry"), ("back", "owner=secretive")]
    assert "None of these runs" in stranger.follow(stranger.send("/runs", form))


def test_pages_go_on_and_back(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_page, "PAGE", 4)
    runs = filled(served, "pager")
    browser = signed_in_as(served, "pager")
    first = ask(browser, to="tomorrow")
    link = re.search(r'href="([^"]+)" rel="next"', first.body.decode())
    assert link is not None and "to=tomorrow" in link[1]
    second = browser.get(link[1].replace("&amp;", "&"))
    assert len(rows(first)) == 4 and len(rows(second)) == 2
    assert {*rows(first), *rows(second)} == {id for ids in runs.values() for id in ids}
    assert "6 runs" in words(second) and "Page 2" in words(second)


def test_all_that_match_are_resolved_after_a_list(served: Site) -> None:
    runs = filled(served, "tidy")
    browser = signed_in_as(served, "tidy")
    form = [("all", "resolve"), ("back", "status=failed&error=shop")]
    asked = browser.send("/runs", form)
    assert asked.status == 200
    assert "Resolve 2 runs? 2 runs of 1 schedule" in words(asked) and "2\u00d7 job import" in words(asked)
    assert "export" not in words(asked)
    again = [*form, ("sure", field(asked, "sure"))]
    done = browser.send("/runs", again)
    assert "2 runs resolved." in browser.follow(done)
    assert done.headers["location"].startswith("/runs?status=failed&error=shop&did=resolved&number=2")
    store = served.room.store
    assert sorted(run.id for run in store.runs(RunQuery(owner="tidy", status="dead")).items) == sorted(runs["export"])
    assert words(ask(browser, error="shop")).count("resolved") == 2
    assert "None of these runs can be changed" in browser.follow(browser.send("/runs", form))
    key = done.headers["location"].partition("undo=")[2]
    assert "Undone." in browser.follow(browser.send("/undo", {"undo": key, "to": "/runs"}))
    assert len(store.runs(RunQuery(owner="tidy", status="dead")).items) == 4


def test_a_confirmation_says_that_older_runs_are_not_searched(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(served, "searcher")
    browser = signed_in_as(served, "searcher")
    form = [("all", "resolve"), ("back", "status=failed&error=shop")]
    assert "Only the newest" not in words(browser.send("/runs", form))
    monkeypatch.setattr(history, "SEARCHED", 3)
    asked = browser.send("/runs", form)
    assert "Resolve 1 run?" in words(asked) and "Only the newest" in words(asked)
    headers = {**served.bearer("searcher"), "Content-Type": "application/json"}
    request = json.dumps({"action": "resolve", "error": "shop", "dry_run": True}).encode()
    assert "Only the newest" in served.ask("POST", "/api/v1/runs/change", headers, request).json["notes"][0]
    monkeypatch.setattr(history, "COUNTED", 3)
    assert "completed" in browser.get("/api/v1/runs").json["counts_at_least"]


def test_a_confirmation_of_another_number_is_asked_anew(served: Site) -> None:
    filled(served, "careful")
    browser = signed_in_as(served, "careful")
    form = [("all", "retry"), ("back", "")]
    asked = browser.send("/runs", [*form, ("sure", "1")])
    assert asked.status == 200 and "Retry 4 runs?" in words(asked)
    assert "the newest run of each only" in words(asked)
    done = browser.send("/runs", [*form, ("sure", "4"), ("every_run", "")])
    assert "2 runs requeued." in browser.follow(done)
    live = served.room.store.runs(RunQuery(owner="careful", status="live")).items
    assert len(live) == 2
    stop = browser.send("/runs", [("all", "stop"), ("back", "")])
    assert "Stop 2 runs? 2 runs of 2 schedules have not ended." in words(stop)
    assert "2 runs stopped or asked to stop." in browser.follow(browser.send("/runs", [("all", "stop"), ("sure", "2")]))
    assert tabs(ask(browser))["Cancelled"] == "2"
    cancelled = ask(browser, status="cancelled").body.decode()
    assert 'name="all" value="retry"' in cancelled and 'name="all" value="stop"' not in cancelled
    assert 'name="all" value="retry"' not in ask(browser, status="completed").body.decode()


def test_selected_runs(served: Site) -> None:
    runs = filled(served, "chooser")
    browser = signed_in_as(served, "chooser")
    one, two = runs["import"]
    assert "1 run resolved." in browser.follow(browser.send("/runs", [("run", str(one)), ("action", "resolve")]))
    both = [("run", str(one)), ("run", str(two)), ("action", "retry")]
    asked = browser.send("/runs", both)
    assert "Retry 2 runs?" in words(asked), "what cannot be undone is confirmed"
    assert "2 runs requeued." in browser.follow(browser.send("/runs", [*both, ("sure", "2")]))
    assert "Select at least one run first." in browser.follow(browser.send("/runs", [("action", "retry")]))
    assert browser.send("/runs", [("run", str(one)), ("action", "delete")]).status == 422
    refused = browser.send("/runs", [("run", str(runs["tidy"][0])), ("action", "retry")])
    assert "Nothing was requeued. Not requeued: 1 run:" in browser.follow(refused)
    assert signed_in_as(served, "other").send("/runs", [("run", str(one)), ("action", "stop")]).status == 404


def test_runs_of_a_deleted_schedule_say_so_and_are_not_retried(served: Site) -> None:
    runs = filled(served, "remover")
    browser = signed_in_as(served, "remover")
    one = runs["import"][0]
    [schedule] = served.room.store.search(ScheduleQuery(owner="remover", text="import")).items
    assert "deleted" not in words(ask(browser)) + browser.text("/dead-letters") + browser.text("/")
    browser.send(f"/schedules/{schedule.definition.public_id}/delete", {})
    page = ask(browser)
    assert set(re.findall(r"(\w+) j\d+ deleted", words(page))) == {"import"}
    assert f"/runs/{one}/retry" not in page.body.decode() and f"/runs/{runs['export'][0]}/retry" in page.body.decode()
    letters = browser.get("/dead-letters")
    assert re.findall(r"(\w+) j\d+ deleted", words(letters)) == ["import"]
    assert "Retry 2 runs of import" not in letters.body.decode() and "Retry 2 runs of export" in letters.body.decode()
    assert "import" in browser.text("/") and "deleted" in browser.text("/")
    listed = {each["run_id"]: each["schedule_deleted"] for each in browser.get("/api/v1/runs").json["runs"]}
    assert [listed[one], listed[runs["export"][0]]] == [True, False]
