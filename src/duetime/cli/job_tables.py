"""Jobs and their runs as tables."""

from __future__ import annotations

import json

from duetime.api import LOCAL
from duetime.cli import screen
from duetime.cli.text import ahead, clean, coming, local_time, plural, relative, span
from duetime.compose import App
from duetime.core.clock import Instant
from duetime.core.errors import DuetimeError
from duetime.core.model import Cause, Run, Schedule, ScheduleState
from duetime.core.policy.values import Policy, policy_from_json
from duetime.core.scheduler import upcoming
from duetime.core.times import format_local
from duetime.core.triggers import trigger_from_json
from duetime.faces.present import schedule_view


def print_jobs(items: list[Schedule], zone: str, now: Instant) -> None:
    mixed = any(item.definition.owner != LOCAL.owner for item in items)
    rows = []
    for item in items:
        view, progress = schedule_view(item, zone), item.progress
        following = ahead(progress.next, now)
        last = screen.status_text(progress.last_status or "-")
        owner = [view["owner"]] if mixed else []
        state = screen.status_text(view["status"])
        rows.append(
            [
                view["id"],
                state,
                following,
                view["name"],
                *owner,
                view["reads_as"].replace(f" ({zone})", ""),
                last,
                view["run_count"],
            ]
        )
    owner = ["OWNER"] if mixed else []
    screen.table(["ID", "STATUS", "NEXT", "NAME", *owner, "WHEN", "LAST", "RUNS"], rows, whole=3)


def print_schedule(schedule: Schedule, instants: list[Instant], zone: str, now: Instant) -> None:
    definition, progress = schedule
    view = schedule_view(schedule, zone)
    payload = view["payload"]
    state = screen.status_text(view["status"])
    if progress.note:
        state.append(f": {clean(progress.note)}")
    pairs: list[tuple[str, object]] = [
        ("job", f"{definition.name}  ({definition.public_id})"),
        ("status", state),
        ("task", payload["task"]),
        *((("args", json.dumps(payload["args"], ensure_ascii=False)),) if payload.get("args") else ()),
        *((("kwargs", json.dumps(payload["kwargs"], ensure_ascii=False)),) if payload.get("kwargs") else ()),
        ("when", view["reads_as"]),
        *(("next" if number == 0 else "", coming(instant, zone, now)) for number, instant in enumerate(instants)),
        ("policy", _policy_words(policy_from_json(definition.policy))),
        ("runs", _runs_words(schedule, now)),
        ("owner", f"{definition.owner}, created {format_local(definition.created, zone)}"),
    ]
    screen.facts(pairs)


def _runs_words(schedule: Schedule, now: Instant) -> str:
    progress = schedule.progress
    words = plural(progress.run_count, "run")
    if progress.last_run is not None:
        words += f", the last one {progress.last_status} {relative(progress.last_run, now)}"
    if progress.failures:
        words += f", {plural(progress.failures, 'failure')} in a row"
    return words + (f": {progress.last_error}" if progress.last_error else "")


def _policy_words(policy: Policy) -> str:
    words = [f"catch up {policy.catch_up}", f"overlap {policy.overlap}"]
    if policy.at_most_once:
        words.append("at most once")
    if policy.max_attempts > 1:
        words.append(f"{policy.max_attempts} attempts, {span(policy.backoff)} and more apart")
    if policy.timeout is not None:
        words.append(f"timeout {span(policy.timeout)}")
    if policy.max_runs is not None:
        words.append(f"ends after {plural(policy.max_runs, 'run')}")
    return " · ".join(words)


def print_runs(room: App, runs: list[Run]) -> None:
    zone = room.scheduler.zone
    rows: list[list[object]] = []
    for run in runs:
        took = "-" if run.started is None or run.finished is None else span(run.finished - run.started)
        late = "-" if run.started is None or run.attempt > 1 else span(run.started - run.due)
        status = screen.status_text(run.status)
        rows.append([run.id, status, local_time(run.due, zone), run.attempt or "-", took, late, _said(run)])
        if run.attempt > 1 or run.deaths:
            for attempt in room.scheduler.attempts(LOCAL, run.id):
                took = "-" if attempt.started is None else span(attempt.finished - attempt.started)
                error = screen.safe(attempt.error or "", "dim")
                rows.append(["", screen.status_text(attempt.status), "", attempt.number, took, "", error])
    screen.table(["RUN", "STATUS", "DUE", "TRY", "TOOK", "LATE", "RESULT OR ERROR"], rows, whole=6, fold=True)


def _said(run: Run) -> str:
    said = run.error or run.report or run.result or ""
    if run.last is not None:
        said = f"{'at least ' if run.number < 0 else ''}{plural(abs(run.number), 'occurrence')}: {said}"
    return f"by hand; {said}" if run.cause == Cause.MANUAL else said


def next_instants(schedule: Schedule, now: Instant, count: int) -> list[Instant]:
    """The instant that is next, moved by hand or not, and those that the trigger has after it."""
    progress, policy = schedule.progress, policy_from_json(schedule.definition.policy)
    if progress.next is None or progress.state != ScheduleState.ACTIVE:
        return []
    if policy.max_runs is not None:
        count = min(count, policy.max_runs - progress.run_count)
    try:
        trigger = trigger_from_json(schedule.definition.trigger)
    except DuetimeError:
        return []
    return [progress.next, *upcoming(trigger, max(now, progress.next), count - 1)]
