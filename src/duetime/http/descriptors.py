"""Limits on file descriptors: of this process, and those that connections may not use."""

from __future__ import annotations

import resource
from typing import Final

TARGET: Final = 4096
"""As many as a server ever uses; more would only slow down child processes, which close all of theirs."""


def raise_soft_limit(target: int = TARGET) -> int:
    """Raise the soft limit towards the hard one, and return the limit that is then in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = target if hard == resource.RLIM_INFINITY else min(target, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            pass  # some systems have a further limit; the one in force is what counts
    return soft_limit()


def soft_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return TARGET if soft == resource.RLIM_INFINITY else soft


def reserve_of(limit: int) -> int:
    """Return how many descriptors connections may not use: the store, child processes and files need them."""
    return max(16, min(256, limit // 8))
