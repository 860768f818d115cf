"""Decide how much work a worker claims ahead of its threads, by how long runs take and how fast they are recorded."""

from __future__ import annotations

from duetime.engine.clock import Clock

SUSTAINED = 0.5
"""Seconds of work, by the rate at which runs are recorded, that may be claimed ahead; far less than a run may wait for
a thread before it is released."""

LEAST_AHEAD = 64
"""Runs that may be claimed ahead at any rate."""

SLOW = 1.0
"""Seconds that a run is taken to need before anything is known; longer runs count as this long."""


class Pace:
    """The average duration of recent runs, and the rate at which outcomes are recorded."""

    def __init__(self, clock: Clock, ahead: float, most_ahead: int) -> None:
        """`ahead`: seconds of work that may be claimed beyond what the threads are busy with, at most `most_ahead`
        runs."""
        self._clock, self._ahead, self._most_ahead = clock, ahead, most_ahead
        self.seconds = SLOW
        """The average duration of a run, in which the latest one counts for a twentieth."""
        self.recorded = 0
        """Outcomes that were recorded since the start."""
        self._counted = (clock.monotonic(), 0)
        self._sustained = most_ahead

    def took(self, seconds: float) -> None:
        self.seconds += (min(SLOW, seconds) - self.seconds) * 0.05

    def presume_slow(self) -> None:
        """Count runs as slow until they prove faster."""
        self.seconds = SLOW

    def runs_ahead(self, threads: int, held: int) -> int:
        """Return how many runs may be claimed beyond one per thread, while `held` are claimed and not over."""
        ending_soon = int(threads * self._ahead / max(self.seconds, 1e-6))
        return min(self._most_ahead, ending_soon, self._recorded_in_time(held))

    def _recorded_in_time(self, held: int) -> int:
        """Return how many runs are recorded within `SUSTAINED` at the present rate; as many as allowed if it is not
        known, because nothing is held. On an overloaded machine runs end quickly and yet wait long for a thread."""
        now, (since, before) = self._clock.monotonic(), self._counted
        if not held:
            self._sustained = self._most_ahead
        elif now - since < SUSTAINED / 2:
            return self._sustained
        else:
            self._sustained = max(LEAST_AHEAD, int((self.recorded - before) / (now - since) * SUSTAINED))
        self._counted = now, self.recorded
        return self._sustained
