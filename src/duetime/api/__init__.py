"""The Python API: `with Duetime("my.db") as duetime: duetime.schedule(...)`."""

from __future__ import annotations

from duetime.api.base import NotStartedWarning
from duetime.api.prompts import Prompting, ScheduledTask

__all__ = ["Duetime", "NotStartedWarning", "ScheduledTask"]


class Duetime(Prompting):
    """A scheduler and, once started, a worker in this process.

    `with Duetime(...)` and `async with Duetime(...)` start the worker and stop it at the end. All methods are
    thread-safe. They block until the store answers, so call them through `asyncio.to_thread` in asynchronous code.
    Errors are raised as `DuetimeError`, whose message says what to do: `NotFound`, `InvalidInput`, `Conflict`,
    `LimitReached`, `StoreUnavailable`.
    """
