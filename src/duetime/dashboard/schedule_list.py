"""The list of schedules, with filters, pages and bulk actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.request import Form, PageRequest
from duetime.dashboard.timeline.charts import SPARKS, Spark, sparks
from duetime.engine.kind import Caller
from duetime.engine.model import Schedule, ScheduleId, ScheduleState
from duetime.engine.result import Err, Result
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import COUNTED, ScheduleQuery
from duetime.engine.store_interfaces import Trace
from duetime.service.errors import refuse, unwrap
from duetime.service.presenters import View, schedule_shape

PAGE: Final = 50
STATUSES: Final = ("pending", "running", "paused", "failed", "completed", "cancelled", "broken")
ORDERS: Final = {"newest": "Newest first", "oldest": "Oldest first", "next": "What fires next"}
MOST_CHOSEN: Final = 200
FILTERS: Final = ("text", "kind", "status", "owner", "order")
PLACE: Final = (*FILTERS, "cursor")
"""Parameters that lead back to the same list after a change."""

Change = Callable[[Scheduler, Caller, str], Result[Any]]
BULK: Final[dict[str, tuple[str, Change]]] = {
    "pause": ("paused", Scheduler.pause),
    "resume": ("resumed", Scheduler.resume),
    "cancel": ("cancelled", Scheduler.cancel),
}


def schedules_page(request: PageRequest) -> Response:
    asked = {name: request.parameter(name) for name in FILTERS}
    page = unwrap(request.scheduler.search(request.caller, _query(request, asked)))
    shapes = [_row(item, request.zone) for item in page.items]
    given = {name: value for name, value in asked.items() if value}
    return request.render(
        "schedules.html",
        rows=list(zip(shapes, sparklines(request, page.items), strict=True)),
        asked=asked,
        notes=request.call.services.list_notes(asked["kind"] or None),
        filtered=any(name != "order" for name in given) or asked["order"] == "next",
        kinds=list(request.call.services.specs),
        statuses=STATUSES,
        orders=ORDERS,
        total=f"{page.total:,}" if page.total_exact else f"more than {COUNTED:,}",
        total_number=page.total,
        next_page=None if page.cursor is None else "?" + urlencode({**given, "cursor": page.cursor}),
        first_page="?" + urlencode(given) if request.parameter("cursor") else None,
        back=request.encode_parameters(*PLACE),
    )


def _row(schedule: Schedule, zone: str) -> View:
    """Return the row of a schedule. Unless it is active it has no countdown, because it will not fire."""
    shape = schedule_shape(schedule, zone, brief=True)
    return shape if schedule.progress.state == ScheduleState.ACTIVE else shape | {"next_run": None}


def _query(request: PageRequest, asked: dict[str, str]) -> ScheduleQuery:
    return ScheduleQuery(
        owner=(asked["owner"] or None) if request.caller.operator else request.caller.owner,
        kind=asked["kind"] or None,
        status=asked["status"] or None,
        text=asked["text"] or None,
        newest_first=asked["order"] != "oldest",
        firing=asked["order"] == "next",
        limit=PAGE,
        cursor=request.parameter("cursor") or None,
        count_to=COUNTED,
    )


def sparklines(request: PageRequest, schedules: list[Schedule]) -> list[Spark]:
    """Return a sparkline for each schedule. The last runs of all are read with one query."""
    of: dict[ScheduleId, list[Trace]] = {each.definition.id: [] for each in schedules}
    for trace in request.scheduler.store.traces(list(of), SPARKS):
        of[trace.schedule].append(trace)
    return [sparks(of[each.definition.id], request.now, request.zone) for each in schedules]


# -- bulk actions ---------------------------------------------------------------------------------------------------


def bulk(request: PageRequest, form: Form) -> Response:
    """Change the chosen schedules. Cancelling is final, so it asks for confirmation first."""
    action, ids = form.get("action"), list(dict.fromkeys(form.all("id")))[:MOST_CHOSEN]
    if action not in BULK:
        raise refuse("invalid", "choose what to do: pause, resume or cancel")
    back = form.back(*PLACE)
    if not ids:
        return request.redirect("/schedules", **back, did="nothing")
    if action == "cancel" and not form.get("sure"):
        found = [each for id in ids if (each := request.scheduler.find(request.caller, id)) is not None]
        rows = [schedule_shape(each, request.zone, brief=True) for each in found]
        return request.render("confirm_many.html", rows=rows, back=urlencode(back))
    done, change = BULK[action]
    results = [change(request.scheduler, request.caller, id) for id in ids]
    failed = sum(isinstance(result, Err) for result in results)
    return request.redirect("/schedules", **back, did=done, number=len(results) - failed, failed=failed)
