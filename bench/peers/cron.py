"""The next instants of cron expressions, for the peers that compute them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

ZONE = "Europe/Warsaw"
BEGIN = datetime(2026, 1, 1, tzinfo=ZoneInfo(ZONE))
EXPRESSIONS = (
    "* * * * *",
    "*/5 * * * *",
    "*/15 9-17 * * mon-fri",
    "0 * * * *",
    "30 */6 * * *",
    "0 9 * * *",
    "0 9 * * mon-fri",
    "30 7 * * sat,sun",
    "0 0 1 * *",
    "0 12 15 * *",
    "0 8 1 1,4,7,10 *",
    "15 10 * 12 *",
)
"""Weekdays are named, because APScheduler counts them from Monday; no hour is one that a change of clocks skips."""
END = datetime(2037, 1, 1, tzinfo=ZoneInfo(ZONE)).timestamp()
Stepper = Callable[[str], Iterator[float]]


def measure_steps(stepper: Stepper, steps: int) -> dict[str, Any]:
    """Return next instants a second, parsed once, each expression with the same weight, and the instants themselves."""
    instants: dict[str, list[float]] = {}
    costs: list[float] = []
    for expression in EXPRESSIONS:
        iterator = itertools.takewhile(lambda instant: instant < END, stepper(expression))
        began = time.perf_counter()
        found = list(itertools.islice(iterator, steps))
        costs.append((time.perf_counter() - began) / len(found))
        instants[expression] = found
    return {"rate": len(costs) / sum(costs), "instants": instants}
