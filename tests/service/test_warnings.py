"""Warnings: one short sentence each, with a code."""

from __future__ import annotations

import re
import string

import pytest

from duetime.engine.clock import Instant
from duetime.engine.times.zones import known_zone
from duetime.engine.triggers import build_trigger, warnings_for
from duetime.service.warnings import DELIVERY_PREFIX, EXPLANATIONS, LONGEST, SENTENCES, warning
from tests.support.drafts import T0


def fields_of(sentence: str) -> list[str]:
    return [name for _, name, _, _ in string.Formatter().parse(sentence) if name]


def test_all_kinds_have_declared_theirs() -> None:
    from duetime.kinds.notifications import local  # noqa: F401
    from duetime.kinds.prompts import kind  # noqa: F401

    known = {"no_worker", "no_worker_for_kind", "session_worker_only", "no_agent", "no_channel", "unknown_channel"}
    assert known | {"subscribe", "new_topic"} <= SENTENCES.keys()


@pytest.mark.parametrize("length", [1, 20, 300])
def test_no_warning_is_longer_than_its_bound(length: int) -> None:
    test_all_kinds_have_declared_theirs()
    for code, sentence in SENTENCES.items():
        made = warning(code, **dict.fromkeys(fields_of(sentence), "x" * length))
        assert made.code == code
        assert len(f"{DELIVERY_PREFIX}{made.text}") <= LONGEST, made.text
        assert "{" not in made.text
        if sentence != "{note}":
            assert re.fullmatch(r"[A-Z`].*[.]+", made.text), made.text


def test_a_worker_that_lacks_a_task_is_told_by_its_command() -> None:
    said = warning("no_worker_for_task", task="resize").text
    assert said == "No running worker knows resize: run `duetime worker --tasks MODULE`, with its executor if any."


def test_every_code_is_explained_at_length() -> None:
    test_all_kinds_have_declared_theirs()
    assert SENTENCES.keys() - EXPLANATIONS.keys() == set()


def test_what_a_reader_needs_most_is_cut_last() -> None:
    address = "https://ntfy.example.org/duetime-0123456789abcdef"
    text = warning("subscribe", address=address, topic="t" * 200).text
    assert address in text
    assert text.endswith("...")


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/Argentina/ComodRivadavia", "America/North_Dakota/New_Salem"]
)
def test_warnings_about_times_are_as_short(zone: str) -> None:
    known_zone(zone)
    for expression in ("30 2 * * *", "30 1 * * *", "0 0 31 * 1", "0 0 31 * *"):
        for dst in ("debian", "literal"):
            trigger = build_trigger("cron", {"expression": expression, "dst": dst}, zone=zone, now=Instant(T0))
            for text in warnings_for(trigger, Instant(T0)):
                assert len(text) <= LONGEST, text
