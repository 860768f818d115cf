"""Undoing a change. The reverse change is kept in this process for some minutes; another process offers no undo."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from duetime.dashboard.notices import SessionMemory
from duetime.engine.clock import MINUTE, Instant
from duetime.service.vocabulary import Schedule, ScheduleState

_LIFE: Final = 10 * MINUTE


class ReverseChange(NamedTuple):
    """A change that reverses another one."""

    action: str
    until: Instant | None = None
    note: str | None = None


REOPEN: Final = ReverseChange("reopen")
"""Reverses that runs or an incident were resolved; the other changes are about schedules."""


def reverse_of(action: str, before: Schedule) -> ReverseChange | None:
    """Return the action that brings a schedule back to its state before a change, or None."""
    match action, before.progress.state:
        case (("cancel" | "delete"), ScheduleState.ACTIVE):
            return ReverseChange("restore")
        case "pause", ScheduleState.ACTIVE:
            return ReverseChange("resume")
        case "resume", ScheduleState.PAUSED:
            return ReverseChange("pause", before.definition.resume_at, before.progress.note)
        case _:
            return None


class Reversal(NamedTuple):
    changes: Mapping[ReverseChange, list[str]]
    """The ids to which each change is applied."""
    until: Instant


def reversal_of(changes: Iterable[tuple[str, ReverseChange | None]], now: Instant) -> Reversal | None:
    """Return what reverses changes, each given with the id of what was changed; None if nothing reverses them."""
    ids = defaultdict[ReverseChange, list[str]](list)
    for id, change in changes:
        if change is not None:
            ids[change].append(id)
    return Reversal(ids, Instant(now + _LIFE)) if ids else None


UNDO: Final = SessionMemory[Reversal]()
