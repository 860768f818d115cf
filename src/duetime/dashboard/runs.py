"""Pages about runs: a single run with its attempts, the dead letters, and the inbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.request import Form, PageRequest
from duetime.dashboard.schedule_detail import run_rows
from duetime.dashboard.timeline.charts import KINDS
from duetime.engine.kind import Caller
from duetime.engine.model import LIVE, Run, RunStatus
from duetime.engine.result import Err, Result
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import RunQuery
from duetime.rest.errors import refuse, taken
from duetime.service.presenters import message_shape, run_shapes, trigger_shape

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


def _run_at(visit: PageRequest) -> Run:
    run = visit.scheduler.run(visit.caller, visit.request.path_params["run"])
    if run is None:
        raise refuse("not_found", "There is no such run; old ones are deleted after a while.")
    return run


def run_page(visit: PageRequest) -> Response:
    run = _run_at(visit)
    [shape] = run_rows(visit, [run])
    schedule = visit.scheduler.schedule_of(visit.caller, run)
    return visit.page(
        "run.html",
        run=shape,
        exists=schedule is not None,
        zone_there=None if schedule is None else trigger_shape(schedule.definition.trigger).get("timezone"),
        may_retry=run.status in _RETRIED and schedule is not None,
        may_dismiss=run.status in (RunStatus.FAILED, RunStatus.LOST) and not run.stop,
        may_stop=run.status in LIVE and not run.stop,
    )


def act_on_run(visit: PageRequest, form: Form) -> Response:
    action = visit.request.path_params["action"]
    if action not in ACTIONS:
        raise refuse("not_found", "There is no such page.")
    run = _run_at(visit)
    word, change = ACTIONS[action]
    taken(change(visit.scheduler, visit.caller, run.id))
    return visit.go("/dead-letters" if form.one("back") == "dead-letters" else f"/runs/{run.id}", did=word)


# -- dead letters ---------------------------------------------------------------------------------------------------


def dead_page(visit: PageRequest) -> Response:
    """Render all runs that failed for good or were lost, until somebody retries or dismisses them."""
    kind = visit.asked("kind") if visit.asked("kind") in KINDS else ""
    query = RunQuery(kind=kind or None, status="dead", limit=PAGE, cursor=visit.asked("cursor") or None, count_to=1000)
    page = taken(visit.scheduler.runs(visit.caller, query))
    return visit.page(
        "dead.html",
        runs=run_shapes(visit.scheduler, page.items, visit.zone, brief=True),
        kind_asked=kind,
        kinds=KINDS,
        total=f"{page.total:,}" if page.total_exact else "more than 1,000",
        next_page=None if page.cursor is None else "?" + urlencode({"kind": kind, "cursor": page.cursor}),
        back=visit.place(*PLACE),
    )


def bulk_dead(visit: PageRequest, form: Form) -> Response:
    action = form.one("action")
    if action not in ("retry", "dismiss"):
        raise refuse("invalid", "choose what to do: retry or dismiss")
    ids = [int(text) for text in form.all("run")[:MOST_CHOSEN] if text.isascii() and text.isdigit() and len(text) < 19]
    back = form.back(*PLACE)
    if not ids:
        return visit.go("/dead-letters", **back, did="nothing")
    word, change = ACTIONS[action]
    results = [change(visit.scheduler, visit.caller, id) for id in dict.fromkeys(ids)]
    failed = sum(isinstance(result, Err) for result in results)
    return visit.go("/dead-letters", **back, did=word, number=len(results) - failed, failed=failed)


# -- the inbox ------------------------------------------------------------------------------------------------------


def inbox_page(visit: PageRequest) -> Response:
    """Render the notifications that arrived, latest first, and the prompts that wait for an agent."""
    topic = visit.asked("topic")
    query = RunQuery(
        kind="notification",
        status=RunStatus.COMPLETED,
        subject=topic or None,
        limit=PAGE,
        cursor=visit.asked("cursor") or None,
        count_to=0,
    )
    page = taken(visit.scheduler.runs(visit.caller, query))
    ids = visit.scheduler.store.public_ids([run.schedule for run in page.items])
    messages = [
        message_shape(run, visit.zone) | {"schedule": ids.get(run.schedule), "owner": run.owner, "name": run.name}
        for run in page.items
    ]
    waiting = RunQuery(kind="prompt", status=RunStatus.WAITING, limit=PAGE, count_to=0)
    return visit.page(
        "inbox.html",
        messages=messages,
        waiting=run_shapes(visit.scheduler, taken(visit.scheduler.runs(visit.caller, waiting)).items, visit.zone),
        topic=topic,
        next_page=None if page.cursor is None else "?" + urlencode({"topic": topic, "cursor": page.cursor}),
    )
