"""`duetime import`: schedules from a crontab or from `duetime export`. Nothing is created without --yes."""

from __future__ import annotations

import getpass
import hashlib
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from duetime.cli.data import import_plan
from duetime.cli.data.crontab import Entry, Remark, Way, read_crontab
from duetime.cli.data.export import read_lines
from duetime.cli.data.import_plan import Candidate, Outcome
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.loading import load
from duetime.kinds.jobs.shell_task import MODULE, NAME
from duetime.service.errors import REFUSED, refuse
from duetime.service.services import OPERATOR
from duetime.service.when import read_policy
from duetime.settings import load_settings
from duetime.settings.locations import MEMORY, store_file
from duetime.terminal import output
from duetime.terminal.completion import Zone
from duetime.terminal.context import Application, Db, Json, Tasks, again, opened, print_warnings
from duetime.terminal.declarations import Exit, argument, group, option
from duetime.terminal.schedules.kind_view import headline
from duetime.terminal.schedules.options import PolicyCommandOptions

File = Annotated[str, argument("FILE", "File to read; - reads standard input.")]
Yes = Annotated[bool, option("--yes", "Import; without it, only show what would be imported.")]

commands = group("Import schedules from a crontab, or from a file that `duetime export` wrote.")


_CRONTAB_EXAMPLES = """\
duetime import crontab - < crontab.txt
duetime import crontab /etc/crontab --system --yes
"""


@commands.command(epilog=_CRONTAB_EXAMPLES)
def crontab(
    file: File,
    yes: Yes = False,
    system: Annotated[
        bool, option("--system", "The file is a system crontab, such as /etc/crontab, with a user before each command.")
    ] = False,
    user: Annotated[
        str | None, option("--user NAME", "With --system: user whose lines to import; by default you.")
    ] = None,
    shell: Annotated[bool, option("--shell", "Run commands that need a shell through a shell.")] = False,
    tz: Zone = None,
    *,
    policy: PolicyCommandOptions,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Import the lines of a crontab as jobs that run commands. Agents cannot create such jobs.

    A worker runs them only if the setting tasks names the module duetime.kinds.command.
    """
    lines = read_crontab(file_text(file), Way(system, user or _me(), shell))
    stated = read_policy(policy.values())
    with opened(store_for(db, writes=yes), [MODULE], load_tasks=True, making=True) as app:
        candidates = _candidates(lines.entries, tz, stated)
        about_lines = [Remark(entry.line, entry.text, entry.note) for entry in lines.entries if entry.note]
        notes = sorted([*lines.notes, *about_lines])
        done = _import(app, import_plan.check(app, candidates, lines.problems), notes, yes=yes, json_=json_)
        if yes and candidates and not json_:
            output.say("cron still runs these lines: take them out with `crontab -e`, or they run twice.")
            if MODULE in load_settings().tasks:
                print_warnings(app, app.services.worker_warnings("job"), tasks=[MODULE])
            else:  # this command loaded the module only for itself, not for workers
                where = f'add tasks = ["{MODULE}"] to duetime.toml and restart them'
                now = f"or start one with: {again(app, 'worker', '--tasks', MODULE)}"
                output.warn([f"workers run commands only if their settings allow it: {where}, {now}"])
    if done.problems:
        raise Exit(REFUSED)


_JSONL_EXAMPLES = """\
duetime import jsonl schedules.jsonl
duetime import jsonl schedules.jsonl --yes
"""


@commands.command(epilog=_JSONL_EXAMPLES)
def jsonl(file: File, yes: Yes = False, tasks: Tasks = None, db: Db = None, json_: Json = False) -> None:
    """Import a file that `duetime export` wrote. Schedules that are already there are not changed."""
    text = file_text(file)
    # Besides the modules of the settings: those given here, and the one that runs exported commands.
    load(tasks or ())
    load([MODULE] if f'"{NAME}"' in text else [], None)
    with opened(store_for(db, writes=yes), load_tasks=True, making=True) as app:
        done = _import(app, import_plan.check(app, *read_lines(app, text)), [], yes=yes, json_=json_)
    if done.problems:
        raise Exit(REFUSED)


def store_for(db: str | None, *, writes: bool) -> str | None:
    """Return the store to use. A dry run creates no file: if no store exists, it uses one in memory."""
    file = store_file(load_settings({"db": db}).path_of_db())
    return db if writes or file is None or file.exists() else MEMORY


def _import(app: Application, plan: Outcome, notes: Sequence[Remark], *, yes: bool, json_: bool) -> Outcome:
    """Carry out a plan, or only show it."""
    outcome = import_plan.carry_out(app, plan) if yes else plan
    if json_:
        output.print_json(import_plan.outcome_view(app, outcome, notes, dry_run=not yes))
    else:
        import_plan.print_outcome(app, outcome, notes)
        summary = import_plan.summary(outcome)
        if not outcome.problems and outcome.rows and all(row.status == import_plan.PRESENT for row in outcome.rows):
            output.say(
                f"\nNothing to import: all of it exists already ({output.plural(len(outcome.rows), 'schedule')})."
            )
            return outcome
        output.say(f"\n{summary[0].upper()}{summary[1:]}.{'' if yes else ' Nothing was imported yet: --yes does it.'}")
    return outcome


def file_text(file: str, code: str = "invalid") -> str:
    """Return the text of a file, or standard input for a dash. `code` is that of the error."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise refuse(code, f"FILE: {file} cannot be read: {reason}") from error


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _candidates(entries: Sequence[Entry], tz: str | None, policy: Mapping[str, Any]) -> list[Candidate]:
    """Return a candidate for each line, with a key derived from the line, so that a second import adds only new
    lines."""
    seen: Counter[str] = Counter()
    candidates = []
    for entry in entries:
        arguments: dict[str, Any] = {"argv": list(entry.argv)}
        arguments |= {"stdin": entry.stdin} if entry.stdin else {}
        arguments |= {"env": dict(entry.env)} if entry.env else {}
        zone = entry.zone or tz
        line = " ".join([zone or "", entry.expression, entry.command, entry.stdin])
        seen[line] += 1
        key = f"crontab:{hashlib.sha256(f'{line} {seen[line]}'.encode()).hexdigest()[:32]}"
        payload = {"task": NAME, "args": [], "kwargs": arguments}
        config = {"expression": entry.expression}
        new = NewSchedule("job", headline(entry.command), "cron", config, payload, policy, zone, key)
        candidates.append(Candidate(entry.line, entry.text, new, OPERATOR))
    return candidates
