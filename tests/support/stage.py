"""Duetime on a settable clock, with agents that use its tools, for tests of the answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from duetime.engine.kind import Caller
from duetime.settings import Settings
from duetime.testing import Simulation
from tests.support.agent import Agent
from tests.support.settings import for_all

PACIFIC = "America/Los_Angeles"
NOON = datetime(2026, 2, 10, 20, 0, tzinfo=UTC)
"""Feb 10, 2026 12:00 PM PST, a Tuesday."""


class Stage:
    """A Duetime on a settable clock, with a worker and agents."""

    def __init__(self, url: str, start: datetime = NOON, zone: str = PACIFIC, **settings: Any) -> None:
        self.time = Simulation(start, settings=Settings(db=url, timezone=zone, **for_all(settings)))
        self.app = self.time.duetime.app
        self.ada = self.agent("ada")

    def agent(self, owner: str, holder: str = "local", **more: Any) -> Agent:
        return Agent(self.app.services, Caller(owner, holder=holder, **more))

    def due(self, prompt: str = "water the plants", **given: Any) -> int:
        """Create a prompt that has become due and waits in the inbox."""
        number = self.make(prompt, **({"at": "in 1 minute"} | given))
        self.time.advance(timedelta(minutes=1))
        return number

    def make(self, prompt: str = "water the plants", **given: Any) -> int:
        number: int = self.ada.knows("schedule", prompt=prompt, **given)["id"]
        return number
