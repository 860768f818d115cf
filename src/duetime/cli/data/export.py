"""`duetime export`: schedules as lines of JSON that `duetime import jsonl` reads back, or as a calendar."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from duetime.cli.data import jsonl
from duetime.cli.runs.run import Kind, known_kind
from duetime.engine.errors import InvalidInput
from duetime.engine.model import Schedule
from duetime.engine.store import EVERY_ONE, ScheduleQuery
from duetime.security.private_files import replace_private
from duetime.service.errors import unwrap
from duetime.service.services import OPERATOR
from duetime.terminal.application import Application
from duetime.terminal.context import Db, Json, opened
from duetime.terminal.output import bar, clean, escaped, note, plural, progress, warn
from duetime.terminal.schedules.kind_view import PAGE
from duetime.terminal.typer_ext import PlainCommand, single

commands = single()


@commands.command(cls=PlainCommand)
def export(
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write to a file that only you can read.")
    ] = None,
    kind: Kind = None,
    ical: Annotated[bool, typer.Option("--ical", help="A calendar (.ics) instead.")] = False,
    days: Annotated[
        int, typer.Option("--days", min=1, max=3660, help="With --ical: how far what follows no rule is written out.")
    ] = 30,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Write all schedules that may still fire, one JSON document on each line, or as a calendar.

    Lines hold everything, secrets in payloads too. With --json it is one document.
    """
    known_kind(kind)
    if ical and json_:
        raise InvalidInput("--ical: and --json exclude each other; leave one of them out")
    with opened(db) as app:
        schedules = _living(app, kind)
        shown = progress(schedules, "writing")
        text = _calendar(app, shown, days) if ical else _lines(shown, json_)
        notes = app.services.list_notes(kind)
    if output is None:
        sys.stdout.write(text)
    else:
        _write(Path(output), text)
        note(f"Wrote {plural(len(schedules), 'schedule')} to {clean(output)}.")
    warn(notes)


def _living(app: Application, kind: str | None) -> list[Schedule]:
    query = ScheduleQuery(kind=kind, status="living", limit=PAGE, count_to=EVERY_ONE)
    page = unwrap(app.scheduler.search(OPERATOR, query))
    found, total = list(page.items), page.total
    with bar("reading") as told:
        while page.cursor is not None:
            page = unwrap(app.scheduler.search(OPERATOR, replace(query, cursor=page.cursor, count_to=0)))
            found += page.items
            told(len(found) / total)
    return found


def _lines(schedules: Iterable[Schedule], json_: bool) -> str:
    lines = map(jsonl.line_of, schedules)
    if not json_:
        return "".join(f"{escaped(line)}\n" for line in lines)
    document = {"schedules": [json.loads(line) for line in lines]}
    return f"{escaped(json.dumps(document, ensure_ascii=False, indent=2))}\n"


def _calendar(app: Application, schedules: Iterable[Schedule], days: int) -> str:
    from duetime.service.calendar import calendar_of

    return calendar_of(schedules, app.clock.now(), days=days).decode()


def _write(path: Path, text: str) -> None:
    """Write the file atomically, so that a full disk does not destroy the old one."""
    try:
        replace_private(path, text)
    except OSError as error:
        raise InvalidInput(f"--output: {path} cannot be written ({error.strerror})") from error
