"""The prompts family, word for word."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.encoding import LIMIT
from duetime.engine.errors import StoreUnavailable
from duetime.engine.kind import Caller
from duetime.engine.model import RunStatus
from duetime.engine.policy.rows import Writes
from duetime.engine.store import RunQuery
from duetime.kinds.notifications.local import INBOX_WARNING
from duetime.kinds.prompts.kind import WAITS
from duetime.mcp.definitions import ToolProblem
from tests.support.agent import TOOLS, Agent
from tests.support.stage import PACIFIC, Stage
from tests.support.wordings import (
    NO_CODER,
    NO_TASKS,
    NOT_ZERO,
    NOTHING_TO_EDIT,
    RESULT_OR_ERROR,
    not_cancelled,
    not_editable,
)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ONE_OF = "Error: give exactly one of at, cron, rrule, every, when (every may have at as its first time)"
PAST = "Error: Feb 10, 2026 11:00 AM PST is in the past; it is now Feb 10, 2026 12:00 PM PST."
DURATION = "as a duration; write it like 30m, 2h30m or 1d10h30m50s (units in order d h m s)."
TOO_LONG = "It is longer than a hundred years."
TOO_OFTEN = "Error: every: it fires more often than every 1 s, which is the limit; let it fire less often"
ONE_RULE = (
    "give one rule without other properties, for example FREQ=MONTHLY;BYDAY=-1FR, and the first time as start or "
    "dtstart."
)
PROMPTS = (
    "schedule", "schedule_list", "schedule_edit", "schedule_cancel", "prompt_result", "take_prompt", "finish_prompt",
)  # fmt: skip


# -- schedule -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("2026-02-10T15:00", "Feb 10, 2026 3:00 PM PST"),
        ("2026-02-10T23:00:00Z", "Feb 10, 2026 3:00 PM PST"),
        ("2026-02-10 3:00 PM", "Feb 10, 2026 3:00 PM PST"),
        ("Feb 10, 2026 3:00 PM", "Feb 10, 2026 3:00 PM PST"),
        ("in 2 hours", "Feb 10, 2026 2:00 PM PST"),
        ("2026-07-01T09:00", "Jul 1, 2026 9:00 AM PDT"),
        ("now", "Feb 10, 2026 12:00 PM PST"),
    ],
)
def test_schedule_answers_with_the_number_and_the_local_time(stage: Stage, at: str, shown: str) -> None:
    first, second = stage.ada.hears("schedule", prompt="water the plants", at=at).split("\n")
    assert (first, second) == (f"Scheduled task #1 for {shown}.", f"Warning: {WAITS}")


def test_schedule_knows_the_same_facts(stage: Stage) -> None:
    assert stage.ada.knows("schedule", prompt="water the plants", at="15:00") == {
        "id": 1,
        "fire_at": "2026-02-10T15:00:00-08:00",
        "status": "pending",
        "prompt": "water the plants",
        "agent": "inbox",
        "timezone": PACIFIC,
        "note": "no date given: read as Feb 10, 2026 3:00 PM PST",
        "next_run": "2026-02-10T15:00:00-08:00",
        "reads_as": f"once, on 2026-02-10 15:00 PST ({PACIFIC})",
        "limits": {"max_attempts": 1, "timeout_seconds": 900.0, "max_runs_per_day": 200},
        "warnings": [WAITS],
        "warning_codes": ["no_agent"],
    }


@pytest.mark.parametrize(
    ("at", "shown", "note"),
    [
        ("15:30", "Feb 10, 2026 3:30 PM PST", "no date given: read as Feb 10, 2026 3:30 PM PST"),
        ("11:00", "Feb 11, 2026 11:00 AM PST", "no date given: read as Feb 11, 2026 11:00 AM PST"),
        ("tomorrow 9am", "Feb 11, 2026 9:00 AM PST", "tomorrow 9am"),
        ("2026-02-12", "Feb 12, 2026 12:00 AM PST", f"no time given: read as 00:00 in {PACIFIC}"),
        ("2026-03-08 2:30 AM", "Mar 8, 2026 3:30 AM PDT", f"clocks go forward over that time in {PACIFIC}"),
        ("2026-11-01T01:30", "Nov 1, 2026 1:30 AM PDT", f"that time comes twice in {PACIFIC}: the first one is meant"),
    ],
)
def test_what_had_to_be_assumed_is_said(stage: Stage, at: str, shown: str, note: str) -> None:
    first, second, _ = stage.ada.hears("schedule", prompt="water the plants", at=at).split("\n")
    assert first == f"Scheduled task #1 for {shown}."
    assert second.startswith("Note: ") and note.split(" 9am", maxsplit=1)[0] in second


@pytest.mark.parametrize(
    ("given", "first", "reading"),
    [
        ({"cron": "0 9 * * *"}, "Feb 11, 2026 9:00 AM PST", "09:00"),
        ({"every": "2h30m"}, "Feb 10, 2026 2:30 PM PST", "every 2 hours 30 minutes"),
        ({"every": "30m"}, "Feb 10, 2026 12:30 PM PST", "every 30 minutes"),
        ({"every": "1 day"}, "Feb 11, 2026 12:00 PM PST", "every"),
        ({"every": "every day"}, "Feb 11, 2026 12:00 PM PST", "every"),
        ({"every": "1.5 hours"}, "Feb 10, 2026 1:30 PM PST", "every 1 hour 30 minutes"),
        ({"every": "1 hour and 15 minutes"}, "Feb 10, 2026 1:15 PM PST", "every 1 hour 15 minutes"),
        ({"every": "1 day", "at": "2026-02-10 3:00 PM"}, "Feb 10, 2026 3:00 PM PST", "from 2026-02-10 15:00 PST"),
        ({"every": "1 day", "at": "now"}, "Feb 10, 2026 12:00 PM PST", "every"),
        ({"rrule": "FREQ=MONTHLY;BYDAY=-1FR"}, "Feb 27, 2026 12:00 PM PST", "Friday"),
    ],
)
def test_a_recurring_prompt_shows_its_first_time_and_its_rule(
    stage: Stage, given: dict[str, str], first: str, reading: str
) -> None:
    answer = stage.ada.use("schedule", {**given, "prompt": "water the plants"})
    assert answer.text is not None
    assert answer.text.startswith(f"Scheduled task #1 for {first}.\nNote: repeats ")
    assert reading in answer.text and reading in answer.structured["repeats"]


def test_an_interval_goes_on_from_its_first_time(stage: Stage) -> None:
    number = stage.make(every="2h", at="2026-02-10 3:00 PM")
    stage.time.advance(3 * HOUR)
    stage.ada.use("finish_prompt", run_id=stage.ada.knows("take_prompt")["run_id"], result="done")
    assert stage.ada.hears("schedule_list") == f"#{number}  Feb 10, 2026 5:00 PM PST  [pending]  water the plants"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, f"{ONE_OF}, not none of them."),
        ({"at": "15:00", "cron": "0 9 * * *"}, f"{ONE_OF}, not at, cron."),
        ({"every": "1h", "cron": "0 9 * * *"}, f"{ONE_OF}, not cron, every."),
        ({"at": "whenever"}, 'Error: could not parse "whenever" as a date/time.'),
        ({"at": ""}, 'Error: could not parse "" as a date/time.'),
        ({"at": "2026-02-30T10:00"}, 'Error: could not parse "2026-02-30T10:00" as a date/time.'),
        ({"at": "a\x1b[31m\nb"}, 'Error: could not parse "a\ufffd[31m\ufffdb" as a date/time.'),
        ({"at": "2026-02-10T11:00"}, PAST),
        ({"at": "2026-02-10T11:00", "every": "1h"}, PAST),
        ({"cron": "61 * * * *"}, "Error: Invalid cron expression: 61 * * * *"),
        ({"every": "soon"}, f'Error: every: could not parse "soon" {DURATION}'),
        ({"every": "0m"}, NOT_ZERO),
        ({"every": "99999999d"}, f'Error: every: could not parse "99999999d" {DURATION} {TOO_LONG}'),
        ({"every": "0.5s"}, TOO_OFTEN),
        ({"rrule": "DTSTART:20270101T090000\nRRULE:FREQ=DAILY"}, f"Error: rrule: {ONE_RULE}"),
        ({"at": "15:00", "agent": "coder"}, NO_CODER),
        ({"at": "15:00", "prompt": "  "}, "Error: prompt: must be a non-empty text"),
        ({"at": "15:00", "max_attempts": 0}, "Error: max_attempts: must be a whole number from 1 to 100, not 0"),
        ({"at": "15:00", "idempotency_key": ""}, "Error: idempotency_key: must not be empty"),
    ],
)  # fmt: skip
def test_what_schedule_refuses_is_a_result(stage: Stage, given: dict[str, Any], words: str) -> None:
    answer = stage.ada.use("schedule", {"prompt": "water the plants", **given})
    assert (answer.text, answer.structured) == (words, {"error": words})
    assert stage.ada.hears("schedule_list", status="all") == NO_TASKS


def test_rules_that_cannot_be_read_are_results(stage: Stage) -> None:
    for given in ({"cron": "0 0 30 2 *"}, {"rrule": "FREQ=NEVER"}, {"rrule": ""}, {"cron": ""}):
        assert stage.ada.hears("schedule", {**given, "prompt": "x"}).startswith("Error: ")
    words = stage.ada.hears("schedule", prompt="x", at="15:00", timezone="Mars/Olympus")
    assert words.startswith("Error: Unknown time zone 'Mars/Olympus'")
    assert stage.ada.hears("schedule", prompt="x", at="15:00", deliver_to="No Topic").startswith("Error: deliver_to: ")


def test_times_are_read_and_shown_in_the_zone_of_the_call(stage: Stage) -> None:
    answer = stage.ada.use("schedule", prompt="x", at="2026-02-11 09:00", timezone="Europe/Berlin")
    assert answer.text is not None and answer.text.startswith("Scheduled task #1 for Feb 11, 2026 9:00 AM CET.\n")
    assert answer.structured["fire_at"] == "2026-02-11T09:00:00+01:00"
    assert stage.ada.hears("schedule_list") == "#1  Feb 11, 2026 12:00 AM PST  [pending]  x"
    tokyo = Agent(stage.app.services, Caller("ada"), "Asia/Tokyo")
    assert tokyo.hears("schedule_list") == "#1  Feb 11, 2026 5:00 PM JST  [pending]  x"


def test_the_same_key_gives_the_first_result_again(stage: Stage) -> None:
    given = {"prompt": "water the plants", "every": "1h", "idempotency_key": "k"}
    first = stage.ada.use("schedule", given)
    stage.time.advance(timedelta(minutes=90))
    again = stage.ada.use("schedule", given)
    assert (again.text, again.structured) == (first.text, first.structured)
    assert stage.ada.knows("schedule_list", status="all")["total"] == 1
    other = stage.ada.hears("schedule", given, every="2h")
    assert other.startswith("Error: this idempotency_key was used with other arguments")
    assert stage.agent("bob").knows("schedule", given)["id"] == 2


@pytest.mark.parametrize("at", ["yesterday 12:00 PM", "24 hours ago"])
def test_words_for_a_past_time_are_refused_as_past(both: Stage, at: str) -> None:
    past = "Error: Feb 9, 2026 12:00 PM PST is in the past; it is now Feb 10, 2026 12:00 PM PST."
    assert both.ada.hears("schedule", prompt="water the plants", at=at) == past


def test_a_time_that_passed_within_this_minute_is_told_by_its_seconds(both: Stage) -> None:
    both.time.advance(timedelta(seconds=30))
    said = both.ada.hears("schedule", prompt="water the plants", at="2026-02-10T12:00:10")
    assert said == "Error: 2026-02-10T12:00:10-08:00 is in the past; it is now 2026-02-10T12:00:30-08:00."


@pytest.mark.parametrize("more", [{}, {"every": "1h"}])
def test_a_repeated_request_tells_how_its_time_was_understood_until_it_is_edited(
    stage: Stage, more: dict[str, str]
) -> None:
    given = {"prompt": "water the plants", "at": "tomorrow 9am", "idempotency_key": "k", **more}
    first = stage.ada.use("schedule", given)
    assert first.structured["note"] == "tomorrow: read as Feb 11, 2026 9:00 AM PST"
    stage.time.advance(timedelta(hours=14))
    assert stage.ada.use("schedule", given) == first
    stage.ada.knows("schedule_edit", id=1, at="2026-02-12 17:00")
    again = stage.ada.use("schedule", given)
    assert "9:00 AM" not in str(again.text) and "note" not in again.structured
    assert "time" not in again.structured.get("warning_codes", [])


@pytest.mark.parametrize("more", [{}, {"every": "1h"}])
def test_a_repeated_request_is_answered_when_its_time_is_over(both: Stage, more: dict[str, str]) -> None:
    given = {"prompt": "water the plants", "at": "2026-02-10 12:30 PM", **more}
    first = both.ada.hears("schedule", given, idempotency_key="k")
    both.time.advance(HOUR)
    assert both.ada.hears("schedule", given, idempotency_key="k") == first
    late = "Error: Feb 10, 2026 12:30 PM PST is in the past; it is now Feb 10, 2026 1:00 PM PST."
    assert both.ada.hears("schedule", given, idempotency_key="new") == late
    assert both.ada.hears("schedule", given) == late
    other = both.ada.hears("schedule", {**given, "prompt": "x"}, idempotency_key="k")
    assert other.startswith("Error: this idempotency_key was used with other arguments")
    assert both.ada.hears("schedule", given, idempotency_key="") == "Error: idempotency_key: must not be empty"
    assert both.ada.knows("schedule_list", status="all")["total"] == 1


def test_warnings_are_said_and_known(stage: Stage) -> None:
    assert stage.time.worker.id is not None
    stage.app.store.retire(stage.time.worker.id)
    answer = stage.ada.use("schedule", prompt="x", at="11:00", deliver_to="daily-report")
    read, idle, arrives, waits = answer.structured["warnings"]
    assert read == answer.structured["note"]
    assert "No worker is running" in idle and arrives == f"deliver_to: {INBOX_WARNING}" and waits == WAITS
    assert answer.text is not None
    assert answer.text.split("\n")[2:] == [f"Warning: {each}" for each in (idle, arrives, waits)]


def test_a_rule_that_may_surprise_is_warned_of(stage: Stage) -> None:
    warning, _ = stage.ada.knows("schedule", prompt="x", cron="0 9 1 * 1")["warnings"]
    assert warning.startswith("Both day-of-month and day-of-week are given")


# -- schedule_list ------------------------------------------------------------------------------------------------


def test_list_shows_pending_ones_in_the_order_of_firing(both: Stage) -> None:
    late, early = both.make("late", at="2026-02-12T09:00"), both.make("early", at="2026-02-11T09:00")
    gone = both.make("gone", at="2026-02-11T08:00")
    both.ada.use("schedule_cancel", id=gone)
    assert both.ada.hears("schedule_list") == (
        f"#{early}  Feb 11, 2026 9:00 AM PST  [pending]  early\n#{late}  Feb 12, 2026 9:00 AM PST  [pending]  late"
    )
    known = both.ada.knows("schedule_list")
    assert (known["total"], [task["id"] for task in known["tasks"]]) == (2, [early, late])
    assert known["tasks"][0] == {
        "id": early,
        "fire_at": "2026-02-11T09:00:00-08:00",
        "status": "pending",
        "prompt": "early",
        "agent": "inbox",
    }


def test_the_list_shows_a_name_and_until_when_it_is_paused(both: Stage) -> None:
    number = both.make("water the plants", at="2026-02-11T09:00")
    [row] = both.ada.knows("schedule_list")["tasks"]
    assert not {"name", "held", "paused_until"} & row.keys()
    both.ada.knows("edit_schedule", schedule_id=str(number), name="garden")
    both.ada.knows("pause_schedule", schedule_id="garden", until="2026-02-11T08:00", note="rain")
    [row] = both.ada.knows("schedule_list", status="paused")["tasks"]
    assert (row["id"], row["name"], row["held"]) == (number, "garden", "rain")
    assert row["paused_until"] == "2026-02-11T08:00:00-08:00"


def test_the_list_can_be_asked_about_the_past(stage: Stage) -> None:
    gone, waits = stage.make(at="15:00"), stage.make(at="2026-02-13T09:00")
    stage.ada.use("schedule_cancel", id=gone)
    stage.time.advance(DAY)  # Wednesday
    for ends in ({"from": "yesterday"}, {"from": "tuesday", "to": "friday"}, {"from": "2 days ago", "to": "in 9 days"}):
        known = stage.ada.knows("schedule_list", ends, status="all")
        assert [task["id"] for task in known["tasks"]] == [gone, waits], ends
    assert stage.ada.knows("schedule_list", status="all", to="yesterday")["total"] == 1
    words = stage.ada.hears("schedule_list", status="pending", to="friday")
    assert words.startswith(f"#{waits}  Feb 13") and words.endswith("read as Feb 13, 2026 11:59 PM PST.")


def test_list_by_status(both: Stage) -> None:
    done, failed, waits = both.due("done"), both.due("failed", at="in 1 minute"), both.due("waits")
    for outcome in ({"result": "ok"}, {"error": "no"}):
        run_id = both.ada.knows("take_prompt")["run_id"]
        both.ada.use("finish_prompt", outcome, run_id=run_id)
    gone, stays, paused = (both.make(name, at="2026-02-11T09:00") for name in ("gone", "stays", "paused"))
    both.ada.use("schedule_cancel", id=gone)
    both.app.scheduler.pause(Caller("ada"), str(paused))
    found = {
        status: [task["id"] for task in both.ada.knows("schedule_list", status=status)["tasks"]]
        for status in ("pending", "running", "completed", "failed", "cancelled", "paused", "all")
    }
    assert found == {
        "pending": [stays],
        "running": [waits],
        "completed": [done],
        "failed": [failed],
        "cancelled": [gone],
        "paused": [paused],
        "all": [done, failed, waits, gone, stays, paused],
    }
    assert (
        both.ada.hears("schedule_list", status="cancelled") == f"#{gone}  Feb 11, 2026 9:00 AM PST  [cancelled]  gone"
    )


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [
        (None, None, "abcd"),
        ("2026-02-12", None, "bcd"),
        ("2026-02-12T09:00", None, "bcd"),
        ("2026-02-12 9:01 AM", None, "cd"),
        (None, "2026-02-12", "ab"),
        (None, "2026-02-12T09:00", "ab"),
        (None, "2026-02-12 8:59 AM", "a"),
        ("2026-02-12", "2026-02-13", "bc"),
        ("2026-02-13", "2026-02-13", "c"),
        ("tomorrow", "tomorrow", "a"),
        ("Feb 14", "Feb 14", "d"),
        ("2026-02-13", "2026-02-12", ""),
        ("2020-01-01", "2020-12-31", ""),
    ],
)
def test_list_by_range(both: Stage, first: str | None, last: str | None, found: str) -> None:
    """From is included, and so is a last day as a whole."""
    for name, at in zip("abcd", ("11T23:59", "12T09:00", "13T23:59", "14T00:00"), strict=True):
        both.make(name, at=f"2026-02-{at}")
    given = {name: value for name, value in (("from", first), ("to", last)) if value is not None}
    assert "".join(task["prompt"] for task in both.ada.knows("schedule_list", given)["tasks"]) == found
    if not found:
        assert both.ada.hears("schedule_list", given) == NO_TASKS


def test_list_by_status_and_range(both: Stage) -> None:
    numbers = [both.make(str(day), at=f"2026-02-{day}T09:00") for day in (11, 12, 13, 14)]
    for number in numbers[:3]:
        both.ada.use("schedule_cancel", id=number)
    given = {"status": "cancelled", "from": "2026-02-12", "to": "2026-02-14"}
    assert [task["prompt"] for task in both.ada.knows("schedule_list", given)["tasks"]] == ["12", "13"]


def test_list_of_nothing(both: Stage) -> None:
    answer = both.ada.use("schedule_list")
    assert (answer.text, answer.structured["tasks"]) == (NO_TASKS, [])


def test_a_range_that_had_to_be_guessed_is_said(stage: Stage) -> None:
    stage.make("x", at="2027-02-01T09:00")
    row, note = stage.ada.hears("schedule_list", {"from": "Feb 1"}).split("\n")
    assert row == "#1  Feb 1, 2027 9:00 AM PST  [pending]  x"
    assert note == "Note: from: no year given: read as Feb 1, 2027 12:00 AM PST."
    known = stage.ada.knows("schedule_list", {"from": "2026-02-11", "to": "2027-03-01"})
    assert (known["from"], known["to"]) == ("2026-02-11T00:00:00-08:00", "2027-03-01T23:59:59-08:00")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"status": "sleeping"}, 'Error: unknown status "sleeping".'),
        ({"status": "broken"}, 'Error: unknown status "broken".'),
        ({"status": ""}, 'Error: unknown status "".'),
        ({"from": "someday"}, 'Error: could not parse "someday" as a date/time.'),
        ({"to": "2026-13-01"}, 'Error: could not parse "2026-13-01" as a date/time.'),
    ],
)
def test_what_list_refuses(stage: Stage, given: dict[str, str], words: str) -> None:
    assert stage.ada.hears("schedule_list", given) == words


def test_the_day_of_a_clock_change_is_whole(tmp_path: Path) -> None:
    """The day has 25 hours: its last one belongs to it."""
    stage = Stage(str(tmp_path / "duetime.db"), datetime(2026, 10, 31, 12, tzinfo=UTC))
    stage.make("x", at="2026-11-01T23:30")
    assert stage.ada.knows("schedule_list", {"to": "2026-11-01"})["total"] == 1
    assert stage.ada.knows("schedule_list", {"from": "2026-11-02"})["total"] == 0
    stage.time.close()


@pytest.mark.parametrize(
    ("prompt", "shown"),
    [
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 60 + "..."),
        ("é" * 61, "é" * 60 + "..."),
        ("a\n#99  Feb 10, 2026 3:00 PM PST  [pending]  b", "a #99 Feb 10, 2026 3:00 PM PST [pending] b"),
        ("a\x1b[2J\x07b", "a\ufffd[2J\ufffdb"),
        ("a\r\n\t\u2028b\u202ec", "a b\ufffdc"),
        ("\x07", "\ufffd"),
        ("a\U000e0041\xad\ufff9b", "a\ufffd\ufffd\ufffdb"),
        ("x" * 5000, "x" * 60 + "..."),
        (" " * 5000 + "x", "..."),
    ],
)
def test_hostile_prompts_stay_in_their_row(stage: Stage, prompt: str, shown: str) -> None:
    """What is stored is what was given; only the table is made harmless."""
    stage.make(prompt, at="15:00")
    assert stage.ada.hears("schedule_list") == f"#1  Feb 10, 2026 3:00 PM PST  [pending]  {shown}"
    stage.time.advance(3 * HOUR)
    assert stage.ada.knows("take_prompt")["prompt"] == prompt


def test_a_long_list_is_cut_and_says_so(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.kinds.prompts.mcp.schedules.MOST", 2)
    for _ in range(5):
        stage.make(at="15:00")
    assert (
        stage.ada.hears("schedule_list").split("\n")[2]
        == "Note: 3 more are not shown: narrow it down with from and to."
    )
    assert stage.ada.knows("schedule_list")["total"] == 5


# -- schedule_edit and schedule_cancel ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words", "row"),
    [
        (
            {"at": "2026-02-10 4:00 PM"},
            "time → Feb 10, 2026 4:00 PM PST",
            "Feb 10, 2026 4:00 PM PST  [pending]  feed the cat",
        ),
        (
            {"prompt": "water the plants"},
            'prompt → "water the plants"',
            "Feb 10, 2026 3:00 PM PST  [pending]  water the plants",
        ),
        (
            {"at": "2026-02-10 4:00 PM", "prompt": "water the plants"},
            'time → Feb 10, 2026 4:00 PM PST, prompt → "water the plants"',
            "Feb 10, 2026 4:00 PM PST  [pending]  water the plants",
        ),
        ({"prompt": "x" * 61}, f'prompt → "{"x" * 60}..."', f"Feb 10, 2026 3:00 PM PST  [pending]  {'x' * 60}..."),
    ],
    ids=["time", "prompt", "both", "long"],
)  # fmt: skip
def test_edit(both: Stage, given: dict[str, str], words: str, row: str) -> None:
    number = both.make("feed the cat", at="2026-02-10 3:00 PM", deliver_to="daily-report")
    assert both.ada.hears("schedule_edit", given, id=number) == f"Updated task #{number}: {words}"
    assert both.ada.hears("schedule_list") == f"#{number}  {row}"
    (task,) = both.ada.knows("schedule_list")["tasks"]
    assert task["deliver_to"] == "daily-report"


def test_edit_with_nothing_to_change(both: Stage) -> None:
    number = both.make(at="15:00")
    assert both.ada.hears("schedule_edit", id=number) == NOTHING_TO_EDIT
    assert both.ada.hears("schedule_edit", id=number, at=None, prompt=None) == NOTHING_TO_EDIT
    assert both.ada.hears("schedule_edit", id=number, timezone="UTC") == NOTHING_TO_EDIT
    assert both.ada.hears("schedule_edit", id=4711) == NOTHING_TO_EDIT


NUMBERS = [4711, 0, -1, 2**53 + 1, 2**63, 10**25, -(10**25)]


@pytest.mark.parametrize("number", NUMBERS)
def test_ids_that_nothing_has(both: Stage, number: int) -> None:
    assert both.ada.hears("schedule_edit", id=number, prompt="x") == not_editable(number)
    assert both.ada.hears("schedule_cancel", id=number) == not_cancelled(number)
    answer = both.ada.use("finish_prompt", run_id=number, result="x")
    assert answer.text == f"Run {number} is not yours to finish."
    assert answer.structured == {"error": answer.text}


def test_a_number_of_five_thousand_digits_is_answered(stage: Stage) -> None:
    """Python itself refuses to write it out."""
    for tool, given in (("schedule_edit", {"prompt": "x"}), ("schedule_cancel", {})):
        assert stage.ada.hears(tool, {**given, "id": 10**5000}) == "Error: id is too large a number for an id."
    words = stage.ada.hears("finish_prompt", run_id=-(10**5000), error="x")
    assert words == "Error: run_id is too large a number for an id."


def test_what_nobody_took_yet_can_be_cancelled(both: Stage) -> None:
    """It is due, and has not begun: without this, a recurring prompt without an agent could never be stopped."""
    number = both.due()
    assert both.ada.hears("schedule_edit", id=number, prompt="x") == not_editable(number)
    assert both.ada.hears("schedule_cancel", id=number) == f"Cancelled task #{number}."
    assert both.ada.hears("take_prompt") == "Nothing is due."


@pytest.mark.parametrize("end", ["cancelled", "taken", "completed", "paused"])
def test_edit_and_cancel_only_what_is_pending(both: Stage, end: str) -> None:
    number = both.due() if end in ("taken", "completed") else both.make(at="15:00")
    if end == "cancelled":
        both.ada.use("schedule_cancel", id=number)
    elif end == "paused":
        both.app.scheduler.pause(Caller("ada"), str(number))
    else:
        run_id = both.ada.knows("take_prompt")["run_id"]
        if end == "completed":
            both.ada.use("finish_prompt", run_id=run_id, result="ok")
    before = both.ada.hears("schedule_list", status="all")
    assert both.ada.hears("schedule_edit", id=number, prompt="x") == not_editable(number)
    assert both.ada.hears("schedule_edit", id=number, at="in 3 hours") == not_editable(number)
    assert both.ada.hears("schedule_cancel", id=number) == not_cancelled(number)
    assert both.ada.hears("schedule_list", status="all") == before
    for tool, more in (("schedule_edit", {"prompt": "x"}), ("schedule_cancel", {})):
        hint = both.ada.knows(tool, more, id=number).get("hint", "")
        assert ("resume_schedule" in hint) is (end == "paused"), "says what to do with one that is paused"


def test_a_job_is_no_prompt(both: Stage) -> None:
    made = both.ada.knows(
        "schedule_job", name="x", task="echo", trigger_type="interval", trigger_config={"hours": 1}, kwargs={"value": 1}
    )
    number = int(made["job_id"].split("_")[1])
    assert both.ada.hears("schedule_cancel", id=number) == not_cancelled(number)
    assert both.ada.hears("schedule_list", status="all") == NO_TASKS


def test_cancel(both: Stage) -> None:
    number = both.make(every="1h")
    answer = both.ada.use("schedule_cancel", id=number)
    assert (answer.text, answer.structured) == (f"Cancelled task #{number}.", {"id": number, "status": "cancelled"})
    both.time.advance(3 * HOUR)
    assert both.ada.hears("take_prompt") == "Nothing is due."
    assert both.ada.hears("schedule_cancel", id=number) == not_cancelled(number)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"at": "whenever"}, 'Error: could not parse "whenever" as a date/time.'),
        ({"at": "2026-02-10T11:00"}, PAST),
        ({"prompt": " "}, "Error: prompt: must be a non-empty text"),
        ({"cron": "nonsense"}, "Error: Invalid cron expression: nonsense"),
        ({"every": "soon"}, f'Error: every: could not parse "soon" {DURATION}'),
        ({"every": "0.1s"}, TOO_OFTEN),
        ({"at": "16:00", "cron": "0 9 * * *"}, f"{ONE_OF}, not at, cron."),
        (
            {"at": "16:00", "timezone": "Nowhere"},
            "Error: Unknown time zone 'Nowhere': use an IANA name such as Europe/Berlin.",
        ),
    ],
)  # fmt: skip
def test_what_edit_refuses_changes_nothing(stage: Stage, given: dict[str, str], words: str) -> None:
    number = stage.make(at="15:00")
    before = stage.ada.knows("schedule_list")
    assert stage.ada.hears("schedule_edit", given, id=number) == words
    assert stage.ada.knows("schedule_list") == before


def test_dates_that_cannot_be_read(both: Stage) -> None:
    number = both.make(at="15:00")
    before = both.ada.knows("schedule_list", status="all")
    words = 'Error: could not parse "soonish" as a date/time.'
    assert both.ada.hears("schedule", prompt="x", at="soonish") == words
    assert both.ada.hears("schedule_edit", id=number, at="soonish", prompt="x") == words
    assert both.ada.hears("schedule_list", {"from": "soonish"}) == words
    assert both.ada.hears("schedule_list", {"to": "soonish"}) == words
    assert both.ada.knows("schedule_list", status="all") == before


def test_editing_the_time_of_a_recurring_prompt_moves_its_next_time_only(both: Stage) -> None:
    number = both.make(cron="0 9 * * *")
    words = both.ada.hears("schedule_edit", id=number, at="2026-02-11 4:00 PM")
    assert words == f"Updated task #{number}: time → Feb 11, 2026 4:00 PM PST"
    both.time.advance(datetime(2026, 2, 11, 23, 59, tzinfo=UTC))
    assert both.ada.hears("take_prompt") == "Nothing is due."
    both.time.advance(timedelta(minutes=1))
    both.ada.use("finish_prompt", run_id=both.ada.knows("take_prompt")["run_id"], result="ok")
    assert both.ada.hears("schedule_list") == f"#{number}  Feb 12, 2026 9:00 AM PST  [pending]  water the plants"


@pytest.mark.parametrize("to", ["2026-02-10 1:00 PM", "2026-02-10 5:00 PM", "now"])
def test_a_single_prompt_that_was_moved_fires_once(both: Stage, to: str) -> None:
    """Also when it was moved ahead: the old time is forgotten."""
    number = both.make(at="2026-02-10 3:00 PM")
    both.ada.use("schedule_edit", id=number, at=to)
    both.time.advance(DAY)
    taken = both.ada.knows("take_prompt")
    both.ada.use("finish_prompt", run_id=taken["run_id"], result="ok")
    both.time.advance(DAY)
    assert both.ada.hears("take_prompt") == "Nothing is due."
    (task,) = both.ada.knows("schedule_list", status="all")["tasks"]
    assert task["status"] == "completed"
    assert len(both.app.store.runs(RunQuery()).items) == 1


@pytest.mark.parametrize(
    ("given", "time", "rule"),
    [
        ({"every": "2h"}, "Feb 10, 2026 2:00 PM PST", "every 2 hours"),
        ({"every": "2h", "at": "2026-02-10 3:30 PM"}, "Feb 10, 2026 3:30 PM PST", "every 2 hours"),
        ({"cron": "0 9 * * *"}, "Feb 11, 2026 9:00 AM PST", "09:00"),
        ({"cron": "0 9 * * *", "timezone": "Europe/Berlin"}, "Feb 11, 2026 9:00 AM CET", "Europe/Berlin"),
        ({"rrule": "FREQ=DAILY;COUNT=3"}, "Feb 10, 2026 12:00 PM PST", "day"),
    ],
)
def test_rules_can_be_edited(both: Stage, given: dict[str, str], time: str, rule: str) -> None:
    number = both.make(at="2026-02-20 3:00 PM")
    if "rrule" in given:  # a rule begins with the present second, and its first time has to lie ahead
        time = "Feb 11, 2026 12:00 PM PST"
    words = both.ada.hears("schedule_edit", {**given, "prompt": "look"}, id=number)
    assert words.startswith(f"Updated task #{number}: time → {time}, repeats → ")
    assert rule in words and words.endswith(', prompt → "look"')


def test_a_new_rule_lives_in_the_zone_of_the_old_one(stage: Stage) -> None:
    number = stage.make(at="2026-02-20 3:00 PM", timezone="Europe/Berlin")
    words = stage.ada.hears("schedule_edit", id=number, cron="0 9 * * *")
    assert "time → Feb 11, 2026 12:00 AM PST" in words and "Europe/Berlin" in words
    words = stage.ada.hears("schedule_edit", id=number, every="1 day", at="2026-02-10 3:30 PM")
    assert words.startswith(f"Updated task #{number}: time → Feb 10, 2026 3:30 PM PST")


def test_what_is_broken_can_be_shown_mended_and_cancelled(both: Stage) -> None:
    """Nothing else in this family could help it."""
    numbers = [both.make(every="1h") for _ in range(2)]
    for number in numbers:
        with both.app.store._write() as tx:  # type: ignore[attr-defined]
            found = tx.lock_schedule(number)
            tx.apply(Writes(definitions=[found.definition._replace(trigger="nonsense")]), found.definition.created)
    both.time.advance(HOUR)
    assert both.ada.hears("schedule_list", status="all").split("\n")[0] == (
        f"#{numbers[0]}  Feb 10, 2026 1:00 PM PST  [broken]  water the plants"
    )
    assert both.ada.hears("schedule_edit", id=numbers[0], prompt="x").startswith("Error: what is stored of it")
    words = both.ada.hears("schedule_edit", id=numbers[0], cron="0 9 * * *")
    assert words.startswith(
        f"Updated task #{numbers[0]}: time → Feb 11, 2026 9:00 AM PST, repeats → every day at 09:00"
    )
    assert both.ada.hears("schedule_cancel", id=numbers[1]) == f"Cancelled task #{numbers[1]}."


def test_an_edit_that_crossed_another_is_not_lost(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    number = stage.make(at="15:00")
    edit = stage.app.scheduler.edit

    def crossed(*given: Any) -> Any:
        monkeypatch.setattr(stage.app.scheduler, "edit", edit)
        stage.ada.use("schedule_edit", id=number, prompt="theirs")
        return edit(*given)

    monkeypatch.setattr(stage.app.scheduler, "edit", crossed)
    assert stage.ada.hears("schedule_edit", id=number, prompt="mine").startswith(
        "Error: it was changed in the meantime"
    )
    assert stage.ada.knows("schedule_list")["tasks"][0]["prompt"] == "theirs"


# -- owners -------------------------------------------------------------------------------------------------------


def test_what_is_anothers_is_as_what_does_not_exist(both: Stage) -> None:
    bob = both.agent("bob")
    mine, waiting = both.make(at="2026-02-11T09:00"), both.due()
    assert bob.hears("schedule_list", status="all") == NO_TASKS
    assert bob.hears("take_prompt") == "Nothing is due."
    assert bob.reads("prompts://due") == {"due": [], "total": 0, "timezone": PACIFIC}
    nobody = bob.digest("prompts://due")
    run_id = both.ada.knows("take_prompt")["run_id"]
    assert bob.digest("prompts://due") == nobody
    for number in (mine, waiting):
        assert bob.hears("schedule_edit", id=number, prompt="x") == not_editable(number)
        assert bob.hears("schedule_cancel", id=number) == not_cancelled(number)
    assert bob.hears("finish_prompt", run_id=run_id, result="x") == f"Run {run_id} is not yours to finish."
    assert bob.reads(f"prompts://runs/{run_id}") is None
    assert bob.digest(f"prompts://runs/{run_id}") is None


def test_an_operator_sees_all_and_takes_only_its_own(stage: Stage) -> None:
    number = stage.due()
    root = stage.agent("root", operator=True)
    assert root.hears("take_prompt") == "Nothing is due."
    (row,) = root.knows("schedule_list", status="all")["tasks"]
    assert (row["id"], row["owner"]) == (number, "ada")
    run_id = stage.ada.knows("take_prompt")["run_id"]
    assert root.hears("finish_prompt", run_id=run_id, result="x") == f"Run {run_id} is not yours to finish."


# -- take_prompt and finish_prompt --------------------------------------------------------------------------------


def test_take_and_finish(both: Stage) -> None:
    assert both.ada.hears("take_prompt") == "Nothing is due."
    assert both.ada.knows("take_prompt") == {"message": "Nothing is due."}
    number = both.due("water the plants\nand the cactus")
    answer = both.ada.use("take_prompt")
    run_id = answer.structured["run_id"]
    assert answer.structured == {
        "id": number,
        "run_id": run_id,
        "prompt": "water the plants\nand the cactus",
        "author": "ada",
        "due": "2026-02-10T12:01:00-08:00",
        "expires_at": "2026-02-10T12:16:00-08:00",
    }
    assert answer.text is not None
    assert f"finish_prompt with run_id {run_id} and the result" in answer.text
    _, mark, rest = re.split(r"\n\n\[([0-9a-f]{16}) begins]\n", answer.text)
    assert rest == f"water the plants\nand the cactus\n[{mark} ends]"
    assert both.ada.hears("take_prompt") == "Nothing is due."
    done = both.ada.use("finish_prompt", run_id=run_id, result="both are wet")
    assert done.text == f"Finished task #{number}."
    assert done.structured == {"id": number, "run_id": run_id, "status": "completed"}
    assert both.ada.hears("finish_prompt", run_id=run_id, result="x") == f"Run {run_id} is not yours to finish."
    kept = both.ada.reads(f"prompts://runs/{run_id}")
    assert kept is not None
    assert (kept["id"], kept["status"], kept["result"]) == (number, "completed", "both are wet")


def test_two_agents_never_get_the_same(both: Stage) -> None:
    first, second = both.due("first"), both.due("second")
    one, other = both.agent("ada", "token-1"), both.agent("ada", "token-2")
    taken, further = one.knows("take_prompt"), other.knows("take_prompt")
    assert (taken["id"], further["id"]) == (first, second)
    assert other.hears("finish_prompt", run_id=taken["run_id"], result="x") == (
        f"Run {taken['run_id']} is not yours to finish."
    )
    assert one.hears("finish_prompt", run_id=taken["run_id"], result="x") == f"Finished task #{first}."


@pytest.mark.parametrize("worker", [True, False])
def test_after_its_time_another_may_take_it(stage: Stage, worker: bool) -> None:
    stage.due()
    one, other = stage.agent("ada", "token-1"), stage.agent("ada", "token-2")
    run_id = one.knows("take_prompt")["run_id"]
    quarter = timedelta(minutes=15)
    if worker:
        stage.time.advance(quarter)
    else:
        stage.time.clock.jump(quarter)
    assert one.hears("finish_prompt", run_id=run_id, result="late") == f"Run {run_id} is not yours to finish."
    again = other.knows("take_prompt")
    assert (again["run_id"], again["expires_at"]) == (run_id, "2026-02-10T12:31:00-08:00")
    assert one.hears("finish_prompt", run_id=run_id, result="late") == f"Run {run_id} is not yours to finish."
    assert other.hears("finish_prompt", run_id=run_id, result="done") == "Finished task #1."


def test_a_task_may_give_more_time(stage: Stage) -> None:
    stage.due(timeout_seconds=3600)
    assert stage.ada.knows("take_prompt")["expires_at"] == "2026-02-10T13:01:00-08:00"


def test_only_prompts_for_an_agent(stage: Stage) -> None:
    stage.due()
    assert stage.ada.hears("take_prompt", agent="coder") == "Nothing is due."
    assert stage.ada.knows("take_prompt", agent="inbox", timezone="UTC")["due"] == "2026-02-10T20:01:00+00:00"


def test_a_failure_is_tried_again_by_policy(both: Stage) -> None:
    number = both.due(max_attempts=2)
    run_id = both.ada.knows("take_prompt")["run_id"]
    failed = both.ada.use("finish_prompt", run_id=run_id, error="no water")
    assert (failed.text, failed.structured["status"]) == (f"Finished task #{number}.", "pending")
    assert both.ada.hears("take_prompt") == "Nothing is due."
    both.time.advance(timedelta(minutes=1))
    assert both.ada.knows("take_prompt")["run_id"] == run_id
    assert both.ada.knows("finish_prompt", run_id=run_id, error="still none")["status"] == "failed"
    kept = both.ada.reads(f"prompts://runs/{run_id}")
    assert kept is not None
    assert (kept["error"], [each["error"] for each in kept["attempts"]]) == ("still none", ["no water"])
    (task,) = both.ada.knows("schedule_list", status="failed")["tasks"]
    assert task["last_error"] == "still none"


@pytest.mark.parametrize("given", [{}, {"result": "a", "error": "b"}, {"result": None, "error": None}])
def test_finish_needs_one_of_result_and_error(stage: Stage, given: dict[str, Any]) -> None:
    stage.due()
    run_id = stage.ada.knows("take_prompt")["run_id"]
    assert stage.ada.hears("finish_prompt", given, run_id=run_id) == RESULT_OR_ERROR
    assert stage.ada.hears("finish_prompt", run_id=run_id, result="") == "Finished task #1."


def test_a_huge_result_is_cut_and_marked(stage: Stage) -> None:
    stage.due()
    run_id = stage.ada.knows("take_prompt")["run_id"]
    stage.ada.use("finish_prompt", run_id=run_id, result="é" * 2**21)
    run = stage.app.store.run(run_id)
    assert run is not None and run.result is not None
    assert len(run.result.encode()) <= LIMIT
    assert json.loads(run.result)["cut"] is True


def test_a_huge_error_is_cut(stage: Stage) -> None:
    stage.due()
    run_id = stage.ada.knows("take_prompt")["run_id"]
    stage.ada.use("finish_prompt", run_id=run_id, error="x" * 2**22)
    run = stage.app.store.run(run_id)
    assert run is not None and run.error is not None
    assert (run.status, len(run.error)) == (RunStatus.FAILED, 2000)


# -- resources ----------------------------------------------------------------------------------------------------


def test_due_prompts_can_be_read_and_watched(both: Stage) -> None:
    seen = [both.ada.digest("prompts://due")]

    def changes() -> bool:
        seen.append(both.ada.digest("prompts://due"))
        return seen[-1] != seen[-2]

    both.make(at="2026-02-11T09:00")
    assert not changes()
    number = both.due("x" * 100)
    assert changes() and not changes()
    found = both.ada.reads("prompts://due")
    assert found is not None
    (row,) = found["due"]
    assert row == {
        "id": number,
        "run_id": row["run_id"],
        "prompt": "x" * 100,
        "author": "ada",
        "due": "2026-02-10T12:01:00-08:00",
    }
    both.ada.use("take_prompt")
    assert changes()
    assert both.ada.reads("prompts://due") == {"due": [], "total": 0, "timezone": PACIFIC}
    both.time.advance(timedelta(minutes=15))
    assert changes()
    both.ada.use("finish_prompt", run_id=both.ada.knows("take_prompt")["run_id"], result="ok")
    assert changes() and not changes()


def test_a_run_can_be_watched_to_its_end(stage: Stage) -> None:
    stage.due()
    uri = f"prompts://runs/{stage.ada.reads('prompts://due')['due'][0]['run_id']}"  # type: ignore[index]
    before = stage.ada.digest(uri)
    run_id = stage.ada.knows("take_prompt")["run_id"]
    taken = stage.ada.reads(uri)
    assert taken is not None
    assert (taken["status"], taken["prompt"], taken["expires_at"]) == (
        "waiting", "water the plants", "2026-02-10T12:16:00-08:00",
    )  # fmt: skip
    held = stage.ada.digest(uri)
    stage.ada.use("finish_prompt", run_id=run_id, result="ok")
    assert len({before, held, stage.ada.digest(uri)}) == 3


@pytest.mark.parametrize("hole", ["0", "-1", "x", "4711", "٣", "9" * 30, "1e3", "1.0", "1%00"])
def test_runs_that_are_not_there(stage: Stage, hole: str) -> None:
    assert stage.ada.reads(f"prompts://runs/{hole}") is None


def test_a_run_of_a_job_is_no_run_of_a_prompt(stage: Stage) -> None:
    trigger = {"trigger_type": "interval", "trigger_config": {"hours": 1}}
    stage.ada.use("schedule_job", trigger, name="x", task="echo", kwargs={"value": 1})
    stage.time.advance(HOUR)
    (run,) = stage.app.store.runs(RunQuery()).items
    assert stage.ada.reads(f"prompts://runs/{run.id}") is None


# -- hostile input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["schedule", "schedule_edit"])
def test_a_prompt_of_four_mebibytes_is_refused_clearly(stage: Stage, tool: str) -> None:
    stage.make(at="15:00")
    given: dict[str, Any] = {"at": "16:00"} if tool == "schedule" else {"id": 1}
    words = stage.ada.hears(tool, given, prompt="x" * 2**22)
    assert words.startswith("Error: prompt: it has 4194") and "the limit is 262144" in words
    assert stage.ada.hears("schedule_list") == "#1  Feb 10, 2026 3:00 PM PST  [pending]  water the plants"


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize(
    ("tool", "argument"),
    [
        (tool, name)
        for tool in PROMPTS
        for name, schema in TOOLS[tool].input["properties"].items()
        if "string" in schema["type"]
    ],
)
def test_what_is_no_text_is_a_problem_that_names_the_argument(
    stage: Stage, tool: str, argument: str, text: str
) -> None:
    needed: dict[str, Any] = {"id": 1, "run_id": 1, "prompt": "x"}
    given = {name: needed[name] for name in TOOLS[tool].input["required"]}
    with pytest.raises(ToolProblem, match=argument):
        stage.ada.use(tool, {**given, argument: text})


@pytest.mark.parametrize(
    ("tool", "given", "named"),
    [
        ("schedule", {}, "prompt"),
        ("schedule", {"prompt": 7, "at": "15:00"}, "prompt"),
        ("schedule", {"prompt": "x", "at": 7}, "at"),
        ("schedule", {"prompt": "x", "at": "15:00", "owner": "bob"}, "owner"),
        ("schedule", {"prompt": "x", "at": "15:00", "timeout_seconds": 0.5}, "timeout_seconds"),
        ("schedule_list", {"from_": "today"}, "from_"),
        ("schedule_edit", {"id": [1], "prompt": "x"}, "id"),
        ("schedule_edit", {"id": True, "prompt": "x"}, "id"),
        ("schedule_edit", {"id": None, "prompt": "x"}, "id"),
        ("schedule_cancel", {"id": 1.5}, "id"),
        ("schedule_cancel", {"id": float("inf")}, "id"),
        ("schedule_cancel", {}, "id"),
        ("take_prompt", {"agent": ["inbox"]}, "agent"),
        ("finish_prompt", {"result": "x"}, "run_id"),
        ("finish_prompt", {"run_id": 1, "result": {"a": 1}}, "result"),
    ],
)
def test_arguments_that_do_not_fit_are_problems(stage: Stage, tool: str, given: dict[str, Any], named: str) -> None:
    with pytest.raises(ToolProblem, match=named):
        stage.ada.use(tool, given)


def test_texts_are_never_reinterpreted(stage: Stage) -> None:
    for prompt in ("null", '{"a": 1}', "12", "true", "$(touch x)", "--help"):
        stage.due(prompt)
        assert stage.ada.knows("take_prompt")["prompt"] == prompt


def test_a_store_that_is_away_is_told_without_its_path(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> Any:
        raise StoreUnavailable("/home/ada/secret.db is locked by another process")

    number = stage.due()
    calls: dict[str, Callable[[], str]] = {
        "create": lambda: stage.ada.hears("schedule", prompt="x", at="15:00"),
        "search": lambda: stage.ada.hears("schedule_list"),
        "change": lambda: stage.ada.hears("schedule_cancel", id=number),
        "runs": lambda: stage.ada.hears("take_prompt"),
        "change_run": lambda: stage.ada.hears("finish_prompt", run_id=1, result="x"),
    }
    for method, use in calls.items():
        with monkeypatch.context() as patched:
            patched.setattr(stage.app.store, method, away)
            assert use() == "Error: the store cannot be reached right now; try again in a moment."


def test_hints_are_honest() -> None:
    assert [name for name in PROMPTS if TOOLS[name].read_only] == ["schedule_list", "prompt_result"]
    assert [name for name in PROMPTS if TOOLS[name].destructive] == ["schedule_edit", "schedule_cancel"]
    assert "from" in TOOLS["schedule_list"].input["properties"]
    for name in PROMPTS:
        assert TOOLS[name].input["additionalProperties"] is False
        assert not {"anyOf", "oneOf", "allOf"} & set(TOOLS[name].input)
