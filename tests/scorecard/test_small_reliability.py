"""Every reliability line of the scorecard with a few of each sort. `make scorecard` runs more."""

from __future__ import annotations

import pytest

from scorecard.line import Line, Scale
from scorecard.lines import RELIABILITY
from tests.support.postgres import VARIABLE


@pytest.fixture(autouse=True)
def shared_server(postgres_server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lines that need a PostgreSQL use the one that is there."""
    monkeypatch.setenv(VARIABLE, postgres_server_url)


@pytest.mark.parametrize("line", RELIABILITY, ids=lambda line: line.name)
def test_line(line: Line) -> None:
    result = line.measure(Scale.SMALL, lambda words: None)
    assert result.counts
    assert result.passed, "\n".join(result.failures)
