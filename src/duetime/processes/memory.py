"""Settings of the C library's allocator for processes that serve many requests in threads."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_ARENA_MAX: Final = -8
"""A parameter of `mallopt` in glibc."""
MAX_ARENAS: Final = 2


def limit_arenas() -> None:
    """Let threads share few heaps. By default, glibc gives each thread a heap of its own, up to eight for each
    processor, and each keeps what its largest request needed. It concerns threads that start later; other C libraries
    have no such setting."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_ARENA_MAX, MAX_ARENAS)
