"""cronsim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cronsim import CronSim

from bench.peers.cron import BEGIN, measure_steps
from bench.peers.program import main


def _stepper(expression: str) -> Iterator[float]:
    return (instant.timestamp() for instant in CronSim(expression, BEGIN))


def cron(steps: int) -> dict[str, Any]:
    return measure_steps(_stepper, steps)


if __name__ == "__main__":
    main({"cron": cron})
