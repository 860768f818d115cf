"""Undoing a change. The reverse change is kept in this process for some minutes; another process offers no undo."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from secrets import token_hex
from threading import Lock
from typing import Final, NamedTuple

from duetime.engine.clock import MINUTE, Clock, Instant
from duetime.service.vocabulary import Schedule, ScheduleState

_LIFE: Final = 10 * MINUTE
_MOST: Final = 200
"""Changes that are kept, of all sessions together."""


class ReverseChange(NamedTuple):
    """A change that reverses another one."""

    action: str
    until: Instant | None = None
    note: str | None = None


RESTORE: Final = ReverseChange("restore")
"""Reverses the dismissal of runs; the other changes are about schedules."""


def reverse_of(action: str, before: Schedule) -> ReverseChange | None:
    """Return the action that restores a schedule to its state before a change, or None. Neither a cancelled nor a
    deleted schedule fires again."""
    match action, before.progress.state:
        case "pause", ScheduleState.ACTIVE:
            return ReverseChange("resume")
        case "resume", ScheduleState.PAUSED:
            return ReverseChange("pause", before.definition.resume_at, before.progress.note)
        case _:
            return None


class Reversal(NamedTuple):
    session: str
    changes: Mapping[ReverseChange, list[str]]
    """The ids to which each change is applied."""
    until: Instant


class UndoLog:
    def __init__(self) -> None:
        self._kept: OrderedDict[str, Reversal] = OrderedDict()
        self._lock = Lock()

    def offer(self, clock: Clock, session: str, changes: Iterable[tuple[str, ReverseChange | None]]) -> dict[str, str]:
        """Keep what reverses a change, by the id of what was changed; return the query parameter that offers it, or
        none if nothing reverses it."""
        ids = defaultdict[ReverseChange, list[str]](list)
        for id, change in changes:
            if change is not None:
                ids[change].append(id)
        if not ids:
            return {}
        key = token_hex(8)
        with self._lock:
            self._kept[key] = Reversal(session, ids, Instant(clock.now() + _LIFE))
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
