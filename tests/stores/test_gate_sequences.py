"""Gates in random sequences of changes, failures and deaths: every change leads to a successful run, none to two."""

from __future__ import annotations

import pytest

from duetime.stores.base import BaseStore
from duetime.stores.sqlite.store import MEMORY, SqliteStore
from tests.support.gate_sequences import Sequence, SequenceOfTwo
from tests.support.invariants import invariants
from tests.support.size import FULL

PARTS, EACH = (100, 100) if FULL else (5, 30)
"""10,000 sequences in `make full`. The first part is in the first stage, and the others are later."""


SEQUENCES = pytest.mark.parametrize("sequence", [Sequence, SequenceOfTwo], ids=["one step", "two steps"])


@SEQUENCES
@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 20), marks=pytest.mark.later)], ids=str)
def test_sequences(store: BaseStore, sequence: type[Sequence], seeds: range) -> None:
    for seed in seeds:
        sequence(store, seed).play()


@pytest.mark.parametrize(
    "sequence", [Sequence, pytest.param(SequenceOfTwo, marks=pytest.mark.later)], ids=["one step", "two steps"]
)
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.later) for part in range(1, PARTS))])
def test_many_sequences(part: int, sequence: type[Sequence]) -> None:
    store = SqliteStore(MEMORY)
    store.migrate()
    for seed in range(part * EACH, (part + 1) * EACH):
        try:
            sequence(store, seed).play()
        except AssertionError as error:
            pytest.fail(f"seed {seed}: {error}")
    invariants(store)
    store.close()
