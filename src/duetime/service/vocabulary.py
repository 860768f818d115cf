"""The words in which operations answer, for the interfaces that show the answers: rows and their states, pages, and how
times and zones are written. Interfaces import them from here, and from the engine only clock types, errors and ids."""

from __future__ import annotations

from duetime.engine.actor import is_agents
from duetime.engine.encoding import json_object
from duetime.engine.model import (
    DISMISSABLE,
    ENDED,
    LIVE,
    OVER,
    Cause,
    Definition,
    EventRow,
    Progress,
    Run,
    RunStatus,
    Schedule,
    ScheduleState,
    WorkerRow,
    executed,
    first_start,
    names_limit,
    status_of,
    was_given_back,
)
from duetime.engine.policy.options import tags_of
from duetime.engine.store import Health, Page
from duetime.engine.store_interfaces import HookRow, PeriodCount, Timing, Trace
from duetime.engine.times import ReadTime, clock_local, format_local, iso_local
from duetime.engine.times.zones import known_zone
from duetime.engine.triggers import describe

__all__ = [
    "DISMISSABLE", "ENDED", "LIVE", "OVER", "Cause", "Definition", "EventRow", "Health", "HookRow", "Page",
    "PeriodCount", "Progress", "ReadTime", "Run", "RunStatus", "Schedule", "ScheduleState", "Timing", "Trace",
    "WorkerRow", "clock_local", "describe", "executed", "first_start", "format_local", "is_agents", "iso_local",
    "json_object", "known_zone", "names_limit", "status_of", "tags_of", "was_given_back",
]  # fmt: skip
