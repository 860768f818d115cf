"""Settings of the memory of processes that are there to work: of the garbage collector and of the C library's
allocator. A process that merely contains a worker leaves them to its host."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_ARENA_MAX: Final = -8
"""A parameter of `mallopt` in glibc."""
MAX_ARENAS: Final = 2

RELAXED_THRESHOLDS: Final = 50_000, 20, 50


@contextmanager
def relaxed_collector() -> Iterator[None]:
    """Run the garbage collector less often: a busy worker creates a million tuples a second, and none is in a cycle."""
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.collect(1)  # only what no earlier collection has looked at
    gc.freeze()  # what was imported stays in memory anyway
    gc.set_threshold(*RELAXED_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if not frozen:
            gc.unfreeze()


def limit_arenas() -> None:
    """Let threads share few heaps. By default, glibc gives each thread a heap of its own, up to eight for each
    processor, and each keeps what its largest request needed. It concerns threads that start later; other C libraries
    have no such setting."""
    import ctypes  # most programs that use the Python API do not need it

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_ARENA_MAX, MAX_ARENAS)
