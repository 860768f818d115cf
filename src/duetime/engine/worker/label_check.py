"""Finds work that no worker can take, because none has the label that it needs."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.errors import Refused
from duetime.engine.model import Trouble, kind_and_label
from duetime.engine.policy.changes import note_label
from duetime.engine.store import Store

PATIENCE: Final = MINUTE
"""How long work may wait for a worker with its label, such as one that is restarted."""


def note_unreachable(store: Store, now: Instant) -> None:
    """Note as an incident what has waited longest, of each owner and label. It is over once somebody takes it."""
    lanes = {lane: label for lane in store.lanes() if (label := kind_and_label(lane)[1])}
    for worker in store.workers() if lanes else ():
        for lane in worker.lanes.split(","):
            lanes.pop(lane, None)
    seen: list[tuple[str, str]] = []
    while lanes and (entry := store.earliest(list(lanes), seen)) is not None and entry.at <= now - PATIENCE:
        seen.append((entry.lane, entry.owner))
        known = store.incidents_of([entry.schedule])
        if not any(each.trouble == Trouble.UNTAKEN and each.run is None for each in known):
            with suppress(Refused):  # it was deleted meanwhile
                store.change(entry.schedule, now, partial(note_label, label=lanes[entry.lane]))
