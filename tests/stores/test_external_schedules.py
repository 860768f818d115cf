"""The record of notifications that another service keeps: keys, quotas, repeated requests, retention."""

from __future__ import annotations

import threading
from typing import Any

from duetime.engine.clock import DAY, MINUTE, SECOND, Instant
from duetime.engine.store_interfaces import Remote, RemoteKind, RemoteState
from duetime.stores.base import BaseStore
from tests.stores.conftest import Opener
from tests.support.drafts import T0, every
from tests.support.hand import create_one
from tests.support.refusals import refusal_of
from tests.support.shell import write

MANY = 1000


def remote(id: str, **changes: Any) -> Remote:
    usual = Remote(
        id=id,
        owner="ann",
        kind=RemoteKind.SCHEDULE,
        topic="alerts",
        trigger='{"type":"cron"}',
        payload='{"message":"grüße 🙂"}',
        at=None,
        remote=None,
        state=RemoteState.ASKED,
        key=f"key-{id}",
        fingerprint="print",
        created=T0,
        updated=T0,
    )
    return usual._replace(**changes)


def one_off(id: str, at: int, **changes: Any) -> Remote:
    return remote(id, kind=RemoteKind.MESSAGE, at=Instant(at), **changes)


def keep(store: BaseStore, *remotes: Remote, limit: int = MANY) -> None:
    for each in remotes:
        kept = store.keep_remote(each, limit)
        assert kept == each


def ids(remotes: list[Remote]) -> list[str]:
    return [each.id for each in remotes]


def test_what_is_kept_is_found_again(store: BaseStore) -> None:
    keep(store, remote("scd_1"), one_off("msg_1", T0 + DAY, remote="msg_there", state=RemoteState.THERE))
    assert store.remote("scd_1") == remote("scd_1")
    assert store.remote("msg_1") == one_off("msg_1", T0 + DAY, remote="msg_there", state=RemoteState.THERE)
    assert store.remote_by_key("ann", "key-scd_1") == remote("scd_1")
    assert store.remote_by_key("ben", "key-scd_1") is None
    assert store.remote("scd_2") is None


def test_a_key_makes_one_thing_for_each_owner(store: BaseStore) -> None:
    keep(store, remote("scd_1", key="mine"), remote("scd_2", key="mine", owner="ben"))
    again = store.keep_remote(remote("scd_3", key="mine"), MANY)
    assert again.id == "scd_1"
    assert store.remote("scd_3") is None


def test_many_with_one_key_at_once_make_one(opener: Opener, store: BaseStore) -> None:
    kept: list[str] = []

    def ask(number: int) -> None:
        result = opener().keep_remote(remote(f"scd_{number}", key="same"), MANY)
        kept.append(result.id)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == 6
    assert len(set(kept)) == 1
    assert ids(store.remotes("ann", T0)) == kept[:1]


def test_lists_are_of_one_owner_in_order_and_without_what_went_out(store: BaseStore) -> None:
    keep(
        store,
        remote("scd_b"),
        remote("scd_a", created=Instant(T0 + SECOND), topic="other"),
        one_off("msg_over", T0 + MINUTE),
        one_off("msg_later", T0 + 2 * MINUTE),
        remote("scd_ben", owner="ben"),
    )
    assert ids(store.remotes("ann", Instant(T0 + MINUTE))) == ["msg_later", "scd_b", "scd_a"]
    assert ids(store.remotes("ann", T0, "other")) == ["scd_a"]
    assert ids(store.remotes("ann", T0, "alerts")) == ["msg_later", "msg_over", "scd_b"]
    assert [mark.id for mark in store.remote_marks("ann", "alerts", T0)] == ["msg_later", "msg_over", "scd_b"]


def test_marks_differ_after_every_change(store: BaseStore) -> None:
    seen = [store.remote_marks("ann", "alerts", T0)]

    def look() -> None:
        marks = store.remote_marks("ann", "alerts", T0)
        assert marks not in seen
        seen.append(marks)

    keep(store, remote("scd_1"), remote("scd_2"))
    look()
    store.update_remote(remote("scd_1", state=RemoteState.THERE, remote="scd_1", updated=Instant(T0 + 1)))
    look()
    store.update_remote(remote("scd_1", state=RemoteState.PAUSED, remote="scd_1", updated=Instant(T0 + 2)))
    look()
    store.forget_remote("scd_1")
    look()


def test_an_update_changes_time_name_and_state_alone(store: BaseStore) -> None:
    keep(store, one_off("msg_1", T0 + DAY))
    changed = one_off("msg_1", T0 + 2 * DAY, remote="theirs", state=RemoteState.THERE, updated=Instant(T0 + 5))
    store.update_remote(changed._replace(payload="{}", owner="ben", key="another"))
    assert store.remote("msg_1") == changed


def test_a_forgotten_one_frees_its_key(store: BaseStore) -> None:
    keep(store, remote("scd_1", key="mine"))
    store.forget_remote("scd_1")
    store.forget_remote("scd_1")
    assert store.remote("scd_1") is None
    again = remote("scd_2", key="mine")
    keep(store, again)
    assert store.remote("scd_2") == again


def test_an_unsure_request_is_taken_up_once_and_only_by_the_same_one(store: BaseStore) -> None:
    unsure = remote("scd_1", state=RemoteState.UNSURE, updated=Instant(T0 + SECOND))
    keep(store, unsure, remote("scd_2"), remote("scd_3", state=RemoteState.THERE))
    now = Instant(T0 + MINUTE)
    assert store.repeat_remote("ben", "print", T0, now) is None
    assert store.repeat_remote("ann", "another", T0, now) is None
    assert store.repeat_remote("ann", "print", Instant(T0 + SECOND), now) is None  # too long ago
    assert store.repeat_remote("ann", "print", T0, now) == unsure._replace(state=RemoteState.ASKED, updated=now)
    assert store.repeat_remote("ann", "print", T0, now) is None


def test_several_who_repeat_at_once_never_get_the_same(opener: Opener, store: BaseStore) -> None:
    keep(store, *(remote(f"scd_{number}", state=RemoteState.UNSURE) for number in range(3)))
    taken: list[str | None] = []

    def repeat() -> None:
        found = opener().repeat_remote("ann", "print", Instant(T0 - 1), T0)
        taken.append(None if found is None else found.id)

    threads = [threading.Thread(target=repeat) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got = [id for id in taken if id is not None]
    assert len(taken) == 5
    assert len(got) == len(set(got))
    assert 1 <= len(got) <= 3


def test_a_quota_counts_what_is_here_and_there(store: BaseStore) -> None:
    create_one(store, every(MINUTE, owner="ann"))
    keep(store, remote("scd_1", state=RemoteState.THERE), limit=3)
    keep(
        store, one_off("msg_over", T0, state=RemoteState.THERE), remote("scd_unsure", state=RemoteState.UNSURE), limit=3
    )
    keep(store, one_off("msg_1", T0 + DAY, state=RemoteState.PAUSED), limit=3)
    refused = refusal_of(lambda: store.keep_remote(remote("scd_2"), 3))
    assert refused.code == "quota"
    assert "limit of 3" in refused.message
    known = store.keep_remote(remote("scd_3", key="key-scd_1"), 3)  # what is there already is no more
    assert known.id == "scd_1"
    keep(store, remote("scd_4", owner="ben"), limit=1)


def test_retention_forgets_one_offs_that_went_out(store: BaseStore) -> None:
    keep(store, remote("scd_old"), *(one_off(f"msg_{day}", T0 + day * DAY) for day in range(5)))
    assert store.prune(Instant(T0 + 3 * DAY), 2) == 2
    assert ids(store.remotes("ann", Instant(0))) == ["msg_2", "msg_3", "msg_4", "scd_old"]
    assert store.prune(Instant(T0 + 3 * DAY), 2) == 1
    assert store.prune(Instant(T0 + 3 * DAY), 2) == 0
    assert ids(store.remotes("ann", Instant(0))) == ["msg_3", "msg_4", "scd_old"]


def test_more_columns_than_this_code_knows_do_no_harm(store: BaseStore) -> None:
    write(store, "ALTER TABLE remotes ADD COLUMN novelty text")
    keep(store, remote("scd_1"))
    assert store.remote("scd_1") == remote("scd_1")
    assert store.remotes("ann", T0) == [remote("scd_1")]
