"""A primary fails, and a synchronous standby takes over: nothing that was acknowledged is lost, nothing has two
outcomes, and work goes on without a restart. `LINE=failover make scorecard` tries the same with more work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.failover import Fault, Trial, fail_over
from tests.support.postgres import NoPostgres

BOUNDS = {Fault.KILLED: 5.0, Fault.AWAY: 5.0, Fault.HUNG: 15.0}


@pytest.mark.parametrize(("fault", "outage"), [(Fault.KILLED, 2.0), (Fault.AWAY, 12.0), (Fault.HUNG, 1.0)])
def test_a_primary_fails_in_mid_work(fault: Fault, outage: float, tmp_path: Path) -> None:
    try:
        outcome = fail_over(fault, Trial(500, lasting=10.0, outage=outage), tmp_path)
    except NoPostgres as reason:
        pytest.skip(str(reason))
    assert outcome.acknowledged > 500
    assert (outcome.lost, outcome.doubled) == (0, 0)
    assert outcome.resumed < BOUNDS[fault]
