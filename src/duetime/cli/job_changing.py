"""Changing jobs: run now, pause, resume, cancel, delete."""

from __future__ import annotations

from typing import Any

import typer

from duetime.api import LOCAL, Refused
from duetime.cli import screen
from duetime.cli.frame import Db, Json, opened, worker_warnings
from duetime.cli.job_reading import Id, found
from duetime.cli.plain import PlainCommand
from duetime.cli.text import clean, coming
from duetime.compose import App
from duetime.core.result import Err, Result
from duetime.faces.present import run_view, schedule_view


def join(app: typer.Typer) -> None:
    for command in (run, pause, resume, cancel, delete):
        app.command(cls=PlainCommand)(command)


def run(id: Id, db: Db = None, json_: Json = False) -> None:
    """Run a job now, beside its schedule."""
    with opened(db) as room:
        name = found(room, id).definition.name
        made = _done(id, room.scheduler.run_now(LOCAL, id, "job"))
        warnings = worker_warnings(room, db)
        if json_:
            screen.print_json({"id": id, "run": run_view(made, room.scheduler.zone), "warnings": warnings})
            return
        print(f"Run {made.id} of {clean(name)} is due now.")
        screen.warn(warnings)


def pause(id: Id, db: Db = None, json_: Json = False) -> None:
    """Let a job rest until it is resumed."""
    with opened(db) as room:
        found(room, id)
        _done(id, room.scheduler.pause(LOCAL, id, "job"))
        _say(room, id, "Paused", json_)


def resume(id: Id, db: Db = None, json_: Json = False) -> None:
    """Let a paused job go on, from now."""
    with opened(db) as room:
        found(room, id)
        _done(id, room.scheduler.resume(LOCAL, id, "job"))
        _say(room, id, "Resumed", json_)


def cancel(id: Id, db: Db = None, json_: Json = False) -> None:
    """End a job. Nothing further starts, and what runs is asked to stop."""
    with opened(db) as room:
        found(room, id)
        _done(id, room.scheduler.cancel(LOCAL, id, "job"))
        _say(room, id, "Cancelled", json_)


def delete(id: Id, db: Db = None, json_: Json = False) -> None:
    """Delete a job; its history stays readable."""
    with opened(db) as room:
        name = found(room, id).definition.name
        _done(id, room.scheduler.delete(LOCAL, id, "job"))
        if json_:
            screen.print_json({"id": id, "deleted": True})
        else:
            print(f"Deleted {id}  {clean(name)}. `job history {id}` still shows its runs.")


def _done(id: str, result: Result[Any]) -> Any:
    if isinstance(result, Err):
        raise Refused(Err(result.code, f"job {id}: {result.message or 'it is gone'}", result.details))
    return result.value


def _say(room: App, id: str, verb: str, json_: bool) -> None:
    schedule = found(room, id)
    if json_:
        screen.print_json(schedule_view(schedule, room.scheduler.zone))
        return
    print(f"{verb} {id}  {clean(schedule.definition.name)}")
    if schedule.progress.state == "active":
        print(f"next   {coming(schedule.progress.next, room.scheduler.zone, room.clock.now())}")
