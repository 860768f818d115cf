"""Commands of `duetime job`, which schedules registered tasks. `terminal.schedules` has what all kinds share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from duetime.engine.errors import Refused
from duetime.service.errors import refuse
from duetime.terminal.completion import Found, from_store
from duetime.terminal.context import Application, Db, Json, Tasks, opened, pair_of, value_of
from duetime.terminal.errors import name_fields
from duetime.terminal.schedules.commands import Id, kind_commands
from duetime.terminal.schedules.kind_view import Facts, KindView, Payload, filled
from duetime.terminal.schedules.options import EditCommandOptions, Key, Name, PolicyCommandOptions, TriggerOptions
from duetime.terminal.typer_ext import PlainCommand, ReadCommand, argument, bundled, first_sentence, under

if TYPE_CHECKING:
    from duetime.kinds.jobs.registry import Registry
    from duetime.service.vocabulary import Definition

_what = under("What it runs")
Args = Annotated[list[str] | None, _what("--arg VALUE", "Argument of the task, as JSON or plain text. Repeatable.")]
Kwargs = Annotated[list[str] | None, _what("--kwarg NAME=VALUE", "Named argument of the task. Repeatable.")]
_TASK = "Registered task, or a pipeline: \"echo('a') | shorten\"."


def _registry(app: Application) -> Registry:
    from duetime.kinds.jobs.kind import JobKind

    return app.services.kind(JobKind).registry


def _task_names(app: Application, _ctx: Any, _incomplete: str) -> Found:
    return [(task.name, task.description) for task in _registry(app)]


def _facts(_: Definition, payload: Payload) -> Facts:
    return [("task", payload.get("task", "")), *filled(payload, "args", "kwargs")]


_TASKS = from_store(_task_names, load_tasks=True)
JOB = KindView("job", "job", "jobs", ("NAME",), lambda definition, _: (definition.name,), _facts)
name_fields({"task": "--task", "args": "--arg", "kwargs": "--kwarg"})
commands = kind_commands(
    JOB,
    "Jobs run registered tasks on a schedule.",
    "duetime job add report --task echo --every 2h\nduetime show report\nduetime run report --wait 10",
)


_ADD_EXAMPLES = """\
duetime job add report --task echo --arg hello --cron "0 9 * * 1-5" --tz Europe/Berlin
duetime job add check --task fetch --arg https://example.org --every 10m --max-attempts 3
duetime job add once --task echo --when "friday at nine" --deliver-to reminders
"""


@commands.command(cls=PlainCommand, epilog=_ADD_EXAMPLES)
@bundled
def add(
    name: Annotated[str, argument("NAME", "Name of the schedule.")],
    task: Annotated[str, _what("--task TASK", _TASK, **_TASKS)],
    trigger: TriggerOptions,
    policy: PolicyCommandOptions,
    arg: Args = None,
    kwarg: Kwargs = None,
    key: Key = None,
    tasks: Tasks = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Schedule a task. Give exactly one of --at, --delay, --every, --cron, --rrule and --when."""
    from duetime.engine.validation import NewSchedule
    from duetime.terminal.schedules.change import add_schedule

    payload = {"task": task, "args": _args(arg), "kwargs": _kwargs(kwarg)}
    when = trigger.parsed()
    new = NewSchedule("job", name, when.type, when.config, payload, policy.given(), when.timezone, key)
    with opened(db, tasks, load_tasks=True, making=True) as app, naming_known_tasks(app):
        add_schedule(app, new, json_, tasks=tasks)


@commands.command(cls=PlainCommand)
@bundled
def edit(
    id: Id,
    trigger: EditCommandOptions,
    policy: PolicyCommandOptions,
    name: Name = None,
    task: Annotated[str | None, _what("--task TASK", _TASK, **_TASKS)] = None,
    arg: Args = None,
    kwarg: Kwargs = None,
    tasks: Tasks = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Change a job. Everything that is not given stays the same, and a run in progress keeps its values."""
    from duetime.terminal.schedules.change import edit_schedule

    given: dict[str, Any] = {} if task is None else {"task": task}
    given |= {} if arg is None else {"args": _args(arg)}
    given |= {} if kwarg is None else {"kwargs": _kwargs(kwarg)}
    stated = policy.given()
    with opened(db, tasks, load_tasks=bool(given)) as app, naming_known_tasks(app):
        edit_schedule(app, JOB, id, trigger, json_, name=name, payload=given, policy=stated, guarded=True)


@contextmanager
def naming_known_tasks(app: Application) -> Iterator[None]:
    """Extend the error about an unknown task with the tasks that are known here."""
    try:
        yield
    except Refused as refused:
        if refused.code != "unknown_task":
            raise
        known = ", ".join(task.name for task in _registry(app))
        hint = f"known here: {known}; name the module of others with --tasks"
        raise refuse("unknown_task", f"{refused.message}; {hint}") from None


def _args(given: Sequence[str] | None) -> list[Any]:
    return [value_of(text) for text in given or ()]


def _kwargs(given: Sequence[str] | None) -> dict[str, Any]:
    return dict(pair_of(text) for text in given or ())


@commands.command("tasks", cls=ReadCommand, epilog="duetime job tasks\nduetime job tasks --json")
def list_tasks(tasks: Tasks = None, db: Db = None, json_: Json = False) -> None:
    """List the registered tasks that `job add --task` takes, with their arguments. Those in brackets are optional."""
    from duetime.service.services import OPERATOR
    from duetime.terminal import output

    with opened(db, tasks, load_tasks=True, making=True) as app:
        found = _registry(app).describe(OPERATOR)
    if json_:
        output.print_json({"tasks": found, "total": len(found)})
        return
    rows = [[each["name"], _arguments(each["arguments"]), first_sentence(each["description"])] for each in found]
    output.table(["TASK", "ARGUMENTS", "DESCRIPTION"], rows)


def _arguments(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    return " ".join(name if name in required else f"[{name}]" for name in schema.get("properties", ())) or "-"
