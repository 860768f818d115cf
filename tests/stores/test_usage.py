"""What agents used up is counted in the store, so that several workers together keep to a limit."""

from __future__ import annotations

import threading

from duetime.engine.clock import DAY, Instant
from duetime.engine.model import Cap, Left, Used
from duetime.stores.base import BaseStore
from tests.support.drafts import T0

TODAY, TOMORROW = Instant(T0), Instant(T0 + DAY)
CAPS = [Cap("all", "all prompts", Used(runs=5)), Cap("agent:coder", "the agent coder", Used(tokens=100))]


def test_runs_are_counted_until_the_limit(store: BaseStore) -> None:
    answers = [store.reserve("ada", TODAY, CAPS) for _ in range(6)]
    assert answers == [Left(tokens=100)] * 5 + ["5 runs a day for all prompts"]
    assert store.reserve("bob", TODAY, CAPS) == Left(tokens=100)
    assert store.reserve("ada", TOMORROW, CAPS) == Left(tokens=100)


def test_what_was_used_counts_under_every_cap(store: BaseStore) -> None:
    store.spend("ada", TODAY, CAPS, Used(tokens=60, micros=5))
    assert store.reserve("ada", TODAY, CAPS) == Left(tokens=40)
    store.spend("ada", TODAY, CAPS, Used(tokens=60, micros=5))
    assert store.reserve("ada", TODAY, CAPS) == "100 tokens a day for the agent coder"
    other = [CAPS[0], Cap("agent:other", "the agent other", Used(tokens=100))]
    assert store.reserve("ada", TODAY, other) == Left(tokens=100)


def test_a_run_is_told_what_the_tightest_limit_leaves(store: BaseStore) -> None:
    store.spend("ada", TODAY, [Cap("a", "a", Used())], Used(tokens=10, micros=250_000))
    tight = [Cap("a", "a", Used(tokens=100, micros=10**6)), Cap("b", "b", Used(tokens=50)), Cap("c", "c", Used(runs=1))]
    left = store.reserve("ada", TODAY, tight)
    assert isinstance(left, Left) and left == Left(tokens=50, micros=750_000) and left.dollars == 0.75
    assert store.reserve("ada", TODAY, [Cap("d", "d", Used(runs=1))]) == Left()


def test_two_at_once_do_not_share_the_last_place(store: BaseStore) -> None:
    together = threading.Barrier(8)
    answers: list[str | Left] = []

    def reserve() -> None:
        together.wait(30)
        answers.append(store.reserve("ada", TODAY, CAPS))

    threads = [threading.Thread(target=reserve) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sum(isinstance(each, Left) for each in answers) == 5 and len(answers) == 8


def test_old_days_are_forgotten_with_history(store: BaseStore) -> None:
    for _ in range(5):
        store.reserve("ada", TODAY, CAPS)
    store.prune(Instant(T0 + 1), 10)
    assert isinstance(store.reserve("ada", TODAY, CAPS), Left)
