"""croniter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import croniter

from bench.peers.cron import BEGIN, measure_steps
from bench.peers.program import main


def _stepper(expression: str) -> Iterator[float]:
    iterator = croniter.croniter(expression, BEGIN)
    while True:
        yield iterator.get_next(float)


def cron(steps: int) -> dict[str, Any]:
    return measure_steps(_stepper, steps)


if __name__ == "__main__":
    main({"cron": cron})
