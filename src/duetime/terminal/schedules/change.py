"""Commands that change schedules of one kind: run now, pause, resume, cancel, delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from duetime.engine.result import Err, Result
from duetime.engine.scheduler import Scheduler
from duetime.engine.store_interfaces import RemoteKind
from duetime.kinds.notifications import cli_remote
from duetime.kinds.notifications.remote import PLACE
from duetime.service.calls import LOCAL, Refused
from duetime.terminal import output
from duetime.terminal.context import Db, Json, again, opened, worker_warnings
from duetime.terminal.output import clean, coming, run_document, schedule_document
from duetime.terminal.schedules.kind_view import Words
from duetime.terminal.schedules.lookup import found, found_here, kept_elsewhere
from duetime.terminal.schedules.read import Id
from duetime.terminal.typer_ext import PlainCommand

if TYPE_CHECKING:
    from duetime.app import App

Change = Callable[[Scheduler, Any, str, str], Result[Any]]


def add_change_commands(app: typer.Typer, words: Words) -> None:
    def run(id: Id, db: Db = None, json_: Json = False) -> None:
        with opened(db) as room:
            definition = found_here(room, words, id).definition
            made = _done(words, definition.public_id, room.scheduler.run_now(LOCAL, definition.public_id, words.kind))
            warnings = worker_warnings(room, db, kind=words.kind)
            if json_:
                view = run_document(made, room.scheduler.zone)
                output.print_json({"id": definition.public_id, "run": view, "warnings": warnings})
                return
            print(f"Run {made.id} of {clean(definition.name)} is due now.")
            output.warn(warnings)

    def pause(id: Id, db: Db = None, json_: Json = False) -> None:
        _change(words, Scheduler.pause, "Paused", id, db, json_)

    def resume(id: Id, db: Db = None, json_: Json = False) -> None:
        _change(words, Scheduler.resume, "Resumed", id, db, json_)

    def cancel(id: Id, db: Db = None, json_: Json = False) -> None:
        _change(words, Scheduler.cancel, "Cancelled", id, db, json_)

    def delete(id: Id, db: Db = None, json_: Json = False) -> None:
        with opened(db) as room:
            if _changed_elsewhere(room, words, "delete", id, "Deleted", json_):
                return
            definition = found(room, words, id).definition
            public_id = definition.public_id
            _done(words, public_id, room.scheduler.delete(LOCAL, public_id, words.kind))
            if json_:
                output.print_json({"id": public_id, "deleted": True})
                return
            still = again(room, words.room, "history", public_id)
            print(f"Deleted {public_id}  {clean(definition.name)}. Its runs can still be read: {still}")

    noun = words.noun
    helped: dict[Callable[..., None], str] = {
        run: f"Run a {noun} now, beside its schedule.",
        pause: f"Let a {noun} rest until it is resumed.",
        resume: f"Let a paused {noun} go on, from now.",
        cancel: f"End a {noun}. Nothing further starts, and what runs is asked to stop.",
        delete: f"Delete a {noun}; its history stays readable.",
    }
    for command, help_ in helped.items():
        app.command(cls=PlainCommand, help=help_)(command)


def _change(words: Words, change: Change, verb: str, id: str, db: str | None, json_: bool) -> None:
    with opened(db) as room:
        if _changed_elsewhere(room, words, change.__name__, id, verb, json_):
            return
        public_id = found(room, words, id).definition.public_id
        _done(words, public_id, change(room.scheduler, LOCAL, public_id, words.kind))
        _say(room, words, public_id, verb, json_)


def _changed_elsewhere(room: App, words: Words, change: str, id: str, verb: str, json_: bool) -> bool:
    service, remote = cli_remote.service_of(room, words), kept_elsewhere(room, words, id)
    if remote is not None and remote.kind == RemoteKind.MESSAGE and change in ("pause", "resume"):
        reason = f"{id} goes out once, at {PLACE}, so it cannot be {verb.lower()}; delete it, and add another for later"
        raise Refused(Err("not_possible", reason))
    if service is None or not cli_remote.change(service, change, id):
        return False
    if json_:
        output.print_json({"id": id, "kept_at": PLACE, verb.lower(): True})
    else:
        print(f"{verb} {clean(id)}, at {PLACE}")
    return True


def _done(words: Words, id: str, result: Result[Any]) -> Any:
    if isinstance(result, Err):
        raise Refused(Err(result.code, f"{words.noun} {id}: {result.message or 'it is gone'}", result.details))
    return result.value


def _say(room: App, words: Words, id: str, verb: str, json_: bool) -> None:
    schedule = found(room, words, id)
    if json_:
        output.print_json(schedule_document(schedule, room.scheduler.zone))
        return
    print(f"{verb} {id}  {clean(schedule.definition.name)}")
    if schedule.progress.state == "active":
        print(f"next   {coming(schedule.progress.next, room.scheduler.zone, room.clock.now())}")
