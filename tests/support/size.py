"""How much is tried: samples in `make test`, everything in `make full`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
FULL = os.environ.get("DUETIME_FULL") == "1"


def some(cases: Sequence[T], step: int = 3) -> Sequence[T]:
    """Every third (or one of so many), unless everything is wanted. For cases that are alike: what stands for a kind of
    its own (a store, a zone, a model, a door) is never left out."""
    return cases if FULL else cases[::step]
