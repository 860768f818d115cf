"""Runs that wait for somebody to take them: what they ask for, and what a person can do about them."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from duetime.dashboard.request import Form, PageRequest, goal_of
from duetime.service.errors import refuse
from duetime.service.operations.history import History, history, payload_shown, run_views, schedule_of
from duetime.service.operations.inbox import AnswerWaiting, HandOver, answer_waiting, hand_over
from duetime.service.operations.run import Stop, stop
from duetime.service.presenters import View, author_view
from duetime.service.vocabulary import Run, ScheduleState

MOST: Final = 40


def waiting_rows(request: PageRequest, cursor: str | None = None) -> tuple[list[View], str | None]:
    """Return the waiting runs, those that nobody has taken first, each with its text and who could be woken for it; and
    the cursor of the remaining ones."""
    page = history(request.reader, History(status="waiting", limit=MOST, cursor=cursor, count_to=0)).value
    runs, shapes = page.items, run_views(request.reader, page.items)
    rows = [shape | _details(request, run) for run, shape in zip(runs, shapes, strict=True)]
    return sorted(rows, key=lambda row: (row["taken_until"] is not None, row["due"])), page.cursor


def _details(request: PageRequest, run: Run) -> dict[str, Any]:
    schedule = schedule_of(request.call, run)
    if schedule is None:
        return {"text": "", "agents": [], "recurs": False, "own": False, "paused": False}
    hooks, definition = request.call.services.hooks(run.kind), schedule.definition
    payload = payload_shown(definition)
    spec = request.call.services.specs.get(run.kind)
    text = payload.get(spec.text) if isinstance(payload, dict) and spec is not None else None
    return {
        "text": text or "",
        "author": author_view(definition),
        "agents": hooks.wakeable(definition.owner),
        "recurs": schedule.progress.next is not None,
        "own": run.owner == request.caller.owner,
        "paused": schedule.progress.state == ScheduleState.PAUSED,
    }


def act(request: PageRequest, form: Form) -> Response:
    """Answer a waiting run, dismiss it, or wake an agent for it."""
    action, run = request.http.path_params["action"], request.http.path_params["run"]
    match action:
        case "answer":
            answer_waiting(request.call, AnswerWaiting(run=run, text=form.get("answer")))
            return request.redirect("/inbox", did="answered")
        case "dismiss":
            stop(request.call, Stop(run=run))
            return request.redirect(goal_of(form, "/inbox"), did="dismissed")
        case "wake":
            hand_over(request.call, HandOver(run=run, agent=form.get("agent")))
            return request.redirect(f"/runs/{run}", did="woken")
        case _:
            raise refuse("not_found", "There is no such page.")
