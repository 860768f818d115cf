"""`duetime inbox`: notifications that were delivered to the built-in inbox."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from duetime.api import LOCAL, taken
from duetime.cli import screen
from duetime.cli.frame import Db, Json, opened
from duetime.cli.plain import PlainCommand
from duetime.cli.text import clean
from duetime.core.model import Run
from duetime.core.store import RunQuery
from duetime.core.times import format_local
from duetime.faces.present import instant_view

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=PlainCommand)
def inbox(
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only messages of this topic.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many, the newest first.")] = 20,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Show the notifications that arrived, the newest first."""
    with opened(db) as room:
        query = RunQuery(kind="notification", status="completed", subject=topic, limit=limit)
        runs = taken(room.scheduler.runs(LOCAL, query)).items
        zone = room.scheduler.zone
    messages = [_message(run, zone) for run in runs]
    if json_:
        screen.print_json({"messages": messages, "count": len(messages)})
        return
    if not messages:
        print("Nothing has arrived yet.")
    for run, message in zip(runs, messages, strict=True):
        moment = format_local(run.finished or run.due, zone)
        title = f"{clean(message['title'])}: " if message.get("title") else ""
        print(f"{moment}  [{clean(str(message['topic']))}]  {title}{clean(str(message['message']))}")


def _message(run: Run, zone: str) -> dict[str, Any]:
    kept = json.loads(run.result) if run.result else {}
    return {
        "arrived": instant_view(run.finished, zone),
        "topic": kept.get("topic", ""),
        "title": kept.get("title"),
        "message": kept.get("message", ""),
    }
