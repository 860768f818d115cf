"""The page of one schedule: its definition, next instants, history and actions."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.responses import Response

from duetime.dashboard.form_fields import usual_policy
from duetime.dashboard.queries import remains_at, schedule_at
from duetime.dashboard.request import Form, PageRequest, at
from duetime.dashboard.schedule_list import BULK, Change, pictures_of
from duetime.engine.model import Run, Schedule, ScheduleState
from duetime.engine.scheduler import Scheduler
from duetime.rest.errors import refuse, taken
from duetime.service.masking import MASK
from duetime.service.presenters import (
    View,
    attempt_view,
    instant_view,
    next_instants,
    policy_shape,
    run_shapes,
    schedule_shape,
)

HISTORY: Final = 20
NEXT: Final = 10
_OVER = (ScheduleState.ENDED, ScheduleState.CANCELLED, ScheduleState.DELETED)

ACTIONS: Final[dict[str, tuple[str, Change]]] = {
    **BULK,
    "run": ("fired", Scheduler.run_now),
    "delete": ("deleted", Scheduler.delete),
}
ASKED_AGAIN: Final = ("cancel", "delete")


def schedule_page(visit: PageRequest) -> Response:
    schedule = remains_at(visit)
    public_id, state = schedule.definition.public_id, schedule.progress.state
    page = taken(
        visit.scheduler.history(
            visit.caller, public_id, limit=HISTORY, cursor=visit.asked("cursor") or None, count_to=0
        )
    )
    shape = schedule_shape(schedule, visit.zone)
    instants = next_instants(schedule, visit.now, NEXT)
    return visit.page(
        "schedule.html",
        it=shape,
        payload=shown_payload(shape["payload"]) or {},
        policy=_policy(schedule, usual_policy(visit.scheduler, schedule.definition.kind)),
        next=[instant_view(instant, visit.zone) for instant in instants],
        warnings=_warnings(visit, schedule) if instants else [],
        drawn=pictures_of(visit, [schedule])[0],
        runs=run_rows(visit, page.items),
        next_page=page.cursor,
        first_page=bool(visit.asked("cursor")),
        paused=state == ScheduleState.PAUSED,
        over=state in _OVER,
        deleted=state == ScheduleState.DELETED,
    )


def _warnings(visit: PageRequest, schedule: Schedule) -> list[str]:
    return [each.text for each in visit.call.services.schedule_warnings(schedule)]


def shown_payload(payload: Any) -> Any:
    """Redact the values of all headers, since any may be a credential. Other credentials are redacted already."""
    if not isinstance(payload, dict):
        return payload
    shown = dict(payload)
    if isinstance(payload.get("headers"), dict):
        shown["headers"] = dict.fromkeys(payload["headers"], MASK)
    if isinstance(payload.get("about"), dict):
        shown["about"] = payload["about"] | {"payload": shown_payload(payload["about"].get("payload"))}
    return shown


def _policy(schedule: Schedule, usual: View) -> list[tuple[str, str, bool]]:
    """Return the name and value of each option, and whether it differs from the default."""
    shape = policy_shape(schedule.definition.policy)
    if shape is None:
        return [("policy", "cannot be read", True)]
    return [(name.replace("_", " "), _value(value), value != usual[name]) for name, value in shape.items()]


def _value(value: object) -> str:
    return "\u2013" if value is None else str(value) if isinstance(value, str) else json.dumps(value)


def run_rows(visit: PageRequest, found: list[Run]) -> list[View]:
    """Return views of runs with their earlier attempts, which only retried runs have."""
    shapes = run_shapes(visit.scheduler, found, visit.zone)
    for run, shape in zip(found, shapes, strict=True):
        tried = visit.scheduler.attempts(visit.caller, run.id) if run.attempt > 1 or run.deaths else []
        shape["attempts"] = [attempt_view(each, visit.zone) for each in tried]
    return shapes


# -- actions --------------------------------------------------------------------------------------------------------


def sure_page(visit: PageRequest) -> Response:
    """Render a page that asks for confirmation, which needs no JavaScript."""
    action = visit.request.path_params["action"]
    if action not in ASKED_AGAIN:
        raise refuse("not_found", "There is no such page.")
    return visit.page("sure.html", it=schedule_shape(schedule_at(visit), visit.zone), action=action)


def act(visit: PageRequest, form: Form) -> Response:
    action = visit.request.path_params["action"]
    if action not in ACTIONS:
        raise refuse("not_found", "There is no such page.")
    public_id = schedule_at(visit).definition.public_id
    word, change = ACTIONS[action]
    taken(change(visit.scheduler, visit.caller, public_id))
    return visit.go("/schedules" if action == "delete" else at(public_id), did=word)
