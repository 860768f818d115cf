"""Outcomes that wait to be recorded, while the worker registers again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from duetime.engine.clock import SystemClock
from duetime.engine.model import WorkerId
from duetime.engine.worker.held_runs import HeldRuns


def test_outcomes_of_a_later_registration_are_left_for_it() -> None:
    """The thread that records may have read the worker's id just before another thread registered."""
    done: list[Any] = [
        (SimpleNamespace(worker=number), name) for number, name in ((1, "old"), (2, "first"), (2, "second"))
    ]
    held = HeldRuns(SystemClock())
    held.done.extend(done)
    assert held.take_finished(WorkerId(1), 10) == (done[:1], [])
    assert held.take_finished(WorkerId(2), 10) == (done[1:], []) and not held.done
    held.done.extend(done)
    assert held.take_finished(WorkerId(2), 10) == (done[1:], []), "nobody waits for those of an earlier one"
    held.done.extend(done[1:])
    assert held.take_finished(WorkerId(2), 1) == (done[1:2], []), "no more than one transaction records"
    held.put_back(done[1:2])
    assert list(held.done) == done[1:], "in their order"


def test_a_run_that_was_claimed_again_is_not_forgotten_with_its_earlier_outcome() -> None:
    held = HeldRuns(SystemClock())
    earlier, later = (SimpleNamespace(id=7, begun=True, over=False) for _ in range(2))
    held.claimed[7] = later  # type: ignore[assignment,index]
    held.remove([(earlier, None)])  # type: ignore[list-item]
    assert held.claimed == {7: later}
    held.drop()
    assert (held.claimed, held.count_strays()) == ({}, 1), "its thread is still busy"
    later.over = True
    assert held.count_strays() == 0
