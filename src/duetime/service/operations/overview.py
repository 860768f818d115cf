"""Reads for pages that show many schedules and runs at once: what needs attention, the occurrences in a window, and the
figures of schedules. Each makes few and bounded queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeAlias, TypeVar

from duetime.engine.clock import DAY, MINUTE, Instant
from duetime.engine.model import READ, Run, RunId, RunStatus, Schedule, ScheduleId, ScheduleState
from duetime.engine.policy.finish import was_paused_by_engine
from duetime.engine.store import RunQuery
from duetime.engine.store_interfaces import PeriodCount, Timing, Trace
from duetime.engine.value_class import dataclass
from duetime.service.operations.dead_letters import ListDeadLetters, dead_letters
from duetime.service.operations.declaration import Answer
from duetime.service.operations.schedules import ListSchedules, list_schedules, pages_of_schedules
from duetime.service.operations.upcoming import coming
from duetime.service.services import Call

if TYPE_CHECKING:
    from duetime.service.density import Density
    from duetime.service.window import Window

T = TypeVar("T")
RunOfSchedule: TypeAlias = tuple[Run, Schedule | None]


class Some(NamedTuple, Generic[T]):
    """The first of those that match."""

    items: list[T]
    is_cut: bool
    """Whether some of them were not read."""


# What needs attention.

LOOKED_AT: Final = 40
"""Number of schedules or runs that are read for each of these lists."""
_STOPPED_PAGE: Final = 250
_MAX_PAGES: Final = 2
"""Size and number of the pages of failing schedules that are read to find those that were paused automatically, unless
incidents name them."""
_LATELY: Final = 20_000
"""Number of latest runs, of all owners, that are searched for missed ones."""
_NEWS: Final = 7 * DAY
"""How long a missed run is shown, unless it is dismissed or a later run completes."""
_PATIENCE: Final = 2 * MINUTE
"""How long a prompt may wait for an agent before it needs attention."""


def stopped_schedules(call: Call) -> Answer[Some[Schedule]]:
    """Return schedules that were paused after failures, or that cannot be planned, newest first."""
    failing, broken = _list_stopped(call, "failed"), _list_stopped(call, "broken")
    known = {each.definition.id for each in failing.items}
    others = [each for each in broken.items if each.definition.id not in known]
    return Answer(Some([*failing.items, *others], failing.is_cut or broken.is_cut))


def _list_stopped(call: Call, status: str) -> Some[Schedule]:
    """Return the newest schedules of a status that stopped by themselves."""
    schedules: list[Schedule] = []
    request = ListSchedules(status=status, limit=_STOPPED_PAGE, count_to=0)
    for number, page in enumerate(pages_of_schedules(call, request), 1):
        for each in page.items:
            if each.progress.state == ScheduleState.BROKEN or was_paused_by_engine(each.progress):
                schedules.append(each)
        if len(schedules) >= LOOKED_AT or number == _MAX_PAGES:
            is_cut = bool(schedules) and (page.cursor is not None or len(schedules) > LOOKED_AT)
            return Some(schedules[:LOOKED_AT], is_cut)
    return Some(schedules[:LOOKED_AT], len(schedules) > LOOKED_AT)


def untaken_runs(call: Call) -> Answer[Some[Run]]:
    """Return runs that have waited for somebody to take them for a while, oldest first."""
    now = call.now
    runs = _runs(call, RunQuery(free_at=now, oldest_first=True, limit=LOOKED_AT, count_to=0))
    waiting = [run for run in runs.items if run.due < now - _PATIENCE]
    return Answer(Some(waiting, runs.is_cut and len(waiting) == len(runs.items)))


def failing_runs(call: Call) -> Answer[Some[RunOfSchedule]]:
    """Return the latest dead letters after which nothing completed, and the latest ones of schedules that fail, which
    newer dead letters may hide; each with its schedule if that exists."""
    page = dead_letters(call, ListDeadLetters(limit=LOOKED_AT, count_to=0)).value
    is_cut, known = page.cursor is not None, {run.schedule for run in page.items}
    dead = _select_unhealed(call, page.items)
    hidden = [each for each in _last_failed(call) if each.definition.id not in known] if is_cut else []
    dead += [pair for pair in call.scheduler.latest_failures(call.caller, hidden) if not pair[0].stop]
    return Answer(Some(dead, is_cut))


def _last_failed(call: Call) -> list[Schedule]:
    schedules = list_schedules(call, ListSchedules(status="failed", limit=LOOKED_AT, count_to=0)).value.items
    return [each for each in schedules if each.progress.last_status in (RunStatus.FAILED, RunStatus.LOST)]


def long_ago(call: Call) -> Instant:
    """Return since when missed runs need attention."""
    return Instant(call.now - _NEWS)


def missed_runs(call: Call) -> Answer[Some[RunOfSchedule]]:
    """Return runs that were missed lately, after which nothing completed, each with its schedule if that exists."""
    lately = RunId(max(0, call.scheduler.store.newest_run() - _LATELY))
    query = RunQuery(status=RunStatus.MISSED, above=lately, mark_below=READ, limit=LOOKED_AT, count_to=0)
    runs = _runs(call, query)
    fresh = [run for run in runs.items if (run.last or run.due) > long_ago(call)]
    return Answer(Some(_select_unhealed(call, fresh), runs.is_cut and len(fresh) == len(runs.items)))


def _select_unhealed(call: Call, runs: Sequence[Run]) -> list[RunOfSchedule]:
    """Return the runs after which no run of the same schedule has completed, each with its schedule if that exists."""
    pairs = call.scheduler.with_schedules(call.caller, runs)
    return [pair for pair in pairs if pair[1] is None or pair[1].progress.last_status != RunStatus.COMPLETED]


def _runs(call: Call, query: RunQuery) -> Some[Run]:
    page = call.scheduler.runs(call.caller, query)
    return Some(page.items, page.cursor is not None)


def busy_schedules(call: Call, request: ListSchedules, limit: int, most_read: int) -> Answer[Some[Schedule]]:
    """Return active schedules without a next time, such as a one-off that runs: they are in no order of starts."""
    schedules: list[Schedule] = []
    read, is_cut = 0, False
    for page in pages_of_schedules(call, replace(request, status="running", order="newest", count_to=0)):
        schedules += [each for each in page.items if each.progress.next is None and each.progress.state == "active"]
        read, is_cut = read + len(page.items), page.cursor is not None
        if len(schedules) > limit or read >= most_read:
            break
    return Answer(Some(schedules[:limit], is_cut or len(schedules) > limit))


# The occurrences in a window.

_PAGE: Final = 750


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrences:
    """The schedules that fire in a window, and the runs that were due in it. Beyond the limits, only the schedules that
    fire first and the latest runs are included."""

    window: Window
    now: Instant
    owner: str | None = None
    kind: str | None = None
    text: str | None = None
    """Part of the name."""
    max_schedules: int
    max_runs: int
    all_until: bool = True
    """Whether the query itself ends at the end of the window. Among a million schedules of other owners, that takes
    longer than reading the first few and dropping those beyond the window."""


class WindowDensity(NamedTuple):
    """The occurrences in a window, and what was left out."""

    density: Density
    more_schedules: bool
    """Whether further schedules fire in the window."""
    past_from: Instant | None
    """Where the runs begin, if there are too many."""


def occurrences(call: Call, request: Occurrences) -> Answer[WindowDensity]:
    from duetime.service.density import Density  # other reads start without it

    window, schedules, density = request.window, list[Schedule](), Density(request.window)
    if not window.ends_with(request.now):
        until, limit = window.end if request.all_until else None, request.max_schedules + 1
        schedules = coming(call, limit, until, owner=request.owner, kind=request.kind, text=request.text)
    more = len(schedules) > request.max_schedules and (schedules[-1].progress.next or 0) < window.end
    runs, past_from = _past(call, request) if window.start < request.now else ([], None)
    density.add_coming(schedules[: request.max_schedules], request.now)
    density.add_past(runs, call.scheduler.store.public_ids([run.schedule for run in runs]))
    return Answer(WindowDensity(density, more, past_from))


def _past(call: Call, request: Occurrences) -> tuple[list[Run], Instant | None]:
    """Return the latest runs back to the start of the window. If there are too many, also return where they start.

    Runs are read in the order of their creation, which is nearly that of their due instants. A range of skipped or
    missed occurrences may have been created long before its last occurrence, so ranges are read separately.
    """
    start, end = request.window.start, request.window.end
    query = RunQuery(owner=request.owner, kind=request.kind, limit=min(request.max_runs, _PAGE), count_to=0)
    if end < request.now:
        query = replace(query, below=call.scheduler.store.first_run_due(end))
    of_ranges = replace(query, below=None, overlapping=(start, end), limit=_PAGE)
    ranges = call.scheduler.runs(call.caller, of_ranges).items
    runs: list[Run] = []
    past_from: Instant | None = None
    while past_from is None:
        page = call.scheduler.runs(call.caller, query)
        runs += page.items
        if page.cursor is None or page.items[-1].due < start:
            break
        past_from = runs[-1].due if len(runs) >= request.max_runs else None
        query = replace(query, cursor=page.cursor)
    whole = {run.id: run for run in (*runs, *ranges)}.values()
    inside = [run for run in whole if run.due < end and (run.last or run.due) >= start]
    text = None if request.text is None else request.text.lower()
    return [run for run in inside if text is None or text in run.name.lower()], past_from


# Figures of schedules.


def schedule_figures(
    call: Call, schedule: Schedule, bounds: Sequence[Instant], each: int, latest: int
) -> Answer[tuple[Sequence[PeriodCount], Sequence[Timing]]]:
    """Return the runs of one schedule, counted by period with at most `each` rows of every one, and the latest of them
    with their times."""
    store, number = call.scheduler.store, schedule.definition.id
    return Answer((store.period_counts(number, bounds, each), store.timings(number, latest)))


def latest_traces(call: Call, schedules: Sequence[Schedule], number: int) -> dict[ScheduleId, list[Trace]]:
    """Return the last runs of each schedule, which one query reads for all of them."""
    of: dict[ScheduleId, list[Trace]] = {each.definition.id: [] for each in schedules}
    for trace in call.scheduler.store.traces(list(of), number):
        of[trace.schedule].append(trace)
    return of
