"""The home page: what needs attention, how runs went, what is due next, what runs now, and workers."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from duetime.dashboard.attention import attention, by_schedule
from duetime.dashboard.first_steps import first_steps
from duetime.dashboard.queries import ReadLimits, coming_row, occurrences_in, runs
from duetime.dashboard.request import PageRequest
from duetime.dashboard.timeline.axis import Zoom, window
from duetime.dashboard.timeline.charts import chart, line
from duetime.engine.clock import DAY, MINUTE, SECOND
from duetime.service.dead_letters import count_dead
from duetime.service.presenters import View, worker_shape
from duetime.service.status import DayFigures, day_figures
from duetime.service.text import span

HORIZON: Final = Zoom("horizon", "the hour around now", 60 * MINUTE, 30 * MINUTE, 1 * MINUTE, 600)
HORIZON_HEIGHT: Final = 84
AROUND: Final = ReadLimits(schedules=150, runs=300, all_until=False)
"""Lower limits than on the timeline, because this page is reloaded whenever something happens."""
SOON: Final = 9
LIVE: Final = 12
LOOKED_LIVE: Final = 60
LATEST: Final = 8
LOOKED_BACK: Final = 100
"""Latest runs to group by schedule and status, so that a frequent schedule does not hide the others."""
WORKERS: Final = 20


def home_page(request: PageRequest) -> Response:
    live = [run for run in runs(request, status="live", limit=LOOKED_LIVE) if not _is_untaken(run)]
    view = window(HORIZON, request.zone, request.now)
    seen = occurrences_in(request, view, AROUND)
    workers = request.scheduler.workers() if request.sees_workers else []
    figures = day_figures(request.call)
    return request.render(
        "home.html",
        first_steps=first_steps(request),
        groups=attention(request),
        live=live[:LIVE],
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


def _is_untaken(run: View) -> bool:
    """Return whether a run waits for an agent that has not come: nothing is being done about it."""
    return run["status"] == "waiting" and not run["taken_until"]


def _about(figures: DayFigures, request: PageRequest) -> str:
    behind = request.now - figures.since
    return "24 h" if behind >= DAY - MINUTE else span(behind)
