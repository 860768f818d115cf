"""The next instants of usual cron expressions, parsed once, beside other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.lines import Goal, Line
from bench.peers.cron import BEGIN, ZONE, measure_steps
from bench.sides import Bench, Side
from duetime.engine.clock import SECOND, instant_of
from duetime.engine.triggers import build_trigger

GOALS = {"croniter": Goal(10, 20), "cronsim": Goal(5, 20), "apscheduler": Goal(5, 20)}


def measure_cron(steps: int) -> dict[str, Any]:
    return measure_steps(_stepper, steps)


def _stepper(expression: str) -> Iterator[float]:
    instant = instant_of(BEGIN)
    trigger = build_trigger("cron", {"expression": expression}, zone=ZONE, now=instant)
    while True:
        found = trigger.next_after(instant)
        assert found is not None
        instant = found
        yield instant / SECOND


def cron(bench: Bench, store: str) -> Iterator[Line]:
    """Next instants a second; the instants of all sides are compared."""
    if store:
        return
    steps = bench.sizes.cron_steps
    sides = [bench.duetime("cron", None, steps=steps), *bench.peers(tuple(GOALS), "cron", None, {}, steps=steps)]
    bench.measure("cron", sides)
    for (_, goal), side in zip(GOALS.items(), sides[1:], strict=False):
        yield Line(
            "cron, next instant", "", "instants/s", sides[0].figure(), side.figure(), goal, _compared(sides[0], side)
        )
    if len(sides) == 1:
        yield Line("cron, next instant", "", "instants/s", sides[0].figure())


def _compared(ours: Side, theirs: Side) -> str:
    """Say for which expressions the instants differ."""
    if not ours.results or not theirs.results:
        return ""
    mine, other = (side.results[0]["instants"] for side in (ours, theirs))
    different = [expression for expression, instants in mine.items() if instants != other[expression]]
    return f"other instants: {', '.join(different)}" if different else f"same instants for {len(mine)} expressions"
