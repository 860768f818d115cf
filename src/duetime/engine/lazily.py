"""Sequences whose items are built on access, for batches of which most callers need few items or none."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, overload

S = TypeVar("S")
T = TypeVar("T")


class LazySequence(Sequence[T]):
    """A sequence that builds an item whenever it is accessed, and stores none."""

    @abstractmethod
    def _made(self, place: int) -> T:
        """Build the item at a position, which is not negative."""

    def __iter__(self) -> Iterator[T]:
        return map(self._made, range(len(self)))

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            return [self._made(each) for each in range(len(self))[place]]
        return self._made(range(len(self))[place])


class Lazily(LazySequence[T], Generic[S, T]):
    """A sequence of the results of a function for each item of another sequence, computed on access."""

    def __init__(self, items: Sequence[S], make: Callable[[S], T]) -> None:
        self._items, self._make = items, make

    def __len__(self) -> int:
        return len(self._items)

    def _made(self, place: int) -> T:
        return self._make(self._items[place])
