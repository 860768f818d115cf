"""Phrases about events, and phrases that look like them but are times."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest

from duetime.engine.clock import Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.triggers import build_trigger, describe, trigger_from_json, trigger_to_json
from duetime.engine.triggers.event import MISSING, value_at, values_of
from duetime.service.when import read_phrase, when_of
from duetime.stores.events import names_for

NOW = Instant(1_800_000_000_000_000)


@pytest.mark.parametrize(
    ("phrase", "config", "words"),
    [
        ("on github.push", {"event": "github.push"}, "on the event github.push"),
        ("ON Deploy", {"event": "Deploy"}, "on the event Deploy"),
        ("on *", {"event": "*"}, "on any event"),
        (
            "on github.* where ref = refs/heads/main at most every 10m",
            {"event": "github.*", "where": {"ref": "refs/heads/main"}, "at_most_every": "10m"},
            "on the event github.* where ref is refs/heads/main, at most every 10 minutes",
        ),
        (
            "on mail.new where from.address = 'a and b' and subject exists",
            {"event": "mail.new", "where": {"from.address": "a and b", "subject": "*"}},
            "on the event mail.new where from.address is a and b and subject is present",
        ),
        (
            "on deploy where state is not-started",
            {"event": "deploy", "where": {"state": "not-started"}},
            "on the event deploy where state is not-started",
        ),
        (
            "on mail.new where subject is present and from.address is present@example.org",
            {"event": "mail.new", "where": {"subject": "*", "from.address": "present@example.org"}},
            "on the event mail.new where from.address is present@example.org and subject is present",
        ),
        (
            "on x where a = 1 or 2 and b is true, at most once an hour",
            {"event": "x", "where": {"a": ["1", "2"], "b": "true"}, "at_most_every": "hour"},
            "on the event x where a is 1 or 2 and b is true, at most every 1 hour",
        ),
    ],
)
def test_what_a_phrase_waits_for(phrase: str, config: dict[str, Any], words: str) -> None:
    assert read_phrase(phrase) == ("event", config)
    trigger = build_trigger("event", config, zone="UTC", now=NOW)
    assert describe(trigger) == words
    stored = trigger_to_json(trigger)
    assert '"type":"event"' in stored, "as the index of listeners expects it"
    assert trigger_from_json(stored + " ") == trigger


@pytest.mark.parametrize(
    "phrase", ["on friday", "on monday at 9", "on mondays at 9", "on weekdays at 9am", "on 2028-01-05"]
)
def test_days_stay_days(phrase: str) -> None:
    assert read_phrase(phrase)[0] != "event"


@pytest.mark.parametrize("condition", ["a!=1", "a >= 5", "a", "a = 1 and a = 2", "a is not b"])
def test_a_condition_that_is_none(condition: str) -> None:
    with pytest.raises(InvalidInput, match="as in"):
        read_phrase(f"on x where {condition}")


@pytest.mark.parametrize(
    "condition",
    [
        "a = 1 or b = 2",
        "a = 1 or b=2",
        "a is 1 or b is 2",
        "a = 1 or if b is 2",
        "a = 1 or b exists",
        "a = 1 or b > 2",
        "a = 1 or b-c = 2",
    ],
)
def test_or_joins_values_of_one_path_and_no_other_path(condition: str) -> None:
    """It used to be read as the text "b = 2", which no event has."""
    with pytest.raises(InvalidInput, match='joins two paths by "or"; give each a schedule of its own'):
        read_phrase(f"on x where {condition}")


@pytest.mark.parametrize(
    "condition",
    [
        "a = open, b = 5",
        "a = open,b = 5",
        "a = open, b=5",
        "a is open, b is 5",
        "a = 1 or open, b = 5",
        "a = open, b > 5",
        "c = 1 and a = open, b exists",
        "a = open, closed, b.c = 5",
    ],
)
def test_a_comma_joins_no_paths(condition: str) -> None:
    """It used to be read as the text "open, b = 5", which no event has."""
    with pytest.raises(InvalidInput, match='joins two paths by ","; write "and" instead, or put the value into quotes'):
        read_phrase(f"on x where {condition}")


def test_a_comma_before_and_belongs_to_no_value() -> None:
    assert read_phrase("on x where a = open, and b = 5")[1]["where"] == {"a": "open", "b": "5"}


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("a = 1 or 'b = 2'", ["1", "b = 2"]),
        ("a = open, closed", "open, closed"),
        ("a = 'open, b = 5'", "open, b = 5"),
        ("a = https://x.example/?b=1,c=2", "https://x.example/?b=1,c=2"),
        ("a = this or that", ["this", "that"]),
        ("a = https://x.example/?b=1 or https://x.example/?b=2", ["https://x.example/?b=1", "https://x.example/?b=2"]),
        ("""a = "'quoted' words" """, "'quoted' words"),
        ("""a = '"quoted" words' """, '"quoted" words'),
        ("a = rock'", "rock'"),
    ],
)
def test_a_value_is_read_as_it_is_written(condition: str, values: Any) -> None:
    assert read_phrase(f"on x where {condition}")[1]["where"] == {"a": values}


@pytest.mark.parametrize("value", [">= 500", ">500", "!= 5", "at least 5.50", "more than 5", "< -3"])
def test_a_comparison_is_refused_and_another_way_shown(value: str) -> None:
    with pytest.raises(InvalidInput, match="a can only be equal to a value; to compare"):
        build_trigger("event", {"event": "x", "where": {"a": value}}, zone="UTC", now=NOW)
    for condition in (f"a = {value}", f"a = 1 or {value}", f"a = {value} or 1", f"b = c and a is {value}", "a >= 5"):
        with pytest.raises(InvalidInput, match="to compare otherwise, let a task of your own decide in only_if"):
            read_phrase(f"on x where {condition}")


@pytest.mark.parametrize("values", [["<5"], ["under 18", "over 65"], ["0", "<5", "5-10"]])
def test_a_text_in_quotes_or_a_list_is_a_value_even_if_it_looks_like_a_comparison(values: list[str]) -> None:
    """Such a list is also what an export contains of a schedule from before comparisons were refused."""
    where = {"a": values}
    phrase = " or ".join(f"'{each}'" for each in values)
    assert read_phrase(f"on x where a = {phrase}") == ("event", {"event": "x", "where": where})
    trigger = build_trigger("event", {"event": "x", "where": where}, zone="UTC", now=NOW)
    assert trigger.matches(values_of({"a": values[0]})) and not trigger.matches(values_of({"a": 4}))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("written", "sent", "is_equal"),
    [
        ("500", 500.0, True),
        ("500.0", 500, True),
        ("19.90", 19.9, True),
        ("5e2", 500, True),
        ("-0", 0, True),
        ("500", "500", True),
        ("500", "500.0", False),
        ("1.10", "1.1", False),
        ("1", True, False),
        ("true", True, True),
        ("true", 1, False),
        ("9007199254740993", 9007199254740992.0, False),
        ("500", [500.0], False),
        ("0500", 500, False),
    ],
)
def test_a_number_is_equal_to_its_other_forms_and_a_text_only_to_itself(
    written: str, sent: Any, is_equal: bool
) -> None:
    type_, config = read_phrase(f"on x where a = {written}")
    trigger = build_trigger(type_, config, zone="UTC", now=NOW)
    assert trigger.matches(values_of({"a": sent})) is is_equal  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", ["<ada@example.org>", "over the moon", "at least one", "5 or more", "->", "!"])
def test_a_text_that_is_no_comparison_is_a_value(value: str) -> None:
    trigger = build_trigger("event", {"event": "x", "where": {"a": value}}, zone="UTC", now=NOW)
    assert describe(trigger) == f"on the event x where a is {value}"


def test_a_stored_comparison_stays_readable() -> None:
    stored = trigger_to_json(build_trigger("event", {"event": "x", "where": {"a": "b"}}, zone="UTC", now=NOW))
    assert describe(trigger_from_json(stored.replace('"b"', '">= 5"'))) == "on the event x where a is >= 5"


@pytest.mark.parametrize("phrase", ["on caf\u00e9.done", "on order created", "when order.created arrives"])
def test_what_is_no_event_and_no_time_shows_how_to_write_an_event(phrase: str) -> None:
    with pytest.raises(InvalidInput, match='or an event: "on deploy'):
        when_of("when", phrase)
    with pytest.raises(InvalidInput) as refusal:
        when_of("when", "tomorow at 9")
    assert "event" not in str(refusal.value)


@pytest.mark.parametrize("value", [{"name": "x"}, [], [["x"]], ["x", {}], "x" * 201, ["x"] * 21])
def test_a_value_that_no_condition_can_have(value: Any) -> None:
    with pytest.raises(InvalidInput, match="a value must be"):
        build_trigger("event", {"event": "x", "where": {"a": value}}, zone="UTC", now=NOW)


def test_an_index_has_one_form() -> None:
    data = {"a": ["first", {"b": "second"}]}
    assert (value_at(data, "a.0"), value_at(data, "a.1.b")) == ("first", "second")
    for path in ("a.00", "a.01.b", "a.-1", "a.2", "a.x", "a.\u0661"):
        assert value_at(data, path) is MISSING


def test_a_long_phrase_is_read_in_time() -> None:
    began = time.process_time()
    for part in ("a = b or ", "a = b and ", "a is ", "= ", "' or "):
        with suppress(InvalidInput):
            read_phrase(f"on x where {part * (900 // len(part))}!")
    assert time.process_time() - began < 1


def test_the_names_under_which_an_event_is_heard() -> None:
    assert json.loads(names_for("a.b.c")) == ["a.b.c", "a.b.*", "a.*", "*"]
    assert json.loads(names_for("a")) == ["a", "*"]
    assert json.loads(names_for("~ended.5")) == ["~ended.5"]


@pytest.mark.parametrize(
    ("phrase", "schedule", "outcome"),
    [
        ("after backup succeeds", "backup", "succeeds"),
        ("After the job 'nightly  backup' fails", "nightly backup", "fails"),
        ("once backup is done", "backup", "ends"),
        ("when invoice import failed", "invoice import", "fails"),
        ("after report finishes successfully", "report", "succeeds"),
        ("after report has completed successfully", "report", "succeeds"),
        ("after ends ends", "ends", "ends"),
    ],
)
def test_what_a_phrase_follows(phrase: str, schedule: str, outcome: str) -> None:
    assert read_phrase(phrase) == ("after", {"schedule": schedule, "outcome": outcome})
    limited = read_phrase(f"{phrase}, at most every 2h")
    assert limited == ("after", {"schedule": schedule, "outcome": outcome, "at_most_every": "2h"})


@pytest.mark.parametrize("phrase", ["after backup", "after 2 hours", "after succeeds"])
def test_a_phrase_that_does_not_say_after_what(phrase: str) -> None:
    with pytest.raises(InvalidInput, match="after backup succeeds, fails or ends"):
        read_phrase(phrase)
