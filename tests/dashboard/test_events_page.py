"""The events that arrived, with what they started; and the chain on the page of a schedule."""

from __future__ import annotations

from duetime.engine.kind import Caller
from duetime.engine.store import RunQuery
from tests.support.browsing import browser_of, made, page_of, signed_in_as, working
from tests.support.web import Site
from tests.support.workers import eventually

PUSH = {"ref": "main", "message": "<script>alert(1)</script>"}


def test_an_event_shows_what_it_started(served: Site) -> None:
    scheduler = served.room.scheduler
    review = made(served, "review", ("event", {"event": "roof.push"}))
    report = made(served, "report", ("after", {"schedule": "review", "outcome": "ends"}))
    scheduler.emit(Caller("local"), "roof.push", PUSH, None)
    scheduler.emit(Caller("local"), "roof.idle", None, None)

    def has_run() -> bool:
        runs = served.room.store.runs(RunQuery(schedule=report.definition.id)).items
        return [run.status for run in runs] == ["completed"]

    with working(served):
        eventually(has_run, 20, "the report follows the review")
    browser, _ = browser_of(served)

    def page_at(path: str) -> str:
        return browser.get(path).body.decode()

    text = page_at("/settings/events")
    assert "end of review, which completed" in text and "&lt;script&gt;alert(1)" in text and "<script>alert" not in text
    only = page_at("/settings/events?name=roof.push")
    assert ">review</a>" in only and ">report</a>" not in only and "show all" in only
    idle = page_at("/settings/events?name=roof.idle")
    assert "nothing" in idle and ">review</a>" not in idle
    assert "No events have arrived" in page_at("/settings/events?before=1")
    page = page_at(page_of(review))
    assert "It waits for the event roof.push." in page and "Nothing is due" not in page
    assert "It waits until review ends." in page_at(page_of(report))
    assert f'then <a href="{page_of(report)}">report</a> (if it ends)' in page
    assert f'After <a href="{page_of(review)}">review</a> ends' in page_at(page_of(report))


def test_others_see_none_of_it(served: Site) -> None:
    served.room.scheduler.emit(Caller("local"), "roof.secret", {"code": "hush"}, None)
    text = signed_in_as(served, "bob").text("/settings/events")
    assert "roof.secret" not in text and "hush" not in text
