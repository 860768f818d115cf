"""`duetime apply`: makes the schedules match a file, after showing the changes."""

from __future__ import annotations

import os
from typing import Annotated, Final

from duetime.cli.data.import_ import File, file_text, store_for
from duetime.cli.data.schedule_file import read_schedules
from duetime.service.errors import FAILED, OK
from duetime.service.operations.apply import FilePlan, apply
from duetime.service.text import compact, plural
from duetime.terminal import output
from duetime.terminal.context import Db, Json, Tasks, opened, print_done
from duetime.terminal.declarations import option, single
from duetime.terminal.input import agreed
from duetime.terminal.output import clean

CHANGES_PLANNED: Final = 2
"""The exit code of a dry run that found something to do."""
_ACTIONS: Final = {"create": ("+", "created"), "change": ("~", "changed"), "remove": ("-", "removed")}
_LONGEST: Final = 200

commands = single()

_EXAMPLES = """\
duetime apply schedules.toml
duetime apply schedules.toml --dry-run
duetime apply schedules.toml --prune --yes
duetime export --format toml -o schedules.toml
"""


@commands.command("apply", epilog=_EXAMPLES)
def apply_file(
    file: File,
    dry_run: Annotated[
        bool, option("--dry-run", "Only show what would change; the exit code is 2 if something would.")
    ] = False,
    prune: Annotated[bool, option("--prune", "Delete schedules that the file made and no longer contains.")] = False,
    yes: Annotated[bool, option("--yes", "Do not ask for confirmation.")] = False,
    tasks: Tasks = None,
    db: Db = None,
    json_: Json = False,
) -> int:
    """Make the schedules match a file: create, change and, with --prune, delete what differs.

    The file is TOML, JSON or YAML. It has a table for each schedule, such as [jobs.backup], with the names of the
    options of `duetime job add` (timezone for --tz, args for --arg); ${BACKUP_TOKEN} is a variable of the environment.
    The changes are shown before they are made. Up to 1,000 take effect together or not at all; more in parts, and
    running it again goes on.

    The exit code is 0 if everything is as the file says, and 2 if --dry-run found changes.
    """
    text = file_text(file, "invalid_file")
    with opened(store_for(db, writes=not dry_run), tasks, load_tasks=True, making=True) as app:
        request = read_schedules(file, text, os.environ)._replace(prune=prune, dry_run=True)
        plan, warnings, notes = apply(app.call, request)
        if not json_:
            _print_changes(plan)
        if plan.changes and not dry_run:
            if not yes and not agreed(f"Apply {plural(len(plan.changes), 'change')}?"):
                return FAILED
            apply(app.call, request._replace(dry_run=False, expected=None if yes else plan.changes))
        document = {"file": request.name, "applied": not dry_run, **plan._asdict(), "notes": notes}
        document["changes"] = [each._asdict() for each in plan.changes]
        print_done(app, json_, document, clean(" ".join([_summary(plan, dry_run=dry_run), *notes])), warnings)
    return CHANGES_PLANNED if dry_run and plan.changes else OK


def _print_changes(plan: FilePlan) -> None:
    for each in plan.changes:
        named = "" if each.path.endswith(f".{each.name}") else f"  {each.name}"
        output.say(clean(f"{_ACTIONS[each.action][0]} {each.path}{named}  {each.reads_as}"))
        for field, before, after in map(dict.values, map(dict, each.differences)):
            output.say(clean(f"    {field}: {_value(before)} -> {_value(after)}"))


def _value(value: object) -> str:
    text = "none" if value is None else " ".join(value.split()) if isinstance(value, str) else compact(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _summary(plan: FilePlan, *, dry_run: bool) -> str:
    counts = {verb: sum(each.action == action for each in plan.changes) for action, (_, verb) in _ACTIONS.items()}
    parts = [f"{number} {'to be ' if dry_run else ''}{verb}" for verb, number in counts.items() if number]
    parts = [*(parts or ["nothing to change"]), *([f"{plan.unchanged} unchanged"] if plan.unchanged else [])]
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
