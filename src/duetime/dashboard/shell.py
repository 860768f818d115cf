"""Pages and actions of the frame around all pages: help, preferences, undo."""

from __future__ import annotations

from starlette.responses import Response

from duetime.dashboard import preferences
from duetime.dashboard.navigation import MENU, shortcuts
from duetime.dashboard.request import UNDO, Form, PageRequest, own_page
from duetime.dashboard.undo import RESTORE
from duetime.engine.errors import DuetimeError
from duetime.engine.times.zones import known_zone
from duetime.service.bulk_changes import Selection, change_schedules
from duetime.service.changes import ChangeRequest
from duetime.service.dead_letters import DeadLetterQuery, change_dead
from duetime.service.errors import unwrap


def help_page(request: PageRequest) -> Response:
    return request.render("help.html", shortcuts=shortcuts([*request.navigation, *MENU]))


def preferences_page(request: PageRequest) -> Response:
    return request.render("preferences.html", problem=None, zones=preferences.all_zones())


def save_preferences(request: PageRequest, form: Form) -> Response:
    """Keep a theme, a zone or both; a field that was not sent stays as it is."""
    zone = form.get("zone").strip() if form.has("zone") else None
    try:
        zone = known_zone(zone).key if zone else zone
    except DuetimeError as error:
        zones = preferences.all_zones()
        return request.render("preferences.html", 422, problem=f"Time zone: {error.message}", zones=zones)
    answer = request.redirect(own_page(form.get("to")), did="chosen")
    return preferences.keep(answer, form.get("theme"), zone)


def undo(request: PageRequest, form: Form) -> Response:
    """Reverse a change, once."""
    goal = own_page(form.get("to"))
    found = UNDO.take(request.scheduler.clock, request.session or "", form.get("undo"))
    if found is None:
        return request.redirect(goal, did="not_undone")
    services, caller = request.call.services, request.caller
    if found.action == RESTORE:
        unwrap(change_dead(services, caller, DeadLetterQuery(ids=[int(id) for id in found.ids]), "restore"))
    else:
        unwrap(change_schedules(services, caller, Selection(ids=found.ids), ChangeRequest(found.action)))
    return request.redirect(goal, did="undone")
