"""The home page: what needs attention, how runs went, what is due next, what is running, and the workers."""

from __future__ import annotations

from collections.abc import Mapping
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
    found = history(request.reader, History(status="live", limit=LOOKED_LIVE, count_to=0)).value.items
    shapes = run_views(request.reader, found, brief=True)
    for place, (run, shape) in enumerate(zip(found, shapes, strict=True)):
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
    more: int
    """Number of further runs like this one."""
    actions: list[Action]
    run: int | None = None
    grave: bool = True


class HomeGroup(NamedTuple):
    title: str
    items: list[Item]
    address: str
    """The page that lists all of them."""
    is_cut: bool
    """Whether there are more than these."""


class HomeItems(NamedTuple):
    items: list[Item]
    is_cut: bool = False
    """Whether some of them were not read."""


def attention(request: PageRequest) -> list[HomeGroup]:
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


def _group(title: str, found: HomeItems, address: str) -> HomeGroup:
    return HomeGroup(title, found.items[:SHOWN], address, found.is_cut or len(found.items) > SHOWN)


def _paused(request: PageRequest) -> HomeItems:
    """Return schedules that were paused after failures, or that cannot be planned, and need somebody."""
    stopped = stopped_schedules(request.call).value
    return HomeItems([_paused_item(request, each) for each in stopped.items], stopped.is_cut)


def _paused_item(request: PageRequest, schedule: Schedule) -> Item:
    shape = schedule_shape(schedule, request.zone, brief=True)
    place = at(shape["id"])
    text = shape["last_error"] or shape["note"] or ""
    return Item(shape, shape["id"], shape["last_run"], text, 0, [Action("Resume", "play", f"{place}/resume")])


def _untaken(request: PageRequest) -> HomeItems:
    waiting, items = untaken_runs(request.call).value, []
    for run, more in by_schedule(run_views(request.reader, waiting.items, brief=True)):
        dismiss = Action("Dismiss", "close", f"/waiting/{run['run_id']}/dismiss")
        items.append(Item(run, run["schedule"], run["due"], "", more, [dismiss], run["run_id"], grave=False))
    return HomeItems(items, waiting.is_cut)


def _failing(request: PageRequest) -> HomeItems:
    dead, items = failing_runs(request.call).value, list[Item]()
    of = {run.id: run for run in dead.items}
    for run, others in by_schedule(run_views(request.reader, dead.items, brief=True)):
        unread = dead.is_cut and len(items) < SHOWN  # not all of its runs were read
        more = count_alike(request.call, of[run["run_id"]]) - 1 if unread else others
        place = f"/runs/{run['run_id']}"
        actions = [Action("Retry", "retry", f"{place}/retry"), Action("Dismiss", "close", f"{place}/dismiss")]
        since = run["finished"] or run["due"]
        items.append(Item(run, run["schedule"], since, run["error"] or "", more, actions, run["run_id"]))
    return HomeItems(items, dead.is_cut)


def _missed(request: PageRequest) -> HomeItems:
    missed, items = missed_runs(request.call).value, []
    living = {run.id for run, schedule in missed.items if schedule is not None}
    for run, more in by_schedule(run_views(request.reader, [run for run, _ in missed.items], brief=True)):
        again = Action("Run now", "play", f"{at(str(run['schedule']))}/run")
        dismiss = Action("Dismiss", "close", f"/runs/{run['run_id']}/dismiss")
        actions = [again, dismiss] if run["run_id"] in living else [dismiss]
        since = str(run.get("last") or run["due"])
        items.append(Item(run, run["schedule"], since, run["error"] or "", more, actions, run["run_id"], grave=False))
    return HomeItems(items, missed.is_cut)


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
