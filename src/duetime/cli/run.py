"""`duetime run`: single runs of every kind, whoever carries them out."""

from __future__ import annotations

from typing import Annotated

import typer

from duetime.api import LOCAL, taken
from duetime.cli import screen
from duetime.cli.frame import Cursor, Db, Json, Limit, again, opened
from duetime.cli.plain import PlainCommand, group
from duetime.cli.run_words import Kind, found_run, known_kind, print_run, whole_view
from duetime.cli.schedule_tables import said_of
from duetime.cli.text import clean, counted, local_time
from duetime.core.errors import InvalidInput
from duetime.core.model import LIVE, Run, RunStatus
from duetime.core.store import RunQuery

LIVING = "live"
STATUSES = (*(status.value for status in RunStatus), LIVING)
Number = Annotated[int, typer.Argument(metavar="RUN", min=1, help="A number, as `run list` shows it.")]

app = group("Single runs: list them, show one, or stop it. `dead` has those that failed.")


@app.command("list", cls=PlainCommand)
def list_(
    kind: Kind = None,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="STATUS", help="Such as running, waiting, failed; live: all that may change."),
    ] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """List runs of every kind, the newest first."""
    if status is not None and status not in STATUSES:
        raise InvalidInput(f"--status: there is no {status!r}; there are {', '.join(STATUSES)}")
    with opened(db) as room:
        query = RunQuery(kind=known_kind(kind), status=status, limit=limit, cursor=cursor)
        page, zone = taken(room.scheduler.runs(LOCAL, query)), room.scheduler.zone
        if json_:
            views = [whole_view(run, room.scheduler.schedule_of(LOCAL, run), zone) for run in page.items]
            screen.print_json({"runs": views, "total": page.total, "next_cursor": page.cursor})
        elif not page.items:
            print("There are none.")
        else:
            rows = [_row(run, zone) for run in page.items]
            headings = ["RUN", "STATUS", "DUE", "KIND", "NAME", "OUTCOME"]
            screen.table(headings, rows, whole=3, spare={"KIND": 20})
            if len(page.items) < page.total:
                print(f"{len(page.items)} of {counted(page)}; --limit shows more")


def _row(run: Run, zone: str) -> list[object]:
    return [run.id, screen.status_text(run.status), local_time(run.due, zone), run.kind, run.name, said_of(run)]


@app.command(cls=PlainCommand)
def show(run: Number, db: Db = None, json_: Json = False) -> None:
    """Show one: what it is about, what came of it, and every attempt."""
    with opened(db) as room:
        print_run(room, found_run(room, run, again(room, "run", "list")), json_)


@app.command(cls=PlainCommand)
def stop(run: Number, db: Db = None, json_: Json = False) -> None:
    """Stop one run, and nothing else of its schedule. One that has not begun is over at once; one that runs is asked to
    stop. Exit code 4 when it has ended already."""
    with opened(db) as room:
        found_run(room, run, again(room, "run", "list", "--status", LIVING))
        taken(room.scheduler.cancel_run(LOCAL, run))
        ended = found_run(room, run, again(room, "run", "list"))
        if json_:
            schedule = room.scheduler.schedule_of(LOCAL, ended)
            screen.print_json(whole_view(ended, schedule, room.scheduler.zone) | {"stopping": ended.status in LIVE})
        elif ended.status in LIVE:
            print(f"Run {ended.id} of {clean(ended.name)} was asked to stop.")
        else:
            print(f"Run {ended.id} of {clean(ended.name)} is {ended.status}.")
