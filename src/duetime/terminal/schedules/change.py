"""Adding and editing schedules of any kind, and the commands that run, pause, resume, cancel and delete them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from duetime.engine.errors import InvalidInput
from duetime.engine.model import Run, RunStatus, Schedule
from duetime.engine.result import Err, Result
from duetime.engine.scheduler import Scheduler
from duetime.engine.validation import Changes, NewSchedule
from duetime.service.errors import refuse, unwrap
from duetime.service.masking import masked_payload, refuse_other_places
from duetime.service.run_now import MOST_SECONDS, has_ended, wait_for_end
from duetime.service.services import OPERATOR
from duetime.service.state_details import detail_of
from duetime.service.warnings import ScheduleWarning
from duetime.service.when import When
from duetime.terminal import output
from duetime.terminal.context import Application, Db, Json, again, opened, print_done
from duetime.terminal.output import clean, coming, run_document, schedule_document
from duetime.terminal.schedules.kind_view import KindView, found, found_here, outcome_text
from duetime.terminal.schedules.options import TriggerOptions
from duetime.terminal.schedules.read import Id
from duetime.terminal.typer_ext import PlainCommand, option


def add_schedule(
    app: Application, new: NewSchedule, when: When, json_: bool, *, tasks: Sequence[str] | None = None
) -> None:
    """Create a schedule and print it. If its key was used before, print the existing schedule and say so."""
    made = unwrap(app.services.create(OPERATOR, new))
    warnings = [*made.warnings, *time_notes(app, when)]
    document = _document(app, made.schedule) | {"created": made.fresh}
    text = _text(app, "Added" if made.fresh else "Was there already:", document, made.schedule)
    print_done(app, json_, document, text, warnings, tasks=tasks)


def edit_schedule(
    app: Application,
    view: KindView,
    given: str,
    options: TriggerOptions,
    json_: bool,
    *,
    name: str | None,
    payload: Mapping[str, Any],
    policy: Mapping[str, Any],
    guarded: bool = False,
) -> None:
    """Edit a schedule and print it. The whole payload is written back, so the version must be the one that was read.

    If `guarded`, another recipient does not get the hidden values of the stored payload.
    """
    when = options.changed()
    if name is None and when is None and not policy and not payload:
        raise InvalidInput(f"nothing to change; give at least one option, see duetime {view.command} edit --help")
    found = found_here(app, view, given)
    definition = found.definition
    stored = json.loads(definition.payload)
    whole = {**stored, **payload} if payload else None
    kept = {field: value for field, value in stored.items() if field not in payload}
    if guarded and whole is not None and masked_payload(view.kind, kept) != kept:
        refuse_other_places(view.kind, whole, stored)
    type_, config = (None, None) if when is None else (when.type, when.config)
    changes = Changes(name, type_, config, whole, policy or None, options.tz, None, definition.version)
    edited = unwrap(app.services.edit(OPERATOR, found, changes))
    warnings = app.services.result_warnings(edited.definition) if "deliver_to" in policy else []
    warnings += [] if when is None else time_notes(app, when)
    document = _document(app, edited)
    print_done(app, json_, document, _text(app, "Changed", document, edited), warnings)


def _document(app: Application, schedule: Schedule) -> dict[str, Any]:
    document = schedule_document(schedule, app.scheduler.zone, detail_of(app.scheduler, schedule))
    return document | {"limits": app.services.limits(schedule)}


def time_notes(app: Application, when: When) -> list[ScheduleWarning]:
    """Return how an ambiguous time was understood."""
    return [ScheduleWarning("time", note) for note in when.notes(app.scheduler.zone, app.clock.now())]


def _text(app: Application, verb: str, view: Mapping[str, Any], schedule: Schedule) -> str:
    following = coming(schedule.progress.next, app.scheduler.zone, app.clock.now())
    return f"{verb} {view['id']}  {clean(view['name'])}: {clean(view['reads_as'])}\nnext   {following}"


Wait = Annotated[
    float, option("--wait SECONDS", f"Wait for its end, at most {MOST_SECONDS} seconds.", min=0, max=MOST_SECONDS)
]
Change = Callable[[Scheduler, Any, str, str], Result[Any]]


def add_change_commands(commands: typer.Typer, view: KindView) -> None:
    def run(id: Id, wait: Wait = 0, db: Db = None, json_: Json = False) -> None:
        with opened(db) as app:
            definition = found_here(app, view, id).definition
            made = _done(view, definition.public_id, app.scheduler.run_now(OPERATOR, definition.public_id, view.kind))
            warnings = app.services.worker_warnings(view.kind)
            seen = wait_for_end(app.scheduler, made, wait)
            document = {"id": definition.public_id, "run": run_document(seen, app.scheduler.zone)}
            text = f"Run {made.id} of {clean(definition.name)} {_outcome(seen)}"
            print_done(app, json_, document, text, [] if has_ended(seen) else warnings)

    def delete(id: Id, db: Db = None, json_: Json = False) -> None:
        with opened(db) as app:
            if _changed_elsewhere(app, view, "delete", id, "Deleted", json_):
                return
            definition = found(app, view, id).definition
            public_id = definition.public_id
            _done(view, public_id, app.scheduler.delete(OPERATOR, public_id, view.kind))
            if json_:
                output.print_json({"id": public_id, "deleted": True})
                return
            still = again(app, view.command, "history", public_id)
            print(f"Deleted {public_id}  {clean(definition.name)}. Its runs can still be read: {still}")

    noun = view.noun
    helped: dict[Callable[..., None], str] = {
        run: f"Run a {noun} now, beside its schedule.",
        _changing(view, Scheduler.pause, "Paused"): f"Let a {noun} rest until it is resumed.",
        _changing(view, Scheduler.resume, "Resumed"): f"Let a paused {noun} go on, from now.",
        _changing(view, Scheduler.cancel, "Cancelled"): (
            f"End a {noun}. Nothing further starts, and what runs is asked to stop."
        ),
        delete: f"Delete a {noun}; its history stays readable.",
    }
    for command, help_ in helped.items():
        commands.command(cls=PlainCommand, help=help_)(command)


def _outcome(run: Run) -> str:
    if has_ended(run):
        return f"{run.status}: {clean(outcome_text(run))}" if outcome_text(run) else f"{run.status}."
    return "is due now." if run.status == RunStatus.PENDING else f"is {run.status}."


def _changing(view: KindView, change: Change, verb: str) -> Callable[..., None]:
    """Return the command that makes a change of the scheduler, under the same name."""

    def command(id: Id, db: Db = None, json_: Json = False) -> None:
        with opened(db) as app:
            if _changed_elsewhere(app, view, change.__name__, id, verb, json_):
                return
            public_id = found(app, view, id).definition.public_id
            _done(view, public_id, change(app.scheduler, OPERATOR, public_id, view.kind))
            schedule = found(app, view, public_id)
            if json_:
                output.print_json(_document(app, schedule))
                return
            print(f"{verb} {public_id}  {clean(schedule.definition.name)}")
            if schedule.progress.state == "active":
                print(f"next   {coming(schedule.progress.next, app.scheduler.zone, app.clock.now())}")

    command.__name__ = change.__name__
    return command


def _changed_elsewhere(app: Application, view: KindView, action: str, id: str, verb: str, json_: bool) -> bool:
    """Change a schedule at the service that keeps this kind, and return whether it is there."""
    external = app.services.hooks(view.kind).external()
    if external is None:
        return False
    done = external.change(OPERATOR, action, id)
    if isinstance(done, Err) and done.code == "not_found":
        return False
    unwrap(done)
    if json_:
        output.print_json({"id": id, "kept_at": external.place, verb.lower(): True})
    else:
        print(f"{verb} {clean(id)}, at {external.place}")
    return True


def _done(view: KindView, id: str, result: Result[Any]) -> Any:
    if isinstance(result, Err):
        raise refuse(result.code, f"{view.noun} {id}: {result.message or 'it is gone'}")
    return result.value
