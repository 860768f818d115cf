"""The Python API: `with Duetime("my.db") as duetime: duetime.schedule(...)`."""

from __future__ import annotations

from duetime.api.base import NotStartedWarning
from duetime.api.prompts import Prompting, ScheduledTask

__all__ = ["Duetime", "NotStartedWarning", "ScheduledTask"]


class Duetime(Prompting):
    """A scheduler and, once started, a worker in this process. The default owner is `local`.

    `with Duetime(...)` and `async with Duetime(...)` start the worker and stop it at the end. All methods may be called
    from any thread. They wait for the store, so asynchronous code calls them by `asyncio.to_thread`. Every refusal is
    raised as a `DuetimeError`, whose message says what to do.
    """
