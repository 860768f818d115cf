"""What the dashboard lists: schedules by filters and pages, and what became of their runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from duetime.dashboard import schedule_list, waiting_runs
from duetime.dashboard.filters import local_time
from duetime.dashboard.timeline.charts import sparks
from duetime.engine.clock import DAY, HOUR, SECOND, Instant
from duetime.engine.errors import StoreUnavailable
from duetime.engine.kind import Caller
from duetime.engine.model import Attempt, Cause, Run, ScheduleId
from duetime.engine.outcome import Failed
from duetime.engine.store import RunQuery
from duetime.engine.store_interfaces import Trace
from duetime.kinds.jobs.registry import Task
from duetime.kinds.notifications import dashboard as inbox
from duetime.service.operations import overview
from duetime.service.operations.history import lateness
from tests.support.browsing import (
    Browser,
    found,
    made,
    page_of,
    signed_in,
    signed_in_as,
    words,
    working,
)
from tests.support.drafts import every, once
from tests.support.hand import Hand, create
from tests.support.jobs import make_work
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
    assert "Nothing here." in browser.text("/schedules?view=paused")
    assert browser.get("/schedules?status=nonsense").status == 422
    assert browser.get("/schedules?cursor=nonsense").status == 422
    assert "3 schedules" in browser.text("/schedules?owner=local"), "others are none of their business"


def test_the_list_shows_what_fires_next(served: Site) -> None:
    browser = signed_in_as(served, "planner")
    made(served, "far", ("once", {"run_at": "in 3 days"}), owner="planner")
    made(served, "near", ("once", {"run_at": "in 2 days"}), owner="planner")
    resting = made(served, "resting", owner="planner")
    served.room.scheduler.pause(Caller("planner"), resting.definition.public_id)
    shown = browser.text("/schedules?order=next")
    assert "2 schedules" in shown
    assert shown.index("near") < shown.index("far") and "resting" not in shown
    assert "resting" in browser.text("/schedules?order=next&status=paused"), "an order for what is active hides nothing"
    assert "resting" in browser.text("/schedules?order=next&view=paused")


def test_the_list_goes_on_page_by_page(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order, and back again."""
    monkeypatch.setattr(schedule_list, "PAGE", 2)
    monkeypatch.setattr(schedule_list, "COUNTED", 4)
    for number in range(5):
        made(served, f"page {number}", owner="pager")
    browser = signed_in_as(served, "pager")
    names = [f"page {number}" for number in range(5)]
    for query, expected in (
        ("?order=newest", names[::-1]),
        ("?order=name", names),
        ("", names),
        ("?order=-name", names[::-1]),
    ):
        seen, places, path, before = [], [], f"/schedules{query}", ""
        while path:
            page = browser.get(path)
            places.append(re.findall(r"page \d", words(page)))
            seen += places[-1]
            assert "4+ schedules" in words(page), "no further than that is counted"
            assert f"Page {len(places)}" in words(page)
            before, path = path, _link(page, "next")
        assert seen == expected, query
        back = browser.get(_link(browser.get(before), "prev"))
        assert re.findall(r"page \d", words(back)) == places[-2], "the page before the last one"
        assert re.findall(r"page \d", words(browser.get(_link(back, "prev")))) == places[0]
    filtered = browser.get("/schedules?text=page&kind=job").body.decode()
    assert re.search(r'href="/schedules\?text=page&amp;kind=job&amp;cursor=[^"]+" rel="next"', filtered)


def _link(page: Reply, rel: str) -> str:
    found = re.search(rf'href="([^"]+)" rel="{rel}"', page.body.decode())
    return unescape(found[1]) if found else ""


def test_the_tabs_count_and_one_offs_of_runs_are_hidden(served: Site) -> None:
    browser = signed_in_as(served, "tabs")
    for number in range(3):
        made(served, f"active {number}", owner="tabs")
    for name, change in (("resting", served.room.scheduler.pause), ("cancelled", served.room.scheduler.cancel)):
        change(Caller("tabs"), made(served, name, owner="tabs").definition.public_id)
    delivery = once(owner="tabs", kind="notification", name="result of a run", key="~run:7.1")
    served.room.store.create([delivery])
    page = browser.text("/schedules")
    assert "Active 3 Paused 1 Done 1 All 5" in page and "result of a run" not in page
    assert "scheduled" in page and "pending" not in page, "to people"
    for view, shown in (("paused", "resting"), ("done", "cancelled"), ("all", "active 0")):
        assert shown in browser.text(f"/schedules?view={view}")
    assert "result of a run" in browser.text("/schedules?view=all&deliveries=1")
    assert "All 6" in browser.text("/schedules?view=all&deliveries=1")
    assert served.ask("GET", "/api/v1/schedules", served.bearer("tabs")).json["total"] == 6, "programs see all"


def test_a_request_without_a_label_is_called_by_its_method_and_host(served: Site) -> None:
    payload = {"url": "https://hooks.example.org/a?key=secret", "method": "POST"}
    made(served, "POST request", owner="caller", kind="request", payload=payload)
    made(served, "with a label", owner="caller", kind="request", payload=payload)
    page = signed_in_as(served, "caller").text("/schedules")
    assert "POST hooks.example.org" in page and "with a label" in page
    assert "secret" not in page


def test_all_that_match_are_changed_and_that_is_undone(served: Site) -> None:
    browser = signed_in_as(served, "matching")
    for number in range(60):
        made(served, f"match {number}", owner="matching")
    other = made(served, "other", owner="matching")
    assert "all 60 matching" in browser.text("/schedules?text=match")
    paused = browser.send("/schedules", [("matching", "1"), ("action", "pause"), ("back", "text=match")])
    assert "60 schedules paused." in browser.follow(paused)
    page = browser.text("/schedules?view=all")
    assert "Active 1 Paused 60" in page
    assert found(served, other).progress.state == "active"
    key = paused.headers["location"].partition("undo=")[2]
    assert "Undone." in browser.follow(browser.send("/undo", {"undo": key, "to": "/schedules"}))
    assert "Active 61 Paused 0" in browser.text("/schedules?view=all")
    asked = browser.send("/schedules", [("matching", "1"), ("action", "cancel"), ("back", "text=match")])
    assert "Cancel 60 schedules?" in words(asked)
    late = made(served, "match created meanwhile", owner="matching")
    sure = [("matching", "1"), ("action", "cancel"), ("sure", "60"), ("back", "text=match")]
    assert "Cancel 61 schedules?" in words(browser.send("/schedules", sure)), "other schedules than were confirmed"
    served.room.scheduler.delete(Caller("matching"), late.definition.public_id)
    assert "60 schedules cancelled." in browser.follow(browser.send("/schedules", sure))


def test_undo_leaves_alone_what_a_change_of_many_did_not_change(served: Site) -> None:
    browser, caller, scheduler = signed_in_as(served, "careful"), Caller("careful"), served.room.scheduler
    firing, resting = (made(served, name, owner="careful") for name in ("firing", "resting"))
    end = Instant(scheduler.clock.now() + DAY)
    scheduler.pause(caller, resting.definition.public_id, until=end, note="until the move")
    both = [("id", each.definition.public_id) for each in (firing, resting)]
    paused = browser.send("/schedules", [*both, ("action", "pause")])
    assert "1 schedule paused." in browser.follow(paused)
    assert found(served, resting).progress.note == "until the move"
    again = browser.send("/schedules", [*both, ("action", "pause")])
    assert "undo=" not in again.headers["location"] and "Nothing was changed." in browser.follow(again)
    browser.send("/undo", {"undo": paused.headers["location"].partition("undo=")[2], "to": "/schedules"})
    assert [found(served, each).progress.state for each in (firing, resting)] == ["active", "paused"]
    resumed = browser.send("/schedules", [*both, ("action", "resume")])
    browser.send("/undo", {"undo": resumed.headers["location"].partition("undo=")[2], "to": "/schedules"})
    assert [found(served, each).progress.state for each in (firing, resting)] == ["active", "paused"]
    as_before = found(served, resting)
    assert (as_before.progress.note, as_before.definition.resume_at) == ("until the move", end)


def test_undo_says_what_could_not_be_undone(served: Site) -> None:
    browser, scheduler = signed_in_as(served, "hasty"), served.room.scheduler
    names = [made(served, name, owner="hasty").definition.public_id for name in ("kept", "gone")]
    for left, said in ((1, f"Not changed back: {names[1]}: there is no such schedule"), (0, "no longer be undone")):
        paused = browser.send("/schedules", [("id", id) for id in names] + [("action", "pause")])
        scheduler.delete(Caller("hasty"), names[left])
        key = paused.headers["location"].partition("undo=")[2]
        assert said in browser.follow(browser.send("/undo", {"undo": key, "to": "/schedules"}))


def test_a_row_has_its_own_actions_and_leads_back_to_the_list(served: Site) -> None:
    browser = signed_in_as(served, "rows")
    schedule = made(served, "in a row", owner="rows")
    page = browser.get("/schedules?text=row").body.decode()
    for action in ("run", "pause"):
        assert f'formaction="{page_of(schedule, action)}"' in page
    reply = browser.send(page_of(schedule, "pause"), {"to": "/schedules?text=row"})
    assert reply.headers["location"].startswith("/schedules?text=row&did=paused&undo=")


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
            done = RunQuery(count_to=0, status="completed")
            eventually(
                lambda: (
                    {run.name for run in there.room.store.runs(done).items} >= {"went well", "arrived"}
                    and there.room.store.runs(RunQuery(status="dead")).items
                ),
                20,
                "all three are over",
            )
        yield there


def test_the_first_page_tells_what_happened(ran: Site) -> None:
    page = signed_in(ran).text("/")
    assert "1 failed" in page and "Dead letters 1" in page, "one count for one thing"
    assert "ValueError: no <b>luck</b>" in page
    assert "No worker is running" in page, "it has stopped meanwhile"
    assert "It is <i>time</i>" in page


def test_history_shows_every_attempt(ran: Site) -> None:
    browser = signed_in(ran)
    [run] = ran.room.store.runs(RunQuery(status="dead")).items
    schedule = ran.room.store.get(run.schedule)
    assert schedule is not None
    for path, attempt in ((page_of(schedule), "attempt 1, failed after"), (f"/runs/{run.id}", "Attempt 1 failed")):
        page = browser.text(path)
        assert attempt in page
        assert page.count("ValueError: no <b>luck</b>") >= 2
    assert ">Retry</button>" in browser.get(f"/runs/{run.id}").body.decode()
    [well, *_] = ran.room.store.runs(RunQuery(status="completed")).items
    assert ">Retry</button>" not in browser.get(f"/runs/{well.id}").body.decode(), "there is nothing to retry"


def test_a_dead_letter_is_tried_again_and_dismissed(ran: Site) -> None:
    browser = signed_in(ran)
    [run] = ran.room.store.runs(RunQuery(status="dead")).items
    assert "failed" in browser.text("/dead-letters")
    assert "No dead letters match." in browser.text("/dead-letters?kind=prompt")
    with working(ran):
        assert "1 run requeued." in browser.follow(
            browser.send("/dead-letters", [("run", str(run.id)), ("action", "retry")])
        )
        eventually(lambda: ran.room.store.runs(RunQuery(status="dead")).items, 20, "it failed once more")
        again = [("run", str(run.id)), ("run", str(run.id)), ("action", "retry")]
        assert "1 run requeued." in browser.follow(browser.send("/dead-letters", again)), "named twice, meant once"
        eventually(lambda: ran.room.store.runs(RunQuery(status="dead")).items, 20, "it failed once more")
    for path, form in (
        ("/dead-letters", {"all": "resolve"}),
        ("/dead-letters", {"run": str(run.id), "action": "resolve"}),
        (f"/runs/{run.id}/resolve", {"back": "dead-letters"}),
    ):
        dismissed = browser.send(path, form)
        page = browser.follow(dismissed)
        assert "esolved" in page
        assert ("You hear of the same failure again only after its schedule has worked." in page) == (
            "back" not in form
        )
        assert "No dead letters: nothing is left to retry or to resolve." in browser.text("/dead-letters")
        key = dismissed.headers["location"].partition("undo=")[2]
        assert "Undone." in browser.follow(browser.send("/undo", {"undo": key, "to": "/dead-letters"}))
        assert "1 run \u00b7 1 problem" in browser.text("/dead-letters")
    browser.send(f"/runs/{run.id}/dismiss", {})
    assert "No dead letters" in browser.text("/dead-letters")
    assert signed_in_as(ran, "ada").send(f"/runs/{run.id}/retry", {}).status == 404
    assert browser.get("/runs/999999999999").status == 404


def test_many_dead_letters_are_retried_after_a_confirmation(served: Site) -> None:
    now, store = served.room.clock.now(), served.room.store
    hand = Hand(store, now=now - 5 * HOUR)  # type: ignore[arg-type]
    often, invoice = create(
        store,  # type: ignore[arg-type]
        every(HOUR, now - 5 * HOUR, name="ping <shop>", owner="billing"),
        once(now - 2 * HOUR, name="invoice", owner="billing"),
    )
    for hours in (4, 3, 2):
        hand.record(hand.claim(now - hours * HOUR), now - hours * HOUR, Failed("no", permanent=True))
    served.room.scheduler.pause(Caller("billing"), often.definition.public_id)
    browser = signed_in_as(served, "billing")
    listed = browser.get("/dead-letters").body.decode()
    button = '<button name="all" value="retry" data-command="Retry all runs">Retry all 4</button>'
    assert button in listed, "it is not the primary button"
    page = browser.send("/dead-letters", {"all": "retry"})
    text = words(page)
    assert "4 runs of 2 schedules failed" in text and "1 of these schedules is paused." in text
    assert re.search("3\u00d7 job ping <shop> j[0-9]+ paused", text) and "1\u00d7 job invoice" in text
    assert "the newest run of each only 2 runs in all" in text and "every run 4 runs in all" in text
    assert len(runs_of(served, status="dead", owner="billing")) == 4, "nothing was retried yet"
    stale = browser.send("/dead-letters", {"all": "retry", "sure": "3"})
    assert "4 runs of 2 schedules failed" in words(stale), "others match by now"
    [problem] = re.findall(r'name="one" value="(retry:[^"]*)"[^>]*of ping', listed)
    one = browser.send("/dead-letters", {"one": problem})
    assert "3 runs of 1 schedule failed" in words(one), "so is a problem with several runs"
    assert "2 runs requeued." in browser.follow(browser.send("/dead-letters", {"all": "retry", "sure": "4"}))
    assert len(runs_of(served, status="dead", owner="billing")) == 2
    every_one = {"one": problem, "sure": "2", "every_run": "1"}
    assert "2 runs requeued." in browser.follow(browser.send("/dead-letters", every_one))
    for each in (often, invoice):
        served.room.scheduler.delete(Caller("billing"), each.definition.public_id)


def test_why_a_run_is_not_retried_is_said_as_everywhere(served: Site) -> None:
    served.room.registry.add(Task(fail, name="fails-once"))
    now = ("once", {"run_at": "now"})
    with working(served):
        made(served, "again", now, owner="hasty", payload={"task": "fails-once"}, policy={"max_attempts": 1})
        eventually(lambda: runs_of(served, status="dead", owner="hasty"), 20, "it failed")
    [run] = runs_of(served, status="dead", owner="hasty")
    browser, form = signed_in_as(served, "hasty"), [("run", str(run.id)), ("action", "retry")]
    assert "1 run requeued." in browser.follow(browser.send("/dead-letters", form))
    refused = browser.send("/dead-letters", form)
    said = "Nothing was requeued. Not requeued: 1 run"
    assert f"{said}: it is pending, so it cannot be retried." in browser.follow(refused)
    assert f"{said}." in signed_in_as(served, "nosy").follow(refused), "the reasons are for who asked"


def test_the_inbox_shows_what_arrived(ran: Site) -> None:
    browser = signed_in(ran)
    assert re.search("my-phone .* It is <i>time</i>", browser.text("/inbox"))
    assert "It is" not in browser.text("/inbox?topic=elsewhere")
    assert "No messages yet." in signed_in_as(ran, "ada").text("/inbox")


def test_the_inbox_goes_on_page_by_page(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "PAGE", 1)
    messages = {f"message {number}" for number in range(3)}
    with working(served):
        for text in messages:
            payload = {"message": text, "topic": "pages"}
            made(served, text, ("once", {"run_at": "now"}), owner="reader", kind="notification", payload=payload)
        eventually(lambda: len(runs_of(served, status="completed", owner="reader")) == 3, 20, "all have arrived")
    browser, path, pages = signed_in_as(served, "reader"), "/inbox", []
    while path:
        page = browser.get(path)
        pages.append({*re.findall(r"message \d", words(page))})
        path = _link(page, "next")
    assert [len(each) for each in pages] == [1, 1, 1] and set().union(*pages) == messages


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
    browser = signed_in_as(served, "away")
    page = browser.text("/")
    assert re.search("Needs attention Missed missed missed lately .* 24 occurrences .* Run now|Open", page)
    assert "missed long ago" not in page.partition("Needs attention")[2].partition("successful")[0]
    then = browser.text(f"/timeline?span=7d&from={(now - 9 * DAY - 12 * HOUR) // SECOND}")
    assert "48 runs." in then and "missed 48" in then, "each occurrence of both"


def test_the_first_page_counts_what_failed_and_what_is_due(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it, however little of it is looked at closely."""
    monkeypatch.setattr(overview, "LOOKED_AT", 1)
    served.room.registry.add(Task(fail, name="fails"))
    with working(served):
        for _ in range(2):
            at_once = ("once", {"run_at": "now"})
            policy = {"max_attempts": 1, "alert": "off"}
            made(served, "unlucky", at_once, owner="counted", payload={"task": "fails"}, policy=policy)
        eventually(lambda: len(runs_of(served, status="dead", owner="counted")) == 2, 20, "both failed")
    for minutes in (10, 20, 50, 95):
        made(served, "later", ("once", {"run_at": f"in {minutes} minutes"}), owner="counted")
    page = signed_in_as(served, "counted").text("/")
    assert "2 failed" in page
    assert "3 due within the hour" in page


def test_who_pauses_a_failing_schedule_is_told_from_a_pause_after_failures(
    served: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many schedules that fail are newer."""
    monkeypatch.setattr(overview, "LOOKED_AT", 1)
    served.room.registry.add(Task(fail, name="gives-up"))
    wrong, caller = {"task": "gives-up"}, Caller("pauser")
    policies = {"gave up": {"max_attempts": 1, "pause_after": 1}, "by hand": {"max_attempts": 1}}
    all_ = [made(served, name, owner="pauser", payload=wrong, policy=policy) for name, policy in policies.items()]
    with working(served):
        for number, each in enumerate(all_, 1):  # in turn: the one that is paused by hand is the newer one
            served.room.scheduler.run_now(caller, each.definition.public_id)
            eventually(lambda: len(runs_of(served, status="dead", owner="pauser")) == number, 20, "it failed")  # noqa: B023
    served.room.scheduler.pause(caller, all_[1].definition.public_id, note="paused for the holidays")
    page = signed_in_as(served, "pauser").text("/").partition("Paused automatically")[2].partition("Failing")[0]
    assert "gave up" in page and "by hand" not in page


def test_what_a_list_leaves_out_is_linked(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_list, "BUSY", 1)
    monkeypatch.setattr(waiting_runs, "MOST", 1)
    names = ["first question", "second question"]
    with working(served):
        for name in names:
            asked = {"prompt": "Why?", "agent": "inbox"}
            made(served, name, ("once", {"run_at": "now"}), owner="asker", kind="prompt", payload=asked)
        eventually(lambda: len(runs_of(served, status="waiting", owner="asker")) == 2, 20, "both wait")
    browser = signed_in_as(served, "asker")
    for path, link in (
        ("/schedules", r'href="([^"]*)">All that are running'),
        ("/inbox", r'href="([^"]*)"[^>]*>And more'),
    ):
        page = browser.get(path)
        further = re.search(link, page.body.decode())
        assert further is not None, path
        both = words(page) + browser.text(unescape(further[1]))
        assert all(name in both for name in names), path
    monkeypatch.undo()
    assert "All that are running" not in browser.text("/schedules") and "And more" not in browser.text("/inbox")


def test_a_schedule_shows_its_next_ten_instants(served: Site, local: Browser) -> None:
    page = local.get(page_of(made(served, "hourly"))).body.decode()
    listed = re.search('id="next"(.*?)</section>', page, re.DOTALL)
    assert listed is not None and listed[1].count("ticks countdown") == 10


def test_a_day_inside_a_sentence_is_lower_case(served: Site) -> None:
    now = served.room.clock.now()
    days = [local_time(Instant(now + number * DAY), "UTC", now, inside=True).split()[0] for number in (-1, 0, 1, 3)]
    assert days[:3] == ["yesterday", "today", "tomorrow"] and days[3].istitle()
    end = now - HOUR
    served.room.store.create([every(HOUR, now - 9 * HOUR, end=end, owner="wordy", name="was off", catch_up="skip")])
    with working(served):
        eventually(lambda: runs_of(served, owner="wordy", status="missed"), 20, "it was missed")
        assert re.search(r"running since (today|yesterday) \d", signed_in(served).text("/settings"))
    assert 'type="search" placeholder="Any name"' in signed_in(served).get("/timeline").body.decode()
    page = signed_in_as(served, "wordy").get("/runs?status=missed").body.decode()
    assert re.search(r'> to <time [^>]*>(today|yesterday) [\d:]+</time>, <span class="more">\d occurrences', page)


def test_a_sparkline_is_the_last_thirty_runs_with_the_oldest_at_the_left() -> None:
    def trace(number: int) -> Trace:
        due = Instant(number * HOUR)
        return Trace(ScheduleId(1), due, "failed" if number == 39 else "completed", due, Instant(due + number))

    now = Instant(40 * HOUR)
    drawn = sparks([trace(number) for number in range(39, 0, -1)], now, "UTC")
    places, texts = zip(*(text.split(" ", 1) for text in drawn.bars), strict=True)
    due = [local_time(Instant(number * HOUR), "UTC", now) for number in range(10, 40)]
    assert [text.rpartition(": ")[0] for text in texts] == due
    assert [float(place) for place in places] == sorted(float(place) for place in places)
    assert [text.rpartition(": ")[2].split(",")[0] for text in texts] == ["completed"] * 29 + ["failed"]
    assert drawn.label == "Last 30 runs: 29 completed, 1 failed"
    assert [shape.style for shape in drawn.shapes] == ["is-completed", "is-failed"], "one path for each outcome"


def test_only_what_a_trigger_set_off_is_said_to_be_late() -> None:
    run = make_work("echo").claim.run
    run = run._replace(started=Instant(run.due + 20 * SECOND), cause=Cause.TRIGGER)
    assert lateness(run, []) == 20 * SECOND
    assert lateness(run._replace(cause=Cause.MANUAL), []) is lateness(run._replace(started=None), []) is None
    assert lateness(run._replace(started=run.due), []) == 0
    first = Attempt(run.id, 1, Instant(run.due + 5 * SECOND), Instant(run.due + 9 * SECOND), "failed", "no")
    assert lateness(run._replace(attempt=2), [first]) == 5 * SECOND, "the first attempt counts"


def test_history_shows_the_schedules_own_clock(served: Site) -> None:
    schedule = made(served, "in Tokyo", ("interval", {"hours": 1, "timezone": "Asia/Tokyo"}), owner="clock")
    browser = signed_in_as(served, "clock")
    browser.send(page_of(schedule, "run"), {})
    [run] = runs_of(served, owner="clock")
    for path in (page_of(schedule), f"/runs/{run.id}"):
        due = browser.text(path).partition("History" if path == page_of(schedule) else "due")[2]
        assert re.search(r"Today \d\d:\d\d.* \d\d:\d\d.* Asia/Tokyo", due), path
    seoul = Browser(served, browser.cookie, "Asia/Seoul").get(page_of(schedule)).body.decode()
    assert 'class="there"' not in seoul, "where clocks show the same, it is said once"


def test_a_store_that_is_away_is_told_without_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("/home/ada/secret/duetime.db is locked")

    with site(tmp_path) as there:
        browser = signed_in(there)
        monkeypatch.setattr(there.room.store, "_rows", away)
        for path in ("/", "/timeline", "/schedules", "/schedules/x", "/runs/1", "/inbox", "/dead-letters"):
            reply = browser.get(path)
            assert reply.status == 503 and "cannot be reached right now" in words(reply), path
            assert b"secret" not in reply.body


def runs_of(there: Site, **asked: Any) -> list[Run]:
    return there.room.store.runs(RunQuery(**asked)).items


def test_a_tag_that_cannot_be_read_is_explained_above_the_list(served: Site) -> None:
    browser = signed_in_as(served, "mistyper")
    made(served, "Report", owner="mistyper")
    for more in ("&view=all", "&status=paused", "&order=name"):
        page = browser.get(f"/schedules?tagged=a,b&text=rep{more}")
        assert page.status == 200 and "a tag has lowercase letters" in words(page), words(page)
        assert "Correct the filter" in words(page) and "Report" not in words(page)
        for part in ('role="alert"', 'value="rep"', 'value="a,b"'):
            assert part in page.body.decode(), "the form stays"
