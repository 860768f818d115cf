"""Lists schedules of one kind, and shows one of them with its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duetime.engine.clock import Instant
from duetime.engine.model import Run
from duetime.engine.result import Ok
from duetime.engine.store import Page, ScheduleQuery
from duetime.service.errors import unwrap
from duetime.service.history import next_attempt
from duetime.service.kind_spec import ExternalSchedule
from duetime.service.lookup import find_schedule
from duetime.service.presenters import attempt_view, instant_view, moment_view, next_instants
from duetime.service.services import OPERATOR, pages_of
from duetime.service.state_details import detail_of, details_of
from duetime.terminal import output
from duetime.terminal.context import Application, program
from duetime.terminal.output import ahead, clean, counted, run_document, schedule_document
from duetime.terminal.schedules.commands import MEANT, PAGE, KindView
from duetime.terminal.schedules.display import found_here, print_runs, print_schedules, schedule_facts


def list_schedules(
    app: Application, view: KindView, status: str | None, limit: int | None, cursor: str | None, json_: bool
) -> None:
    """Print a page of schedules, or all of them if there is no limit."""
    query = ScheduleQuery(
        kind=view.kind, status=MEANT.get(status or "", status), limit=limit or PAGE, cursor=cursor, newest_first=True
    )
    pages = pages_of(app.scheduler.search, OPERATOR, query)
    read = list(pages) if limit is None else [next(pages)]
    items = [item for page in read for item in page.items]
    _print_list(app, view, read[0]._replace(items=items, cursor=read[-1].cursor), status, json_)


def show_schedule(app: Application, view: KindView, id: str, runs: int, json_: bool) -> None:
    schedule, zone, now = found_here(app, view, id), app.scheduler.zone, app.clock.now()
    instants, detail = next_instants(schedule, now, 5), detail_of(app.scheduler, schedule)
    past = _history(app, schedule.definition.public_id, runs).items if runs else []
    if json_:
        extra = {
            "next_instants": [instant_view(instant, zone) for instant in instants],
            "history": [_run_view(app, run) for run in past],
        }
        output.print_json(schedule_document(schedule, zone, detail) | extra)
        return
    output.facts(schedule_facts(view, schedule, instants, zone, now, detail))
    if past:
        print()
        print_runs(app, past)


def show_history(app: Application, view: KindView, id: str, limit: int, json_: bool) -> None:
    page = _history_of(app, view, id, limit)
    if json_:
        output.print_json({"runs": [_run_view(app, run) for run in page.items], "total": page.total})
    elif page.items:
        print_runs(app, page.items)
        if len(page.items) < page.total:
            output.say(f"{len(page.items)} of {counted(page)}; --limit shows more")
    else:
        print("It has not run yet.")


def _print_list(app: Application, view: KindView, page: Page[Any], status: str | None, json_: bool) -> None:
    zone, external = app.scheduler.zone, app.services.hooks(view.kind).external()
    elsewhere = [] if external is None else unwrap(external.list(OPERATOR))
    if json_:
        details = details_of(app.scheduler, page.items)
        views = [schedule_document(item, zone, details.get(item.definition.id)) for item in page.items]
        more = {} if external is None else {"kept_elsewhere": [_external_view(each, zone) for each in elsewhere]}
        output.print_json({view.plural: views, "total": page.total, "next_cursor": page.cursor, **more})
        return
    if external is not None and elsewhere:
        print(f"Kept at {external.place}:")
        _print_external(elsewhere, app.clock.now())
    if page.items:
        print_schedules(view, page.items, zone, app.clock.now(), details_of(app.scheduler, page.items))
        if len(page.items) < page.total:
            output.say(f"{len(page.items)} of {counted(page)}; --all shows every one")
    elif not elsewhere:
        none = f"There are no {view.plural} with the status {clean(status)}." if status else None
        output.say(f"{none or f'There are no {view.plural} yet.'} Add one: {program(view.command, 'add', '--help')}")


def _external_view(each: ExternalSchedule, zone: str) -> dict[str, Any]:
    times = {"paused": each.paused, "next_run": instant_view(each.next, zone), "cron": each.cron}
    return {"id": each.id, **each.fields, **times}


def _print_external(items: Sequence[ExternalSchedule], now: Instant) -> None:
    rows = [
        [
            each.id,
            "paused" if each.paused else "pending",
            ahead(each.next, now),
            *each.fields.values(),
            each.cron or "once",
        ]
        for each in items
    ]
    headings = ["ID", "STATUS", "NEXT", *(name.upper() for name in items[0].fields), "WHEN"]
    output.table(headings, rows, whole=3)


def _history(app: Application, id: str, limit: int) -> Page[Run]:
    return unwrap(app.scheduler.history(OPERATOR, id, limit=limit))


def _history_of(app: Application, view: KindView, given: str, limit: int) -> Page[Run]:
    """Return the history of a schedule, also of one that was deleted, by its id."""
    known = find_schedule(app.scheduler, OPERATOR, given, view.kind, deleted=True)
    schedule = known.value if isinstance(known, Ok) else found_here(app, view, given)
    return _history(app, schedule.definition.public_id, limit)


def _run_view(app: Application, run: Run) -> dict[str, Any]:
    zone = app.scheduler.zone
    following = moment_view(next_attempt(app.scheduler, run), zone)
    shown = [attempt_view(attempt, zone) for attempt in app.scheduler.earlier_attempts(run)]
    return run_document(run, zone) | {"attempts": shown, "next_attempt": following}
