"""Lists schedules of one kind or of all, and shows one of them with its history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from duetime.engine.model import Run, Schedule
from duetime.engine.store import Page, ScheduleQuery
from duetime.service.errors import unwrap
from duetime.service.history import next_attempt
from duetime.service.presenters import attempt_view, instant_view, moment_view, next_instants
from duetime.service.services import OPERATOR, pages_of
from duetime.service.state_details import detail_of, details_of
from duetime.terminal import output
from duetime.terminal.context import Application, program
from duetime.terminal.output import clean, counted, run_document, schedule_document
from duetime.terminal.schedules.display import NEXT_TIMES, find_here, print_runs, print_schedules, schedule_facts
from duetime.terminal.schedules.kind_view import KindView

PAGE = 1000
"""Number of schedules that are read at a time if all are shown."""
LIVING = "living"
_STATUSES = {"scheduled": "pending", "failing": "failed", "waiting": "running"}
"""Statuses by the words that people use for them."""


def list_schedules(app: Application, view: KindView, query: ScheduleQuery, json_: bool, *, everything: bool) -> None:
    """Print a page of schedules, or all of them."""
    status = _STATUSES.get(query.status or "", query.status)
    pages = pages_of(
        app.scheduler.search, OPERATOR, replace(query, status=status, limit=PAGE if everything else query.limit)
    )
    read = list(pages) if everything else [next(pages)]
    items, total, zone = [item for page in read for item in page.items], read[0].total, app.scheduler.zone
    for outside in app.services.outside(view.kind).values() if view.kind is not None else ():
        further = unwrap(outside.schedules(OPERATOR))
        items, total = [*further, *items], total + len(further)
    details = details_of(app.scheduler, items)
    if json_:
        views = [schedule_document(item, zone, details.get(item.definition.id)) for item in items]
        output.print_json({view.plural: views, "total": total, "next_cursor": read[-1].cursor})
        return
    if items:
        print_schedules(view, items, zone, app.clock.now(), details)
    else:
        output.say(f"{_nothing(app, view, query)} Add one: {program(view.command or 'notify', 'add', '--help')}")
    if len(items) < total:
        output.say(f"{len(items)} of {counted(read[0]._replace(total=total))}; --all shows every one, --limit more.")
    for note in app.services.list_notes(query.kind) if view.kind is None else ():
        output.say(note)


def _nothing(app: Application, view: KindView, query: ScheduleQuery) -> str:
    """Return why a list is empty."""
    status = None if query.status == LIVING else query.status
    if view.kind is not None:
        return f"There are no {view.plural} {f'with the status {clean(status)}' if status else 'yet'}."
    if query.kind or status or query.text or query.subject:
        return "No schedules match."
    ended, cancelled = (app.store.search(ScheduleQuery(status=each, limit=1)).total for each in ("over", "cancelled"))
    named = f"{ended:,} have ended ({program('list', '--all')})"
    if ended == cancelled:
        named = f"{ended:,} are cancelled ({program('list', '--status', 'cancelled')})"
    return f"There are no active schedules; {named}." if ended else "There are no schedules yet."


def show_schedule(app: Application, view: KindView, id: str, runs: int, json_: bool) -> None:
    schedule, zone = find_here(app, view, id), app.scheduler.zone
    past = _history(app, schedule, runs).items if runs else []
    if json_:
        instants = next_instants(schedule, app.clock.now(), NEXT_TIMES)
        extra = {
            "next_instants": [instant_view(instant, zone) for instant in instants],
            "history": [_run_view(app, run) for run in past],
        }
        output.print_json(schedule_document(schedule, zone, detail_of(app.scheduler, schedule)) | extra)
        return
    output.facts(schedule_facts(app, schedule))
    if past:
        print()
        print_runs(app, past)


def show_history(app: Application, view: KindView, id: str, limit: int, json_: bool) -> None:
    page = _history(app, find_here(app, view, id, deleted=True), limit)
    if json_:
        output.print_json({"runs": [_run_view(app, run) for run in page.items], "total": page.total})
    elif page.items:
        print_runs(app, page.items)
        if len(page.items) < page.total:
            output.say(f"{len(page.items)} of {counted(page)}; --limit shows more")
    else:
        print("It has not run yet.")


def _history(app: Application, schedule: Schedule, limit: int) -> Page[Run]:
    return unwrap(app.scheduler.history(OPERATOR, schedule.definition.public_id, limit=limit))


def _run_view(app: Application, run: Run) -> dict[str, Any]:
    zone = app.scheduler.zone
    following = moment_view(next_attempt(app.scheduler, run), zone)
    shown = [attempt_view(attempt, zone) for attempt in app.scheduler.earlier_attempts(run)]
    return run_document(run, zone) | {"attempts": shown, "next_attempt": following}
