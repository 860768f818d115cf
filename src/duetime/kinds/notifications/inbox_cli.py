"""`duetime inbox`: show notifications that arrived, in the built-in inbox or elsewhere."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from duetime.engine.store import RunQuery
from duetime.engine.times import format_local
from duetime.service.errors import unwrap
from duetime.service.presenters import message_shape
from duetime.service.services import OPERATOR
from duetime.settings.sections import INBOX
from duetime.terminal import output
from duetime.terminal.context import Db, Json, opened
from duetime.terminal.output import clean
from duetime.terminal.typer_ext import PlainCommand, single

commands = single()


@commands.command(cls=PlainCommand)
def inbox(
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only messages of this topic.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many, the newest first.")] = 20,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Show the notifications that arrived, and where, the newest first."""
    with opened(db) as app:
        query = RunQuery(kind="notification", status="completed", subject=topic, limit=limit)
        runs = unwrap(app.scheduler.runs(OPERATOR, query)).items
        zone = app.scheduler.zone
    messages = [message_shape(run, zone) for run in runs]
    if json_:
        output.print_json({"messages": messages, "count": len(messages)})
        return
    if not messages:
        print("Nothing has arrived yet.")
    for run, message in zip(runs, messages, strict=True):
        print(f"{format_local(run.finished or run.due, zone)}  {_line(message)}")


def _line(message: dict[str, Any]) -> str:
    where = message["topic"] if message["channel"] == INBOX else f"{message['topic']} via {message['channel']}"
    title = f"{clean(str(message['title']))}: " if message["title"] else ""
    return f"[{clean(str(where))}]  {title}{clean(str(message['message']))}"
