"""`python -m bench.duetime_program REQUEST`: one measurement of Duetime in a process of its own, as for every peer."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.peers.program import main

PLACES = {
    "burst": "burst.measure_burst",
    "fill": "burst.fill",
    "python_api": "python_api.measure_python_api",
    "lateness": "lateness.measure_lateness",
    "wake_up": "lateness.measure_wake_up",
    "create": "create.measure_create",
    "bulk": "create.measure_bulk",
    "cron": "cron.measure_cron",
    "idle": "idle.measure_idle",
    "serve": "serve.measure_serve",
}


def _measurement(place: str) -> Callable[..., dict[str, Any]]:
    """Return a function that imports its module when it is called: only one of them is needed."""

    def measure(**request: Any) -> dict[str, Any]:
        module, _, function = place.partition(".")
        measured: dict[str, Any] = getattr(import_module(f"bench.{module}"), function)(**request)
        return measured

    return measure


if __name__ == "__main__":
    main({name: _measurement(place) for name, place in PLACES.items()})
