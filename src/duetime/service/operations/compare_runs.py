"""What a run is compared with: the earlier runs of its schedule that succeeded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from duetime.engine.clock import SECOND
from duetime.engine.model import Run, RunStatus
from duetime.engine.store import RunQuery
from duetime.engine.value_class import NamedTuple, pattern
from duetime.service.services import Call

COMPARED: Final = 20
"""How many runs make up what is usual."""
_LEAST: Final = 2
_SHARE: Final = pattern(r"(?<![\d.])(\d{1,3}(?:\.\d{1,3})?) ?%")
_COUNT: Final = pattern(r"(?<![\d.,])(\d{1,9}) ?(?:of|/) ?(\d{1,9})(?![\d.,])")


def successes(call: Call, run: Run, limit: int) -> Sequence[Run]:
    """Return the latest runs of the same schedule that succeeded."""
    query = RunQuery(schedule=run.schedule, status=RunStatus.COMPLETED, limit=limit, count_to=0)
    return [each for each in call.scheduler.runs(call.caller, query).items if each.id != run.id]


def usual_seconds(call: Call, run: Run) -> float | None:
    """Return how long runs of its schedule usually take: the median of the latest that succeeded; None for a run that
    is not in progress, and if too few succeeded."""
    if run.status != RunStatus.RUNNING:
        return None
    ended = [each for each in successes(call, run, COMPARED) if each.started is not None and each.finished is not None]
    if len(ended) < _LEAST:
        return None
    from statistics import median  # lists start without it

    return round(median((each.finished or 0) - (each.started or 0) for each in ended) / SECOND, 3)


def share_done(report: str | None) -> float | None:
    """Return which part of its work a run has done, in percent, if its last report says so: `40 %`, `3 of 12`."""
    if report is None:
        return None
    if (match := _SHARE.search(report)) is not None:
        return min(100.0, float(match[1]))
    match = _COUNT.search(report)
    if match is None or int(match[2]) == 0 or int(match[1]) > int(match[2]):
        return None
    return round(100 * int(match[1]) / int(match[2]), 1)


class InputDifference(NamedTuple):
    """A field of the input that the last run which succeeded had otherwise."""

    name: str
    value: Any
    before: Any


def input_differences(payload: Any, before: Any, prefix: str = "") -> list[InputDifference]:
    """Return the fields that differ; of fields that are mappings, such as named arguments, those within them."""
    if not isinstance(payload, dict) or not isinstance(before, dict):
        return []
    differences = []
    for name in [*payload, *(name for name in before if name not in payload)]:
        value, other = payload.get(name), before.get(name)
        if value == other:
            continue
        within = [] if prefix else input_differences(value, other, f"{name}.")
        differences += within or [InputDifference(f"{prefix}{name}", value, other)]
    return differences
