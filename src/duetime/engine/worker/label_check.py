"""Finds work that no worker can take, because none has the label that it needs."""

from __future__ import annotations

from typing import Final

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.model import kind_and_label
from duetime.engine.store import Store

PATIENCE: Final = MINUTE
"""How long work may wait for a worker with its label, such as one that is restarted."""


def note_unreachable(store: Store, now: Instant) -> None:
    """Note as an incident what has waited longest, of each owner and label. It is over once somebody takes it."""
    labels = {lane: label for lane in store.lanes() if (label := kind_and_label(lane)[1])}
    for worker in store.workers() if labels else ():
        for lane in worker.lanes.split(","):
            labels.pop(lane, None)
    if labels:
        store.note_unreachable(labels, Instant(now - PATIENCE), now)
