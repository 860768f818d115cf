"""How far a bound in seconds is stretched in the small version, which runs amid other tests on a busy machine."""

from __future__ import annotations

from scorecard.line import Scale
from scorecard.serving import Server

QUIET = 0.01
"""Seconds that a request takes at most where nothing else happens."""
AMID_TESTS = 3.0
"""The load may change between this measurement and what is judged by it."""
MOST = 10.0
"""Beyond it, a bound would no longer tell a fault from a busy machine."""


def allowance(scale: Scale, server: Server) -> float:
    """Return 1 where the stated bounds hold; in the small version, how much slower than a quiet machine this one is."""
    if scale is not Scale.SMALL:
        return 1.0
    client = server.client("measuring")
    slowest = max(client.ask("GET", "/api/v1/schedules?limit=10").seconds for _ in range(20))
    client.close()
    return min(MOST, AMID_TESTS * max(1.0, slowest / QUIET))
