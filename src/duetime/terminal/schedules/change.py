"""Adds, edits, runs, stops, pauses, resumes, cancels and deletes schedules of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from duetime.engine.errors import Refused
from duetime.service.errors import FAILED, NOT_FINISHED, refuse
from duetime.service.lookup import find, is_stored, name_of
from duetime.service.operations.change import ACTIONS, REQUESTS, ChangeRequest, change
from duetime.service.operations.schedules import detail_of
from duetime.service.operations.waiting import has_ended, wait_for_end, waited_for
from duetime.service.pauses import falls_into_pause, fires_at
from duetime.service.services import OPERATOR
from duetime.service.vocabulary import Run, RunStatus, ScheduleState, clock_local
from duetime.terminal import output
from duetime.terminal.context import Application, again, print_done
from duetime.terminal.declarations import Exit
from duetime.terminal.input import agreed, is_interactive
from duetime.terminal.output import clean, coming, in_words, run_document, schedule_document
from duetime.terminal.schedules.display import find_here, not_found, outcome_text
from duetime.terminal.schedules.kind_view import KindView, NamedSchedule

if TYPE_CHECKING:
    from duetime.service.operations.create import CreatedSchedule, CreateSchedule
    from duetime.service.operations.declaration import Answer
    from duetime.service.operations.edit import EditedSchedule, EditSchedule


def add_schedule(app: Application, request: CreateSchedule, json_: bool, *, tasks: Sequence[str] | None = None) -> None:
    """Create a schedule and print it. If its key was used before, print the existing schedule and say so."""
    from duetime.service.operations.create import create

    answer = create(app.call, request)
    fresh = answer.value.fresh
    print_schedule(app, "Added" if fresh else "Already exists:", answer, json_, tasks, created=fresh)


def edit_schedule(app: Application, request: EditSchedule, json_: bool) -> None:
    """Edit a schedule and print it."""
    from duetime.service.operations.edit import edit

    print_schedule(app, "Changed", edit(app.call, request), json_)


def print_schedule(
    app: Application,
    verb: str,
    answer: Answer[CreatedSchedule] | Answer[EditedSchedule],
    json_: bool,
    tasks: Sequence[str] | None = None,
    **facts: Any,
) -> None:
    """Print a schedule after it was created or edited, with all of the answer."""
    written, warnings, notes = answer
    schedule, zone, definition = written.schedule, app.call.zone, written.schedule.definition
    document = schedule_document(schedule, zone, detail_of(app.call, schedule)) | {"limits": written.limits} | facts
    document |= {"notes": notes} if notes else {}
    named = f"{definition.short_id}  {clean(name_of(definition))}"
    lines = [f"{verb} {named}: {clean(document['reads_as'])}"]
    lines += [f"next   {coming(fires_at(schedule), zone, app.clock.now())}", *(f"note   {note}" for note in notes)]
    print_done(app, json_, document, "\n".join(lines), warnings, tasks=tasks)


def run_schedule(target: NamedSchedule, wait: float, *, force: bool) -> None:
    from duetime.service.operations.run import RunNow, run_now

    app, view, id, json_ = target
    schedule = find_here(app, view, id)
    definition = schedule.definition
    with _named(target, definition.kind, definition.short_id):
        started = run_now(app.call, RunNow(schedule=schedule, force=force))
    seen = wait_for_end(app.call, started.value, wait)
    waited = waited_for(app.call, seen)
    document = {"id": definition.public_id, "run": run_document(seen, app.scheduler.zone), **waited}
    text = f"Run {seen.id} of {clean(name_of(definition))} {run_ending(seen, wait, waited['reason'])}"
    is_skipped = seen.status == RunStatus.SKIPPED
    skipped = ["Its condition only_if let nothing pass; --force runs it without a check."] if is_skipped else []
    print_started(app, started._replace(value=seen, notes=[*started.notes, *skipped]), document, text, json_)
    exit_after(seen, wait)


def print_started(app: Application, started: Answer[Run], document: dict[str, Any], text: str, json_: bool) -> None:
    """Print a run that was started, with the reasons why it might not begin unless it has ended already."""
    run, warnings, notes = started
    if notes:
        document["note"], text = " ".join(notes), "\n".join([text, *(f"note   {note}" for note in notes)])
    print_done(app, json_, document, text, [] if has_ended(run) else warnings)


def exit_after(run: Run, wait: float) -> None:
    """Leave with the exit code of a run that failed, or that has not ended although the command waited for it. One that
    was skipped, such as by its condition, is as it should be."""
    if has_ended(run) and run.status not in (RunStatus.COMPLETED, RunStatus.SKIPPED):
        raise Exit(FAILED)
    if wait and not has_ended(run):
        raise Exit(NOT_FINISHED)


def stop_schedule(target: NamedSchedule) -> None:
    """Stop the runs of a schedule that are in progress."""
    from duetime.service.operations.run import Stop, stop

    call, schedule = target.app.call, find_here(target.app, target.view, target.id)
    definition = schedule.definition
    with _named(target, definition.kind, definition.public_id):
        stopped = stop(call, Stop(schedule=schedule))
    runs = [run_document(run, call.zone) for run in stopped.value.runs]
    document = {"id": definition.public_id, "runs": runs, "notes": stopped.notes}
    owner = "" if definition.owner == OPERATOR.owner else f" Its owner is {definition.owner}."
    output.print_result(target.json_, document, clean(in_words(" ".join(stopped.notes), call.zone) + owner))


def run_ending(run: Run, wait: float, reason: str | None) -> str:
    """Return how a run ended, or what it is doing, as a phrase that follows its name. `reason` says why it has not
    ended."""
    if has_ended(run):
        text = clean(outcome_text(run, cause=False))  # the reader has started it
        state = "was skipped and did nothing" if run.status == RunStatus.SKIPPED else run.status
        return f"{state}: {text}" if text else f"{state}."
    if wait:
        return f"is not finished after {wait:g} s: {clean(reason or run.status)}."
    if run.status == RunStatus.QUEUED and reason is not None:
        return f"{reason.removeprefix('it ')}."
    return "is due now." if run.status == RunStatus.PENDING else f"is {run.status}."


_ALREADY = {"pause": "Already paused:", "resume": "Not paused:", "cancel": "Already cancelled:"}
"""How a change is reported that changed nothing."""


def change_one(target: NamedSchedule, action: str, *, yes: bool = True, **options: Any) -> None:
    """Pause, resume, cancel, delete or restore a schedule, and print what was done. Without `yes`, ask a person first.
    `options` are those of the request."""
    app, view, id, json_ = target
    if not yes and not json_ and is_interactive():
        name = _name_in_question(app, view, id)
        undo = "This cannot be undone." if options.get("forever") else "`duetime restore` brings it back for a day."
        if not agreed(f"{action.capitalize()} {clean(name)}? {undo}"):
            return
    request: ChangeRequest = REQUESTS[action](schedule=id, kind=view.kind, **options)
    with _named(target, view.noun, id):
        changed = change(app.call, request).value
    verb = ACTIONS[request.action].capitalize()
    definition, progress = changed.schedule
    short = definition.short_id
    verb = _ALREADY.get(request.action, verb) if changed.already else verb
    text = f"{verb} {short}  {clean(name_of(definition))}"
    ended = "".join(f"\nnote   {clean(each)}" for each in (changed.followers, changed.declared) if each)
    if request.action == "delete":
        back = "" if options.get("forever") else f"; bring it back within a day: {again(app, 'restore', short)}"
        still = f"Its runs can still be read: {again(app, 'history', short)}{back}"
        text = (f"{text}. {still}" if is_stored(definition) else text) + ended
        output.print_result(json_, {"id": changed.id, "deleted": True, **changed.facts()}, text)
        return
    text += ended
    zone, now = app.scheduler.zone, app.clock.now()
    document = schedule_document(changed.schedule, zone)
    document |= {name: value for name, value in changed.facts().items() if name != "falls_into_pause"}
    if progress.state == ScheduleState.ACTIVE:
        text += f"\nnext   {coming(progress.next, zone, now)}"
    elif request.action == "pause":
        ends = definition.resume_at
        text += f"\nuntil  {'you resume it' if ends is None else coming(ends, zone, now)}"
        document |= {"falls_into_pause": changed.falls_into_pause}
        text += f"\nnote   {falls_into_pause(changed.schedule, ends, zone, clock_local)}"
    elif request.action == "resume" and progress.note is not None:
        text += f"\nnote   {clean(progress.note)}"
    output.print_result(json_, document, text)


def _name_in_question(app: Application, view: KindView, reference: str) -> str:
    """Return the short id and the name of a schedule, or what was given for one that is kept elsewhere."""
    try:
        definition = find(app.call, reference, view.kind).definition
    except Refused:
        return reference
    return f"{definition.short_id}  {name_of(definition)}"


@contextmanager
def _named(target: NamedSchedule, noun: str, id: str) -> Iterator[None]:
    """Begin the message of a refusal with the schedule that it is about, and end it with how to bring that back."""
    try:
        yield
    except Refused as error:
        if error.code in ("not_found", "ambiguous"):
            raise not_found(target.app, target.view, target.id, error) from None
        is_cancelled = error.details.get("state") == ScheduleState.CANCELLED
        back = f"; bring it back: {again(target.app, 'restore', id)}" if is_cancelled else ""
        raise refuse(error.code, f"{noun} {id}: {error.message}{back}") from None
