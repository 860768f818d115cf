"""`Duetime`: every operation from Python."""

from __future__ import annotations

from duetime.api.base import Base
from duetime.api.create import Creating
from duetime.api.hooks import Hooking
from duetime.api.manage import Managing, Overview
from duetime.api.prompts import Prompting
from duetime.api.runs import DeadLetters, Inbox, Running
from duetime.api.values import ScheduleMethods


class Methods(Creating, Managing, ScheduleMethods, Running, Overview, Prompting, Hooking):
    """The methods that `Duetime` and, as coroutines, `AsyncDuetime` have."""


class Duetime(Base, Methods):
    """A scheduler and, once started, a worker in this process.

    `with Duetime(...)` starts the worker and stops it at the end. All methods are thread-safe and block until the store
    answers; `AsyncDuetime` has them as coroutines. Errors are raised as `DuetimeError`, whose message says what to do:
    `NotFound`, `InvalidInput`, `Conflict`, `LimitReached`, `StoreUnavailable`.
    """

    @property
    def inbox(self) -> Inbox:
        """The notifications that were delivered."""
        return Inbox(self._call)

    @property
    def dead_letters(self) -> DeadLetters:
        """The runs that failed for good or were lost."""
        return DeadLetters(self._call)
