"""The page of one run, its changes, and the form that runs it again with an edited input."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from duetime.dashboard.filters import instant_from
from duetime.dashboard.request import Form, PageRequest, goal_of
from duetime.dashboard.undo import REOPEN
from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import DuetimeError, NotFound
from duetime.engine.tracebacks import exceptions_of
from duetime.service.errors import error_class, refuse
from duetime.service.masking import masking_of
from duetime.service.operations.change_runs import CHANGEABLE
from duetime.service.operations.compare_runs import InputDifference, input_differences, share_done, successes
from duetime.service.operations.dead_letters import Dismiss, dismiss
from duetime.service.operations.declaration import Answer
from duetime.service.operations.history import (
    ShowRun,
    deliveries_of,
    payload_shown,
    run_details,
    schedule_of,
    show_run,
)
from duetime.service.operations.inbox import REOPENING
from duetime.service.operations.logs import ReadLog, log_view, read_log
from duetime.service.operations.run import RetryRun, RunAgain, Stop, retry, run_again, stop
from duetime.service.presenters import View, instant_view, policy_shape, result_text, trigger_shape
from duetime.service.services import Call
from duetime.service.source_lines import source_around
from duetime.service.text import plural, span
from duetime.service.vocabulary import DISMISSABLE, LIVE, Run, RunStatus, Schedule

ACTIONS: Final[dict[str, tuple[str, Callable[[Call, int], Answer[Any]]]]] = {
    "retry": ("retried", lambda call, run: retry(call, RetryRun(run=run))),
    **{name: ("resolved", lambda call, run: dismiss(call, Dismiss(run=run))) for name in ("resolve", "dismiss")},
    **{name: ("reopened", lambda call, run: dismiss(call, Dismiss(run=run, undo=True))) for name in REOPENING},
    "cancel": ("stopped", lambda call, run: stop(call, Stop(run=run))),
}


def actions_of(run: Run) -> list[str]:
    """Return what can be done to a run, as far as its status says."""
    is_over, is_marked = run.status in DISMISSABLE, bool(run.stop)
    possible = {
        "retry": run.status in CHANGEABLE["retry"],
        "cancel": run.status in LIVE and not is_marked,
        "resolve": is_over and not is_marked,
        "reopen": is_over and is_marked,
    }
    return [action for action, is_possible in possible.items() if is_possible]


def run_at(request: PageRequest) -> Run:
    try:
        return show_run(request.call, ShowRun(run=request.http.path_params["run"])).value
    except NotFound:
        raise refuse("not_found", "There is no such run; old ones are deleted after a while.") from None


def run_page(request: PageRequest) -> Response:
    run = run_at(request)
    details = run_details(request.reader, run)
    schedule = schedule_of(request.call, run)
    policy = None if schedule is None else policy_shape(schedule.definition.policy)
    trace = details["traceback"] or next(
        (each["traceback"] for each in reversed(details["attempts"]) if run.status in LIVE), None
    )
    on_page = masking_of(run.kind).hide_on_page(details["payload"])
    payload = on_page if isinstance(on_page, dict) else {}
    return request.render(
        "run.html",
        run=details,
        trace=run_trace(details, request.now),
        log=_log(request, run),
        progress=_progress(details, request.now),
        last_success=_last_success(request, run, details["payload"]),
        exceptions=exceptions_of(trace or ""),
        source_around=source_around,
        traceback=trace,
        result=result_text(run.kind, details["result"]),
        payload=payload,
        prose=_prose(request, run, payload),
        exists=schedule is not None,
        zone_there=None if schedule is None else trigger_shape(schedule.definition.trigger).get("timezone"),
        attempts_allowed=None if policy is None else policy["max_attempts"],
        deliveries=deliveries_of(request.call, run),
        commands=_commands(request, run, schedule),
        may=actions_of(run),
        is_untaken=run.status == RunStatus.WAITING and run.holder is None,
        may_run_again=schedule is not None and bool(payload),
    )


class LogSection(NamedTuple):
    """The log of the latest attempt, and those of earlier ones."""

    excerpts: list[View]
    earlier: list[View]
    next: str
    is_over: bool


def _log(request: PageRequest, run: Run) -> LogSection:
    answer = read_log(request.reader, ReadLog(run=run.id)).value
    rows = log_view(request.reader, answer)["log"]
    latest = max((row["attempt"] for row in rows), default=0)
    earlier = [row for row in rows if row["attempt"] != latest]
    return LogSection(rows[len(earlier) :], earlier, answer.next, answer.ended)


class ProgressBar(NamedTuple):
    percent: float | None
    """None if nobody knows."""
    elapsed: str
    usual: str
    is_estimate: bool
    """Whether it follows from how long it usually takes."""


def _progress(run: View, now: Instant) -> ProgressBar | None:
    if run["status"] != RunStatus.RUNNING or run["started"] is None:
        return None
    elapsed, usual = max(0, now - instant_from(run["started"])), run["usual_seconds"]
    percent = share_done(run["report"])
    is_estimate = percent is None and bool(usual)
    if is_estimate:
        percent = round(min(95.0, 100 * elapsed / SECOND / usual), 1)
    return ProgressBar(percent, span(elapsed), "" if usual is None else span(round(usual * SECOND)), is_estimate)


class LastSuccess(NamedTuple):
    run: int
    differences: list[InputDifference]
    edited: str | None
    """When the schedule was edited between that run, whose input is not kept, and this one."""


def _last_success(request: PageRequest, run: Run, payload: Any) -> LastSuccess | None:
    """Return the last run that succeeded, if this one did not and had another input, or if the schedule was edited in
    between."""
    if run.status not in CHANGEABLE["retry"]:
        return None
    for other in successes(request.call, run, 1):
        schedule = schedule_of(request.call, other)
        if schedule is None:
            return None
        hide, written = masking_of(run.kind).hide_on_page, schedule.definition.written
        differences = input_differences(hide(payload), hide(payload_shown(schedule.definition)))
        is_between = (other.started or other.due) < written <= (run.started or run.due)
        is_unknown = is_between and request.call.scheduler.own_input(other).payload is None
        edited = instant_view(written, request.zone) if is_unknown else None
        if differences or edited:
            return LastSuccess(other.id, differences, edited)
    return None


def _prose(request: PageRequest, run: Run, payload: View) -> str | None:
    """Return the name of the payload field that a person reads, such as the text of a prompt, unless it is a single
    word."""
    spec = request.call.services.specs.get(run.kind)
    name = "" if spec is None else spec.text
    text = payload.get(name) if name else None
    return name if isinstance(text, str) and (" " in text or "\n" in text) else None


def _commands(request: PageRequest, run: Run, schedule: Schedule | None) -> list[tuple[str, str]]:
    """Return the commands for a terminal that do the same as the buttons here."""
    commands = [("Show", "runs show"), ("Log", "logs")]
    if schedule is not None:
        commands.append(("Run again", "runs again"))
        if run.status in (RunStatus.FAILED, RunStatus.LOST):
            commands.append(("Retry", "dead retry"))
    if run.status in LIVE:
        commands.append(("Stop", "runs stop"))
    return [(label, request.command(*words.split(), str(run.id))) for label, words in commands]


def act_on_run(request: PageRequest, form: Form) -> Response:
    action = request.http.path_params["action"]
    if action not in ACTIONS:
        raise refuse("not_found", "There is no such page.")
    run = run_at(request)
    done, change = ACTIONS[action]
    notes = change(request.reader, run.id).notes
    usual = "/dead-letters" if form.get("back") == "dead-letters" else f"/runs/{run.id}"
    undo = request.offer_undo((str(run.id), REOPEN if done == "resolved" else None))
    return request.redirect(goal_of(form, usual), did=done, **undo, notes=notes)


# -- running again with an edited input -----------------------------------------------------------------------------


class InputField(NamedTuple):
    name: str
    value: str
    is_text: bool
    """Whether it is a text; otherwise it is written as JSON."""
    rows: int
    wrong: bool = False
    fixed: bool = False
    """Whether it names the task, agent or topic, which a run takes from its schedule."""


def again_page(request: PageRequest) -> Response:
    return _render_form(request, run_at(request), {}, "", "")


def run_edited(request: PageRequest, form: Form) -> Response:
    """Start the run with the fields of the form. An error is shown beside its field, with what was typed."""
    run = run_at(request)
    _, payload = _input_of(request, run)
    typed = {name: form.get(f"field-{name}") for name in payload}
    fields: dict[str, Any] = {}
    for name, text in typed.items():
        if isinstance(payload[name], str):
            fields[name] = text
            continue
        try:
            fields[name] = json.loads(text)
        except (ValueError, RecursionError) as error:
            place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
            return _render_form(request, run, typed, name, f"{name}: this is not valid JSON{place}", 422)
    try:
        started, _, notes = run_again(request.call, RunAgain(run=run.id, fields=fields))
    except DuetimeError as err:
        return _render_form(request, run, typed, err.field or "", err.message, error_class(err.code).status)
    return request.redirect(f"/runs/{started.id}", did="fired", notes=notes)


def _input_of(request: PageRequest, run: Run) -> tuple[str, dict[str, Any]]:
    """Return the subject and the fields of the input that pages show; the others are kept as they are."""
    schedule = schedule_of(request.call, run)
    payload = None if schedule is None else payload_shown(schedule.definition)
    if schedule is None or not isinstance(payload, dict):
        raise refuse("not_possible", "Its schedule was deleted, so it cannot be run again. Create a new one instead.")
    on_page = masking_of(run.kind).hide_on_page(payload)
    fields = {name: value for name, value in payload.items() if on_page[name] == value}
    return schedule.definition.subject, fields


def _render_form(
    request: PageRequest, run: Run, typed: dict[str, str], wrong: str, problem: str, status: int = 200
) -> Response:
    subject, payload = _input_of(request, run)
    fields = []
    for name, value in payload.items():
        is_text = isinstance(value, str)
        text = typed.get(name, value if is_text else json.dumps(value, indent=2, ensure_ascii=False))
        rows = min(16, max(1 if is_text and len(text) < 80 else 3, text.count("\n") + 1))
        fields.append(InputField(name, text, is_text, rows, name == wrong, is_text and value == subject))
    return request.render(
        "run_again.html",
        status,
        run=run,
        fields=fields,
        problem=problem,
        hidden=plural(json.dumps(payload).count('"***"'), "hidden value") if '"***"' in json.dumps(payload) else "",
    )


# The course of one run from its due time to its end, as steps with text and as a strip of segments.

_LEAST: Final = 1.6
"""Minimum width of a segment, in percent: an attempt of a millisecond stays visible beside a wait of an hour."""
_NO_ATTEMPT: Final = frozenset({RunStatus.PENDING, RunStatus.QUEUED, RunStatus.MISSED, RunStatus.SKIPPED})
"""Statuses of a run whose `started` is not that of a current attempt or of its last one."""


class TimeStretch(NamedTuple):
    """A stretch of time: an attempt, or a wait before one."""

    label: str
    style: str
    """CSS class."""
    start: Instant
    end: Instant
    attempt: View | None = None
    """The attempt, with its error; None for a wait."""
    open: bool = False
    """Whether it is in progress or still to come."""
    at: str = ""
    """The instant of a manual retry."""

    @property
    def took(self) -> str:
        return span(self.end - self.start)


class Segment(NamedTuple):
    x: float
    width: float
    style: str
    label: str


class RunTrace(NamedTuple):
    steps: list[TimeStretch]
    segments: list[Segment]
    label: str
    """The strip in words."""


def run_trace(run: View, now: Instant) -> RunTrace:
    """Build the trace of a run from `run_details`."""
    steps = list(_steps(run, now))
    drawn = [step for step in steps if not step.at]
    words = [f"{step.label}, {step.took}" for step in drawn]
    return RunTrace(steps, _segments(drawn), "; ".join(words) or "It has not begun")


def _steps(run: View, now: Instant) -> Iterator[TimeStretch]:
    reached, waited = instant_from(run["due"]), "Waited to start"
    for attempt in [*run["attempts"], *_last_attempt(run)]:
        start = instant_from(attempt["started"] or attempt["finished"])  # it may have been cancelled before it began
        if start > reached:
            yield TimeStretch(waited, "rests", reached, start)
        is_open = attempt["finished"] is None
        end = max(start, now if is_open else instant_from(attempt["finished"]))
        label = _attempt_label(attempt, run)
        yield TimeStretch(label, f"is-{attempt['status']}", start, end, attempt, is_open)
        reached, waited = end, "Waited to retry"
        if attempt.get("retried") is not None:
            reached = max(end, instant_from(attempt["retried"]))
            yield TimeStretch("Waited to be retried", "rests", end, reached)
            yield TimeStretch(
                f"Retried by {attempt['retried_by'] or 'unknown'}", "rests", reached, reached, at=attempt["retried"]
            )
    if run["next_attempt"] is not None:
        start = instant_from(run["next_attempt"])
        if start > reached:
            label = "Waiting to retry" if run["attempts"] else "Waiting to start"
            yield TimeStretch(label, "rests", reached, start, open=True)
    elif run["status"] in (RunStatus.QUEUED, RunStatus.PENDING) and now > reached:
        label = "Waiting behind another run" if run["status"] == RunStatus.QUEUED else "Waiting for a worker"
        yield TimeStretch(label, "rests", reached, now, open=True)


def _last_attempt(run: View) -> list[dict[str, Any]]:
    """Return the attempt that the run's own row describes, if it describes one."""
    if run["started"] is None or run["status"] in _NO_ATTEMPT:
        return []
    names = ("started", "finished", "status", "error", "traceback")
    return [{"attempt": run["attempt"], **{name: run[name] for name in names}}]


def _attempt_label(attempt: View, run: View) -> str:
    if attempt["status"] == RunStatus.WAITING:
        return {"taken": "With an agent", "held": "Held until its cluster answers"}.get(
            run["state_detail"], "Waiting for an agent"
        )
    return f"Attempt {max(1, attempt['attempt'])} {attempt['status']}"


def _segments(steps: list[TimeStretch]) -> list[Segment]:
    whole = sum(step.end - step.start for step in steps) or 1
    widths = [max(_LEAST, 100 * (step.end - step.start) / whole) for step in steps]
    scale = 100 / sum(widths, 0.0) if widths else 1
    segments, x = [], 0.0
    for step, width in zip(steps, widths, strict=True):
        segments.append(
            Segment(round(x, 3), round(max(0.3, width * scale - 0.25), 3), step.style, f"{step.label}, {step.took}")
        )
        x += width * scale
    return segments
