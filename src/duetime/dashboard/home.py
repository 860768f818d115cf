"""The home page: what needs attention, how runs went, what is due next, what is running, and the workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from duetime.dashboard.lists import PARTICIPLES
from duetime.dashboard.queries import first_steps
from duetime.dashboard.request import Form, PageRequest, at, goal_of
from duetime.dashboard.timeline.axis import ticks
from duetime.dashboard.timeline.charts import chart, line
from duetime.dashboard.undo import REOPEN
from duetime.engine.clock import DAY, MINUTE, SECOND
from duetime.service.errors import refuse
from duetime.service.operations.attention import ListAttention, MarkRuns, attention, mark_runs
from duetime.service.operations.dead_letters import count_dead
from duetime.service.operations.history import History, history, next_attempt, run_views
from duetime.service.operations.overview import Occurrences, occurrences
from duetime.service.operations.status import DayFigures, day_figures, executors, workers
from duetime.service.operations.upcoming import coming
from duetime.service.presenters import View, moment_view, schedule_shape
from duetime.service.text import span
from duetime.service.vocabulary import RunStatus
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
    seen = occurrences(request.call, Occurrences(window=view, now=request.now, **AROUND)).value
    figures = day_figures(request.call)
    return request.render(
        "home.html",
        first_steps=first_steps(request),
        groups=attention_groups(request),
        live=live[:LIVE],
        under_way=under_way,
        retrying=sum(run["status"] == RunStatus.PENDING and run["attempt"] > 0 for run in live),
        more_live=len(live) > LIVE,
        failed=count_dead(request.call),
        figures=figures,
        figures_about=_about(figures, request),
        success_line=line(figures.success.parts, most=100),
        lateness_line=line(figures.lateness.parts),
        coming=[schedule_shape(each, request.zone, brief=True) for each in coming(request.call, SOON)],
        latest=latest_by_schedule(request),
        ticks=ticks(view),
        chart=chart(seen.density, HORIZON_HEIGHT, request.now),
        zoom_at=lambda bar: bar.start // SECOND - 10 * 60,
        in_an_hour=sum(each.total() for each in seen.density.totals[0]),
        more_coming=seen.more_schedules,
        about=seen.density.about,
        here=view.place(request.now),
        workers=workers(request.reader, WORKERS).value if request.sees_workers else [],
        executors=executors(request.call) if request.sees_workers else [],
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


# What needs attention, by what helps.

SELECTED: Final = "selected"
SHOWN: Final = 4
"""Maximum number of rows in each group; the group links to all of them."""


class Action(NamedTuple):
    label: str
    icon: str
    address: str


class Item(NamedTuple):
    about: View
    status: str
    actions: list[Action]


class HomeGroup(NamedTuple):
    title: str
    address: str
    """The page that lists all of them."""
    items: list[Item]
    is_cut: bool
    """Whether there are more than these."""


_STOPPED: Final = ("Paused automatically", "/schedules?view=paused")
_WAITING: Final = ("Waiting for an agent", "/inbox")
_FAILING: Final = ("Failing", "/dead-letters")
_MISSED: Final = ("Missed", "/timeline?span=week")
_GROUP_OF: Final = {
    "paused": _STOPPED, "broken": _STOPPED, "failed": _FAILING, "undelivered": _FAILING, "missed": _MISSED,
    "untaken": _MISSED, "held": _FAILING,
}  # fmt: skip
_STATUS_OF: Final = {"undelivered": "failed", "untaken": "missed"}


def attention_groups(request: PageRequest) -> list[HomeGroup]:
    """Return the groups that are not empty, most urgent first."""
    rows, cut = attention(request.reader, ListAttention()).value
    groups: dict[tuple[str, str], list[Item]] = {each: [] for each in (_STOPPED, _WAITING, _FAILING, _MISSED)}
    for row in rows:
        waits = row["run_status"] == RunStatus.WAITING
        trouble = str(row["trouble"])
        status = "waiting" if waits else _STATUS_OF.get(trouble, trouble)
        groups[_WAITING if waits else _GROUP_OF[trouble]].append(Item(row, status, _actions(row, status)))
    unread = {_GROUP_OF[each] for each in cut} | ({_WAITING} if "untaken" in cut else set())
    parts = [(each, items, each in unread or len(items) > SHOWN) for each, items in groups.items()]
    return [HomeGroup(*each, items[:SHOWN], is_cut) for each, items, is_cut in parts if items]


def _actions(row: View, status: str) -> list[Action]:
    """Return what helps, and the button that resolves it."""
    run, schedule, actions = row["run_id"], row["id"], []
    if status == "waiting":
        return [Action("Dismiss", "close", f"/waiting/{run}/dismiss")]
    if status == "paused":
        actions.append(Action("Resume", "play", f"{at(schedule)}/resume"))
    elif status == "failed" and schedule and row["run_status"] in (RunStatus.FAILED, RunStatus.LOST):
        actions.append(Action("Retry", "retry", f"/runs/{run}/retry"))
    elif status == "missed" and schedule:
        actions.append(Action("Run now", "play", f"{at(schedule)}/run"))
    return [*actions, *([Action("Resolve", "check", f"/attention/{row['key']}/resolve")] if row["key"] else [])]


def resolve(request: PageRequest, form: Form) -> Response:
    """Resolve what needs attention, or reopen it: one thing, or with the key `selected`, those that were selected."""
    key, action = request.http.path_params["key"], request.http.path_params["action"]
    if action not in ("resolve", "reopen"):
        raise refuse("not_found", "There is no such page.")
    keys = list(dict.fromkeys(form.all("key"))) if key == SELECTED else [key]
    if not keys:
        return request.redirect("/", did="nothing")
    notes = mark_runs(request.call, MarkRuns(ids=keys, mark=action)).notes
    undo = request.offer_undo(*((each, REOPEN if action == "resolve" else None) for each in keys))
    return request.redirect(goal_of(form, "/"), did=PARTICIPLES[action], **undo, notes=notes)


def latest_by_schedule(request: PageRequest) -> list[tuple[View, int]]:
    """Return the latest run of each schedule and status, with the number of similar ones; latest first."""
    recent = history(request.reader, History(limit=LOOKED_BACK, count_to=0)).value.items
    runs = sorted(recent, key=lambda run: (run.finished or run.started or run.due, run.id), reverse=True)
    numbers = Counter((run.schedule, run.status) for run in runs)
    latest = {(run.schedule, run.status): run for run in reversed(runs)}
    rows = [latest[each] for each in numbers][:LATEST]
    views = run_views(request.reader, rows, brief=True)
    return [(view, numbers[run.schedule, run.status] - 1) for view, run in zip(views, rows, strict=True)]
