"""Sequences whose items are made when they are looked at."""

from __future__ import annotations

import pytest

from duetime.engine.lazy_sequence import LazyMap


def test_an_item_is_made_when_it_is_looked_at_and_not_before() -> None:
    made: list[int] = []

    def double(number: int) -> int:
        made.append(number)
        return 2 * number

    doubled = LazyMap(range(5), double)
    assert (len(doubled), made) == (5, [])
    assert (doubled[1], doubled[-1], doubled[1:3], made) == (2, 8, [2, 4], [1, 4, 1, 2])
    assert list(doubled) == [0, 2, 4, 6, 8] and 6 in doubled
    with pytest.raises(IndexError):
        doubled[5]
