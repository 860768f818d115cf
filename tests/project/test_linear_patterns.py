"""Every regular expression of the package takes linear time, so that no text freezes a process: one C call of `re`
holds the interpreter's lock until it is done."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.patterns import Found, Unknown, hostile_units, patterns

pytestmark = pytest.mark.slow

SMALL, LARGE = 3_000, 96_000
SUSPICIOUS = 0.003
"""Seconds that a small text may take before larger ones are tried."""
BOUND = 0.15
"""Seconds for a large text; a linear pattern takes a fraction of it."""

BOUNDED = {
    "cli/data/crontab.py:_THROWN_AWAY": 1_000,
    "engine/times/grammar.py:re.findall(_AMOUNT, text, re.ASCII)": 200,
}
"""Patterns that see texts of so many characters at most: the code that applies them cuts or refuses longer ones."""

MADE_AT_RUN_TIME = {"engine/value_class.py:compiled", "net/outcomes.py:reason"}
"""It replaces an escaped text."""


def seconds(pattern: re.Pattern[Any], method: str, text: str) -> float:
    given: Any = text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")
    apply = getattr(pattern, method)
    arguments = (given[:0], given) if method == "sub" else (given,)
    begun = time.process_time()
    apply(*arguments)
    return time.process_time() - begun


def texts(unit: str, size: int) -> Iterator[str]:
    repeated = unit * (size // len(unit))
    yield repeated
    yield repeated + "\0"


def slow(found: Found, unit: str, method: str) -> str | None:
    """What a text of this unit costs, where it is too much."""
    if found.place in BOUNDED:
        text = unit * (BOUNDED[found.place] // len(unit)) + "\0"
        taken = min(seconds(found.pattern, method, text) for _ in range(2))
        return f"{found.place} takes {taken:.2f} s" if taken > BOUND else None
    for small in texts(unit, SMALL):
        if seconds(found.pattern, method, small) < SUSPICIOUS or seconds(found.pattern, method, small) < SUSPICIOUS:
            continue
        size = SMALL
        while size < LARGE:
            size *= 2
            for text in texts(unit, size):
                taken = min(seconds(found.pattern, method, text) for _ in range(2))
                if taken > BOUND * max(size / LARGE, 0.1):
                    return f"{found.place}.{method}({unit!r} * {size // len(unit)}) takes {taken:.2f} s"
    return None


@pytest.mark.later
def test_every_pattern_is_linear() -> None:
    """One test for all: a new pattern is among them by itself."""
    found = {each.place: each for each in patterns()}
    unknown = {place for place, each in found.items() if isinstance(each, Unknown)}
    assert unknown == MADE_AT_RUN_TIME
    assert {"engine/times/grammar.py:_RELATIVE", "kinds/jobs/builtin.py:_MARK"} <= found.keys()
    assert sum(place.startswith("engine/redaction.py") for place in found) >= 8
    wrong = []
    for each in found.values():
        if isinstance(each, Found):
            tried = (slow(each, unit, method) for unit in hostile_units(each.pattern) for method in each.methods)
            wrong += [next((what for what in tried if what), None)]
    assert [what for what in wrong if what] == []


@pytest.mark.parametrize("spoilt", [r"\beyJ[\w-]{8,1000}\.[\w-]+", r"\s+x"])
def test_a_pattern_that_is_not_linear_is_found(spoilt: str) -> None:
    found = Found("spoilt", re.compile(spoilt), ("search",))
    units = hostile_units(found.pattern)
    assert any(slow(found, unit, "search") for unit in units)
