"""Gates in random sequences of changes, failures and deaths: every change leads to a successful run, none to two."""

from __future__ import annotations

from itertools import count

import pytest

from duetime.stores.base import BaseStore
from duetime.stores.sqlite.store import MEMORY, SqliteStore
from tests.support.gate_sequences import Sequence
from tests.support.invariants import invariants
from tests.support.size import FULL

SEQUENCES = 10_000 if FULL else 150


def test_sequences(store: BaseStore) -> None:
    for seed in range(20):
        Sequence(store, seed).play()


@pytest.mark.timeout(3600 if FULL else 120)
def test_many_sequences() -> None:
    store = SqliteStore(MEMORY)
    store.migrate()
    for seed, number in zip(count(1000), range(SEQUENCES), strict=False):
        try:
            Sequence(store, seed).play()
        except AssertionError as error:
            pytest.fail(f"seed {seed}: {error}")
        if number % 200 == 199:  # a small store is a fast one
            invariants(store)
            store.close()
            store = SqliteStore(MEMORY)
            store.migrate()
    invariants(store)
    store.close()
