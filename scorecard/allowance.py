"""Computes how far a bound in seconds is extended in the small version, which runs beside other tests."""

from __future__ import annotations

from scorecard.line import Scale
from scorecard.serving import Server

QUIET = 0.01
"""Maximum seconds that a request takes on an idle machine."""
AMID_TESTS = 3.0
"""Factor of safety, since the load may change between this measurement and what is judged by it."""
MOST = 10.0
"""Maximum allowance: beyond it, a bound would no longer tell a fault from a busy machine."""


def allowance(scale: Scale, server: Server) -> float:
    """Return 1 where the stated bounds hold; in the small version, how much slower than a quiet machine this one is."""
    if scale is not Scale.SMALL:
        return 1.0
    client = server.client("measuring")
    slowest = max(client.ask("GET", "/api/v1/schedules?limit=10").seconds for _ in range(20))
    client.close()
    return min(MOST, AMID_TESTS * max(1.0, slowest / QUIET))
