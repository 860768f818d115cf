"""Counts that several pages show, each counted in one way, so that one thing has one number everywhere."""

from __future__ import annotations

from typing import Final, NamedTuple

from duetime.engine.store import RunQuery
from duetime.service.errors import unwrap
from duetime.service.services import Call

MOST: Final = 1_000
"""How far is counted: beyond that, a count costs the same however many there are."""


class Count(NamedTuple):
    number: int
    exact: bool = True

    def __str__(self) -> str:
        return f"{self.number:,}" if self.exact else f"{MOST:,}+"


def dead_letters(call: Call, kind: str | None = None) -> Count:
    """Count the runs that failed or were lost and that nobody has retried or dismissed."""
    query = RunQuery(kind=kind, status="dead", limit=1, count_to=MOST)
    page = unwrap(call.scheduler.runs(call.caller, query))
    return Count(page.total, page.total_exact)
