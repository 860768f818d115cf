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
    def _item(self, index: int) -> T:
        """Build the item at a position, which is not negative."""

    def __iter__(self) -> Iterator[T]:
        return map(self._item, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._item(each) for each in range(len(self))[index]]
        return self._item(range(len(self))[index])


class LazyMap(LazySequence[T], Generic[S, T]):
    """A sequence of the results of a function for each item of another sequence, computed on access."""

    def __init__(self, items: Sequence[S], make: Callable[[S], T]) -> None:
        self._items, self._make = items, make

    def __len__(self) -> int:
        return len(self._items)

    def _item(self, index: int) -> T:
        return self._make(self._items[index])
