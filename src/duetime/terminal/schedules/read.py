"""Commands that read schedules of one kind: list, show, history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duetime.engine.model import Run
from duetime.engine.result import Err, Ok
from duetime.engine.store import Page, ScheduleQuery
from duetime.kinds.notifications import cli_remote
from duetime.service.calls import LOCAL, Refused, taken
from duetime.service.presenters import attempt_view, instant_view, next_instants
from duetime.terminal import output
from duetime.terminal.context import Cursor, Db, Json, Limit, opened, program
from duetime.terminal.output import clean, counted, run_document, schedule_document
from duetime.terminal.schedules.kind_view import Words
from duetime.terminal.schedules.lookup import PAGE, found_here
from duetime.terminal.schedules.tables import print_runs, print_schedule, print_schedules
from duetime.terminal.typer_ext import PlainCommand

if TYPE_CHECKING:
    from duetime.app import App

Id = Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it, or a name that only one has.")]
Status = Annotated[
    str | None,
    typer.Option("--status", metavar="STATUS", help="pending, running, completed, failed, cancelled, paused, broken."),
]
Everything = Annotated[bool, typer.Option("--all", help="Every one, whatever the limit.")]
Runs = Annotated[int, typer.Option("--runs", min=0, max=1000, help="How many runs of its history.")]
HistoryLimit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most this many runs.")]


def add_read_commands(app: typer.Typer, words: Words) -> None:
    def list_(
        status: Status = None,
        limit: Limit = 50,
        everything: Everything = False,
        cursor: Cursor = None,
        db: Db = None,
        json_: Json = False,
    ) -> None:
        with opened(db) as room:
            size = PAGE if everything else limit
            query = ScheduleQuery(kind=words.kind, status=status, limit=size, cursor=cursor, newest_first=True)
            page = taken(room.scheduler.search(LOCAL, query))
            items, following = list(page.items), page.cursor
            while everything and following is not None:
                more = taken(room.scheduler.search(LOCAL, replace(query, cursor=following)))
                items, following = items + more.items, more.cursor
            _print_list(room, words, page._replace(items=items, cursor=following), status, json_)

    def show(id: Id, runs: Runs = 10, db: Db = None, json_: Json = False) -> None:
        with opened(db) as room:
            schedule, zone, now = found_here(room, words, id), room.scheduler.zone, room.clock.now()
            instants = next_instants(schedule, now, 5)
            past = _history(room, schedule.definition.public_id, runs).items if runs else []
            if json_:
                extra = {
                    "next_instants": [instant_view(instant, zone) for instant in instants],
                    "history": [_run_view(room, run) for run in past],
                }
                output.print_json(schedule_document(schedule, zone) | extra)
                return
            print_schedule(words, schedule, instants, zone, now)
            if past:
                print()
                print_runs(room, past)

    def history(id: Id, limit: HistoryLimit = 20, db: Db = None, json_: Json = False) -> None:
        with opened(db) as room:
            page = _history_of(room, words, id, limit)
            if json_:
                output.print_json({"runs": [_run_view(room, run) for run in page.items], "total": page.total})
            elif page.items:
                print_runs(room, page.items)
            else:
                print("It has not run yet.")

    noun, plural = words.noun, words.plural
    helped: dict[Callable[..., None], str] = {
        list_: f"List {plural}, the newest first.",
        show: f"Show one {noun}. What it does and when, its policy, its next instants, its history.",
        history: f"Show what a {noun} did. The latest run first, with every attempt; also of one that was deleted.",
    }
    for command, help_ in helped.items():
        app.command(name=command.__name__.rstrip("_"), cls=PlainCommand, help=help_)(command)


def _print_list(room: App, words: Words, page: Page[Any], status: str | None, json_: bool) -> None:
    zone = room.scheduler.zone
    service = cli_remote.service_of(room, words)
    if json_:
        views = [schedule_document(item, zone) for item in page.items]
        elsewhere = {} if service is None else {"kept_elsewhere": cli_remote.views(room, service)}
        output.print_json({words.plural: views, "total": page.total, "next_cursor": page.cursor, **elsewhere})
        return
    shown_elsewhere = service is not None and cli_remote.print_list(room, service)
    if page.items:
        print_schedules(words, page.items, zone, room.clock.now())
        if len(page.items) < page.total:
            print(f"{len(page.items)} of {counted(page)}; --all shows every one")
    elif not shown_elsewhere:
        said = f"There are no {words.plural} with the status {clean(status)}." if status else None
        print(f"{said or f'There are no {words.plural} yet.'} Add one: {program(words.room, 'add', '--help')}")


def _history(room: App, id: str, limit: int) -> Page[Run]:
    return taken(room.scheduler.history(LOCAL, id, limit=limit))


def _history_of(room: App, words: Words, given: str, limit: int) -> Page[Run]:
    """Look the history up by id first, because a deleted schedule is no longer found; a name finds only existing ones.

    Without runs of this kind, the schedule is looked up: an empty history does not show the kind.
    """
    known = room.scheduler.history(LOCAL, given, limit=limit)
    if isinstance(known, Err) and known.code != "not_found":
        raise Refused(known)
    if isinstance(known, Ok) and any(run.kind == words.kind for run in known.value.items):
        return known.value
    return _history(room, found_here(room, words, given).definition.public_id, limit)


def _run_view(room: App, run: Run) -> dict[str, Any]:
    zone = room.scheduler.zone
    attempts = room.scheduler.attempts(LOCAL, run.id) if run.attempt > 1 or run.deaths else []
    return run_document(run, zone) | {"attempts": [attempt_view(attempt, zone) for attempt in attempts]}
