"""The calendar feed: its own token, one owner's schedules, the same instants as a preview."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, timedelta
from pathlib import Path

import pytest
import recurring_ical_events  # type: ignore[import-untyped]
from icalendar import Calendar

from duetime.engine.clock import DAY, datetime_of, instant_of
from duetime.engine.kind import Caller
from duetime.engine.validation import NewSchedule
from duetime.http import app as calendar_feed
from duetime.security.tokens import CALENDAR
from duetime.service.operations.upcoming import coming
from duetime.service.services import Call, Services
from tests.support.cli import Cli
from tests.support.web import Site, site

RULES = (
    ("every morning", "cron", {"expression": "30 9 * * *"}, "Europe/Berlin"),
    ("last Friday", "rrule", {"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "dtstart": "2026-01-01T17:00:00"}, "UTC"),
    ("odd minutes", "cron", {"expression": "7,43 */5 * * 1-5"}, "America/New_York"),
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as made:
        for owner in ("ada", "bob"):
            for name, type_, config, zone in RULES[: 3 if owner == "ada" else 1]:
                new = NewSchedule("job", f"{owner}: {name}", type_, config, {"task": "echo"}, {}, zone)
                made.room.scheduler.create(Caller(owner), new)
        yield made


def address(served: Site, owner: str = "ada") -> tuple[str, str]:
    tokens = served.tokens.for_purpose(CALENDAR)
    token = tokens.issue(f"calendar of {owner}", DAY, owner=owner)
    return f"/calendar/{token}.ics", token


def test_a_feed_has_the_instants_of_a_preview(served: Site) -> None:
    reply = served.ask("GET", address(served)[0])
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/calendar")
    calendar = Calendar.from_ical(reply.body.decode())
    now = served.room.clock.now()
    until = datetime_of(now) + timedelta(days=20)
    events = recurring_ical_events.of(calendar).between(datetime_of(now), until)
    for name, type_, config, zone in RULES:
        shown = sorted(
            instant_of(event["DTSTART"].dt.astimezone(UTC)) for event in events if name in str(event["SUMMARY"])
        )
        preview = served.room.scheduler.preview(type_, config, timezone=zone, count=500)
        expected = [each for each in preview.instants if datetime_of(each) < until]
        assert shown == expected and (expected or name == "last Friday")


def test_a_feed_shows_one_owner_alone(served: Site) -> None:
    text = served.ask("GET", address(served, "bob")[0]).body.decode()
    assert "bob: every morning" in text and "ada" not in text


def test_a_feed_that_was_cut_says_so(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ones that fire next are those that stay."""
    whole = Calendar.from_ical(served.ask("GET", address(served)[0]).body.decode())
    assert len(whole.walk("VEVENT")) >= 3 and "X-WR-CALDESC" not in whole
    monkeypatch.setattr(calendar_feed, "MAX_FEED_SCHEDULES", 1)
    cut = Calendar.from_ical(served.ask("GET", address(served)[0]).body.decode())
    assert str(cut["X-WR-CALDESC"]) == calendar_feed.CUT
    [first] = coming(Call(Services(served.room.scheduler), Caller("ada"), "UTC"), 1)
    assert {str(event["SUMMARY"]) for event in cut.walk("VEVENT")} == {first.definition.name}


def test_its_token_opens_nothing_else_and_no_other_token_opens_it(served: Site) -> None:
    _, token = address(served)
    bearer = served.bearer()["Authorization"].removeprefix("Bearer ")
    assert served.ask("GET", "/api/v1/schedules", {"Authorization": f"Bearer {token}"}).status == 401
    assert served.ask("POST", "/mcp", {"Authorization": f"Bearer {token}"}, b"{}").status == 401
    for guess in (bearer, "nothing", f"{token}x", ""):
        assert served.ask("GET", f"/calendar/{guess}.ics").status == 404


def test_a_revoked_one_is_not_there_any_more(served: Site) -> None:
    path, token = address(served)
    assert served.ask("GET", path).status == 200
    grant = served.tokens.for_purpose(CALENDAR).verify(token)
    served.tokens.revoke(grant.id)
    assert served.ask("GET", path).status == 404


def test_nothing_keeps_the_address(served: Site) -> None:
    headers = served.ask("GET", address(served)[0]).headers
    assert headers["cache-control"] == "private, no-store" and headers["referrer-policy"] == "no-referrer"


def test_the_command_line_makes_an_address(cli: Cli) -> None:
    answer = cli("token", "calendar", "--owner", "ada", "--expires-in", "30d", "--port", "1", "--json").document
    assert answer["address"].startswith("http://127.0.0.1:1/calendar/") and answer["address"].endswith(".ics")
    assert answer["owner"] == "ada" and answer["scope"] == ""


def test_without_tokens_it_is_the_local_owners(tmp_path: Path) -> None:
    with site(tmp_path, auth=False) as open_house:
        new = NewSchedule("job", "mine", "interval", {"hours": 1}, {"task": "echo"})
        open_house.room.scheduler.create(Caller("local"), new)
        reply = open_house.ask("GET", "/calendar/mine.ics")
        assert reply.status == 200 and b"mine" in reply.body
