"""Dead letters: runs that failed for good or were lost. They are grouped into problems, and retried or dismissed
together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import Caller
from duetime.engine.model import OVER, Run, RunId, ScheduleId, ScheduleState
from duetime.engine.policy.pauses import is_one_off
from duetime.engine.queries import NO_RUN
from duetime.engine.result import Err, Ok, Result, err_of
from duetime.engine.scheduler import ordered
from duetime.engine.store import FAILED_OR_LOST, RunQuery
from duetime.service.errors import error_of, refuse, refuse_many, unwrap
from duetime.service.services import Call, Services, pages_of
from duetime.service.text import COUNTED, Count, plural

MOST: Final = 10_000
"""Maximum number of dead letters that a page shows, or that one call names by id. A filter reaches all that match."""
_PAGE: Final = 500
"""Number of dead letters that are read and changed at once."""
_MOST_BYTES: Final = 4 * 1024 * 1024
"""Size in bytes at which a page ends early, because results may be long."""
_COUNTED: Final = 1_000_000
_NUMBERS: Final = re.compile(r"\b[0-9a-f]{8,}\b|\d+(?:\.\d+)?")
"""The parts that differ between two occurrences of one problem: durations, ports, ids."""
Action = Literal["retry", "dismiss", "restore"]
"""`restore` undoes `dismiss`."""
Told = Callable[[float], None]
"""Receives the fraction that is done, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterQuery:
    """Selects dead letters: those with given ids, or all that match every given filter."""

    ids: Sequence[int] | None = None
    owner: str | None = None
    kind: str | None = None
    schedule: ScheduleId | None = None
    text: str = ""
    """Part of the name or of the error, whatever the case of its ASCII letters."""
    groups: Sequence[str] = ()
    """Keys of groups, as `group` builds them."""
    dismissed: bool = False
    """Select dismissed dead letters, instead of those that were not dismissed."""
    every_run: bool = False
    """For a retry without ids: all dead letters of a recurring schedule, instead of its newest one."""

    def runs(self, limit: int, cursor: str | None = None) -> RunQuery:
        """Return the query for the dead letters that match, apart from the filter by group."""
        return RunQuery(
            owner=self.owner,
            kind=self.kind,
            schedule=self.schedule,
            status=FAILED_OR_LOST if self.dismissed else "dead",
            mark_from=1 if self.dismissed else None,
            text=self.text,
            limit=limit,
            cursor=cursor,
        )


class Group(NamedTuple):
    """Dead letters of one schedule with the same error, latest first."""

    runs: list[Run]

    @property
    def key(self) -> str:
        """Name of the group in a request."""
        return _key(self.latest)

    @property
    def latest(self) -> Run:
        return self.runs[0]


class PlannedRetry(NamedTuple):
    """The dead letters of one schedule that a retry of many concerns."""

    newest: Run
    number: int
    retried: int
    """How many of them are retried: none if the schedule was cancelled or deleted."""
    recurs: bool
    is_paused: bool
    """What is retried runs nevertheless."""


class Dealt(NamedTuple):
    """The result of retrying, dismissing or restoring dead letters: ids only, since they may be many."""

    done: list[RunId]
    refused: list[tuple[RunId, Err]]
    kinds: set[str]
    """Of those that were changed."""

    def reasons(self) -> list[str]:
        """Return one line for each reason why some were refused, with their number."""
        counted = Counter(_reason(err) for _, err in self.refused)
        return [f"{plural(number, 'run')}: {reason}" for reason, number in counted.most_common()]

    def add(self, runs: Sequence[Run], results: Sequence[Result[Run]]) -> None:
        for run, result in zip(runs, results, strict=True):
            if isinstance(result, Ok):
                self.done.append(run.id)
                self.kinds.add(run.kind)
            else:
                self.refused.append((run.id, result))


def ended_at(run: Run) -> Instant:
    """Return the instant that lists show and by which they sort a dead letter."""
    return run.due if run.finished is None else run.finished


def find_dead(services: Services, caller: Caller, asked: DeadLetterQuery) -> list[Run]:
    """Return the matching dead letters, latest first; at most the newest MOST."""
    query = replace(asked.runs(_PAGE), count_to=0, most_bytes=_MOST_BYTES)
    found: list[Run] = []
    for page in pages_of(services.scheduler.runs, caller, query):
        # Nobody looks at the result here, and it may be long.
        found += [run if run.result is None else run._replace(result=None) for run in page.items]
        if len(found) >= MOST:
            break
    matching = [run for run in found[:MOST] if not asked.groups or _key(run) in asked.groups]
    return sorted(matching, key=lambda run: (ended_at(run), run.id), reverse=True)


def group(runs: Sequence[Run]) -> list[Group]:
    """Group by schedule and error, so that one cause is one entry however often it occurred. The latest group comes
    first."""
    groups: dict[tuple[ScheduleId, str], Group] = {}
    for run in runs:
        same = run.schedule, _without_numbers(run.error or run.status)
        if same not in groups:
            groups[same] = Group([])
        groups[same].runs.append(run)
    return list(groups.values())


def _key(run: Run) -> str:
    return sha256(f"{run.schedule}\n{_without_numbers(run.error or run.status)}".encode()).hexdigest()[:16]


@lru_cache(maxsize=1000)
def _without_numbers(error: str) -> str:
    return _NUMBERS.sub("#", error)


def change_dead(
    services: Services, caller: Caller, asked: DeadLetterQuery, action: Action, told: Told = lambda part: None
) -> Result[Dealt]:
    """Retry, dismiss or restore all matching dead letters, however many, a page at a time, oldest first.

    Each retried run keeps its id. Those of one schedule run one after the other in the order in which they were due,
    whatever its overlap policy and its queue limit. Unless ids or `every_run` are given, only the newest dead letter of
    a recurring schedule is retried, because the others are mostly obsolete.
    """
    scheduler, dealt, newest = services.scheduler, Dealt([], [], set()), dict[ScheduleId, RunId]()
    change = {"retry": scheduler.retry_all, "dismiss": scheduler.dismiss_all, "restore": scheduler.restore_all}[action]
    try:
        refuse_many(caller, f"{action} many runs", "ask a person to do it")
        if action == "retry" and asked.ids is None and not asked.every_run:
            planned = plan_retry(services, caller, asked)
            newest = {each.newest.schedule: each.newest.id for each in planned if each.recurs}
        for runs, part in _chosen(services, caller, asked if action != "restore" else replace(asked, dismissed=True)):
            chosen = [run for run in runs if newest.get(run.schedule, run.id) == run.id]
            results = unwrap(change(caller, chosen))
            dealt.add(ordered(chosen), results)
            told(part)
    except DuetimeError as error:
        return err_of(error)
    return Ok(dealt)


def plan_retry(services: Services, caller: Caller, asked: DeadLetterQuery) -> list[PlannedRetry]:
    """Return what a retry of the matching dead letters concerns, by schedule; the one with the most comes first."""
    newest, numbers = dict[ScheduleId, Run](), Counter[ScheduleId]()
    for runs, _ in _chosen(services, caller, asked):
        numbers.update(run.schedule for run in runs)
        for run in runs:
            latest = max(run, newest.get(run.schedule, run), key=lambda each: (each.due, each.id))
            newest[run.schedule] = latest._replace(result=None)
    planned = []
    for id, number in numbers.most_common():
        schedule = services.scheduler.schedule_of(caller, newest[id])
        state = ScheduleState.DELETED if schedule is None else schedule.progress.state
        recurs = schedule is not None and not is_one_off(schedule.definition)
        retried = 1 if recurs and not asked.every_run else number
        retried = 0 if state in (ScheduleState.CANCELLED, ScheduleState.DELETED) else retried
        planned.append(PlannedRetry(newest[id], number, retried, recurs, state == ScheduleState.PAUSED))
    return planned


def _chosen(services: Services, caller: Caller, asked: DeadLetterQuery) -> Iterator[tuple[list[Run], float]]:
    """Yield the runs to change in batches, each with the fraction of the whole that it completes."""
    if asked.ids is not None:
        named = ordered(_by_ids(services, caller, asked.ids))
        for start in range(0, len(named), _PAGE):
            yield named[start : start + _PAGE], min(1.0, (start + _PAGE) / len(named))
        return
    # Runs that fail from now on are not included: a retried run keeps its id, which the pages have passed by then, and
    # new runs get higher ids.
    below = RunId(services.scheduler.store.newest_run() + 1)
    query = replace(asked.runs(_PAGE), below=below, ascending=True, count_to=_COUNTED, most_bytes=_MOST_BYTES)
    seen = total = 0
    for page in pages_of(services.scheduler.runs, caller, query):
        total, seen = total or page.total, seen + len(page.items)
        matching = [run for run in page.items if not asked.groups or _key(run) in asked.groups]
        yield matching, min(1.0, seen / max(1, total))


def _by_ids(services: Services, caller: Caller, ids: Sequence[int]) -> list[Run]:
    if len(ids) > MOST:
        raise refuse("invalid", f"ids: at most {MOST:,}; give a filter instead", "ids")
    found = [services.scheduler.run(caller, id) for id in dict.fromkeys(ids)]
    if None in found:
        raise error_of(NO_RUN)
    return [run._replace(result=None) for run in found if run is not None]


def _reason(err: Err) -> str:
    state = err.details.get("state")
    return f"the schedule was {state}" if state in OVER else err.message or "it no longer exists"


def count_dead(call: Call, kind: str | None = None) -> Count:
    """Count the runs that failed or were lost and that nobody has retried or dismissed."""
    query = RunQuery(kind=kind, status="dead", limit=1, count_to=COUNTED)
    page = unwrap(call.scheduler.runs(call.caller, query))
    return Count(page.total, page.total_exact)
