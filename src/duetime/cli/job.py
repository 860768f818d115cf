"""`duetime job`: the room of jobs. This file adds and edits; its neighbours read and change."""

from __future__ import annotations

from typing import Annotated

import typer

from duetime.api import LOCAL, Refused, taken
from duetime.cli import job_changing, job_options, job_reading, screen
from duetime.cli.frame import Db, Json, Tasks, Zone, opened, worker_warnings
from duetime.cli.job_options import (
    Args,
    At,
    AtMostOnce,
    Backoff,
    CatchUp,
    Cron,
    Every,
    Kwargs,
    MaxAttempts,
    MaxRuns,
    Overlap,
    RRule,
    Timeout,
)
from duetime.cli.job_reading import found
from duetime.cli.plain import PlainCommand, PlainGroup
from duetime.cli.text import clean, coming
from duetime.compose import App
from duetime.core.drafting import Changes, NewSchedule
from duetime.core.errors import DuetimeError, InvalidInput
from duetime.core.model import Schedule
from duetime.core.result import Err, Result
from duetime.core.times import read_time
from duetime.core.zones import known_zone
from duetime.faces.present import schedule_view

app = typer.Typer(
    cls=PlainGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Jobs: registered tasks, scheduled.",
)


@app.command(cls=PlainCommand)
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What people call it.")],
    task: Annotated[
        str, typer.Option("--task", metavar="TASK", help="A registered task, or a pipeline: \"echo('a') | shorten\".")
    ],
    at: At = None,
    every: Every = None,
    cron: Cron = None,
    rrule: RRule = None,
    arg: Args = None,
    kwarg: Kwargs = None,
    tz: Zone = None,
    max_runs: MaxRuns = None,
    max_attempts: MaxAttempts = None,
    timeout: Timeout = None,
    backoff: Backoff = None,
    catch_up: CatchUp = None,
    overlap: Overlap = None,
    at_most_once: AtMostOnce = False,
    key: Annotated[
        str | None, typer.Option("--key", metavar="TEXT", help="Adding twice with one key adds once.")
    ] = None,
    tasks: Tasks = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Schedule a task. It takes exactly one of --at, --every, --cron and --rrule."""
    type_, config = job_options.trigger(at, every, cron, rrule)
    policy = job_options.policy(max_runs, max_attempts, timeout, backoff, catch_up, overlap, at_most_once)
    payload = {"task": task, "args": job_options.args_of(arg), "kwargs": job_options.kwargs_of(kwarg)}
    new = NewSchedule("job", name, type_, config, payload, policy, tz, key)
    with opened(db, tasks, load_tasks=True, making=True) as room:
        notes = _notes(room, at, tz)
        made = _taken(room, room.scheduler.create(LOCAL, new))
        _show(room, "Added", made, notes + worker_warnings(room, db, tasks), json_)


@app.command(cls=PlainCommand)
def edit(
    id: Annotated[str, typer.Argument(metavar="ID")],
    name: Annotated[str | None, typer.Option("--name")] = None,
    task: Annotated[str | None, typer.Option("--task")] = None,
    at: At = None,
    every: Every = None,
    cron: Cron = None,
    rrule: RRule = None,
    arg: Args = None,
    kwarg: Kwargs = None,
    tz: Zone = None,
    max_runs: MaxRuns = None,
    max_attempts: MaxAttempts = None,
    timeout: Timeout = None,
    backoff: Backoff = None,
    catch_up: CatchUp = None,
    overlap: Overlap = None,
    tasks: Tasks = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Change a job. What is not given stays as it is; one that is running cannot be changed."""
    type_, config = None, None
    if any(option is not None for option in (at, every, cron, rrule)):
        type_, config = job_options.trigger(at, every, cron, rrule)
    elif tz is not None:
        raise InvalidInput("--tz: give it with a new --at, --every, --cron or --rrule")
    policy = job_options.policy(max_runs, max_attempts, timeout, backoff, catch_up, overlap, False)
    reworked = task is not None or arg is not None or kwarg is not None
    if name is None and type_ is None and not policy and not reworked:
        raise InvalidInput("nothing to change; give at least one option, see duetime job edit --help")
    with opened(db, tasks, load_tasks=reworked) as room:
        schedule = found(room, id)
        payload = job_options.reworked(schedule, task, arg, kwarg) if reworked else None
        changes = Changes(name, type_, config, payload, policy or None, tz, None, schedule.definition.version)
        edited = _taken(room, room.scheduler.edit(LOCAL, id, changes, "job"))
        _show(room, "Changed", edited, _notes(room, at, tz), json_)


job_reading.join(app)
job_changing.join(app)


def _notes(room: App, at: str | None, tz: str | None) -> list[str]:
    """How a time was understood, where it could have been meant otherwise. Whether it can be used is asked later."""
    if at is None:
        return []
    try:
        zone = known_zone(tz or room.scheduler.zone).key
        note = read_time(at, zone=zone, now=room.clock.now()).note
    except DuetimeError:
        return []
    return [note] if note else []


def _taken(room: App, result: Result[Schedule]) -> Schedule:
    if isinstance(result, Err) and result.code == "unknown_task":
        known = ", ".join(task.name for task in room.registry)
        hint = f"known here: {known}; name the module of others with --tasks"
        raise Refused(Err(result.code, f"{result.message}; {hint}", result.details))
    return taken(result)


def _show(room: App, verb: str, schedule: Schedule, warnings: list[str], json_: bool) -> None:
    view = schedule_view(schedule, room.scheduler.zone)
    if json_:
        screen.print_json(view | {"warnings": warnings})
        return
    following = coming(schedule.progress.next, room.scheduler.zone, room.clock.now())
    print(f"{verb} {view['id']}  {clean(view['name'])}: {clean(view['reads_as'])}")
    print(f"next   {following}")
    screen.warn(warnings)
