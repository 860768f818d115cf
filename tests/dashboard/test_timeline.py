"""The timeline: days as long as they are, crowded hours, and numbers that are right."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from duetime.dashboard.filters import kind_class
from duetime.dashboard.timeline import page as timeline
from duetime.dashboard.timeline.axis import ZOOMS
from duetime.dashboard.timeline.charts import bin_label, scale_for, strip
from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant, datetime_of, instant_of
from duetime.engine.store import RunQuery
from duetime.engine.triggers import trigger_from_json
from duetime.service.density import ORDERS, Density, TimelineRow
from duetime.service.window import Zoom, window
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
from tests.support.web import Site
from tests.support.workers import eventually


@pytest.mark.parametrize(("day", "hours"), [("2026-10-25", 25), ("2026-03-29", 23), ("2026-06-01", 0)])
def test_days_on_which_clocks_change_are_as_long_as_they_are(served: Site, day: str, hours: int) -> None:
    start = int(datetime.fromisoformat(f"{day}T00:00+01:00").timestamp())
    page = signed_in(served, "Europe/Berlin").text(f"/timeline?span=24h&from={start - 8 * 3600}")
    assert (f"{hours} hours" in page) == bool(hours)
    assert len(re.findall(r"\b02:00\b", page)) == {25: 2, 23: 0, 0: 1}[hours], "it comes twice, or is left out"


def test_a_crowded_hour_stays_readable(served: Site) -> None:
    browser = signed_in_as(served, "crowd")
    for number in range(30):
        made(served, f"crowd {number:02}", ("cron", {"expression": "0 12 * * *"}), owner="crowd")
    made(served, "every second", ("interval", {"seconds": 1}), owner="crowd")
    reply = browser.get("/timeline")
    page = words(reply)
    assert "24 of 31 schedules, failing first" in page
    assert "every second" in page
    assert "and 7 further schedules" in page
    assert len(reply.body) < 400_000


@pytest.mark.parametrize("past", [0, 1, 11 * MINUTE, 14 * MINUTE + 59 * SECOND, 15 * MINUTE, HOUR - 1])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "Europe/Berlin"])
@pytest.mark.parametrize("zoom", ZOOMS.values(), ids=list(ZOOMS))
def test_all_that_lies_ahead_is_in_the_window(zoom: Zoom, zone: str, past: int) -> None:
    """What comes again exactly a day after it last came is one of the next 24 hours, at any minute of the hour."""
    now = Instant(instant_of(datetime(2026, 11, 15, 12, tzinfo=UTC)) + past)
    view = window(zoom, zone, now)
    assert view.start <= now - zoom.behind + zoom.step, "of the past, one step less at most"
    assert now + zoom.ahead < view.end <= now + zoom.ahead + zoom.step


COUNTED: list[tuple[str, dict[str, Any]]] = [
    ("interval", {"seconds": 7}),
    ("interval", {"minutes": 43}),
    ("interval", {"minutes": 15}),
    ("interval", {"minutes": 5, "anchor": "2026-01-01T00:00+00:00"}),
    ("cron", {"expression": "0 * * * *"}),
    ("cron", {"expression": "*/20 3-9 * * *", "timezone": "Asia/Tokyo"}),
    ("cron", {"expression": "0 */2 * * *"}),
    ("rrule", {"rrule": "FREQ=HOURLY;INTERVAL=5"}),
    ("once", {"run_at": "in 3 hours"}),
]


@pytest.mark.parametrize("runs", [None, 20])
@pytest.mark.parametrize("hours", [0, 24, 30 * 24, -4])
def test_what_is_counted_is_what_fires(served: Site, hours: int, runs: int | None) -> None:
    """Now, later, a month on, and where part of it is past: each occurrence once, in the bin in which it lies."""
    now = served.room.clock.now()
    start = Instant(now + hours * HOUR - now % HOUR) if hours else None  # on the hour, as much fires
    view = window(ZOOMS["24h"], "Europe/Berlin", now, start)
    for trigger in COUNTED:
        schedule = made(served, "counted", trigger, owner="counter", policy={"max_runs": runs} if runs else {})
        density = Density(view)
        density.add_coming([schedule], now)
        following = schedule.progress.next
        assert following is not None
        rule = trigger_from_json(schedule.definition.trigger)
        fires: list[Instant] = []
        while following is not None and following < view.end and len(fires) != runs:
            fires.append(following)
            following = rule.next_after(following)
        expected = [view.bin_of(each) for each in fires if each >= view.start]
        assert sorted(bin for row in density.rows.values() for bin in row.bins.elements()) == expected, trigger
        assert not density.about


def test_schedules_that_fire_in_the_same_bins_are_counted_once(served: Site) -> None:
    """A week has hundreds of bins: counting hundreds of schedules in each of them would take longer than painting."""
    now = served.room.clock.now()
    density = Density(window(ZOOMS["7d"], "UTC", now))
    half = Instant(now - now % HOUR + HOUR // 2)
    anchors = [datetime_of(Instant(half + each * MINUTE)).isoformat() for each in range(10)]
    alike = [made(served, "alike", ("interval", {"hours": 1, "anchor": each}), owner="alike") for each in anchors]
    density.add_coming(alike, Instant(half - MINUTE))
    assert len({id(row.bins) for row in density.rows.values()}) == 1
    assert sum(each.total() for each in density.totals[0]) == sum(row.total for row in density.rows.values()) > 1600


def test_all_bars_of_a_colour_are_one_shape(served: Site) -> None:
    """A browser takes longer for hundreds of elements than the server takes for the page."""
    browser = signed_in_as(served, "shapes")
    made(served, "hourly", ("interval", {"hours": 1}), owner="shapes")
    made(served, "too", ("interval", {"minutes": 20}), kind="prompt", payload={"prompt": "hi"}, owner="shapes")
    page = browser.get("/timeline?span=7d").body.decode()
    chart = page[page.index('class="chart"') : page.index('id="lanes"')]
    bars, [shapes] = chart.count('<a class="bar"'), re.findall(r'<svg class="shapes".*</svg>', chart)
    assert bars > 160
    assert {*re.findall(r'<path class="(\S+) ahead"', shapes)} == {kind_class("job"), kind_class("prompt")}
    assert sorted(path.count("M") for path in re.findall(r' d="([^"]*)"', shapes))[0] >= bars - 2
    assert shapes.count("<path") == 2
    assert chart.count("<rect") <= bars + 1, "where it can be pointed at, and the past"


def test_what_is_overdue_is_due_now_and_not_in_a_later_window(served: Site) -> None:
    schedule = made(served, "overdue", ("interval", {"days": 40}), owner="overdue")
    late = Instant((schedule.progress.next or 0) + 5 * HOUR)
    counted = []
    for start in (None, Instant(late + 24 * HOUR)):
        view = window(ZOOMS["24h"], "UTC", late, start)
        density = Density(view)
        density.add_coming([schedule], late)
        counted.append([(bin, number) for row in density.rows.values() for bin, number in row.bins.items()])
    assert counted == [[(window(ZOOMS["24h"], "UTC", late).bin_of(late), 1)], []]


def test_an_estimate_is_close_and_said_to_be_one(served: Site) -> None:
    now = served.room.clock.now()
    view = window(ZOOMS["7d"], "UTC", now)
    schedule = made(served, "many", ("cron", {"expression": "* * * * *"}), owner="many")
    density = Density(view)
    density.add_coming([schedule] * 20_000, now)
    [row] = density.rows.values()
    assert row.about
    assert row.total == pytest.approx((view.end - now) / (60 * SECOND), rel=0.02)


def test_the_worst_that_happened_gives_a_line_its_colour(served: Site) -> None:
    now = served.room.clock.now()
    view = window(ZOOMS["6h"], "UTC", now)
    row = TimelineRow("scd_1", "mixed", "job", past={3: Counter({"completed": 5, "failed": 1, "skipped": 2})})
    [mark] = strip(row, view, now)
    assert mark.name == "failed"


def test_an_operator_may_look_at_one_owner(served: Site, local: Browser) -> None:
    made(served, "of tim alone", ("once", {"run_at": "in 3 hours"}), owner="tim")
    made(served, "of tom", ("once", {"run_at": "in 3 hours"}), owner="tom")
    page = local.text("/timeline?owner=tim")
    assert "1 occurrence ahead" in page and "of tim alone" in page and "of tom" not in page
    own = signed_in_as(served, "tom").text("/timeline?owner=tim")
    assert "of tom" in own and "of tim alone" not in own


def test_the_busiest_time_is_one_that_is_still_to_come(served: Site) -> None:
    now = served.room.clock.now()
    end = Instant(now - 2 * HOUR)
    missed = every(MINUTE, Instant(now - 3 * HOUR), end=end, owner="busy", catch_up="skip", alert="off")
    served.room.store.create([missed])
    together = datetime_of(Instant(now + 3 * HOUR)).isoformat()
    for _ in range(2):
        made(served, "both at once", ("once", {"run_at": together}), owner="busy")
    with working(served):
        eventually(lambda: served.room.store.runs(RunQuery(owner="busy", status="missed")).items, 20, "it is told")
    page = signed_in_as(served, "busy").text("/timeline")
    assert re.search(r"2 occurrences ahead, \d\d runs so far\. Busiest: [^.]*: 2 jobs due\.", page)


def test_what_had_to_be_left_out_is_said(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = signed_in_as(served, "crammed")
    schedules = [made(served, f"crammed {number}", owner="crammed") for number in range(2)]
    for schedule in schedules:
        browser.send(page_of(schedule, "run"), {})
    whole = browser.text("/timeline")
    assert "fire first" not in whole and "Showing runs since" not in whole
    monkeypatch.setattr(timeline, "LIMITS", {"max_schedules": 1, "max_runs": 1})
    cut = browser.text("/timeline")
    assert "schedules that fire first" in cut
    assert re.search(r"Showing runs since \w+day \d\d:\d\d", cut)


def test_a_window_that_is_over_says_what_ran_in_it(served: Site) -> None:
    browser = signed_in_as(served, "over")
    made(served, "hourly", owner="over")
    text = browser.text("/timeline?span=24h&from=86400")
    assert "No runs in this time." in text and "There are no runs in this time range." in text
    assert "ahead" not in text and "Create a schedule" not in text, "nothing can be scheduled there any more"


def test_the_past_week_is_about_the_past(served: Site) -> None:
    browser = signed_in_as(served, "week")
    schedule = made(served, "frequent", ("interval", {"seconds": 5}), owner="week")
    browser.send(page_of(schedule, "run"), {})
    text = browser.text("/timeline?span=week")
    assert "1 run." in text and "ahead" not in text and "jobs due" not in text
    later = served.room.clock.now() // SECOND + 3 * 86_400
    assert "occurrences ahead" in browser.text(f"/timeline?span=week&from={later}"), "one may go on to the future"


def test_a_lane_counts_what_ran_apart_from_what_is_due(served: Site) -> None:
    browser = signed_in_as(served, "lanes")
    schedule = made(served, "hourly lane", ("interval", {"hours": 1}), owner="lanes")
    browser.send(page_of(schedule, "run"), {})
    assert re.search(r"hourly lane j\d+ 1 run 2[345] due", browser.text("/timeline"))


def test_names_in_a_label_have_one_order_whatever_came_first(served: Site) -> None:
    view = window(ZOOMS["6h"], "UTC", Instant(0))
    labels = set()
    for statuses in (("failed", "completed"), ("completed", "failed")):
        for kinds in (("notification", "job"), ("job", "notification")):
            labels.add(bin_label(view, 0, 0, Counter(statuses), Counter(kinds), Instant(0)).partition("\n")[2])
    assert labels == {"1 completed, 1 failed\n1 job, 1 notification due"}


def test_only_kinds_whose_number_is_an_estimate_are_marked_as_such() -> None:
    rows = [TimelineRow("a", "a", "job", Counter({1: 9}), about=True), TimelineRow("b", "b", "prompt", Counter({1: 1}))]
    density = Density(window(ZOOMS["24h"], "UTC", Instant(0)), dict(enumerate(rows)))  # type: ignore[arg-type]
    assert density.about == {"job"}


def test_odd_windows_are_answered(local: Browser) -> None:
    for query in ("from=-5", "from=0", "from=999999999999", "from=x", "span=nonsense", "span=7d&from=253402000000"):
        assert local.get(f"/timeline?{query}").status == 200, query


def test_addresses_cannot_put_words_into_our_mouth(local: Browser) -> None:
    page = local.text("/schedules?did=You+are+hacked&number=3&failed=1")
    assert "hacked" not in page
    assert 'role="status"' not in local.get("/schedules?did=created&number=3").body.decode()


def test_a_line_says_what_it_shows(served: Site) -> None:
    """Neighbours that look alike are one mark, which tells how many it stands for."""
    now = served.room.clock.now()
    view = window(ZOOMS["6h"], "UTC", now)
    schedule = made(served, "a line", ("interval", {"minutes": 5}), owner="line")
    density = Density(view)
    density.add_coming([schedule], now)
    [row] = density.rows.values()
    marks = strip(row, view, now)
    assert [mark.label.endswith(f"\n{row.total} jobs due") for mark in marks] == [True]
    assert marks[0].x + marks[0].width <= 100


def test_the_legend_tells_what_is_there_and_a_bar_that_dwarfs_the_others_is_cut_off(served: Site) -> None:
    browser = signed_in_as(served, "legend")
    made(served, "rare", ("interval", {"hours": 2}), owner="legend")
    page = browser.text("/timeline")
    assert re.search("jobs due 1[12]", page)
    assert "prompts due" not in page
    assert "cut off" not in page
    at_once = datetime_of(Instant(served.room.clock.now() + 5 * HOUR)).isoformat()
    for number in range(20):
        made(served, f"all at once {number}", ("once", {"run_at": at_once}), owner="legend")
    assert "Bars above 4 are cut off." in browser.text("/timeline")


@pytest.mark.parametrize(
    ("counts", "most", "cut"),
    [([], 0, None), ([3], 3, None), ([1, 2, 3, 4], 4, None), ([900] * 90, 900, None), ([10] * 50 + [500], 20, 20)],
)
def test_heights_are_linear(counts: list[int], most: int, cut: int | None) -> None:
    scale, where = scale_for(counts, 100)
    assert (scale.most, where) == (most, cut)
    if most >= 4:
        assert scale.of(most) == 2 * scale.of(most // 2) == 96
    assert len(scale.levels()) <= 4


def test_lanes_are_sorted_by_need_or_as_one_likes() -> None:
    def row(name: str, first: int, total: int, **past: int) -> TimelineRow:
        outcomes = {0: Counter(past)} if past else {}
        return TimelineRow(name, name, "job", Counter({first: total}), outcomes)

    rows = [row("b", 9, 50), row("d", 3, 1, failed=1), row("a", 5, 5, missed=2), row("c", 1, 2, failed=3, completed=1)]
    density = Density(window(ZOOMS["24h"], "UTC", Instant(0)), dict(enumerate(rows)))  # type: ignore[arg-type]
    orders = {order: "".join(each.name for each in density.sorted(order)) for order in ORDERS}
    assert orders == {"need": "cdab", "failures": "cdab", "next": "cdab", "name": "abcd", "busy": "bacd"}


def test_the_timeline_is_filtered(served: Site) -> None:
    browser = signed_in_as(served, "filter")
    made(served, "needle", owner="filter")
    made(served, "hay", owner="filter", kind="prompt", payload={"prompt": "p"})
    assert "needle" in browser.text("/timeline?text=NEED") and "hay" not in browser.text("/timeline?text=NEED")
    assert "hay" in browser.text("/timeline?kind=prompt") and "needle" not in browser.text("/timeline?kind=prompt")
    for query in ("status=failed", "text=zzzz", "text=zzzz&from=86400"):
        empty = browser.text(f"/timeline?{query}")
        assert "Nothing matches the filter." in empty and "matches the filter. Clear it" in empty, query
    assert "needle" in browser.text("/timeline?sort=name&status=nonsense")


def test_a_range_is_shown_however_many_runs_came_after_it(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row may be older than the window although its last occurrence is not."""
    now = served.room.clock.now()
    begin, end = Instant(now - 30 * HOUR), Instant(now - 2 * HOUR)
    served.room.store.create([every(HOUR, begin, end=end, owner="ranges", name="missed for a day", catch_up="skip")])
    with working(served):
        eventually(lambda: served.room.store.runs(RunQuery(owner="ranges")).items, 20, "it is recorded as missed")
        browser = signed_in_as(served, "ranges")
        schedule = made(served, "frequent", owner="ranges")
        for number in range(6):
            browser.send(page_of(schedule, "run"), {})
            counted = RunQuery(owner="ranges", status="completed")
            eventually(lambda: len(served.room.store.runs(counted).items) > number, 20, "it ran")  # noqa: B023
    monkeypatch.setattr(timeline, "LIMITS", {"max_schedules": 500, "max_runs": 3})
    page = browser.text("/timeline")
    assert "missed for a day" in page and re.search(r"missed \d", page)
    assert "Showing runs since" in page
