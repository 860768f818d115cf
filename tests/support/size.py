"""How many cases are tested: samples in `make test`, all of them in `make full`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")
FULL = os.environ.get("DUETIME_FULL") == "1"


def in_turn(each: Iterable[S], cases: Sequence[T]) -> Iterator[tuple[S, Sequence[T]]]:
    """Yield everything with all cases for the first and one case for each of the others, or with all if everything is
    wanted. For what one place in the code decides for all."""
    for number, item in enumerate(each):
        yield item, cases if FULL or not number else (cases[number % len(cases)],)


def some(cases: Sequence[T], step: int = 3) -> Sequence[T]:
    """Return every third case (or one in `step`), unless everything is wanted. For similar cases: a case that
    represents a kind of its own (a store, a zone, a model, an interface) is never left out."""
    return cases if FULL else cases[::step]
