"""What no longer serves, in every store: ids that were revoked, and how often a key was rotated."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from duetime.engine.clock import DAY, HOUR, Instant
from duetime.engine.store_interfaces import Revocation
from duetime.stores.base import BaseStore
from tests.stores.conftest import Opener
from tests.support.drafts import T0


def revocation(id: str, life: int = DAY) -> Revocation:
    return Revocation(id, T0, Instant(T0 + life))


def test_an_id_is_revoked_once_and_for_every_node(opener: Opener) -> None:
    here, there = opener(), opener()
    here.migrate()
    assert there.revoked("a", "b") == []
    assert here.revoke([revocation("a")], T0) == ["a"]
    assert there.revoke([revocation("a"), revocation("c")], T0) == ["c"]
    assert there.revoked("a", "b") == ["a"]
    assert sorted(there.revoked("c", "a")) == ["a", "c"]


def test_of_many_who_use_an_id_at_once_one_is_first(opener: Opener) -> None:
    stores = [opener() for _ in range(4)]
    stores[0].migrate()
    ready = threading.Barrier(4)

    def use(store: BaseStore) -> list[str]:
        ready.wait(30)
        return [id for round in range(10) for id in store.revoke([revocation(f"link_{round}")], T0)]

    with ThreadPoolExecutor(4) as threads:
        first = sorted(id for ids in threads.map(use, stores) for id in ids)
    assert first == sorted(f"link_{round}" for round in range(10))


def test_what_would_have_ended_anyway_is_forgotten(store: BaseStore) -> None:
    store.revoke([revocation("short", HOUR), revocation("long", 2 * DAY)], T0)
    store.revoke([revocation("other")], Instant(T0 + DAY))
    assert store.revoked("short", "long") == ["long"]


def test_rotations_are_counted_for_each_owner(opener: Opener) -> None:
    here, there = opener(), opener()
    here.migrate()
    assert here.signing_generation("ada") == 0
    assert here.rotate_signing_key("ada", T0, limit=10) == 1
    assert there.rotate_signing_key("ada", T0, limit=10) == 2
    assert (here.signing_generation("ada"), here.signing_generation("bob")) == (2, 0)


def test_rotations_at_once_all_count(opener: Opener) -> None:
    stores = [opener() for _ in range(4)]
    stores[0].migrate()
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda each: each.rotate_signing_key("ada", T0, limit=10), stores * 2))
    assert sorted(number for number in made if number is not None) == list(range(1, 9))


def test_rotations_are_limited_within_an_hour(store: BaseStore) -> None:
    made = [store.rotate_signing_key("ada", Instant(T0 + number), limit=3) for number in range(4)]
    assert made == [1, 2, 3, None]
    assert store.signing_generation("ada") == 3
    assert store.rotate_signing_key("bob", T0, limit=3) == 1
    assert store.rotate_signing_key("ada", Instant(T0 + HOUR), limit=3) == 4
