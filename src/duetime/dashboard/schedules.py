"""The changes of one schedule that its page and the list offer, and sparklines of several."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from duetime.dashboard.queries import schedule_at
from duetime.dashboard.request import Form, PageRequest, at, goal_of
from duetime.dashboard.timeline.charts import SPARKS, Spark, sparks
from duetime.dashboard.undo import reverse_of
from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.model import Run, RunStatus, Schedule, ScheduleId
from duetime.engine.store_interfaces import Trace
from duetime.engine.times import read_instant
from duetime.service.changes import ACTIONS, ChangeRequest, change_found
from duetime.service.errors import refuse, unwrap
from duetime.service.presenters import schedule_shape
from duetime.service.run_control import stop_runs


def sparklines(request: PageRequest, schedules: list[Schedule]) -> list[Spark]:
    """Return a sparkline for each schedule. The last runs of all are read with one query."""
    of: dict[ScheduleId, list[Trace]] = {each.definition.id: [] for each in schedules}
    for trace in request.scheduler.store.traces(list(of), SPARKS):
        of[trace.schedule].append(trace)
    return [sparks(of[each.definition.id], request.now, request.zone) for each in schedules]


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
        run: Run = unwrap(request.scheduler.run_now(request.caller, public_id))
        did = "queued" if run.status == RunStatus.QUEUED else "fired"
        return request.redirect(goal_of(form, at(public_id)), did=did)
    if action == "stop":
        unwrap(stop_runs(request.scheduler, request.caller, schedule))
        return request.redirect(goal_of(form, at(public_id)), did="stopped")
    until = form.get("until").strip()
    asked = ChangeRequest(action, _instant(request, until) if until else None, form.get("note").strip() or None)
    unwrap(change_found(request.call.services, request.caller, schedule, asked))
    undo = request.offer_undo((public_id, reverse_of(action, schedule)))
    usual = "/schedules" if action == "delete" else at(public_id)
    return request.redirect(goal_of(form, usual), did=ACTIONS[action], **undo)


def _instant(request: PageRequest, text: str) -> Instant:
    try:
        return read_instant(text, request.zone, request.now)
    except DuetimeError as error:
        raise refuse("unreadable_time", f"until: {error.message}", "until") from error
