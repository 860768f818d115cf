"""State details, which are shown beside the status: what an unfinished schedule or run is waiting for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.model import Progress, Run, RunStatus, Schedule, ScheduleId, ScheduleState, names_limit
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import RunQuery
from duetime.service.masking import masked

DUE: Final = "due"
WAITING_FOR_AGENT: Final = "waiting_for_agent"
TAKEN: Final = "taken"
HELD_BY_LIMIT: Final = "held_by_limit"
RUNNING: Final = "running"
STATE_DETAILS: Final = (RUNNING, TAKEN, HELD_BY_LIMIT, WAITING_FOR_AGENT, DUE)
"""If the live runs of a schedule differ, the first of these that applies is shown."""
_NOT_STARTED: Final = frozenset({HELD_BY_LIMIT, WAITING_FOR_AGENT, DUE})
"""The detail of a schedule that is due but of which nothing is running."""
_MOST = 1000
_LIVING: Final = (ScheduleState.ACTIVE, ScheduleState.PAUSED)


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
            return WAITING_FOR_AGENT if run.holder is None else TAKEN
        case RunStatus.PENDING | RunStatus.QUEUED:
            return HELD_BY_LIMIT if run.attempt == 0 and names_limit(run.error) else DUE
        case _:
            return None


def why_unfinished(scheduler: Scheduler, run: Run) -> str | None:
    """Return what a run that has not ended is waiting for, as a clause that follows a colon; None if only for a worker
    to start it."""
    if run.status == RunStatus.RUNNING:
        return "it is still running"
    if run.status == RunStatus.WAITING:
        return "no agent has taken it" if run.holder is None else "the agent that took it has not finished it"
    if run.status == RunStatus.QUEUED:
        return f"it is queued behind an earlier run{_held_behind(scheduler, run)}"
    if run.error is None:
        return None
    if run.attempt:
        return f"an attempt failed and is repeated later: {masked(run.error)}"
    return f"{'it is held back' if names_limit(run.error) else 'no worker can run it'}: {masked(run.error)}"


def _held_behind(scheduler: Scheduler, run: Run) -> str:
    """Return what the earlier runs of a queued run wait for, if that is the end of a pause."""
    schedule = scheduler.store.get(run.schedule)
    if schedule is None or schedule.progress.state != ScheduleState.PAUSED:
        return ""
    query = RunQuery(schedule=run.schedule, status="live", count_to=0)
    active = [each for each in scheduler.store.runs(query).items if each.status != RunStatus.QUEUED]
    held = [each for each in active if each.status == RunStatus.PENDING and scheduler.store.starts_at(each) is None]
    return ", which waits until the schedule is resumed" if active and held == active else ""


def details_of(scheduler: Scheduler, schedules: Sequence[Schedule]) -> dict[ScheduleId, str]:
    """Return the details of those schedules that have one. A query is only made for schedules with active runs."""
    now = scheduler.clock.now()
    found = {each.definition.id: detail for each in schedules if (detail := _at_rest(each.progress, now)) is not None}
    busy = {each.definition.id: each.progress for each in schedules if each.progress.active > each.progress.untaken}
    if busy:
        query = RunQuery(schedules=tuple(busy), status="live", limit=_MOST, count_to=0)
        of: dict[ScheduleId, set[str | None]] = {id: set() for id in busy}
        for run in scheduler.store.runs(query).items:
            of[run.schedule].add(run_detail(run))
        found |= {id: detail for id in busy if (detail := _foremost(of[id], busy[id])) is not None}
    return found


def detail_of(scheduler: Scheduler, schedule: Schedule) -> str | None:
    progress = schedule.progress
    if progress.active <= progress.untaken:
        return _at_rest(progress, scheduler.clock.now())
    return details_of(scheduler, [schedule]).get(schedule.definition.id)


def _at_rest(progress: Progress, now: Instant) -> str | None:
    """Return the detail of a schedule that has no active run."""
    if progress.state not in _LIVING or progress.active > progress.untaken:
        return None
    if progress.active:
        return WAITING_FOR_AGENT
    if progress.next is None or progress.next > now or progress.state == ScheduleState.PAUSED:
        return None
    return HELD_BY_LIMIT if names_limit(progress.note) else DUE


def _foremost(found: Collection[str | None], progress: Progress) -> str | None:
    detail = next((detail for detail in STATE_DETAILS if detail in found), None)
    if progress.state == ScheduleState.PAUSED and detail in (DUE, HELD_BY_LIMIT):
        return None  # it only waits for the resume
    return HELD_BY_LIMIT if detail == DUE and names_limit(progress.note) else detail
