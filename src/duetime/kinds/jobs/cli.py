"""Commands of `duetime job`, which schedules registered tasks. `terminal.schedules` has what all kinds share."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duetime.engine.errors import Refused
from duetime.kinds.jobs import SPEC
from duetime.kinds.jobs.payload import TaskCall, name_and_text
from duetime.service.errors import refuse
from duetime.service.text import first_sentence
from duetime.terminal.completion import Found, from_store
from duetime.terminal.context import Application, Db, Json, Tasks, opened
from duetime.terminal.schedules.standard import PayloadOptions, payload_options, standard_commands

if TYPE_CHECKING:
    from duetime.kinds.jobs.registry import Registry
    from duetime.service.operations.create import CreateSchedule
    from duetime.service.vocabulary import Definition


def _registry(app: Application) -> Registry:
    from duetime.kinds.jobs.kind import JobKind

    return app.services.kind(JobKind).registry


def _task_names(app: Application, _ctx: Any, _incomplete: str) -> Found:
    return [(task.name, task.description) for task in _registry(app)]


@dataclass(frozen=True)
class JobOptions(PayloadOptions):
    """Options: which task a job runs, with which arguments."""

    tasks: Tasks = None

    def typed(self, app: Application, fields: dict[str, Any], stored: Definition | None = None) -> dict[str, Any]:
        """Return the fields with arguments of the types that the task takes: `4.1` is a text for a parameter of type
        `str`. Pipelines have their arguments in their text."""
        options, payload = vars(self), {} if stored is None else json.loads(stored.payload)
        task = _registry(app).visible(str(fields.get("task", payload.get("task"))), app.call.caller)
        if task is None:
            return fields
        named = dict(map(name_and_text, options["kwargs"] or ()))
        args, kwargs = task.arguments.typed(options["args"] or (), named)
        return fields | {name: value for name, value in (("args", args), ("kwargs", kwargs)) if name in fields}

    @contextmanager
    def opened(self, db: str | None, *, adds: bool) -> Iterator[Application]:
        loads = adds or bool(self.fields(None, {}))
        with opened(db, self.tasks, load_tasks=loads, making=adds) as app, naming_known_tasks(app):
            yield app

    def add(self, app: Application, request: CreateSchedule, json_: bool) -> None:
        from duetime.terminal.schedules.change import add_schedule

        add_schedule(app, request, json_, tasks=self.tasks)


_EXAMPLES = """\
duetime job add report --task echo --every 2h
duetime show report
duetime run report --wait 10
"""
_ADD_EXAMPLES = """\
duetime job add report --task echo --arg hello --cron "0 9 * * 1-5" --tz Europe/Berlin
duetime job add check --task fetch --arg https://example.org --every 10m --max-attempts 3
duetime job add once --task echo --when "friday at nine" --deliver-to reminders
"""
commands = standard_commands(
    SPEC,
    payload_options(TaskCall, JobOptions, task=from_store(_task_names, load_tasks=True)),
    summary="Jobs run registered tasks on a schedule.",
    add_help="Schedule a task.",
    examples=(_EXAMPLES.rstrip(), _ADD_EXAMPLES),
    guarded=True,
)


@contextmanager
def naming_known_tasks(app: Application) -> Iterator[None]:
    """Extend the error about an unknown task with the tasks that are known here."""
    try:
        yield
    except Refused as refused:
        if refused.code != "unknown_task":
            raise
        known, hint = ", ".join(task.name for task in _registry(app)), refused.details.get("hint", "")
        if not hint or hint.endswith("?"):
            hint = f"{hint} known here: {known}; name the module of others with --tasks".strip()
        raise refuse("unknown_task", f"{refused.message}; {hint}") from None


@commands.command("tasks", reads=True, epilog="duetime job tasks\nduetime job tasks --json")
def list_tasks(tasks: Tasks = None, db: Db = None, json_: Json = False) -> None:
    """List the registered tasks that `job add --task` takes, with their arguments. Those in brackets are optional."""
    from duetime.service.services import OPERATOR
    from duetime.terminal import output

    with opened(db, tasks, load_tasks=True, making=True) as app:
        known = _registry(app).describe(OPERATOR)
    if json_:
        output.print_json({"tasks": known, "total": len(known)})
        return
    rows = [[each["name"], _arguments(each["arguments"]), first_sentence(each["description"])] for each in known]
    output.table(["TASK", "ARGUMENTS", "DESCRIPTION"], rows)


def _arguments(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    return " ".join(name if name in required else f"[{name}]" for name in schema.get("properties", ())) or "-"
