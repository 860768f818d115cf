"""The Python API: `with Duetime("my.db") as duetime: duetime.schedule(...)`."""

from __future__ import annotations

from duetime.api.base import NotStartedWarning
from duetime.api.duetime import Duetime
from duetime.api.prompts import ScheduledTask
from duetime.api.values import AsyncSchedule, Schedule

__all__ = ["AsyncSchedule", "Duetime", "NotStartedWarning", "Schedule", "ScheduledTask"]
