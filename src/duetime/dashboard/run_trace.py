"""The course of one run from its due time to its end, as steps with text and as a strip of segments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from duetime.dashboard.filters import instant_from
from duetime.engine.clock import Instant
from duetime.engine.model import RunStatus
from duetime.service.presenters import View
from duetime.service.text import span

_LEAST: Final = 1.6
"""Minimum width of a segment, in percent: an attempt of a millisecond stays visible beside a wait of an hour."""
_NO_ATTEMPT: Final = frozenset({RunStatus.PENDING, RunStatus.QUEUED, RunStatus.MISSED, RunStatus.SKIPPED})
"""Statuses of a run whose `started` is not that of an attempt under way or of its last one."""


class Step(NamedTuple):
    """A stretch of time: an attempt, or a wait before one."""

    label: str
    style: str
    """CSS class."""
    start: Instant
    end: Instant
    attempt: View | None = None
    """The attempt, with its error; None for a wait."""
    open: bool = False
    """Whether it is still under way, or lies ahead."""

    @property
    def took(self) -> str:
        return span(self.end - self.start)


class Segment(NamedTuple):
    x: float
    width: float
    style: str
    label: str


class RunTrace(NamedTuple):
    steps: list[Step]
    segments: list[Segment]
    label: str
    """The strip in words."""


def run_trace(run: View, now: Instant) -> RunTrace:
    """Build the trace of a run from `run_details`."""
    steps = list(_steps(run, now))
    words = [f"{step.label}, {step.took}" for step in steps]
    return RunTrace(steps, _segments(steps), "; ".join(words) or "It has not begun")


def _steps(run: View, now: Instant) -> Iterator[Step]:
    reached, waited = instant_from(run["due"]), "Waited to start"
    for attempt in [*run["attempts"], *_last_attempt(run)]:
        if attempt["started"] is None:
            continue
        start = instant_from(attempt["started"])
        if start > reached:
            yield Step(waited, "rests", reached, start)
        is_open = attempt["finished"] is None
        end = max(start, now if is_open else instant_from(attempt["finished"]))
        label = _attempt_label(attempt, run)
        yield Step(label, f"is-{attempt['status']}", start, end, attempt, is_open)
        reached, waited = end, "Waited to retry"
    if run["next_attempt"] is not None:
        start = instant_from(run["next_attempt"])
        if start > reached:
            label = "Waiting to retry" if run["attempts"] else "Waiting to start"
            yield Step(label, "rests", reached, start, open=True)
    elif run["status"] in (RunStatus.QUEUED, RunStatus.PENDING) and now > reached:
        label = "Waiting behind another run" if run["status"] == RunStatus.QUEUED else "Waiting for a worker"
        yield Step(label, "rests", reached, now, open=True)


def _last_attempt(run: View) -> list[dict[str, Any]]:
    """Return the attempt that the run's own row describes, if it describes one."""
    if run["started"] is None or run["status"] in _NO_ATTEMPT:
        return []
    names = ("started", "finished", "status", "error", "traceback")
    return [{"attempt": run["attempt"], **{name: run[name] for name in names}}]


def _attempt_label(attempt: View, run: View) -> str:
    if attempt["status"] == RunStatus.WAITING:
        return "With an agent" if run["state_detail"] == "taken" else "Waiting for an agent"
    return f"Attempt {max(1, attempt['attempt'])} {attempt['status']}"


def _segments(steps: list[Step]) -> list[Segment]:
    whole = sum(step.end - step.start for step in steps) or 1
    widths = [max(_LEAST, 100 * (step.end - step.start) / whole) for step in steps]
    scale = 100 / sum(widths, 0.0) if widths else 1
    segments, x = [], 0.0
    for step, width in zip(steps, widths, strict=True):
        segments.append(
            Segment(round(x, 3), round(max(0.3, width * scale - 0.25), 3), step.style, f"{step.label}, {step.took}")
        )
        x += width * scale
    return segments
