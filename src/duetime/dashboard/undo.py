"""Undoing a change. What reverses it is kept in this process for some minutes; another process offers no undo."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from secrets import token_hex
from threading import Lock
from typing import Final, NamedTuple

from duetime.engine.clock import MINUTE, Clock, Instant
from duetime.engine.model import Schedule, ScheduleState

RESTORE: Final = "restore"
"""Reverses the dismissal of runs; the other changes are about schedules."""
_REVERSE: Final = {"pause": "resume", "resume": "pause", "dismiss": RESTORE}
"""The changes that the engine can reverse: neither a cancelled nor a deleted schedule fires again."""
_BEFORE: Final = {"pause": ScheduleState.ACTIVE, "resume": ScheduleState.PAUSED}
"""The state of a schedule to which the reverse of a change leads back."""
_LIFE: Final = 10 * MINUTE
_MOST: Final = 200
"""Changes that are kept, of all sessions together."""


def leads_back(action: str, before: Schedule) -> bool:
    """Return whether undoing a change restores the state that a schedule had before it."""
    return before.progress.state == _BEFORE.get(action)


class Reversal(NamedTuple):
    session: str
    action: str
    ids: tuple[str, ...]
    until: Instant


class UndoLog:
    def __init__(self) -> None:
        self._kept: OrderedDict[str, Reversal] = OrderedDict()
        self._lock = Lock()

    def offer(self, clock: Clock, session: str, action: str, ids: Sequence[str]) -> dict[str, str]:
        """Keep what reverses a change; return the query parameter that offers it, or none if nothing reverses it."""
        if action not in _REVERSE or not ids:
            return {}
        key = token_hex(8)
        with self._lock:
            self._kept[key] = Reversal(session, _REVERSE[action], tuple(ids), Instant(clock.now() + _LIFE))
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        return {"undo": key}

    def find(self, clock: Clock, session: str, key: str) -> Reversal | None:
        found = self._kept.get(key)
        return found if found is not None and found.session == session and found.until > clock.now() else None

    def take(self, clock: Clock, session: str, key: str) -> Reversal | None:
        """Return a change that may be reversed, once."""
        with self._lock:
            return self._kept.pop(key) if self.find(clock, session, key) is not None else None
