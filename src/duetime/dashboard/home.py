"""The home page: active runs, what is due next, failures, and workers."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from duetime.dashboard.first_steps import first_steps
from duetime.dashboard.queries import ReadLimits, coming_row, occurrences_in, runs
from duetime.dashboard.request import PageRequest
from duetime.dashboard.timeline.axis import Zoom, window
from duetime.dashboard.timeline.charts import chart
from duetime.engine.clock import DAY, MINUTE
from duetime.engine.model import RunId, RunStatus
from duetime.engine.store import RunQuery
from duetime.service.errors import unwrap
from duetime.service.presenters import View, run_shapes, worker_shape

HORIZON: Final = Zoom("horizon", "the hour around now", 60 * MINUTE, 30 * MINUTE, 1 * MINUTE, 600)
HORIZON_HEIGHT: Final = 56
AROUND: Final = ReadLimits(schedules=500, runs=500, all_until=False)
"""Lower limits than on the timeline, because this page is reloaded whenever something happens."""
SOON: Final = 9
LIVE: Final = 12
LATEST: Final = 8
LOOKED_BACK: Final = 100
"""Latest runs to group by schedule and status, so that a frequent schedule does not hide the others."""
TROUBLE: Final = 5
LOOKED_AT: Final = 40
"""Runs that failed for good, were lost or were missed, to group by schedule and status."""
LATELY: Final = 20_000
"""Latest runs, of all owners, to search for missed ones."""
NEWS: Final = 7 * DAY
"""How long a missed run is shown. It can be neither run nor dismissed, so it must disappear by itself."""
COUNTED: Final = 99
WORKERS: Final = 20


def home_page(request: PageRequest) -> Response:
    live = runs(request, status="live", limit=LIVE + 1)
    dead = unwrap(request.scheduler.runs(request.caller, RunQuery(status="dead", limit=LOOKED_AT, count_to=COUNTED)))
    view = window(HORIZON, request.zone, request.now)
    seen = occurrences_in(request, view, AROUND)
    workers = request.scheduler.workers() if request.sees_workers else []
    return request.render(
        "home.html",
        first_steps=first_steps(request),
        live=live[:LIVE],
        more_live=len(live) > LIVE,
        trouble=_by_schedule(
            run_shapes(request.scheduler, dead.items, request.zone, brief=True) + _missed(request), TROUBLE
        ),
        failed=f"{dead.total}" if dead.total_exact else f"{COUNTED}+",
        coming=[
            coming_row(request, each.progress.next, each)
            for each in request.scheduler.coming(request.caller, None, SOON)
            if each.progress.next is not None
        ],
        latest=_by_schedule(runs(request, limit=LOOKED_BACK), LATEST),
        horizon=view,
        chart=chart(seen.density, HORIZON_HEIGHT, request.now),
        in_an_hour=sum(each.total() for each in seen.density.totals()[0]),
        more_coming=seen.more_schedules,
        about=seen.density.about,
        here=view.place(request.now),
        workers=[worker_shape(each, request.now, request.zone) for each in workers[:WORKERS]],
    )


def _missed(request: PageRequest) -> list[View]:
    lately = RunId(max(0, request.scheduler.store.newest_run() - LATELY))
    query = RunQuery(status=RunStatus.MISSED, above=lately, limit=LOOKED_AT, count_to=0)
    found = unwrap(request.scheduler.runs(request.caller, query)).items
    fresh = [run for run in found if (run.last or run.due) > request.now - NEWS]
    return run_shapes(request.scheduler, fresh, request.zone, brief=True)


def _by_schedule(found: list[View], most: int) -> list[tuple[View, int]]:
    """Return the latest run of each schedule and status, with the number of others like it."""
    latest: dict[tuple[object, str], View] = {}
    numbers: dict[tuple[object, str], int] = {}
    for run in sorted(found, key=lambda run: -run["run_id"]):
        alike = (run["schedule"] or run["name"], run["status"])
        latest.setdefault(alike, run)
        numbers[alike] = numbers.get(alike, 0) + 1
    return [(run, numbers[alike] - 1) for alike, run in latest.items()][:most]
