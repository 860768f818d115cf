"""How long ago the worker of this process last completed an exchange with the store."""

from __future__ import annotations

from duetime.engine.clock import Clock


class ExchangeAge:
    """Written by the worker's thread, read by whoever judges whether this process is ready."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: float | None = None
        self.limit = 5.0
        """Seconds beyond which the worker counts as stuck; the engine sets it by its lease."""

    def completed(self) -> None:
        self._last = self._clock.monotonic()

    def forget(self) -> None:
        """No worker runs here any more."""
        self._last = None

    @property
    def seconds(self) -> float | None:
        """None where no worker runs in this process."""
        last = self._last
        return None if last is None else max(0.0, self._clock.monotonic() - last)

    @property
    def too_old(self) -> bool:
        seconds = self.seconds
        return seconds is not None and seconds > self.limit
