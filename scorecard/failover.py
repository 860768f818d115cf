"""Failover: a PostgreSQL primary with a synchronous standby is killed, away or hung, amid workers and a creator."""

from __future__ import annotations

import tempfile
from pathlib import Path

from scorecard.line import Result, Scale, Tell
from tests.support.failover import Fault, Outcome, Trial, fail_over

BOUNDS = {Fault.KILLED: 5.0, Fault.AWAY: 5.0, Fault.HUNG: 15.0}
"""Seconds within which work goes on after a server accepts writes again."""
OUTAGES = {Fault.KILLED: 3.0, Fault.AWAY: 20.0, Fault.HUNG: 3.0}


def measure(scale: Scale, tell: Tell) -> Result:
    """Cause each fault once, in a pair of servers of its own; with a few of each sort, only the first one."""
    outcomes: dict[Fault, Outcome] = {}
    for fault in list(Fault)[:1] if scale is Scale.SMALL else Fault:
        tell(f"the primary is {fault}")
        trial = Trial(scale.of(10_000, 100), lasting=scale.of(60, 2), outage=OUTAGES[fault])
        if scale is Scale.SMALL:
            trial = trial._replace(outage=0.5, lease=2.0)
        with tempfile.TemporaryDirectory() as folder:
            outcomes[fault] = fail_over(fault, trial, Path(folder))
    failures = [f"{fault}: {problem}" for fault, outcome in outcomes.items() for problem in _problems(fault, outcome)]
    resumed = ", ".join(f"{fault} {outcome.resumed:.1f} s" for fault, outcome in outcomes.items())
    repeated = sum(outcome.repeated for outcome in outcomes.values())
    lost, doubled = (sum(getattr(each, name) for each in outcomes.values()) for name in ("lost", "doubled"))
    counts = {"faults": len(outcomes), "acknowledged": sum(outcome.acknowledged for outcome in outcomes.values())}
    measured = f"lost {lost}, doubled outcomes {doubled}, executed again {repeated}; work goes on: {resumed}"
    return Result(counts, measured, tuple(failures))


def _problems(fault: Fault, outcome: Outcome) -> list[str]:
    found = []
    if outcome.lost or outcome.doubled:
        found.append(f"lost {outcome.lost} and doubled {outcome.doubled} of {outcome.acknowledged}")
    if outcome.resumed > BOUNDS[fault]:
        found.append(f"work went on only after {outcome.resumed:.1f} s")
    return found
