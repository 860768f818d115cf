"""State details, which are shown beside the status: what an unfinished schedule or run is waiting for."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from duetime.engine.model import Run, RunStatus, executor_of, is_held_back, names_limit
from duetime.engine.value_class import NamedTuple

DUE: Final = "due"
WAITING_FOR_AGENT: Final = "waiting_for_agent"
TAKEN: Final = "taken"
HELD_BY_LIMIT: Final = "held_by_limit"
HELD: Final = "held"
"""The detail of a run whose executor is away."""
_ON: Final = "on "
"""The beginning of the detail of a run that was handed to an executor, whose name follows."""
RUNNING: Final = "running"
ORPHANS: Final = {"cancelled": "what_it_follows_is_cancelled", "deleted": "what_it_follows_is_deleted"}
"""The details of a schedule that follows another one, by what became of that."""
STATE_DETAILS: Final = (RUNNING, TAKEN, HELD_BY_LIMIT, WAITING_FOR_AGENT, DUE)
"""If the live runs of a schedule differ, the first of these that applies is shown."""
_NOT_STARTED: Final = frozenset({HELD, HELD_BY_LIMIT, WAITING_FOR_AGENT, DUE})
"""The detail of a schedule that is due but of which nothing is running."""


class StatusWords(NamedTuple):
    """The status of a schedule in the words that people read."""

    word: str
    more: str = ""
    """What it is waiting for, or what else the detail says."""


def status_words(status: str, last_status: str | None, detail: str | None) -> StatusWords:
    """Return the same words for the dashboard and for terminals. "pending" would sound stuck for a schedule that only
    waits for its next time, and nothing is running while a prompt waits for an agent or a job for its next attempt."""
    if detail == WAITING_FOR_AGENT and status in ("pending", "running"):
        return StatusWords("waiting", "for an agent")
    orphan = next((ended for ended, each in ORPHANS.items() if each == detail), None)
    if orphan is not None and status == "pending":
        return StatusWords("waiting", f"for what was {orphan}")
    more = "" if detail is None or detail == status else detail.replace("_", " ")
    if status == "running" and detail in _NOT_STARTED:
        return StatusWords("waiting", "" if detail == DUE else more)
    if status == "pending":
        return StatusWords("failing" if last_status in (RunStatus.FAILED, RunStatus.LOST) else "scheduled", more)
    return StatusWords(status, more)


def run_detail(run: Run) -> str | None:
    """Return the detail of a run; None once it is over."""
    match run.status:
        case RunStatus.RUNNING:
            return RUNNING
        case RunStatus.WAITING:
            if (executor := executor_of(run)) is not None:
                return HELD if is_held_back(run) else f"{_ON}{executor}"
            return WAITING_FOR_AGENT if run.holder is None else TAKEN
        case RunStatus.PENDING | RunStatus.QUEUED:
            return HELD_BY_LIMIT if run.attempt == 0 and names_limit(run.error) else DUE
        case _:
            return None


def shown_status(run: Run) -> str:
    """Return the status of a run that users see. One that was handed to an executor is running there."""
    return RunStatus.RUNNING if (run_detail(run) or "").startswith(_ON) else run.status


def foremost(details: Collection[str | None]) -> str | None:
    """Return which of the details of its runs is shown for a schedule."""
    on_executors = (each for each in details if each is not None and each.startswith(_ON))
    return next((each for each in (RUNNING, *on_executors, HELD, *STATE_DETAILS) if each in details), None)
