"""The keys that sign requests while the store, which counts their rotations, is away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.clock import SystemClock
from duetime.engine.errors import StoreUnavailable
from duetime.engine.outcome import Retry
from duetime.kinds.requests import signing_keys
from duetime.kinds.requests.sender import Requests
from duetime.kinds.requests.signing_keys import SigningKeys
from duetime.kinds.requests.wire import Outgoing
from duetime.net.host_limits import Hosts
from duetime.stores.sqlite.store import SqliteStore
from tests.support.tokens import SECRET

OUTGOING = Outgoing("msg_1", "ada", "POST", "https://example.org/", {}, b"", 1.0, int, 100)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "my.db")) as made:
        made.migrate()
        yield made


def test_the_last_known_key_signs_while_the_store_is_away(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_keys, "KNOWN_FOR", 0.0)
    keys = SigningKeys(lambda: SECRET, store, SystemClock())
    keys.rotate("ada")
    current = keys.current("ada")
    store.close()
    assert keys.current("ada") == current
    with pytest.raises(StoreUnavailable):
        keys.current("bob")


def test_what_cannot_be_signed_is_tried_again() -> None:
    def key_of(_owner: str) -> str:
        raise StoreUnavailable

    http: Any = None
    outcome = Requests(SystemClock(), http, Hosts(SystemClock(), 4), key_of).send(OUTGOING)
    assert isinstance(outcome, Retry)
    assert outcome.after is int, "its own formula"
