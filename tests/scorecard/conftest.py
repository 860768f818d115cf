"""How tests run a line of the scorecard."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scorecard.line import Line, Scale
from tests.support.postgres import VARIABLE

COUNTED = frozenset({"simulation", "edits", "power-cut", "fuzzing", "tenants", "overreach", "secrets"})
"""Lines that count and measure no time: they may run beside other tests."""
LATER = frozenset({"fuzzing", "tenants", "secrets"})
"""Those that start many processes are in the later stage. In the first one, tests/http, tests/rest and tests/security
have small versions of what they try."""


@pytest.fixture
def measure(postgres_server_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[Line], None]:
    """Measure a line with a few of each sort; a line that needs a PostgreSQL uses the one that is there."""
    monkeypatch.setenv(VARIABLE, postgres_server_url)

    def measured(line: Line) -> None:
        result = line.measure(Scale.SMALL, lambda words: None)
        assert result.counts
        assert result.passed, "\n".join(result.failures)

    return measured
