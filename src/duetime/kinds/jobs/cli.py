"""Commands of `duetime job`, which schedules registered tasks. `terminal.schedules` has what all kinds share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from duetime.engine.validation import NewSchedule
from duetime.terminal.context import Db, Json, Tasks, opened, pair_of, value_of, worker_warnings
from duetime.terminal.schedules.change import add_change_commands
from duetime.terminal.schedules.create import add_schedule, edit_schedule
from duetime.terminal.schedules.kind_view import JOB
from duetime.terminal.schedules.options import Key, Name, Rules, Telling, When
from duetime.terminal.schedules.read import Id, add_read_commands
from duetime.terminal.typer_ext import PlainCommand, bundled, group

Args = Annotated[
    list[str] | None, typer.Option("--arg", metavar="VALUE", help="An argument, as JSON or plain text. Repeatable.")
]
Kwargs = Annotated[
    list[str] | None, typer.Option("--kwarg", metavar="NAME=VALUE", help="A named argument. Repeatable.")
]
_TASK = "A registered task, or a pipeline: \"echo('a') | shorten\"."

app = group("Jobs: registered tasks, scheduled.")


@app.command(cls=PlainCommand)
@bundled
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What people call it.")],
    task: Annotated[str, typer.Option("--task", metavar="TASK", help=_TASK)],
    when: When,
    rules: Rules,
    telling: Telling,
    arg: Args = None,
    kwarg: Kwargs = None,
    key: Key = None,
    tasks: Tasks = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Schedule a task. It takes exactly one of --at, --delay, --every, --cron and --rrule."""
    payload = {"task": task, "args": _args(arg), "kwargs": _kwargs(kwarg)}
    policy = rules.policy() | telling.policy()
    new = NewSchedule("job", name, *when.trigger(), payload, policy, when.tz, key)
    with opened(db, tasks, load_tasks=True, making=True) as room:
        add_schedule(room, new, [*when.notes(room), *worker_warnings(room, db, tasks)], json_)


@app.command(cls=PlainCommand)
@bundled
def edit(
    id: Id,
    when: When,
    rules: Rules,
    telling: Telling,
    name: Name = None,
    task: Annotated[str | None, typer.Option("--task", metavar="TASK", help=_TASK)] = None,
    arg: Args = None,
    kwarg: Kwargs = None,
    tasks: Tasks = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Change a job. What is not given stays as it is; one that is running cannot be changed."""
    given: dict[str, Any] = {} if task is None else {"task": task}
    given |= {} if arg is None else {"args": _args(arg)}
    given |= {} if kwarg is None else {"kwargs": _kwargs(kwarg)}
    policy = rules.policy() | telling.policy()
    with opened(db, tasks, load_tasks=bool(given)) as room:
        edit_schedule(room, JOB, id, when, json_, name=name, payload=given, policy=policy)


def _args(given: Sequence[str] | None) -> list[Any]:
    return [value_of(text) for text in given or ()]


def _kwargs(given: Sequence[str] | None) -> dict[str, Any]:
    return dict(pair_of(text) for text in given or ())


add_read_commands(app, JOB)
add_change_commands(app, JOB)
