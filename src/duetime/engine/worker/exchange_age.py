"""The time since the worker of this process last completed an exchange with the store."""

from __future__ import annotations

from duetime.engine.clock import Clock


class ExchangeAge:
    """The age of the last exchange, written by the worker's thread and read by the health check and metrics."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: float | None = None
        self.limit = 5.0
        """Seconds beyond which the worker counts as stuck; the engine derives it from its lease."""

    def completed(self) -> None:
        self._last = self._clock.monotonic()

    def forget(self) -> None:
        """Clear the age, because no worker runs in this process any more."""
        self._last = None

    @property
    def seconds(self) -> float | None:
        """The age in seconds, or None if no worker runs in this process."""
        last = self._last
        return None if last is None else max(0.0, self._clock.monotonic() - last)

    @property
    def too_old(self) -> bool:
        seconds = self.seconds
        return seconds is not None and seconds > self.limit
