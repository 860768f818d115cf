"""Gates in random sequences of changes, failures and deaths: every change leads to a successful run, none to two."""

from __future__ import annotations

import pytest

from duetime.stores.base import BaseStore
from duetime.stores.sqlite.store import MEMORY, SqliteStore
from tests.support.gate_sequences import Sequence
from tests.support.invariants import invariants
from tests.support.size import FULL

PARTS, EACH = (100, 100) if FULL else (1, 150)
"""10,000 sequences in `make full`."""


def test_sequences(store: BaseStore) -> None:
    for seed in range(20):
        Sequence(store, seed).play()


@pytest.mark.parametrize("part", range(PARTS))
def test_many_sequences(part: int) -> None:
    store = SqliteStore(MEMORY)
    store.migrate()
    for seed in range(part * EACH, (part + 1) * EACH):
        try:
            Sequence(store, seed).play()
        except AssertionError as error:
            pytest.fail(f"seed {seed}: {error}")
    invariants(store)
    store.close()
