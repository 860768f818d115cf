"""What agents used up is counted in the store, so that several workers together keep to a limit."""

from __future__ import annotations

import threading

from duetime.core.clock import DAY, Instant
from duetime.core.ledger import Cap, Used
from duetime.stores.flow import FlowingStore
from tests.support.drafts import T0

TODAY, TOMORROW = Instant(T0), Instant(T0 + DAY)
CAPS = [Cap("all", "all prompts", Used(runs=5)), Cap("agent:coder", "the agent coder", Used(tokens=100))]


def test_runs_are_counted_until_the_limit(store: FlowingStore) -> None:
    assert [store.reserve("ada", TODAY, CAPS) for _ in range(6)] == [None] * 5 + ["5 runs a day for all prompts"]
    assert store.reserve("bob", TODAY, CAPS) is None
    assert store.reserve("ada", TOMORROW, CAPS) is None


def test_what_was_used_counts_under_every_cap(store: FlowingStore) -> None:
    store.spend("ada", TODAY, CAPS, Used(tokens=60, micros=5))
    assert store.reserve("ada", TODAY, CAPS) is None
    store.spend("ada", TODAY, CAPS, Used(tokens=60, micros=5))
    assert store.reserve("ada", TODAY, CAPS) == "100 tokens a day for the agent coder"
    other = [CAPS[0], Cap("agent:other", "the agent other", Used(tokens=100))]
    assert store.reserve("ada", TODAY, other) is None


def test_two_at_once_do_not_share_the_last_place(store: FlowingStore) -> None:
    together, answers = threading.Barrier(8), []

    def reserve() -> None:
        together.wait(10)
        answers.append(store.reserve("ada", TODAY, CAPS))

    threads = [threading.Thread(target=reserve) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers.count(None) == 5 and len(answers) == 8


def test_old_days_are_forgotten_with_history(store: FlowingStore) -> None:
    for _ in range(5):
        store.reserve("ada", TODAY, CAPS)
    store.prune(Instant(T0 + 1), 10)
    assert store.reserve("ada", TODAY, CAPS) is None
