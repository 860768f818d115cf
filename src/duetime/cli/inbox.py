"""`duetime inbox`: notifications that arrived, in the built-in inbox or wherever else they went."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from duetime.api import LOCAL, taken
from duetime.cli import screen
from duetime.cli.frame import Db, Json, opened
from duetime.cli.plain import PlainCommand, single
from duetime.cli.text import clean
from duetime.core.delivering import INBOX
from duetime.core.store import RunQuery
from duetime.core.times import format_local
from duetime.faces.views import message_shape

app = single()


@app.command(cls=PlainCommand)
def inbox(
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only messages of this topic.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many, the newest first.")] = 20,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Show the notifications that arrived, and where, the newest first."""
    with opened(db) as room:
        query = RunQuery(kind="notification", status="completed", subject=topic, limit=limit)
        runs = taken(room.scheduler.runs(LOCAL, query)).items
        zone = room.scheduler.zone
    messages = [message_shape(run, zone) for run in runs]
    if json_:
        screen.print_json({"messages": messages, "count": len(messages)})
        return
    if not messages:
        print("Nothing has arrived yet.")
    for run, message in zip(runs, messages, strict=True):
        print(f"{format_local(run.finished or run.due, zone)}  {_line(message)}")


def _line(message: dict[str, Any]) -> str:
    where = message["topic"] if message["channel"] == INBOX else f"{message['topic']} via {message['channel']}"
    title = f"{clean(str(message['title']))}: " if message["title"] else ""
    return f"[{clean(str(where))}]  {title}{clean(str(message['message']))}"
