"""The lines of the scorecard that measure no time, with a few of each sort. `make scorecard` runs more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scorecard.line import Line
from scorecard.lines import LINES
from tests.scorecard.conftest import COUNTED, LATER


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, id=line.name, marks=[pytest.mark.later] if line.name in LATER else [])
        for line in LINES
        if line.name in COUNTED
    ],
)
def test_line(line: Line, measure: Callable[[Line], None]) -> None:
    measure(line)


def test_every_counted_line_exists() -> None:
    assert {line.name for line in LINES} >= COUNTED > LATER
