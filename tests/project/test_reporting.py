"""Of tests that run in several processes, everything that went wrong is heard of."""

from __future__ import annotations

import pytest

from tests.support.reporting import matters


@pytest.mark.parametrize("when", ["setup", "call", "teardown"])
@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_what_does_not_pass_is_told(when: str, outcome: str) -> None:
    assert matters("testreport", {"when": when, "outcome": outcome})


def test_a_test_that_passes_is_told_once() -> None:
    reports = [{"when": when, "outcome": "passed"} for when in ("setup", "call", "teardown")]
    assert [matters("testreport", report) for report in reports] == [False, True, False]


@pytest.mark.parametrize(
    "name", ["collectionfinish", "runtest_protocol_complete", "warning_recorded", "workerfinished"]
)
def test_other_events_are_told(name: str) -> None:
    assert matters(name, None)
