"""The page of a single run with its attempts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.responses import Response

from duetime.dashboard.request import Form, PageRequest
from duetime.dashboard.schedules import run_rows
from duetime.engine.kind import Caller
from duetime.engine.model import LIVE, Run, RunStatus
from duetime.engine.result import Result
from duetime.engine.scheduler import Scheduler
from duetime.service.errors import refuse, unwrap
from duetime.service.presenters import trigger_shape

_RETRIED: Final = (RunStatus.FAILED, RunStatus.LOST, RunStatus.CANCELLED)

Change = Callable[[Scheduler, Caller, int], Result[Any]]
ACTIONS: Final[dict[str, tuple[str, Change]]] = {
    "retry": ("retried", Scheduler.retry),
    "dismiss": ("dismissed", Scheduler.dismiss),
    "cancel": ("stopped", Scheduler.cancel_run),
}


def _run_at(request: PageRequest) -> Run:
    run = request.scheduler.run(request.caller, request.http.path_params["run"])
    if run is None:
        raise refuse("not_found", "There is no such run; old ones are deleted after a while.")
    return run


def run_page(request: PageRequest) -> Response:
    run = _run_at(request)
    [shape] = run_rows(request, [run])
    schedule = request.scheduler.schedule_of(request.caller, run)
    return request.render(
        "run.html",
        run=shape,
        exists=schedule is not None,
        zone_there=None if schedule is None else trigger_shape(schedule.definition.trigger).get("timezone"),
        may_retry=run.status in _RETRIED and schedule is not None,
        may_dismiss=run.status in (RunStatus.FAILED, RunStatus.LOST) and not run.stop,
        may_stop=run.status in LIVE and not run.stop,
    )


def act_on_run(request: PageRequest, form: Form) -> Response:
    action = request.http.path_params["action"]
    if action not in ACTIONS:
        raise refuse("not_found", "There is no such page.")
    run = _run_at(request)
    done, change = ACTIONS[action]
    unwrap(change(request.scheduler, request.caller, run.id))
    return request.redirect("/dead-letters" if form.get("back") == "dead-letters" else f"/runs/{run.id}", did=done)
