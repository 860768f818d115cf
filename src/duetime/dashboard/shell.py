"""Pages and actions of the frame around all pages: help, preferences, undo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from starlette.responses import Response

from duetime.dashboard import preferences
from duetime.dashboard.navigation import MENU, shortcuts
from duetime.dashboard.notices import reasons_of
from duetime.dashboard.request import Form, PageRequest, own_page
from duetime.dashboard.undo import UNDO, ReverseChange
from duetime.engine.errors import DuetimeError
from duetime.service.operations.attention import MarkRuns, mark_runs
from duetime.service.operations.change_many import ChangeMany, change_many
from duetime.service.operations.dead_letters import ChangeDeadLetters, change_dead
from duetime.service.vocabulary import known_zone


def help_page(request: PageRequest) -> Response:
    return request.render("help.html", shortcuts=shortcuts([*request.navigation, *MENU]))


def preferences_page(request: PageRequest) -> Response:
    return request.render("preferences.html", problem=None, zones=preferences.all_zones())


def save_preferences(request: PageRequest, form: Form) -> Response:
    """Keep what was chosen; a field that was not sent stays as it is."""
    zone = form.get("zone").strip() if form.has("zone") else None
    try:
        zone = known_zone(zone).key if zone else zone
    except DuetimeError as error:
        zones = preferences.all_zones()
        return request.render("preferences.html", 422, problem=f"Time zone: {error.message}", zones=zones)
    answer = request.redirect(own_page(form.get("to")), did="chosen")
    return preferences.keep(answer, {name: form.get(name) for name in preferences.CHOICES}, zone)


def undo(request: PageRequest, form: Form) -> Response:
    """Reverse a change, once."""
    goal = own_page(form.get("to"))
    reversal = UNDO.take(request.session, form.get("undo"))
    if reversal is None or reversal.until <= request.now:
        return request.redirect(goal, did="not_undone")
    results = [_reverse(request, change, ids) for change, ids in reversal.changes.items()]
    number, failed = sum(each.number for each in results), sum(each.failed for each in results)
    if not number:
        return request.redirect(goal, did="not_undone")
    reasons = [reason for each in results for reason in each.reasons]
    return request.redirect(goal, **request.outcome("undone", number, failed, reasons) if failed else {"did": "undone"})


class _Reversed(NamedTuple):
    number: int
    failed: int
    reasons: list[str]


def _reverse(request: PageRequest, change: ReverseChange, ids: Sequence[str]) -> _Reversed:
    """Make a change that reverses another one."""
    if change.action == "reopen" and not all(id.isdigit() for id in ids):
        marked, _, reasons = mark_runs(request.call, MarkRuns(ids=ids, mark="reopen"))
        return _Reversed(marked, len(ids) - marked, list(reasons))
    if change.action == "reopen":
        dealt, _, reasons = change_dead(request.call, ChangeDeadLetters(action="reopen", ids=[int(id) for id in ids]))
        return _Reversed(len(dealt.done), len(ids) - len(dealt.done), list(reasons))
    again = ChangeMany(action=change.action, ids=ids, until=change.until, note=change.note)
    done = change_many(request.call, again).value
    return _Reversed(done.changed, len(done.failed), reasons_of(done.failed))
