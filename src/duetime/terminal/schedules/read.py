"""Lists schedules of one kind or of all, and shows one of them with its history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from duetime.service.operations.history import History, earlier_attempts, gate_views, history, next_attempt
from duetime.service.operations.schedules import ListSchedules, detail_of, details_of, pages_of_schedules
from duetime.service.operations.schedules import list_schedules as read_schedules
from duetime.service.presenters import attempt_view, instant_view, moment_view, next_instants
from duetime.service.services import OPERATOR, Call
from duetime.service.vocabulary import Run
from duetime.terminal import output
from duetime.terminal.context import Application, program
from duetime.terminal.output import clean, counted, run_document, schedule_document
from duetime.terminal.schedules.display import NEXT_TIMES, find_here, print_runs, print_schedules, schedule_facts
from duetime.terminal.schedules.kind_view import KindView, NamedSchedule

PAGE = 1000
"""Number of schedules that are read at a time if all are shown."""
LIVING = "living"


def list_schedules(app: Application, view: KindView, request: ListSchedules, json_: bool, *, everything: bool) -> None:
    """Print a page of schedules, or all of them."""
    call, request = app.call, replace(request, limit=PAGE if everything else request.limit)
    pages = pages_of_schedules(call, request)
    read = list(pages) if everything else [next(pages)]
    items, total, zone = [item for page in read for item in page.items], read[0].total, call.zone
    for outside in app.services.outside(view.kind).values() if view.kind is not None else ():
        further = outside.schedules(OPERATOR)
        items, total = [*further, *items], total + len(further)
    details = details_of(call, items)
    if json_:
        views = [schedule_document(item, zone, details.get(item.definition.id)) for item in items]
        output.print_json({view.plural: views, "total": total, "next_cursor": read[-1].cursor})
        return
    if items:
        print_schedules(view, items, zone, call.now, details)
    else:
        output.say(f"{_nothing(app, view, request)} Add one: {program(view.command or 'notify', 'add', '--help')}")
    if len(items) < total:
        output.say(f"{len(items)} of {counted(read[0]._replace(total=total))}; --all shows every one, --limit more.")
    for note in app.services.list_notes(request.kind) if view.kind is None else ():
        output.say(note)


def _nothing(app: Application, view: KindView, request: ListSchedules) -> str:
    """Return why a list is empty."""
    status = None if request.status == LIVING else request.status
    if view.kind is not None:
        features = [f"the {name} {clean(each)}" for name, each in (("status", status), ("tag", request.tagged)) if each]
        return f"There are no {view.plural} {'with ' + ' and '.join(features) if features else 'yet'}."
    if request.kind or status or request.text or request.subject or request.tagged:
        return "No schedules match."
    ended, cancelled = (
        read_schedules(app.call, ListSchedules(status=each, limit=1)).value.total for each in ("over", "cancelled")
    )
    named = f"{ended:,} have ended ({program('list', '--all')})"
    if ended == cancelled:
        named = f"{ended:,} are cancelled ({program('list', '--status', 'cancelled')})"
    return f"There are no active schedules; {named}." if ended else "There are no schedules yet."


def show_schedule(target: NamedSchedule, runs: int) -> None:
    schedule, call = find_here(target.app, target.view, target.id), target.app.call
    past = history(call, History(schedule=schedule, limit=runs)).value.items if runs else []
    if target.json_:
        instants = next_instants(schedule, call.now, NEXT_TIMES)
        extra = {
            "next_instants": [instant_view(instant, call.zone) for instant in instants],
            "history": [_run_view(call, run) for run in past],
        }
        output.print_json(schedule_document(schedule, call.zone, detail_of(call, schedule)) | extra)
        return
    output.facts(schedule_facts(target.app, schedule))
    if past:
        print()
        print_runs(target.app, past)


def show_history(target: NamedSchedule, limit: int) -> None:
    app, view, id, json_ = target
    page = history(app.call, History(schedule=find_here(app, view, id, deleted=True), limit=limit)).value
    if json_:
        gates = gate_views(app.call, page.items)
        views = [_run_view(app.call, run) | {"gate": gates.get(run.id)} for run in page.items]
        output.print_json({"runs": views, "total": page.total})
    elif page.items:
        print_runs(app, page.items)
        if len(page.items) < page.total:
            output.say(f"{len(page.items)} of {counted(page)}; --limit shows more")
    else:
        print("It has not run yet.")


def _run_view(call: Call, run: Run) -> dict[str, Any]:
    following = moment_view(next_attempt(call, run), call.zone)
    attempts = [attempt_view(attempt, call.zone) for attempt in earlier_attempts(call, run)]
    return run_document(run, call.zone) | {"attempts": attempts, "next_attempt": following}
