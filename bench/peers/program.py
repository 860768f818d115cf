"""Parts that the programs of all peers share: they take a request as JSON and print the result as one line of JSON."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

Measurement = Callable[..., dict[str, Any]]
PATIENCE = 120.0
"""Seconds without any progress after which a measurement fails."""


def main(measurements: Mapping[str, Measurement]) -> None:
    """Run the measurement that the request names, with its other fields as arguments."""
    request = json.loads(sys.argv[1])
    result = measurements[request.pop("measure")](**request)
    print(json.dumps(result), flush=True)


def wait_for(count: Callable[[], int], target: int, interval: float = 0.01) -> float:
    """Return the time at which the count reached the target."""
    best, deadline = -1, time.perf_counter() + PATIENCE
    while (reached := count()) < target:
        if reached > best:
            best, deadline = reached, time.perf_counter() + PATIENCE
        if time.perf_counter() > deadline:
            raise RuntimeError(f"only {reached} of {target} are done, and nothing happens")
        time.sleep(interval)
    return time.perf_counter()


def rate_of_callers(call: Callable[[], object], calls: int, callers: int) -> float:
    """Return the calls a second when each of the callers, in a thread of its own, makes its share of them."""
    barrier = threading.Barrier(callers + 1)
    errors: list[BaseException] = []

    def caller() -> None:
        barrier.wait()
        try:
            for _ in range(calls // callers):
                call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=caller) for _ in range(callers)]
    for thread in threads:
        thread.start()
    barrier.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    if errors:
        raise errors[0]
    return calls // callers * callers / took


def percentiles(late: list[float]) -> dict[str, float]:
    """Return p50, p99 and the largest of latenesses in seconds, in milliseconds."""
    ordered = sorted(late)
    count = len(ordered)
    return {
        "p50": ordered[count // 2] * 1000,
        "p99": ordered[count * 99 // 100] * 1000,
        "worst": ordered[-1] * 1000,
    }
