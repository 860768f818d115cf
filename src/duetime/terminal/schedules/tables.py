"""Schedules and their runs as tables."""

from __future__ import annotations

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.model import Cause, Progress, Run, Schedule, ScheduleState
from duetime.engine.policy.options import policy_from_json
from duetime.engine.times import format_local
from duetime.service.services import OPERATOR
from duetime.terminal import output
from duetime.terminal.application import Application
from duetime.terminal.output import (
    READABLE,
    ahead,
    clean,
    coming,
    local_time,
    outcome,
    plural,
    relative,
    schedule_document,
    span,
)
from duetime.terminal.schedules.kind_view import KindView

SPARE = {"RUNS": 24, "LAST": 24, "OWNER": 24, "WHEN": READABLE}
"""Run count, last status and a common owner are left out before the texts beside them are cut."""
SHORT_ID = 12
"""Characters of a random id that a list on a terminal shows: enough to identify one of thousands."""


def print_schedules(view: KindView, items: list[Schedule], zone: str, now: Instant) -> None:
    """Print a table of schedules without columns that say nothing, such as the last status before any run."""
    owners = {item.definition.owner for item in items}
    news = {
        "OWNER": owners != {OPERATOR.owner},
        "LAST": any(item.progress.last_status for item in items),
    }
    columns = ["ID", "STATUS", "NEXT", *view.headings, "OWNER", "WHEN", "LAST", "RUNS"]
    shown = [number for number, name in enumerate(columns) if news.get(name, True)]
    rows = [_row(view, item, zone, now) for item in items]
    spare = {name: least for name, least in SPARE.items() if name != "OWNER" or len(owners) == 1}
    headings, kept = [columns[number] for number in shown], [[row[number] for number in shown] for row in rows]
    output.table(headings, kept, whole=3, spare=spare)


def _row(kind_view: KindView, item: Schedule, zone: str, now: Instant) -> list[object]:
    view, progress = schedule_document(item, zone), item.progress
    return [
        _short(view["id"]),
        output.status_text(view["status"]),
        ahead(_next(progress), now),
        *kind_view.cells(item.definition, view["payload"] or {}),
        view["owner"],
        view["reads_as"].replace(f" ({zone})", ""),
        output.status_text(progress.last_status or "-"),
        view["run_count"],
    ]


def _short(id: str) -> str:
    """Shorten an id on a terminal; a file or a program gets the whole id."""
    return id[:SHORT_ID] if id.startswith(("msg_", "scd_")) and output.is_terminal() else id


def _next(progress: Progress) -> Instant | None:
    """Return the next instant of an active schedule. A paused one has none, even if one is stored."""
    return progress.next if progress.state == ScheduleState.ACTIVE else None


def print_schedule(kind_view: KindView, schedule: Schedule, instants: list[Instant], zone: str, now: Instant) -> None:
    definition, progress = schedule
    view = schedule_document(schedule, zone)
    state = output.status_text(view["status"])
    if progress.note:
        state.append(f": {clean(progress.note)}")
    pairs: list[tuple[str, object]] = [
        (kind_view.noun, f"{definition.name}  ({definition.public_id})"),
        ("status", state),
        *kind_view.facts(definition, view["payload"] or {}),
        ("when", view["reads_as"]),
        *(("next" if number == 0 else "", coming(instant, zone, now)) for number, instant in enumerate(instants)),
        ("policy", _policy_text(definition.policy)),
        ("runs", _runs_text(schedule, now)),
        ("owner", f"{definition.owner}, created {format_local(definition.created, zone)}"),
    ]
    output.facts(pairs)


def _runs_text(schedule: Schedule, now: Instant) -> str:
    progress = schedule.progress
    text = plural(progress.run_count, "run")
    if progress.last_run is not None:
        text += f", the last one {progress.last_status} {relative(progress.last_run, now)}"
    if progress.failures:
        text += f", {plural(progress.failures, 'failure')} in a row"
    return text + (f": {progress.last_error}" if progress.last_error else "")


_HEARD = {"always": "every run", "failure": "failures", "success": "what went well"}


def _policy_text(stored: str) -> str:
    """Describe a policy. One that cannot be parsed must still be shown, because it broke its schedule."""
    try:
        policy = policy_from_json(stored)
    except DuetimeError as error:
        return f"cannot be read: {error.message}"
    parts = [f"catch up {policy.catch_up}", f"overlap {policy.overlap}"]
    if policy.at_most_once:
        parts.append("at most once")
    if policy.max_attempts > 1:
        parts.append(f"{policy.max_attempts} attempts, {span(policy.backoff)} and more apart")
    if policy.timeout is not None:
        parts.append(f"timeout {span(policy.timeout)}")
    if policy.max_runs is not None:
        parts.append(f"ends after {plural(policy.max_runs, 'run')}")
    if policy.deliver_to is not None:
        parts.append(f"{policy.deliver_to} hears of {_HEARD[policy.notify_on]}")
    return " · ".join(parts)


def print_runs(app: Application, runs: list[Run]) -> None:
    zone = app.scheduler.zone
    rows: list[list[object]] = []
    for run in runs:
        took = "-" if run.started is None or run.finished is None else span(run.finished - run.started)
        late = "-" if run.started is None or run.attempt > 1 else span(run.started - run.due)
        status = output.status_text(run.status)
        rows.append([run.id, status, local_time(run.due, zone), run.attempt or "-", took, late, outcome_text(run)])
        if run.attempt > 1 or run.deaths:
            for attempt in app.scheduler.attempts(OPERATOR, run.id):
                took = "-" if attempt.started is None else span(attempt.finished - attempt.started)
                error = output.safe(attempt.error or "", "dim")
                rows.append(["", output.status_text(attempt.status), "", attempt.number, took, "", error])
    headings = ["RUN", "STATUS", "DUE", "TRY", "TOOK", "LATE", "RESULT OR ERROR"]
    output.table(headings, rows, whole=3, fold=True, spare={"LATE": 24})


def outcome_text(run: Run) -> str:
    text = outcome(run)
    if run.last is not None:
        text = f"{'at least ' if run.number < 0 else ''}{plural(abs(run.number), 'occurrence')}: {text}"
    return "; ".join(filter(None, ("by hand", text))) if run.cause == Cause.MANUAL else text
