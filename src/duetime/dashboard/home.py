"""The home page: what needs attention, how runs went, what is due next, what is running, and the workers."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from duetime.dashboard.filters import instant_from
from duetime.dashboard.queries import coming_row, first_steps, occurrences_in, runs
from duetime.dashboard.request import PageRequest, at
from duetime.dashboard.timeline.axis import ticks
from duetime.dashboard.timeline.charts import chart, line
from duetime.engine.clock import DAY, MINUTE, SECOND
from duetime.service.operations.dead_letters import count_dead
from duetime.service.operations.history import History, history, next_attempt, run_views
from duetime.service.operations.overview import count_alike, failing_runs, missed_runs, stopped_schedules, untaken_runs
from duetime.service.operations.status import DayFigures, day_figures, worker_views, workers
from duetime.service.operations.upcoming import coming
from duetime.service.presenters import View, moment_view, schedule_shape
from duetime.service.text import span
from duetime.service.vocabulary import RunStatus, Schedule
from duetime.service.window import Zoom, window

HORIZON: Final = Zoom("horizon", "the hour around now", 60 * MINUTE, 30 * MINUTE, 1 * MINUTE, 600)
HORIZON_HEIGHT: Final = 84
AROUND: Final[Mapping[str, Any]] = {"max_schedules": 150, "max_runs": 300, "all_until": False}
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
    seen = occurrences_in(request, view, **AROUND)
    rows = workers(request.call).value if request.sees_workers else []
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
            for each in coming(request.call, SOON)
            if each.progress.next is not None
        ],
        latest=by_schedule(runs(request, LOOKED_BACK))[:LATEST],
        ticks=ticks(view),
        chart=chart(seen.density, HORIZON_HEIGHT, request.now),
        zoom_at=lambda bar: bar.start // SECOND - 10 * 60,
        in_an_hour=sum(each.total() for each in seen.density.totals[0]),
        more_coming=seen.more_schedules,
        about=seen.density.about,
        here=view.place(request.now),
        workers=worker_views(request.reader, rows[:WORKERS]),
    )


def _live(request: PageRequest) -> list[View]:
    """Return the unfinished runs, each with the time of its next attempt if it waits for one."""
    items = history(request.reader, History(status="live", limit=LOOKED_LIVE, count_to=0)).value.items
    shapes = run_views(request.reader, items, brief=True)
    for place, (run, shape) in enumerate(zip(items, shapes, strict=True)):
        at = next_attempt(request.call, run) if place < LIVE else None
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
    actions: list[Action]
    more: int = 0
    """Number of further runs like this one."""
    run: int | None = None
    grave: bool = True


class HomeGroup(NamedTuple):
    title: str
    items: list[Item]
    address: str
    """The page that lists all of them."""
    is_cut: bool
    """Whether there are more than these."""


def attention(request: PageRequest) -> list[HomeGroup]:
    """Return the groups that are not empty, most urgent first."""
    stopped = stopped_schedules(request.call).value
    paused = [_paused_item(request, each) for each in stopped.items]
    groups = (
        _group("Paused automatically", paused, "/schedules?view=paused", stopped.is_cut),
        _untaken(request),
        _failing(request, {item.schedule for item in paused}),
        _missed(request),
    )
    return [group for group in groups if group.items]


def _group(title: str, items: list[Item], address: str, is_cut: bool) -> HomeGroup:
    """Return a group of the first items. `is_cut` says whether some were not read."""
    return HomeGroup(title, items[:SHOWN], address, is_cut or len(items) > SHOWN)


def _paused_item(request: PageRequest, schedule: Schedule) -> Item:
    """Return the row of a schedule that was paused after failures, or that cannot be planned, and needs somebody."""
    shape = schedule_shape(schedule, request.zone, brief=True)
    text = shape["last_error"] or shape["note"] or ""
    return Item(shape, shape["id"], shape["last_run"], text, [Action("Resume", "play", f"{at(shape['id'])}/resume")])


def _run_item(run: View, more: int, *actions: Action, text: str = "", grave: bool = False) -> Item:
    since = run["finished"] or run["due"]
    return Item(run, run["schedule"], since, text, list(actions), more, run["run_id"], grave)


def _untaken(request: PageRequest) -> HomeGroup:
    waiting = untaken_runs(request.call).value
    items = [
        _run_item(run, more, Action("Dismiss", "close", f"/waiting/{run['run_id']}/dismiss"))
        for run, more in by_schedule(run_views(request.reader, waiting.items, brief=True))
    ]
    return _group("Waiting for an agent", items, "/inbox", waiting.is_cut)


def _failing(request: PageRequest, paused: Set[str | None]) -> HomeGroup:
    """Return the failed runs, except for those of schedules that are paused and named already."""
    dead, items = failing_runs(request.call).value, list[Item]()
    of = {run.id: run for run in dead.items}
    for run, others in by_schedule(run_views(request.reader, dead.items, brief=True)):
        if run["schedule"] in paused:
            continue
        unread = dead.is_cut and len(items) < SHOWN  # not all of its runs were read
        more = count_alike(request.call, of[run["run_id"]]) - 1 if unread else others
        actions = Action("Retry", "retry", f"/runs/{run['run_id']}/retry"), _dismissal(run)
        items.append(_run_item(run, more, *actions, text=run["error"] or "", grave=True))
    return _group("Failing", items, "/dead-letters", dead.is_cut)


def _missed(request: PageRequest) -> HomeGroup:
    missed, items = missed_runs(request.call).value, []
    living = {run.id for run, schedule in missed.items if schedule is not None}
    for run, more in by_schedule(run_views(request.reader, [run for run, _ in missed.items], brief=True)):
        again = [Action("Run now", "play", f"{at(str(run['schedule']))}/run")] if run["run_id"] in living else []
        items.append(_run_item(run, more, *again, _dismissal(run), text=run["error"] or ""))
    return _group("Missed", items, "/timeline?span=week", missed.is_cut)


def _dismissal(run: View) -> Action:
    return Action("Dismiss", "close", f"/runs/{run['run_id']}/dismiss")


def time_of(run: View) -> str:
    """Return the instant that lists show for a run and by which they sort it."""
    return str(run["finished"] or run["started"] or run["due"])


def by_schedule(views: list[View]) -> list[tuple[View, int]]:
    """Return the latest run of each schedule and status, with the number of similar ones; latest first."""
    latest: dict[tuple[object, str], View] = {}
    numbers: dict[tuple[object, str], int] = {}
    for run in sorted(views, key=lambda run: (instant_from(time_of(run)), run["run_id"]), reverse=True):
        alike = (run["schedule"] or run["name"], run["status"])
        latest.setdefault(alike, run)
        numbers[alike] = numbers.get(alike, 0) + 1
    return [(run, numbers[alike] - 1) for alike, run in latest.items()]
