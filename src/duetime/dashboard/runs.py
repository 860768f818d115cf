"""Pages about runs: a single run with its attempts, and the dead letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.request import Form, PageRequest
from duetime.dashboard.schedules import run_rows
from duetime.engine.kind import Caller
from duetime.engine.model import LIVE, Run, RunStatus
from duetime.engine.result import Err, Result
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import RunQuery
from duetime.service.errors import refuse, unwrap
from duetime.service.presenters import run_shapes, trigger_shape
from duetime.service.text import whole_number

PAGE: Final = 40
MOST_CHOSEN: Final = 200
PLACE: Final = ("kind", "cursor")
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


def dead_letters_page(request: PageRequest) -> Response:
    """Render all runs that failed for good or were lost, until somebody retries or dismisses them."""
    specs, kind = request.call.services.specs, request.parameter("kind")
    kind = kind if kind in specs else ""
    query = RunQuery(
        kind=kind or None, status="dead", limit=PAGE, cursor=request.parameter("cursor") or None, count_to=1000
    )
    page = unwrap(request.scheduler.runs(request.caller, query))
    return request.render(
        "dead_letters.html",
        runs=run_shapes(request.scheduler, page.items, request.zone, brief=True),
        kind_asked=kind,
        kinds={name: spec.plural for name, spec in specs.items()},
        total=f"{page.total:,}" if page.total_exact else "more than 1,000",
        next_page=None if page.cursor is None else "?" + urlencode({"kind": kind, "cursor": page.cursor}),
        back=request.encode_parameters(*PLACE),
    )


def change_dead_letters(request: PageRequest, form: Form) -> Response:
    action = form.get("action")
    if action not in ("retry", "dismiss"):
        raise refuse("invalid", "choose what to do: retry or dismiss")
    chosen = (whole_number(text, 18) for text in form.all("run")[:MOST_CHOSEN])
    ids = [id for id in dict.fromkeys(chosen) if id is not None]
    back = form.back(*PLACE)
    if not ids:
        return request.redirect("/dead-letters", **back, did="nothing")
    done, change = ACTIONS[action]
    results = [change(request.scheduler, request.caller, id) for id in ids]
    failed = sum(isinstance(result, Err) for result in results)
    return request.redirect("/dead-letters", **back, did=done, number=len(results) - failed, failed=failed)
