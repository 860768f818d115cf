"""Every security line of the scorecard with a few of each sort. `make scorecard` runs more."""

from __future__ import annotations

import pytest

from scorecard.line import Line, Scale
from scorecard.lines import SECURITY


@pytest.mark.parametrize("line", SECURITY, ids=lambda line: line.name)
def test_line(line: Line) -> None:
    result = line.measure(Scale.SMALL, lambda words: None)
    assert result.counts
    assert result.passed, "\n".join(result.failures)
