"""What carries runs out: a pool of threads elsewhere, or, here, the calling thread itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from duetime.core.executing import InHand


class Carrier(Protocol):
    size: int

    def put(self, items: Sequence[InHand]) -> None: ...

    def take_back(self) -> list[InHand]: ...

    def take_stalled(self, before: float) -> list[InHand]:
        """What has stood in line since before an instant of the monotonic clock, and what stands behind it."""

    def head(self) -> InHand | None: ...

    @property
    def free(self) -> int: ...


class InlineCarrier:
    """Carries runs out in the calling thread, one after the other."""

    size = 250

    def __init__(self, execute: Callable[[InHand], None]) -> None:
        self._execute = execute

    def put(self, items: Sequence[InHand]) -> None:
        for item in items:
            self._execute(item)

    def take_back(self) -> list[InHand]:
        return []

    def take_stalled(self, before: float) -> list[InHand]:
        return []

    def head(self) -> InHand | None:
        return None

    @property
    def free(self) -> int:
        return 1
