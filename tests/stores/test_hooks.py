"""Hooks in every store: their names, their number, and changes at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from duetime.engine.errors import Conflict, LimitReached, NotFound
from duetime.engine.store_interfaces import HookRow
from duetime.stores.base import BaseStore
from tests.stores.conftest import Opener
from tests.support.drafts import T0


def hook(id: str, owner: str = "ada", name: str = "github") -> HookRow:
    return HookRow(id, owner, name, "github", "s3cret", T0, None, "[]")


def test_a_hook_is_kept_for_every_node_until_it_is_deleted(opener: Opener) -> None:
    here, there = opener(), opener()
    here.migrate()
    assert there.hook("hook_1") is None
    here.insert_hook(hook("hook_1"), 10)
    assert there.hook("hook_1") == hook("hook_1")
    assert "s3cret" not in repr(there.hook("hook_1"))
    here.delete_hook("hook_1")
    there.delete_hook("hook_1")
    assert there.hook("hook_1") is None


def test_hooks_are_listed_by_owner_and_name(store: BaseStore) -> None:
    for id, owner, name in (("hook_1", "bob", "b"), ("hook_2", "ada", "c"), ("hook_3", "ada", "a")):
        store.insert_hook(hook(id, owner, name), 10)
    assert [each.id for each in store.hooks("ada", 10)] == ["hook_3", "hook_2"]
    assert [each.id for each in store.hooks(None, 10)] == ["hook_3", "hook_2", "hook_1"]
    assert [each.id for each in store.hooks(None, 1)] == ["hook_3"]


def test_a_name_is_used_once_by_an_owner(store: BaseStore) -> None:
    store.insert_hook(hook("hook_1"), 10)
    with pytest.raises(Conflict, match="github"):
        store.insert_hook(hook("hook_2"), 10)
    store.insert_hook(hook("hook_3", owner="bob"), 10)
    assert store.hook("hook_2") is None


def test_an_owner_has_a_limited_number(store: BaseStore) -> None:
    for number in range(3):
        store.insert_hook(hook(f"hook_{number}", name=f"name{number}"), 3)
    with pytest.raises(LimitReached) as refused:
        store.insert_hook(hook("hook_4", name="other"), 3)
    assert refused.value.code == "quota"
    store.insert_hook(hook("hook_5", owner="bob"), 3)


def test_of_two_who_use_a_name_at_once_one_is_refused(opener: Opener) -> None:
    stores = [opener() for _ in range(4)]
    stores[0].migrate()
    ready = threading.Barrier(4)

    def insert(number: int) -> int:
        ready.wait(30)
        taken = 0
        for each in range(8):
            try:
                stores[number].insert_hook(hook(f"hook_{number}_{each}", name=f"name{each}"), 100)
            except Conflict:
                continue
            taken += 1
        return taken

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(insert, range(4))) == 8
    assert len(stores[0].hooks("ada", 100)) == 8


def test_changes_at_the_same_time_all_count(opener: Opener) -> None:
    stores = [opener() for _ in range(4)]
    stores[0].migrate()
    stores[0].insert_hook(hook("hook_1"), 10)
    ready = threading.Barrier(4)

    def add(store: BaseStore) -> None:
        ready.wait(30)
        for _ in range(10):
            store.change_hook("hook_1", lambda each: replace(each, deliveries=f"{each.deliveries}x", used=T0))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, stores))
    changed = stores[0].hook("hook_1")
    assert changed is not None and (changed.deliveries, changed.used) == ("[]" + "x" * 40, T0)
    with pytest.raises(NotFound):
        stores[0].change_hook("hook_2", lambda each: each)


def test_a_change_that_fails_changes_nothing(store: BaseStore) -> None:
    store.insert_hook(hook("hook_1"), 10)

    def fail(_: HookRow) -> HookRow:
        raise Conflict("it was shown before")

    with pytest.raises(Conflict):
        store.change_hook("hook_1", fail)
    assert store.hook("hook_1") == hook("hook_1")
