"""What the dashboard lists: schedules by filters and pages, and what became of their runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from duetime.core.clock import DAY, HOUR
from duetime.core.kind import Caller
from duetime.core.model import Run
from duetime.core.result import Ok
from duetime.core.store import RunQuery
from duetime.faces.web import schedules
from duetime.kinds.registry import Task
from tests.support.browsing import (
    Browser,
    made,
    page_of,
    signed_in,
    signed_in_as,
    words,
    working,
)
from tests.support.drafts import every
from tests.support.web import Reply, Site, site
from tests.support.workers import eventually


def test_the_list_is_filtered(served: Site) -> None:
    browser = signed_in_as(served, "finder")
    for name, kind, payload in (
        ("needle one", "job", {"task": "echo"}),
        ("needle two", "prompt", {"prompt": "p"}),
        ("hay", "job", {"task": "echo"}),
    ):
        made(served, name, owner="finder", kind=kind, payload=payload)
    assert "2 schedules" in browser.text("/schedules?text=NEEDLE")
    only = browser.text("/schedules?text=needle&kind=prompt&status=pending")
    assert "needle two" in only
    assert "needle one" not in only
    assert "Nothing matches." in browser.text("/schedules?status=paused")
    assert browser.get("/schedules?status=nonsense").status == 422
    assert browser.get("/schedules?cursor=nonsense").status == 422
    assert "3 schedules" in browser.text("/schedules?owner=local"), "others are none of their business"


def test_the_list_shows_what_fires_next(served: Site) -> None:
    browser = signed_in_as(served, "planner")
    made(served, "far", ("once", {"run_at": "in 3 days"}), owner="planner")
    made(served, "near", ("once", {"run_at": "in 2 days"}), owner="planner")
    resting = made(served, "resting", owner="planner")
    assert isinstance(served.room.scheduler.pause(Caller("planner"), resting.definition.public_id), Ok)
    shown = browser.text("/schedules?order=next")
    assert "2 schedules" in shown
    assert shown.index("near") < shown.index("far") and "resting" not in shown


def test_the_list_goes_on_page_by_page(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "PAGE", 2)
    monkeypatch.setattr(schedules, "COUNTED", 4)
    for number in range(5):
        made(served, f"page {number}", owner="pager")
    browser = signed_in_as(served, "pager")
    seen, path = [], "/schedules"
    while path:
        page = browser.get(path)
        seen += re.findall(r"page \d", words(page))
        assert "more than 4 schedules" in words(page)
        following = re.search(r'href="(/schedules\?cursor=[^"]+)" rel="next"', page.body.decode())
        path = following[1] if following else ""
    assert seen == [f"page {number}" for number in (4, 3, 2, 1, 0)]


def test_operators_see_and_choose_owners(served: Site, local: Browser) -> None:
    made(served, "of carol", owner="carol")
    assert "of carol" in local.text("/schedules?owner=carol")
    assert "Nothing matches." in local.text("/schedules?owner=nobody-has-this-name")


def test_nothing_counts_down_to_what_will_not_fire(served: Site) -> None:
    browser = signed_in_as(served, "idle")
    schedule = made(served, "to be paused", owner="idle")
    assert "countdown" in browser.get("/schedules").body.decode()
    browser.send(page_of(schedule, "pause"), {})
    assert "countdown" not in browser.get("/schedules").body.decode()


# -- what ran ---------------------------------------------------------------------------------------------------------


def fail() -> None:
    raise ValueError("no <b>luck</b>")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Where a job went well, one failed twice, and a notification arrived."""
    with site(tmp_path_factory.mktemp("ran")) as there:
        there.room.registry.add(Task(fail, name="fails"))
        now = ("once", {"run_at": "now"})
        with working(there):
            made(there, "went well", now)
            made(there, "failed", now, payload={"task": "fails"}, policy={"max_attempts": 2, "backoff": 1})
            made(
                there,
                "arrived",
                now,
                kind="notification",
                payload={"message": "It is <i>time</i>", "topic": "my-phone"},
            )
            done = RunQuery(count_to=0)
            eventually(
                lambda: (
                    [run.status for run in there.room.store.runs(done).items].count("completed") == 2
                    and there.room.store.runs(RunQuery(status="dead")).items
                ),
                20,
                "all three are over",
            )
        yield there


def test_the_first_page_tells_what_happened(ran: Site) -> None:
    page = signed_in(ran).text("/")
    assert "1 failed for good" in page
    assert "ValueError: no <b>luck</b>" in page
    assert "No worker is running" in page, "it has stopped meanwhile"
    assert "It is <i>time</i>" in page


def test_history_shows_every_attempt(ran: Site) -> None:
    browser = signed_in(ran)
    [run] = ran.room.store.runs(RunQuery(status="dead")).items
    schedule = ran.room.store.get(run.schedule)
    assert schedule is not None
    for path in (page_of(schedule), f"/runs/{run.id}"):
        page = browser.text(path)
        assert "attempt 1, failed after" in page
        assert page.count("ValueError: no <b>luck</b>") >= 2
    assert "Last 1 run: 1 failed" in browser.get(page_of(schedule)).body.decode()


def test_a_dead_letter_is_tried_again_and_dismissed(ran: Site) -> None:
    browser = signed_in(ran)
    [run] = ran.room.store.runs(RunQuery(status="dead")).items
    assert "failed" in browser.text("/dead-letters")
    assert "Nothing has failed for good." in browser.text("/dead-letters?kind=prompt")
    with working(ran):
        assert "1 item tried again." in browser.follow(
            browser.send("/dead-letters", [("run", str(run.id)), ("action", "retry")])
        )
        eventually(lambda: ran.room.store.runs(RunQuery(status="dead")).items, 20, "it failed once more")
    assert "Dismissed" in browser.follow(browser.send(f"/runs/{run.id}/dismiss", {"back": "dead-letters"}))
    assert "Nothing has failed for good." in browser.text("/dead-letters")
    assert signed_in_as(ran, "ada").send(f"/runs/{run.id}/retry", {}).status == 404
    assert browser.get("/runs/999999999999").status == 404


def test_the_inbox_shows_what_arrived(ran: Site) -> None:
    browser = signed_in(ran)
    assert re.search("my-phone .* It is <i>time</i>", browser.text("/inbox"))
    assert "It is" not in browser.text("/inbox?topic=elsewhere")
    assert "Nothing has arrived yet." in signed_in_as(ran, "ada").text("/inbox")


def test_a_frequent_schedule_does_not_hide_the_others(served: Site) -> None:
    browser = signed_in_as(served, "often")
    rare, often = made(served, "rare one", owner="often"), made(served, "frequent one", owner="often")
    with working(served):
        for schedule in (rare, *[often] * 12):
            browser.send(page_of(schedule, "run"), {})
            eventually(lambda: not runs_of(served, status="live", owner="often"), 20, "it ran")
    latest = re.search('id="latest"(.*?)</section>', browser.get("/").body.decode(), re.DOTALL)
    assert latest is not None
    told = words(Reply(200, {}, latest[0].encode()))
    assert re.search("frequent one .* and 11 more .* rare one", told)


def test_what_was_missed_needs_attention_for_a_week(served: Site) -> None:
    now = served.room.clock.now()
    for name, days in (("missed lately", 6), ("missed long ago", 8)):
        begin, end = now - (days + 1) * DAY, now - days * DAY
        served.room.store.create([every(HOUR, begin, end=end, owner="away", name=name, catch_up="skip")])
    with working(served):
        eventually(lambda: len(runs_of(served, status="missed", owner="away")) == 2, 20, "both are told as missed")
    page = signed_in_as(served, "away").text("/")
    assert re.search("Needs attention missed missed lately .* 24 occurrences", page)
    assert "missed missed long ago" not in page.partition("Needs attention")[2]


def test_history_shows_the_schedules_own_clock(served: Site) -> None:
    schedule = made(served, "in Tokyo", ("interval", {"hours": 1, "timezone": "Asia/Tokyo"}), owner="clock")
    browser = signed_in_as(served, "clock")
    browser.send(page_of(schedule, "run"), {})
    [run] = runs_of(served, owner="clock")
    for path in (page_of(schedule), f"/runs/{run.id}"):
        due = browser.text(path).partition("History" if path == page_of(schedule) else "due")[2]
        assert re.search(r"Today \d\d:\d\d.* \d\d:\d\d.* Asia/Tokyo", due), path


def runs_of(there: Site, **asked: Any) -> list[Run]:
    return there.room.store.runs(RunQuery(**asked)).items
