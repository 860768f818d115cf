"""The steps at which processes are killed are steps of the product, on both stores."""

from __future__ import annotations

import pytest

from duetime.stores.search import load_queries
from scorecard.kill_child import ALSO, STATEMENT, STATEMENT_STEPS, TASK, WRAPPED
from scorecard.kills import STEPS

METHODS = sorted({step for _, _, step in STEPS} - {STATEMENT, TASK} - STATEMENT_STEPS)


@pytest.mark.parametrize("name", [*METHODS, *(other for others in ALSO.values() for other in others)])
def test_a_step_is_a_method(name: str) -> None:
    assert any(callable(getattr(owner, name, None)) for owner in WRAPPED)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_step_is_a_statement(dialect: str) -> None:
    assert load_queries(dialect).keys() >= STATEMENT_STEPS
