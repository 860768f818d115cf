"""The home page: what needs attention, how runs went, what is due next, what is running, and the workers."""

from __future__ import annotations

from typing import Final, NamedTuple

from starlette.responses import Response

from duetime.dashboard.filters import instant_from
from duetime.dashboard.queries import ReadLimits, coming_row, first_steps, occurrences_in, runs
from duetime.dashboard.request import PageRequest, at
from duetime.dashboard.timeline.axis import Zoom, window
from duetime.dashboard.timeline.charts import chart, line
from duetime.engine.clock import DAY, MINUTE, SECOND
from duetime.engine.model import READ, Run, RunId, RunStatus, Schedule, ScheduleState
from duetime.engine.policy.finish import was_paused_by_engine
from duetime.engine.store import FAILED_OR_LOST, RunQuery, ScheduleQuery
from duetime.service.dead_letters import count_dead
from duetime.service.errors import unwrap
from duetime.service.history import next_attempt
from duetime.service.presenters import View, moment_view, run_shapes, schedule_shape, worker_shape
from duetime.service.services import pages_of
from duetime.service.status import DayFigures, day_figures
from duetime.service.text import COUNTED, span

HORIZON: Final = Zoom("horizon", "the hour around now", 60 * MINUTE, 30 * MINUTE, 1 * MINUTE, 600)
HORIZON_HEIGHT: Final = 84
AROUND: Final = ReadLimits(schedules=150, runs=300, all_until=False)
"""Lower limits than on the timeline, because this page is reloaded whenever something happens."""
SOON: Final = 9
LIVE: Final = 12
LOOKED_LIVE: Final = 60
LATEST: Final = 8
LOOKED_BACK: Final = 100
"""Number of latest runs to group by schedule and status, so that a frequent schedule does not hide the others."""
WORKERS: Final = 20


def home_page(request: PageRequest) -> Response:
    live = [run for run in _live(request) if not _is_untaken(run)]
    under_way = sum(run["status"] in (RunStatus.RUNNING, RunStatus.WAITING) for run in live)
    view = window(HORIZON, request.zone, request.now)
    seen = occurrences_in(request, view, AROUND)
    workers = request.scheduler.workers() if request.sees_workers else []
    figures = day_figures(request.call)
    return request.render(
        "home.html",
        first_steps=first_steps(request),
        groups=attention(request),
        live=live[:LIVE],
        under_way=under_way,
        retrying=sum(run["status"] == RunStatus.PENDING and run["attempt"] > 0 for run in live),
        more_live=len(live) > LIVE,
        failed=count_dead(request.call),
        figures=figures,
        figures_about=_about(figures, request),
        success_line=line(figures.success.parts, least=0, most=100),
        lateness_line=line(figures.lateness.parts, least=0),
        coming=[
            coming_row(request, each.progress.next, each)
            for each in request.scheduler.coming(request.caller, None, SOON)
            if each.progress.next is not None
        ],
        latest=by_schedule(runs(request, limit=LOOKED_BACK))[:LATEST],
        horizon=view,
        chart=chart(seen.density, HORIZON_HEIGHT, request.now),
        zoom_at=lambda bar: bar.start // SECOND - 10 * 60,
        in_an_hour=sum(each.total() for each in seen.density.totals[0]),
        more_coming=seen.more_schedules,
        about=seen.density.about,
        here=view.place(request.now),
        workers=[worker_shape(each, request.now, request.zone) for each in workers[:WORKERS]],
    )


def _live(request: PageRequest) -> list[View]:
    """Return the unfinished runs, each with the time of its next attempt if it waits for one."""
    found = unwrap(request.scheduler.runs(request.caller, RunQuery(status="live", limit=LOOKED_LIVE, count_to=0))).items
    shapes = run_shapes(request.scheduler, found, request.zone, brief=True)
    for place, (run, shape) in enumerate(zip(found, shapes, strict=True)):
        at = next_attempt(request.scheduler, run) if place < LIVE else None
        shape["next_attempt"] = moment_view(at, request.zone)
    return shapes


def _is_untaken(run: View) -> bool:
    """Return whether a run waits for an agent that has not taken it, so that nothing is being done about it."""
    return run["status"] == "waiting" and not run["taken_until"]


def _about(figures: DayFigures, request: PageRequest) -> str:
    behind = request.now - figures.since
    return "24 h" if behind >= DAY - MINUTE else span(behind)


# What needs attention: schedules that were paused automatically, prompts that nobody takes, failures, missed
# occurrences.

SHOWN: Final = 4
"""Maximum number of rows in each group; the group links to all of them."""
LOOKED_AT: Final = 40
"""Number of schedules or runs that are read for a group, and merged by schedule."""
PAGES: Final = 25
"""Number of pages of failing schedules that are read to find those that were paused automatically."""
LATELY: Final = 20_000
"""Number of latest runs, of all owners, that are searched for missed ones."""
NEWS: Final = 7 * DAY
"""How long a missed run is shown, unless it is dismissed or a later run completes."""
PATIENCE: Final = 2 * MINUTE
"""How long a prompt may wait for an agent before it needs attention."""


class Action(NamedTuple):
    label: str
    icon: str
    address: str


class Item(NamedTuple):
    """A row about one schedule."""

    about: View
    """The view of its latest run, or of the schedule itself."""
    schedule: str | None
    since: str | None
    text: str
    more: int
    """Number of further runs like this one."""
    actions: list[Action]
    run: int | None = None
    grave: bool = True


class Group(NamedTuple):
    title: str
    items: list[Item]
    address: str
    """The page that lists all of them."""
    is_cut: bool
    """Whether there are more than these."""


class Found(NamedTuple):
    items: list[Item]
    is_cut: bool = False
    """Whether some of them were not read."""


def attention(request: PageRequest) -> list[Group]:
    """Return the groups that are not empty, most urgent first."""
    paused = _paused(request)
    own = {item.schedule for item in paused.items}
    failing = _failing(request)
    failing = failing._replace(items=[each for each in failing.items if each.schedule not in own])
    found = (
        _group("Paused automatically", paused, "/schedules?view=paused"),
        _group("Waiting for an agent", _untaken(request), "/inbox"),
        _group("Failing", failing, "/dead-letters"),
        _group("Missed", _missed(request), "/timeline?span=week"),
    )
    return [group for group in found if group.items]


def _group(title: str, found: Found, address: str) -> Group:
    return Group(title, found.items[:SHOWN], address, found.is_cut or len(found.items) > SHOWN)


def _paused(request: PageRequest) -> Found:
    """Return schedules that were paused after failures, or that cannot be planned, and need somebody."""
    failing, some_left = _stopped(request, "failed")
    broken, others_left = _stopped(request, "broken")
    known = {each.definition.id for each in failing}
    found = failing + [each for each in broken if each.definition.id not in known]
    return Found([_paused_item(request, each) for each in found], some_left or others_left)


def _stopped(request: PageRequest, status: str) -> tuple[list[Schedule], bool]:
    """Return the newest schedules of a status that stopped by themselves, and whether there may be more of them."""
    found: list[Schedule] = []
    query = ScheduleQuery(status=status, newest_first=True, limit=LOOKED_AT, count_to=0)
    for number, page in enumerate(pages_of(request.scheduler.search, request.caller, query), 1):
        found += [
            each
            for each in page.items
            if each.progress.state == ScheduleState.BROKEN or was_paused_by_engine(each.progress)
        ]
        if len(found) >= LOOKED_AT or number == PAGES:
            return found, page.cursor is not None and bool(found)
    return found, False


def _paused_item(request: PageRequest, schedule: Schedule) -> Item:
    shape = schedule_shape(schedule, request.zone, brief=True)
    place = at(shape["id"])
    text = shape["last_error"] or shape["note"] or ""
    return Item(shape, shape["id"], shape["last_run"], text, 0, [Action("Resume", "play", f"{place}/resume")])


def _read(request: PageRequest, query: RunQuery) -> tuple[list[Run], bool]:
    page = unwrap(request.scheduler.runs(request.caller, query))
    return page.items, page.cursor is not None


def _untaken(request: PageRequest) -> Found:
    query = RunQuery(free_at=request.now, oldest_first=True, limit=LOOKED_AT, count_to=0)
    found, is_cut = _read(request, query)
    waiting = [run for run in found if run.due < request.now - PATIENCE]
    items = []
    for run, more in by_schedule(run_shapes(request.scheduler, waiting, request.zone, brief=True)):
        dismiss = Action("Dismiss", "close", f"/waiting/{run['run_id']}/dismiss")
        items.append(Item(run, run["schedule"], run["due"], "", more, [dismiss], run["run_id"], grave=False))
    return Found(items, is_cut and len(waiting) == len(found))


def _unhealed(request: PageRequest, runs: list[Run]) -> list[tuple[Run, Schedule | None]]:
    """Return the runs after which no run of the same schedule has completed, each with its schedule if that exists."""
    schedules = {run.schedule: request.scheduler.schedule_of(request.caller, run) for run in runs}
    pairs = [(run, schedules[run.schedule]) for run in runs]
    return [pair for pair in pairs if pair[1] is None or pair[1].progress.last_status != RunStatus.COMPLETED]


def _failing(request: PageRequest) -> Found:
    """Return the latest dead letters, and the latest ones of schedules that fail, which newer dead letters may hide."""
    query = RunQuery(status="dead", limit=LOOKED_AT, count_to=0)
    latest, is_cut = _read(request, query)
    dead, known = [run for run, _ in _unhealed(request, latest)], {run.schedule for run in latest}
    for schedule in _last_failed(request) if is_cut else ():
        if schedule.definition.id not in known:
            query = RunQuery(schedule=schedule.definition.id, status=FAILED_OR_LOST, limit=1, count_to=0)
            dead += [run for run in _read(request, query)[0] if not run.stop]
    items: list[Item] = []
    for run, others in by_schedule(run_shapes(request.scheduler, dead, request.zone, brief=True)):
        unread = is_cut and len(items) < SHOWN  # not all of its runs were read
        more = _dead_like(request, run) - 1 if unread else others
        place = f"/runs/{run['run_id']}"
        actions = [Action("Retry", "retry", f"{place}/retry"), Action("Dismiss", "close", f"{place}/dismiss")]
        since = run["finished"] or run["due"]
        items.append(Item(run, run["schedule"], since, run["error"] or "", more, actions, run["run_id"]))
    return Found(items, is_cut)


def _last_failed(request: PageRequest) -> list[Schedule]:
    query = ScheduleQuery(status="failed", newest_first=True, limit=LOOKED_AT, count_to=0)
    found = unwrap(request.scheduler.search(request.caller, query)).items
    return [each for each in found if each.progress.last_status in (RunStatus.FAILED, RunStatus.LOST)]


def _dead_like(request: PageRequest, run: View) -> int:
    """Count the runs of the same schedule that ended like this one and that nobody has dealt with."""
    one = request.scheduler.run(request.caller, run["run_id"])
    if one is None:
        return 1
    query = RunQuery(schedule=one.schedule, status=one.status, mark_below=READ, limit=1, count_to=COUNTED)
    return unwrap(request.scheduler.runs(request.caller, query)).total


def _missed(request: PageRequest) -> Found:
    lately = RunId(max(0, request.scheduler.store.newest_run() - LATELY))
    query = RunQuery(status=RunStatus.MISSED, above=lately, mark_below=READ, limit=LOOKED_AT, count_to=0)
    found, is_cut = _read(request, query)
    fresh = [run for run in found if (run.last or run.due) > request.now - NEWS]
    unhealed = _unhealed(request, fresh)
    living = {run.id for run, schedule in unhealed if schedule is not None}
    items = []
    for run, more in by_schedule(run_shapes(request.scheduler, [run for run, _ in unhealed], request.zone, brief=True)):
        again = Action("Run now", "play", f"{at(str(run['schedule']))}/run")
        dismiss = Action("Dismiss", "close", f"/runs/{run['run_id']}/dismiss")
        actions = [again, dismiss] if run["run_id"] in living else [dismiss]
        since = str(run.get("last") or run["due"])
        items.append(Item(run, run["schedule"], since, run["error"] or "", more, actions, run["run_id"], grave=False))
    return Found(items, is_cut and len(fresh) == len(found))


def shown_time(run: View) -> str:
    """Return the instant that lists show for a run and by which they sort it."""
    return str(run["finished"] or run["started"] or run["due"])


def by_schedule(found: list[View]) -> list[tuple[View, int]]:
    """Return the latest run of each schedule and status, with the number of similar ones; latest first."""
    latest: dict[tuple[object, str], View] = {}
    numbers: dict[tuple[object, str], int] = {}
    for run in sorted(found, key=lambda run: (instant_from(shown_time(run)), run["run_id"]), reverse=True):
        alike = (run["schedule"] or run["name"], run["status"])
        latest.setdefault(alike, run)
        numbers[alike] = numbers.get(alike, 0) + 1
    return [(run, numbers[alike] - 1) for alike, run in latest.items()]
