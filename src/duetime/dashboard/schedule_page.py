"""The page of one schedule: its recent runs, what comes next, what it does and its history; and the changes to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.filters import local_time
from duetime.dashboard.form_fields import usual_policy
from duetime.dashboard.notices import SENTENCES
from duetime.dashboard.queries import schedule_at
from duetime.dashboard.request import Form, PageRequest, at, goal_of
from duetime.dashboard.schedule_stats import schedule_stats
from duetime.dashboard.undo import reverse_of
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.service.errors import error_class, refuse
from duetime.service.masking import masking_of
from duetime.service.operations.change import ACTIONS, REQUESTS, Pause, change, describe_end, followers
from duetime.service.operations.history import History, earlier_attempts, history, lateness, run_views
from duetime.service.operations.run import RunNow, Stop, run_now, stop
from duetime.service.operations.schedules import NextTimes, next_times, schedule_views
from duetime.service.pauses import falls_into_pause
from duetime.service.policy_words import PolicyFact, policy_facts
from duetime.service.presenters import View, attempt_view, instant_view, policy_shape, result_text, schedule_shape
from duetime.service.vocabulary import OVER, Page, Run, RunStatus, Schedule, ScheduleState, clock_local

HISTORY: Final = 20
NEXT: Final = 10
FILTERS: Final = ("status", "from", "to")
STATUSES: Final = {
    RunStatus.COMPLETED: "completed",
    RunStatus.FAILED: "failed",
    RunStatus.MISSED: "missed",
    RunStatus.SKIPPED: "skipped",
    RunStatus.CANCELLED: "cancelled",
    "live": "not over yet",
}


def schedule_page(request: PageRequest) -> Response:
    schedule = schedule_at(request, deleted=True)
    state = schedule.progress.state
    filters = {name: request.parameter(name) for name in FILTERS}
    active_filters = {name: value for name, value in filters.items() if value}
    page, problem = _history(request, schedule, filters)
    [shape] = schedule_views(request.reader, [schedule])
    (_, instants), warnings, _ = next_times(request.call, NextTimes(schedule=schedule, count=NEXT))
    if request.parameter("did") == "created":
        warnings = [*warnings, *request.call.services.pause_warnings(schedule.definition)]
    texts = SENTENCES.find(request.session, request.parameter("warnings")) or ()
    runs = run_rows(request, page.items)
    stats = schedule_stats(request.reader, schedule)
    over, is_once = state in OVER, shape["trigger"]["type"] == "once"
    address = request.http.url.path
    return request.render(
        "schedule.html",
        it=shape,
        stats=stats,
        failing_since=instant_view(stats.failing_since, request.zone),
        payload=masking_of(schedule.definition.kind).hide_on_page(shape["payload"]) or {},
        gated=bool((policy_shape(schedule.definition.policy) or {}).get("only_if")),
        policy=_policy(schedule, usual_policy(request.call.scheduler, schedule.definition.kind)),
        next=[instant_view(instant, request.zone) for instant in instants],
        warnings=dict.fromkeys([*(each.text for each in warnings), *texts]),
        followers=[
            schedule_shape(each, request.zone, brief=True) for each in followers(request.reader, schedule, NEXT)
        ],
        only=runs[0] if is_once and len(runs) == 1 and not active_filters and not instants else None,
        charts=not is_once or len(runs) > 1,
        runs=runs,
        filters=filters,
        filtered=bool(active_filters),
        problem=problem,
        statuses=STATUSES,
        next_page=None if page.cursor is None else f"{address}?{urlencode({**active_filters, 'cursor': page.cursor})}",
        first_page=f"{address}?{urlencode(active_filters)}" if request.parameter("cursor") else None,
        may_stop=bool(schedule.progress.active or schedule.progress.queued),
        paused=state == ScheduleState.PAUSED,
        falls_into_pause=falls_into_pause(schedule, schedule.definition.resume_at, request.zone, clock_local),
        over=over,
        deleted=state == ScheduleState.DELETED,
    )


def _history(request: PageRequest, schedule: Schedule, filters: dict[str, str]) -> tuple[Page[Run], str]:
    """Return a page of the history, and the reason why a filter was ignored."""
    status = filters["status"] if filters["status"] in STATUSES else None
    cursor = request.parameter("cursor") or None
    plain = History(schedule=schedule, status=status, limit=HISTORY, cursor=cursor, count_to=0)
    filtered_history, problem = replace(plain, since=filters["from"] or None, until=filters["to"] or None), ""
    try:
        return history(request.reader, filtered_history).value, problem
    except InvalidInput as error:
        return history(request.reader, plain).value, error.message


def _policy(schedule: Schedule, usual: View) -> list[PolicyFact]:
    shape = policy_shape(schedule.definition.policy)
    return [PolicyFact("policy", "cannot be read", unusual=True)] if shape is None else policy_facts(shape, usual)


def run_rows(request: PageRequest, runs: list[Run]) -> list[View]:
    """Return views of runs with a text about their result, their earlier attempts and how late they began."""
    shapes = run_views(request.reader, runs)
    for run, shape in zip(runs, shapes, strict=True):
        attempts = earlier_attempts(request.call, run)
        shape["attempts"] = [attempt_view(each, request.zone) for each in attempts]
        shape["late"] = lateness(run, attempts)
        shape["result_text"] = result_text(run.kind, shape["result"])
    return shapes


CONFIRMED: Final = ("pause", "cancel", "delete")


def confirm_page(request: PageRequest) -> Response:
    """Render a page that asks for confirmation, which needs no JavaScript."""
    action = request.http.path_params["action"]
    if action not in CONFIRMED:
        raise refuse("not_found", "There is no such page.")
    return _confirm(request, schedule_at(request), action)


def _confirm(
    request: PageRequest, schedule: Schedule, action: str, form: Form | None = None, err: DuetimeError | None = None
) -> Response:
    """Ask for confirmation; if the input is refused, ask again with the input and the problem."""
    typed = {name: "" if form is None else form.get(name) for name in ("until", "note")}
    status, problem = (200, None) if err is None else (error_class(err.code).status, err.problem)
    typed |= {"effect": falls_into_pause(schedule, None, request.zone, clock_local)}
    it, meaning = schedule_shape(schedule, request.zone), _sentences(describe_end(request.reader, schedule, action))
    return request.render("confirm.html", status, it=it, action=action, problem=problem, meaning=meaning, **typed)


def _sentences(facts: Mapping[str, Any]) -> list[str]:
    """Return what the end of a schedule means beside it, for its followers and the file that declares it."""
    texts = [facts[name] for name in ("followers", "declared") if name in facts]
    return [f"{text[:1].upper()}{text[1:]}." for text in texts]


def act(request: PageRequest, form: Form) -> Response:
    action = request.http.path_params["action"]
    if action not in (*ACTIONS, "run", "stop"):
        raise refuse("not_found", "There is no such page.")
    schedule = schedule_at(request, deleted=action == "restore")
    public_id = schedule.definition.public_id
    if action == "run":
        run, _, notes = run_now(request.call, RunNow(schedule=schedule, force=bool(form.get("force"))))
        did = "queued" if run.status == RunStatus.QUEUED else "fired"
        return request.redirect(goal_of(form, at(public_id)), did=did, notes=notes)
    if action == "stop":
        notes = stop(request.reader, Stop(schedule=schedule)).notes
        return request.redirect(goal_of(form, at(public_id)), did="stopped", notes=notes)
    until, note = (form.get(name).strip() or None for name in ("until", "note"))
    is_pause = action == "pause"
    try:
        changed = change(
            request.call,
            Pause(schedule=schedule, until=until, note=note) if is_pause else REQUESTS[action](schedule=schedule),
        ).value
    except DuetimeError as error:
        if error.field != "until":
            raise
        return _confirm(request, schedule, action, form, error)
    undo = request.offer_undo((public_id, reverse_of(action, schedule)))
    usual = "/schedules" if action == "delete" else at(public_id)
    did, notes, ends = ACTIONS[action], _sentences(changed.facts()), changed.schedule.definition.resume_at
    if is_pause and ends is not None:
        did, end = "paused_until", local_time(ends, request.zone, request.now, inside=True)
        notes = [f"Paused: nothing fires until {end}."]
    return request.redirect(goal_of(form, usual), did=did, notes=notes, **undo)
