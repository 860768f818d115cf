"""`duetime dead`: messages that could not be delivered, until somebody sends them again or forgets them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from duetime.api import LOCAL, Refused, taken
from duetime.cli import screen
from duetime.cli.door import REFUSED
from duetime.cli.frame import Db, Json, again, opened, worker_warnings
from duetime.cli.plain import PlainCommand, group
from duetime.cli.schedule_tables import print_runs
from duetime.cli.text import counted, plural, relative
from duetime.compose import App
from duetime.core.clock import Instant
from duetime.core.errors import InvalidInput
from duetime.core.model import Run, Schedule
from duetime.core.result import Err, Result
from duetime.core.store import RunQuery
from duetime.core.times import format_local
from duetime.faces.masked import masked
from duetime.faces.present import attempt_view, run_view

KINDS = ("notification", "request")
PAGE = 500

Kind = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="notification or request; otherwise both.")]
Chosen = Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Numbers, as `dead list` shows them.")]
Everything = Annotated[bool, typer.Option("--all", help="Every one, or every one of --kind.")]

app = group("Dead letters: notifications and requests that failed for good, or were lost.")


@app.command("list", cls=PlainCommand)
def list_(
    kind: Kind = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many, the newest first.")] = 50,
    cursor: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Go on where an earlier list with --json ended.")
    ] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """List what was not delivered, the newest first."""
    with opened(db) as room:
        page = taken(room.scheduler.runs(LOCAL, replace(_query(kind), limit=limit, cursor=cursor)))
        letters = [(run, room.scheduler.schedule_of(LOCAL, run)) for run in page.items]
        zone, now = room.scheduler.zone, room.clock.now()
        how = again(room, "dead", "retry", str(letters[0][0].id) if letters else "--all")
    if json_:
        views = [_view(run, schedule, zone) for run, schedule in letters]
        screen.print_json({"dead": views, "total": page.total, "next_cursor": page.cursor})
    elif not letters:
        print("Everything was delivered, or is still being tried.")
    else:
        rows = [_row(run, schedule, now) for run, schedule in letters]
        screen.table(["RUN", "FAILED", "TRIES", "KIND", "TO", "WHAT", "ERROR"], rows, whole=3, fold=True)
        more = f"; {len(letters)} shown" if len(letters) < page.total else ""
        print(f"{counted(page)} in all{more}. Send again: {how}")


@app.command(cls=PlainCommand)
def show(
    run: Annotated[int, typer.Argument(metavar="RUN", help="A number, as `dead list` shows it.")],
    db: Db = None,
    json_: Json = False,
) -> None:
    """Show one: what it was, where it went, and how each attempt failed."""
    with opened(db) as room:
        letter = _found(room, run)
        schedule, zone = room.scheduler.schedule_of(LOCAL, letter), room.scheduler.zone
        if json_:
            attempts = [attempt_view(each, zone) for each in room.scheduler.attempts(LOCAL, letter.id)]
            screen.print_json(_view(letter, schedule, zone) | {"attempts": attempts})
            return
        payload = _payload(schedule)
        screen.facts([
            (letter.kind, f"{letter.name}  (run {letter.id})"),
            ("status", screen.status_text(letter.status)),
            ("owner", letter.owner),
            ("schedule", "deleted" if schedule is None else schedule.definition.public_id),
            ("due", format_local(letter.due, zone)),
            *((name, _shown(value)) for name, value in payload.items()),
        ])  # fmt: skip
        print()
        print_runs(room, [letter])


@app.command(cls=PlainCommand)
def retry(
    run: Chosen = None, everything: Everything = False, kind: Kind = None, db: Db = None, json_: Json = False
) -> None:
    """Send again, with the same id as before, so that a receiver can tell. Exit code 4 when one is refused."""
    with opened(db) as room:
        done, refused = _each(room, run, everything, kind, room.scheduler.retry)
        warnings = worker_warnings(room, db, kind=KINDS[0]) if done else []
    _tell("retried", "Sent again", "sent again", done, refused, warnings, json_)


@app.command(cls=PlainCommand)
def forget(
    run: Chosen = None, everything: Everything = False, kind: Kind = None, db: Db = None, json_: Json = False
) -> None:
    """Take off this list what nobody needs to deal with any more. It stays in the history."""
    with opened(db) as room:
        done, refused = _each(room, run, everything, kind, room.scheduler.dismiss)
    _tell("forgotten", "Forgotten", "forgotten", done, refused, [], json_)


# -- one or all -----------------------------------------------------------------------------------------------------


def _query(kind: str | None) -> RunQuery:
    if kind is not None and kind not in KINDS:
        raise InvalidInput(f"--kind: there is no {kind!r} here; there are {' and '.join(KINDS)}")
    return RunQuery(kinds=KINDS if kind is None else (kind,), status="dead")


def _found(room: App, id: int) -> Run:
    run = room.scheduler.run(LOCAL, id)
    if run is None or run.kind not in KINDS:
        how = again(room, "dead", "list")
        raise Refused(Err("not_found", f"there is no dead letter {id}; {how} shows those there are"))
    return run


def _each(
    room: App, given: list[str] | None, everything: bool, kind: str | None, change: Callable[[Any, int], Result[Run]]
) -> tuple[list[int], list[tuple[int, Err]]]:
    if bool(given) == everything:
        raise InvalidInput("give the numbers of runs, or --all")
    query = _query(kind)
    chosen = _every(room, query) if everything else [_found(room, _number(text)).id for text in given or ()]
    done, refused = [], []
    for id in chosen:
        result = change(LOCAL, id)
        if isinstance(result, Err):
            refused.append((id, result))
        else:
            done.append(id)
    return done, refused


def _every(room: App, query: RunQuery) -> Iterator[int]:
    """As they were at the beginning: what fails again meanwhile is not tried a second time."""
    found: list[int] = []
    query = replace(query, limit=PAGE, count_to=0)
    while True:
        page = taken(room.scheduler.runs(LOCAL, query))
        found += [run.id for run in page.items]
        if page.cursor is None:
            return iter(found)
        query = replace(query, cursor=page.cursor)


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise InvalidInput(f"RUN: {text[:40]!r} is not a number; `dead list` shows them")
    return int(text)


def _tell(
    key: str,
    verb: str,
    participle: str,
    done: list[int],
    refused: list[tuple[int, Err]],
    warnings: list[str],
    json_: bool,
) -> None:
    if json_:
        errors = [{"run_id": id, "code": err.code, "message": err.message} for id, err in refused]
        screen.print_json({key: done, "refused": errors, "warnings": warnings})
    else:
        print(f"{verb}: {plural(len(done), 'message')}." if done else f"Nothing was {participle}.")
        screen.warn([f"run {id} was not {participle}: {err.message}" for id, err in refused])
        screen.warn(warnings)
    if refused:
        raise typer.Exit(REFUSED)


# -- what is shown of one -------------------------------------------------------------------------------------------


def _payload(schedule: Schedule | None) -> dict[str, Any]:
    found = {} if schedule is None else masked(json.loads(schedule.definition.payload))
    return found if isinstance(found, dict) else {}


def _shown(value: object) -> object:
    return screen.block(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _row(run: Run, schedule: Schedule | None, now: Instant) -> list[object]:
    subject = "-" if schedule is None else schedule.definition.subject or "-"
    what = _payload(schedule).get("message", run.name)
    failed = relative(run.finished or run.due, now)
    return [run.id, failed, run.attempt or "-", run.kind, subject, what, run.error or run.status]


def _view(run: Run, schedule: Schedule | None, zone: str) -> dict[str, Any]:
    about = {"kind": run.kind, "owner": run.owner, "name": run.name}
    if schedule is None:
        return run_view(run, zone) | about | {"schedule": None, "to": None, "payload": None}
    definition = schedule.definition
    where = {"schedule": definition.public_id, "to": definition.subject, "payload": _payload(schedule)}
    return run_view(run, zone) | about | where
