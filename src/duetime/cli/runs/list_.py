"""`duetime list`: schedules of all kinds, next due first."""

from __future__ import annotations

from typing import Annotated, Any

from duetime.cli.runs.run import Kind, known_kind
from duetime.engine.store import ScheduleQuery
from duetime.service.services import OPERATOR, pages_of
from duetime.service.state_details import details_of
from duetime.terminal import output
from duetime.terminal.completion import TOPICS
from duetime.terminal.context import Cursor, Db, Json, opened, program
from duetime.terminal.output import counted, schedule_document
from duetime.terminal.schedules.commands import Status
from duetime.terminal.schedules.display import print_schedules
from duetime.terminal.schedules.kind_view import ANY_KIND, MEANT, PAGE
from duetime.terminal.typer_ext import PlainCommand, option, single

LIVING = "living"

commands = single()


@commands.command(
    cls=PlainCommand,
    name="list",
    epilog="duetime list\nduetime list --kind job --status failed\nduetime list --search report --all",
)
def list_(
    kind: Kind = None,
    status: Status = None,
    text: Annotated[str | None, option("--search TEXT", "Only those whose name contains this text.")] = None,
    subject: Annotated[str | None, option("--topic TEXT", "Only with this topic, task or agent.", **TOPICS)] = None,
    everything: Annotated[bool, option("--all", "Also those that have ended, without a limit.")] = False,
    limit: Annotated[int, option("--limit", "Maximum number to show.", min=1, max=1000)] = 50,
    cursor: Cursor = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """List schedules of all kinds, next due first. Those that have ended are left out unless --all or --status asks for
    them."""
    with opened(db) as app:
        query = ScheduleQuery(
            kind=known_kind(kind),
            status=MEANT.get(status or "", status) or (None if everything else LIVING),
            text=text,
            subject=subject,
            by_time=True,
            limit=PAGE if everything else limit,
            cursor=cursor,
        )
        pages = pages_of(app.scheduler.search, OPERATOR, query)
        read = list(pages) if everything else [next(pages)]
        items, zone = [item for page in read for item in page.items], app.scheduler.zone
        notes = app.services.list_notes(kind)
        if json_:
            details = details_of(app.scheduler, items)
            views: list[dict[str, Any]] = [
                schedule_document(item, zone, details.get(item.definition.id)) for item in items
            ]
            output.print_json({"schedules": views, "total": read[0].total, "next_cursor": read[-1].cursor})
            return
        if items:
            print_schedules(ANY_KIND, items, zone, app.clock.now(), details_of(app.scheduler, items))
        else:
            none = "No schedules match." if kind or status or text or subject else "There are no schedules yet."
            output.say(f"{none} Add one: {program('notify', 'add', '--help')}")
        if len(items) < read[0].total:
            output.say(f"{len(items)} of {counted(read[0])}; --all shows all, --limit more.")
        for note in notes:
            output.say(note)
