"""Faults of the machine that pass: no descriptors, no memory, a read or write that failed.

They say nothing about what was being worked on. Whoever meets one tries again later and reports it; a schedule is never
given up, and a worker never ends, because of one.
"""

from __future__ import annotations

from typing import Final

from duetime.core.errors import StoreUnavailable

TRANSIENT: Final = (StoreUnavailable, OSError, MemoryError)


def describe(error: BaseException) -> str:
    """Return what to log: the message of our own errors, and the type as well of others."""
    if isinstance(error, StoreUnavailable):
        return f"the store is away: {error}"
    return f"the machine is short of something ({type(error).__name__}: {error}); it is tried again"
