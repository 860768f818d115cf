"""`Duetime`: every operation from Python."""

from __future__ import annotations

from duetime.api.manage import Overview
from duetime.api.prompts import Prompting
from duetime.api.runs import Running


class Duetime(Prompting, Running, Overview):
    """A scheduler and, once started, a worker in this process.

    `with Duetime(...)` starts the worker and stops it at the end. All methods are thread-safe and block until the store
    answers; `AsyncDuetime` has them as coroutines. Errors are raised as `DuetimeError`, whose message says what to do:
    `NotFound`, `InvalidInput`, `Conflict`, `LimitReached`, `StoreUnavailable`.
    """
