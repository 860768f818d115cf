"""How much is tried: samples in `make test`, everything in `make full`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
FULL = os.environ.get("DUETIME_FULL") == "1"


def some(cases: Sequence[T], step: int = 3) -> Sequence[T]:
    """Every third, unless everything is wanted."""
    return cases if FULL else cases[::step]
