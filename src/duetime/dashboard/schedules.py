"""The list of schedules with its filters and bulk actions, and the page of one schedule with its history."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.form_fields import usual_policy
from duetime.dashboard.queries import schedule_at, schedule_or_tombstone
from duetime.dashboard.request import Form, PageRequest, at
from duetime.dashboard.timeline.charts import SPARKS, Spark, sparks
from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.model import OVER, Run, Schedule, ScheduleId, ScheduleState
from duetime.engine.store import COUNTED, ScheduleQuery
from duetime.engine.store_interfaces import Trace
from duetime.engine.times import read_instant
from duetime.service.bulk_changes import Selection, change_schedules
from duetime.service.changes import ACTIONS, ChangeRequest, change_found
from duetime.service.errors import refuse, unwrap
from duetime.service.masking import masking_of
from duetime.service.presenters import (
    View,
    attempt_view,
    instant_view,
    next_instants,
    policy_shape,
    run_shapes,
    schedule_shape,
)
from duetime.service.state_details import detail_of, details_of
from duetime.service.stop_runs import stop_runs
from duetime.service.text import compact

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


HISTORY: Final = 20
NEXT: Final = 10

CONFIRMED: Final = ("pause", "cancel", "delete")


def schedule_page(request: PageRequest) -> Response:
    schedule = schedule_or_tombstone(request)
    public_id, state = schedule.definition.public_id, schedule.progress.state
    page = unwrap(
        request.scheduler.history(
            request.caller, public_id, limit=HISTORY, cursor=request.parameter("cursor") or None, count_to=0
        )
    )
    detail = detail_of(request.scheduler, schedule)
    shape = schedule_shape(schedule, request.zone, detail)
    instants = next_instants(schedule, request.now, NEXT)
    return request.render(
        "schedule.html",
        it=shape,
        payload=masking_of(schedule.definition.kind).hide_on_page(shape["payload"]) or {},
        policy=_policy(schedule, usual_policy(request.scheduler, schedule.definition.kind)),
        next=[instant_view(instant, request.zone) for instant in instants],
        warnings=[each.text for each in request.call.services.schedule_warnings(schedule)] if instants else [],
        drawn=sparklines(request, [schedule])[0],
        runs=run_rows(request, page.items),
        next_page=page.cursor,
        first_page=bool(request.parameter("cursor")),
        may_stop=bool(schedule.progress.active or schedule.progress.queued),
        paused=state == ScheduleState.PAUSED,
        over=state in OVER,
        deleted=state == ScheduleState.DELETED,
    )


def _policy(schedule: Schedule, usual: View) -> list[tuple[str, str, bool]]:
    """Return the name and value of each option, and whether it differs from the default."""
    shape = policy_shape(schedule.definition.policy)
    if shape is None:
        return [("policy", "cannot be read", True)]
    return [
        (name.replace("_", " "), "\u2013" if value is None else compact(value), value != usual[name])
        for name, value in shape.items()
    ]


def run_rows(request: PageRequest, found: list[Run]) -> list[View]:
    """Return views of runs with their earlier attempts, which only retried runs have."""
    shapes = run_shapes(request.scheduler, found, request.zone)
    for run, shape in zip(found, shapes, strict=True):
        tried = request.scheduler.attempts(request.caller, run.id) if run.attempt > 1 or run.deaths else []
        shape["attempts"] = [attempt_view(each, request.zone) for each in tried]
    return shapes


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
