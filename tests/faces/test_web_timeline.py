"""The timeline: days as long as they are, crowded hours, and numbers that are right."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from duetime.core.clock import SECOND
from duetime.core.triggers import trigger_from_json
from duetime.faces.web.density import Density
from duetime.faces.web.spans import ZOOMS, window
from tests.support.browsing import (
    Browser,
    made,
    signed_in,
    signed_in_as,
    words,
)
from tests.support.web import Site


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
    assert "The busiest 24 of 31" in page
    assert "every second" in page
    assert "and 7 further schedules" in page
    assert len(reply.body) < 400_000


def test_what_is_counted_is_what_fires(served: Site) -> None:
    now = served.room.clock.now()
    view = window(ZOOMS["24h"], "Europe/Berlin", now)
    for trigger in (
        ("interval", {"seconds": 7}),
        ("interval", {"minutes": 43}),
        ("cron", {"expression": "*/20 3-9 * * *", "timezone": "Asia/Tokyo"}),
        ("rrule", {"rrule": "FREQ=HOURLY;INTERVAL=5"}),
        ("once", {"run_at": "in 3 hours"}),
    ):
        schedule = made(served, "counted", trigger, owner="counter")
        density = Density(view)
        density.add_coming([schedule], now)
        [row] = density.rows.values()
        first, following = schedule.progress.next, schedule.progress.next
        assert first is not None
        rule = trigger_from_json(schedule.definition.trigger)
        expected = []
        while following is not None and following < view.end:
            expected.append(view.bin_of(following))
            following = rule.next_after(following)
        assert sorted(row.bins.elements()) == expected, trigger
        assert not row.about


def test_an_estimate_is_close_and_said_to_be_one(served: Site) -> None:
    now = served.room.clock.now()
    view = window(ZOOMS["7d"], "UTC", now)
    schedule = made(served, "many", ("cron", {"expression": "* * * * *"}), owner="many")
    density = Density(view)
    density.add_coming([schedule] * 20_000, now)
    [row] = density.rows.values()
    assert row.about
    assert row.total == pytest.approx((view.end - now) / (60 * SECOND), rel=0.02)


def test_odd_windows_are_answered(local: Browser) -> None:
    for query in ("from=-5", "from=0", "from=999999999999", "from=x", "span=nonsense", "span=7d&from=253402000000"):
        assert local.get(f"/timeline?{query}").status == 200, query


def test_addresses_cannot_put_words_into_our_mouth(local: Browser) -> None:
    page = local.text("/schedules?did=You+are+hacked&number=3&failed=1")
    assert "hacked" not in page
    assert 'role="status"' not in local.get("/schedules?did=created&number=3").body.decode()
