"""Reading jobs: list, show, history."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from duetime.api import LOCAL, Refused, taken
from duetime.cli import screen
from duetime.cli.frame import Db, Json, opened, program
from duetime.cli.job_tables import next_instants, print_jobs, print_runs, print_schedule
from duetime.cli.plain import PlainCommand
from duetime.cli.text import clean
from duetime.compose import App
from duetime.core.model import Run, Schedule
from duetime.core.result import Err
from duetime.core.store import ScheduleQuery
from duetime.faces.present import attempt_view, instant_view, run_view, schedule_view

Id = Annotated[str, typer.Argument(metavar="ID", help="As `job list` shows it.")]
_PAGE = 1000


def join(app: typer.Typer) -> None:
    app.command(name="list", cls=PlainCommand)(list_jobs)
    app.command(cls=PlainCommand)(show)
    app.command(cls=PlainCommand)(history)


def found(room: App, id: str) -> Schedule:
    schedule = room.scheduler.find(LOCAL, id, "job")
    if schedule is None:
        shown = id if len(id) <= 60 else id[:60] + "..."
        raise Refused(Err("not_found", f"there is no job {shown!r}; {program('job', 'list')} shows those there are"))
    return schedule


def list_jobs(
    status: Annotated[
        str | None,
        typer.Option(metavar="STATUS", help="pending, running, completed, failed, cancelled, paused or broken."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many, the newest first.")] = 50,
    everything: Annotated[bool, typer.Option("--all", help="Every one, whatever the limit.")] = False,
    cursor: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Go on where an earlier list with --json ended.")
    ] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """List jobs, the newest first."""
    with opened(db) as room:
        query = ScheduleQuery(
            kind="job", status=status, limit=_PAGE if everything else limit, cursor=cursor, newest_first=True
        )
        page = taken(room.scheduler.search(LOCAL, query))
        items, following = list(page.items), page.cursor
        while everything and following is not None:
            more = taken(room.scheduler.search(LOCAL, replace(query, cursor=following)))
            items, following = items + more.items, more.cursor
        if json_:
            views = [schedule_view(item, room.scheduler.zone) for item in items]
            screen.print_json({"jobs": views, "total": page.total, "next_cursor": following})
        elif items:
            print_jobs(items, room.scheduler.zone, room.clock.now())
            if len(items) < page.total:
                print(f"{len(items)} of {page.total:,}; --all shows every one")
        else:
            said = f"There are no jobs with the status {clean(status)}." if status else "There are no jobs yet."
            print(f"{said} Add one: {program('job', 'add', '--help')}")


def show(
    id: Id,
    runs: Annotated[int, typer.Option("--runs", min=0, max=1000, help="How many runs of its history.")] = 10,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Show one job. What it does and when, its policy, its next instants, its history."""
    with opened(db) as room:
        schedule, zone, now = found(room, id), room.scheduler.zone, room.clock.now()
        instants = next_instants(schedule, now, 5)
        past = taken(room.scheduler.history(LOCAL, id, limit=runs)).items if runs else []
        if json_:
            extra = {
                "next_instants": [instant_view(instant, zone) for instant in instants],
                "history": [_run_view(room, run) for run in past],
            }
            screen.print_json(schedule_view(schedule, zone) | extra)
            return
        print_schedule(schedule, instants, zone, now)
        if past:
            print()
            print_runs(room, past)


def history(
    id: Id,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 20,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Show what a job did. The latest run first, with every attempt; also of a job that was deleted."""
    with opened(db) as room:
        result = room.scheduler.history(LOCAL, id, limit=limit)
        if isinstance(result, Err) and result.code == "not_found":
            found(room, id)
        page = taken(result)
        if json_:
            screen.print_json({"runs": [_run_view(room, run) for run in page.items], "total": page.total})
        elif page.items:
            print_runs(room, page.items)
        else:
            print("It has not run yet.")


def _run_view(room: App, run: Run) -> dict[str, Any]:
    zone = room.scheduler.zone
    attempts = room.scheduler.attempts(LOCAL, run.id) if run.attempt > 1 or run.deaths else []
    return run_view(run, zone) | {"attempts": [attempt_view(attempt, zone) for attempt in attempts]}
