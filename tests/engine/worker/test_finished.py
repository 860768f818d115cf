"""Outcomes that wait to be recorded, while the worker registers again."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

from duetime.engine.model import WorkerId
from duetime.engine.worker.worker import Worker


def test_outcomes_of_a_later_registration_are_left_for_it() -> None:
    """The thread that records may have read the worker's id just before another thread registered."""
    done: list[Any] = [
        (SimpleNamespace(worker=number), name) for number, name in ((1, "old"), (2, "first"), (2, "second"))
    ]
    worker: Any = SimpleNamespace(
        done=deque(done), batch=10, _changing=threading.Lock(), suspects=SimpleNamespace(ended=lambda batch: [])
    )
    assert Worker._take_finished(worker, WorkerId(1)) == done[:1]
    assert Worker._take_finished(worker, WorkerId(2)) == done[1:] and not worker.done
    worker.done.extend(done)
    assert Worker._take_finished(worker, WorkerId(2)) == done[1:], "nobody waits for those of an earlier one"
