"""Tasks for tests of the Python API: one that answers, and one that fails."""

from __future__ import annotations

from datetime import UTC, datetime

from duetime.kinds.jobs.registry import Registry

PATIENCE = 20.0
LATER = datetime(2100, 1, 1, 9, tzinfo=UTC)


def tasks() -> Registry:
    registry = Registry()

    @registry.task
    def shout(text: str = "tea") -> str:
        return text.upper()

    @registry.task
    def fail() -> None:
        raise ValueError("the kettle is broken")

    return registry
