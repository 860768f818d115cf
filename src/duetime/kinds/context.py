"""What a task may know about the run that calls it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class CancelSignal(Protocol):
    """Set when the run should stop: somebody cancelled it, its time is up, or its worker stops."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


@dataclass(frozen=True, slots=True)
class TaskContext:
    """Given to a task that has a parameter `context`, or one annotated with this class."""

    run_id: int
    """The same for every attempt: a receiver can tell a repeated delivery by it."""
    attempt: int
    due: datetime
    """The instant this run stands for, in UTC; not when it started."""
    name: str
    """The name of the schedule."""
    job_id: str
    owner: str
    cancelled: CancelSignal
    progress: Callable[[str], None]
    """Tells people how far the task came; the latest text is kept."""
