"""Dead letters: runs that failed for good or were lost. They are grouped into problems, and retried or dismissed
together."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import sha256
from typing import Annotated, Final, Literal, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.errors import Refused
from duetime.engine.kind import Caller
from duetime.engine.model import DISMISSABLE, OVER, Run, RunId, RunStatus, ScheduleId, ScheduleState
from duetime.engine.policy.pauses import is_one_off
from duetime.engine.scheduler import ordered
from duetime.engine.store import Page, RunQuery
from duetime.engine.value_class import dataclass
from duetime.service.errors import refuse, refuse_many
from duetime.service.operations.declaration import Answer, Field, OperationRequest, PagedRequest, Tagged
from duetime.service.operations.history import ShowRun, show_run
from duetime.service.operations.inbox import REOPENING
from duetime.service.services import Call, pages_of
from duetime.service.text import COUNTED, Count, plural

MAX_NAMED: Final = 10_000
"""Maximum number of dead letters that a page shows, or that one call names by id. A filter reaches all that match."""
_PAGE: Final = 500
"""Number of dead letters that are read and changed at once."""
_MOST_BYTES: Final = 4 * 1024 * 1024
"""Size in bytes at which a page ends early, because results may be long."""
_COUNTED: Final = 1_000_000
_NUMBERS: Final = re.compile(r"\b[0-9a-f]{8,}\b|\d+(?:\.\d+)?")
"""The parts that differ between two occurrences of one problem: durations, ports, ids."""
Action = Literal["retry", "resolve", "reopen", "dismiss", "restore"]
"""`reopen` undoes `resolve`; `restore` and `dismiss` are their names until 0.2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListDeadLetters(PagedRequest):
    """Dead letters that match every given filter, latest first."""

    text: Annotated[
        str, Field("Part of the name or of the error, whatever the case of its ASCII letters.", max_length=200)
    ] = ""
    tagged: Tagged = None
    dismissed: Annotated[bool, Field("Those that were dismissed, instead of those that were not.")] = False
    groups: Sequence[str] = ()
    """Keys of groups, as `group` builds them. Pages do not select by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeDeadLetters(ListDeadLetters):
    """A change of the dead letters with these numbers, or of all that match, however many they are."""

    action: Action
    ids: Annotated[
        Sequence[int] | None, Field("Numbers of runs, instead of a filter.", min_items=1, max_items=MAX_NAMED)
    ] = None
    every_run: Annotated[bool, Field("Retry every run of a recurring schedule, not only its newest.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dismiss(OperationRequest):
    """One dead letter, or a run that was missed, taken off the list; it stays in the history."""

    run: Annotated[int, Field("The number of a run.", name="run_id")]
    undo: bool = False
    """Put it back on the list."""
    only_dead: bool = False
    """Find no run that can be neither dismissed nor restored."""


class DeadLetterGroup(NamedTuple):
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
    """The runs of one schedule that a retry, or another change, of many concerns."""

    newest: Run
    number: int
    retried: int
    """How many of them are retried or changed: none are retried if the schedule was cancelled or deleted."""
    recurs: bool
    is_paused: bool
    """What is retried runs nevertheless."""


class Dealt(NamedTuple):
    """The result of retrying, resolving or reopening dead letters: ids only, since they may be many."""

    done: list[RunId]
    refused: list[tuple[RunId, Refused]]

    def reasons(self) -> list[str]:
        """Return one line for each reason why some were refused, with their number."""
        counted = Counter(_reason(refusal) for _, refusal in self.refused)
        return [f"{plural(number, 'run')}: {reason}" for reason, number in counted.most_common()]


def ended_at(run: Run) -> Instant:
    """Return the instant that lists show and by which they sort a dead letter."""
    return run.due if run.finished is None else run.finished


def _query(call: Call, request: ListDeadLetters) -> RunQuery:
    """Return the query for the dead letters that match, apart from the filter by group."""
    query = RunQuery(**request.query(call), text=request.text, tagged=request.tagged)
    if request.dismissed:
        return replace(query, statuses=(RunStatus.FAILED, RunStatus.LOST), mark_from=1)
    return replace(query, status="dead")


def dead_letters(call: Call, request: ListDeadLetters) -> Answer[Page[Run]]:
    """Return a page of dead letters. Notes say which failures are not recorded in this store."""
    page = call.scheduler.runs(call.caller, _query(call, request))
    return Answer(page, (), call.services.failure_notes(request.kind))


def dismiss(call: Call, request: Dismiss) -> Answer[Run]:
    """Resolve a dead letter, or put it back on the list."""
    if call.caller.depth > 0:
        raise refuse("run_token", "an agent's run cannot resolve failures; ask a person to do it")
    run = show_run(call, ShowRun(run=request.run)).value
    if request.only_dead and run.status not in DISMISSABLE:
        raise refuse("not_found", "there is no such run among those that failed")
    return Answer(call.scheduler.dismiss(call.caller, request.run, undo=request.undo))


def find_dead(call: Call, request: ListDeadLetters) -> list[Run]:
    """Return the matching dead letters, latest first; at most the newest MAX_NAMED."""
    query = replace(_query(call, request), limit=_PAGE, count_to=0, most_bytes=_MOST_BYTES)
    runs: list[Run] = []
    for page in pages_of(call.scheduler.runs, call.caller, query):
        # Nobody looks at the result here, and it may be long.
        runs += [run if run.result is None else run._replace(result=None) for run in page.items]
        if len(runs) >= MAX_NAMED:
            break
    matching = [run for run in runs[:MAX_NAMED] if not request.groups or _key(run) in request.groups]
    return sorted(matching, key=lambda run: (ended_at(run), run.id), reverse=True)


def group(runs: Sequence[Run]) -> list[DeadLetterGroup]:
    """Group by schedule and error, so that one cause is one entry however often it occurred. The latest group comes
    first."""
    groups = defaultdict[tuple[ScheduleId, str], list[Run]](list)
    for run in runs:
        groups[run.schedule, _without_numbers(run.error or run.status)].append(run)
    return [DeadLetterGroup(same) for same in groups.values()]


def _key(run: Run) -> str:
    return sha256(f"{run.schedule}\n{_without_numbers(run.error or run.status)}".encode()).hexdigest()[:16]


@lru_cache(maxsize=1000)
def _without_numbers(error: str) -> str:
    return _NUMBERS.sub("#", error)


def change_dead(
    call: Call, request: ChangeDeadLetters, report: Callable[[float], None] = lambda part: None
) -> Answer[Dealt]:
    """Retry, resolve or reopen all matching dead letters, however many, a page at a time, oldest first. `report`
    receives the fraction that is done, from 0 to 1.

    Each retried run keeps its id. Those of one schedule run one after the other in the order in which they were due,
    whatever its overlap policy and its queue limit. Unless ids or `every_run` are given, only the newest dead letter of
    a recurring schedule is retried, because the others are mostly obsolete.
    """
    action, undo = request.action, request.action in REOPENING
    change = call.scheduler.retry_all if action == "retry" else partial(call.scheduler.dismiss_all, undo=undo)
    refuse_many(call.caller, f"{action} many runs", "ask a person to do it")
    newest_only = action == "retry" and request.ids is None and not request.every_run
    chosen = _chosen(call, replace(request, dismissed=True) if undo else request)
    return deal(call, chosen, change, action, plan_retry(call, request) if newest_only else (), report)


def deal(
    call: Call,
    batches: Iterable[tuple[list[Run], float]],
    change: Callable[[Caller, Sequence[Run]], Sequence[Run | Refused]],
    action: str,
    planned: Iterable[PlannedRetry] = (),
    report: Callable[[float], None] = lambda part: None,
) -> Answer[Dealt]:
    """Change the runs, a batch at a time; of recurring schedules in a plan, only the newest. Notes say why some were
    refused, and warnings why what is retried might not begin."""
    newest = {each.newest.schedule: each.newest.id for each in planned if each.recurs}
    dealt, changed_kinds = Dealt([], []), set[str]()
    for runs, part in batches:
        chosen = [run for run in runs if newest.get(run.schedule, run.id) == run.id]
        for run, result in zip(ordered(chosen), change(call.caller, chosen), strict=True):
            if isinstance(result, Refused):
                dealt.refused.append((run.id, result))
            else:
                dealt.done.append(run.id)
                changed_kinds.add(run.kind)
        report(part)
    kinds = sorted(changed_kinds) if action == "retry" else ()
    warnings = dict.fromkeys(each for kind in kinds for each in call.services.worker_warnings(kind))
    return Answer(dealt, list(warnings), dealt.reasons())


def plan_retry(call: Call, request: ChangeDeadLetters) -> list[PlannedRetry]:
    """Return what a retry of the matching dead letters concerns, by schedule; the one with the most comes first."""
    return plan_change(call, _chosen(call, request), "retry", every_run=request.every_run)


def plan_change(
    call: Call, batches: Iterable[tuple[list[Run], float]], action: str, *, every_run: bool
) -> list[PlannedRetry]:
    """Return what a change of these runs concerns, by schedule; the one with the most comes first."""
    newest, numbers = dict[ScheduleId, Run](), Counter[ScheduleId]()
    for runs, _ in batches:
        numbers.update(run.schedule for run in runs)
        for run in runs:
            latest = max(run, newest.get(run.schedule, run), key=lambda each: (each.due, each.id))
            newest[run.schedule] = latest._replace(result=None)
    planned = []
    for id, number in numbers.most_common():
        schedule = call.scheduler.schedule_of(call.caller, newest[id])
        state = ScheduleState.DELETED if schedule is None else schedule.progress.state
        recurs = schedule is not None and not is_one_off(schedule.definition)
        retried = number
        if action == "retry":
            retried = 1 if recurs and not every_run else number
            retried = 0 if state in (ScheduleState.CANCELLED, ScheduleState.DELETED) else retried
        planned.append(PlannedRetry(newest[id], number, retried, recurs, state == ScheduleState.PAUSED))
    return planned


def _chosen(call: Call, request: ChangeDeadLetters) -> Iterator[tuple[list[Run], float]]:
    """Yield the dead letters to change in batches, each with the fraction of the whole that it completes."""
    groups = () if request.ids is not None else request.groups
    for runs, part in chosen_runs(call, _query(call, request), request.ids):
        yield [run for run in runs if not groups or _key(run) in groups], part


def chosen_runs(call: Call, query: RunQuery, ids: Sequence[int] | None) -> Iterator[tuple[list[Run], float]]:
    """Yield the runs with these ids or, without ids, those that match, in batches, each with the fraction of the whole
    that it completes."""
    if ids is not None:
        named = ordered(_by_ids(call, ids))
        for start in range(0, len(named), _PAGE):
            yield named[start : start + _PAGE], min(1.0, (start + _PAGE) / len(named))
        return
    # Runs that fail from now on are not included: a retried run keeps its id, which the pages have passed by then, and
    # new runs get higher ids.
    below = RunId(call.scheduler.store.newest_run() + 1)
    query = replace(query, below=below, oldest_first=False, ascending=True, limit=_PAGE, cursor=None)
    query = replace(query, count_to=_COUNTED, most_bytes=_MOST_BYTES)
    seen = total = 0
    for page in pages_of(call.scheduler.runs, call.caller, query):
        total, seen = total or page.total, seen + len(page.items)
        yield page.items, min(1.0, seen / max(1, total))


def _by_ids(call: Call, ids: Sequence[int]) -> list[Run]:
    if len(ids) > MAX_NAMED:
        raise refuse("invalid", f"ids: at most {MAX_NAMED:,}; give a filter instead", "ids")
    runs = [show_run(call, ShowRun(run=id)).value for id in dict.fromkeys(ids)]
    return [run._replace(result=None) for run in runs]


def _reason(refusal: Refused) -> str:
    state = refusal.details.get("state")
    return f"the schedule was {state}" if state in OVER else refusal.message


def count_dead(call: Call) -> Count:
    """Count the runs that failed or were lost and that nobody has retried or dismissed."""
    page = call.scheduler.runs(call.caller, RunQuery(status="dead", limit=1, count_to=COUNTED))
    return Count(page.total, page.total_exact)
