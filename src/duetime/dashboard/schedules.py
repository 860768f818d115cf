"""The list of schedules with its filters and bulk actions, and the changes of one schedule."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.queries import schedule_at
from duetime.dashboard.request import Form, PageRequest, at
from duetime.dashboard.timeline.charts import SPARKS, Spark, sparks
from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.model import Schedule, ScheduleId
from duetime.engine.store import COUNTED, ScheduleQuery
from duetime.engine.store_interfaces import Trace
from duetime.engine.times import read_instant
from duetime.service.bulk_changes import Selection, change_schedules
from duetime.service.changes import ACTIONS, ChangeRequest, change_found
from duetime.service.errors import refuse, unwrap
from duetime.service.presenters import schedule_shape
from duetime.service.state_details import details_of
from duetime.service.stop_runs import stop_runs

PAGE: Final = 50
STATUSES: Final = ("pending", "running", "paused", "failed", "completed", "cancelled", "broken")
ORDERS: Final = {"newest": "Newest first", "oldest": "Oldest first", "next": "What fires next"}
MOST_CHOSEN: Final = 200
FILTERS: Final = ("text", "kind", "status", "owner", "order")
PLACE: Final = (*FILTERS, "cursor")
"""Parameters that lead back to the same list after a change."""

BULK: Final = ("pause", "resume", "cancel")


def schedules_page(request: PageRequest) -> Response:
    asked = {name: request.parameter(name) for name in FILTERS}
    page = unwrap(request.scheduler.search(request.caller, _query(request, asked)))
    details = details_of(request.scheduler, page.items)
    shapes = [schedule_shape(item, request.zone, details.get(item.definition.id), brief=True) for item in page.items]
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


def _query(request: PageRequest, asked: dict[str, str]) -> ScheduleQuery:
    return ScheduleQuery(
        owner=asked["owner"] or None,
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
    services, chosen = request.call.services, Selection(ids=ids)
    changed = unwrap(change_schedules(services, request.caller, chosen, ChangeRequest(action)))
    number, failed = changed.changed, len(changed.failed)
    return request.redirect("/schedules", **back, did=ACTIONS[action], number=number, failed=failed)


CONFIRMED: Final = ("pause", "cancel", "delete")


def confirm_page(request: PageRequest) -> Response:
    """Render a page that asks for confirmation, which needs no JavaScript."""
    action = request.http.path_params["action"]
    if action not in CONFIRMED:
        raise refuse("not_found", "There is no such page.")
    return request.render("confirm.html", it=schedule_shape(schedule_at(request), request.zone), action=action)


def act(request: PageRequest, form: Form) -> Response:
    action = request.http.path_params["action"]
    if action not in (*ACTIONS, "run", "stop"):
        raise refuse("not_found", "There is no such page.")
    schedule = schedule_at(request)
    public_id = schedule.definition.public_id
    if action == "run":
        unwrap(request.scheduler.run_now(request.caller, public_id))
        return request.redirect(at(public_id), did="fired")
    if action == "stop":
        unwrap(stop_runs(request.scheduler, request.caller, schedule))
        return request.redirect(at(public_id), did="stopped")
    until = form.get("until").strip()
    asked = ChangeRequest(action, _instant(request, until) if until else None, form.get("note").strip() or None)
    unwrap(change_found(request.call.services, request.caller, schedule, asked))
    undo = request.offer_undo(action, [public_id])
    return request.redirect("/schedules" if action == "delete" else at(public_id), did=ACTIONS[action], **undo)


def _instant(request: PageRequest, text: str) -> Instant:
    try:
        return read_instant(text, request.zone, request.now)
    except DuetimeError as error:
        raise refuse("unreadable_time", f"until: {error.message}", "until") from error
