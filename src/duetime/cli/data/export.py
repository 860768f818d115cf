"""`duetime export`: schedules as a calendar, or as lines of JSON, which `duetime import jsonl` reads and validates."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

from duetime.cli.data.crontab import Remark
from duetime.cli.data.import_plan import Candidate
from duetime.cli.runs.kind_option import Kind, known_kind
from duetime.engine.actor import actor_from
from duetime.engine.clock import NEVER, Instant, instant_of
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.new_schedule import in_order_of_chains
from duetime.engine.validation import NewSchedule
from duetime.security.private_files import replace_private
from duetime.service.operations.declaration import check_choice
from duetime.service.operations.schedules import COUNT_ALL, ListSchedules, pages_of_schedules
from duetime.service.presenters import trigger_shape
from duetime.service.schedule_files import followed_by
from duetime.service.services import Call
from duetime.service.vocabulary import Schedule, ScheduleState, iso_local
from duetime.terminal.completion import one_of
from duetime.terminal.context import Application, Db, Json, Tasks, opened
from duetime.terminal.declarations import option, single
from duetime.terminal.output import bar, clean, escaped, note, plural, progress, warn
from duetime.terminal.schedules.read import PAGE

FORMAT = 1
_MADE_BY_US = "~"
"""Prefix of keys that no caller chose."""


def _document_of(call: Call, schedule: Schedule) -> dict[str, Any]:
    """Return everything that another store needs to create the schedule."""
    definition, state = schedule
    trigger = trigger_shape(definition.trigger)
    if trigger["type"] == "after":
        trigger["schedule"] = followed_by(call, trigger)
    key = None if definition.key.startswith(_MADE_BY_US) else definition.key
    return {
        "duetime": FORMAT,
        "id": definition.public_id,
        "kind": definition.kind,
        "owner": definition.owner,
        "name": definition.name,
        "trigger": trigger,
        "payload": json.loads(definition.payload),
        "policy": json.loads(definition.policy),
        "paused": state.state == ScheduleState.PAUSED,
        "paused_until": _utc(definition.resume_at),
        "note": state.note,
        "next": None if state.next == NEVER else _utc(state.next),
        "runs": state.run_count,
        "depth": definition.depth,
        "author": definition.author,
        "key": key,
        "created": _utc(definition.created),
    }


def _utc(instant: Instant | None) -> str | None:
    return None if instant is None else iso_local(instant, "UTC")


def read_lines(app: Application, text: str) -> tuple[list[Candidate], list[Remark]]:
    candidates, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            candidates.append(_candidate(app, number, json.loads(line)))
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError, DuetimeError) as error:
            reason = str(error) if isinstance(error, DuetimeError) else "it was not written by `duetime export`"
            problems.append(Remark(number, line[:60], reason))
    return in_order_of_chains(candidates, attrgetter("new")), problems


def _candidate(app: Application, number: int, document: dict[str, Any]) -> Candidate:
    if document["duetime"] != FORMAT:
        raise ValueError("another format")
    trigger = dict(document["trigger"])
    zone, type_ = trigger.pop("timezone"), trigger.pop("type")
    author = document.get("author")
    if author is not None and not (len(author) <= 300 and author.isprintable()):
        raise ValueError("another author")
    caller = Caller(document["owner"], operator=True, depth=int(document["depth"]), actor=actor_from(author))
    policy = dict(document["policy"])
    if policy.get("max_runs") is not None:  # reduced to the runs that are left
        policy["max_runs"] = max(1, policy["max_runs"] - int(document["runs"]))
    kind, name, key = document["kind"], document["name"], document["key"]
    if key is None:  # one that identifies the line when it is imported again
        key = f"export:{document['id']}:{document['created']}"[:200]
    first = None if document["paused"] else _instant(document["next"])
    new = NewSchedule(kind, name, type_, trigger, document["payload"], policy, zone, str(key), first)
    present = app.scheduler.find(caller, str(document["id"]), kind)
    return Candidate(
        line=number,
        text=f"{kind} {name}",
        new=new,
        caller=caller,
        paused=bool(document["paused"]),
        paused_until=_instant(document.get("paused_until")),
        note=document.get("note"),
        present=present if present is not None and _utc(present.definition.created) == document["created"] else None,
        trigger=document["trigger"],
    )


def _instant(text: str | None) -> Instant | None:
    return None if text is None else instant_of(datetime.fromisoformat(text))


# `duetime export`: schedules as lines of JSON that `duetime import jsonl` reads back, or as a calendar.

commands = single()


_EXAMPLES = """\
duetime export -o schedules.jsonl
duetime export --format toml -o schedules.toml
duetime export --ical --days 30 -o schedules.ics
"""


@commands.command(epilog=_EXAMPLES)
def export(
    output: Annotated[str | None, option("-o --output FILE", "File to write, which only you can read.")] = None,
    kind: Kind = None,
    format_: Annotated[
        str, option("--format FORMAT", "jsonl, the backup; or toml, for `duetime apply`.", **one_of("jsonl", "toml"))
    ] = "jsonl",
    tasks: Tasks = None,
    owner: Annotated[str, option("--owner NAME", "With --format toml: whose schedules to write.")] = LOCAL,
    ical: Annotated[bool, option("--ical", "Write a calendar (.ics).")] = False,
    days: Annotated[
        int, option("--days", "With --ical: days for which irregular times are written out.", min=1, max=3660)
    ] = 30,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Write all schedules that may still fire, as JSON lines, as TOML or as a calendar.

    JSON lines contain everything, including secrets in payloads. With --json, it is one document. TOML is what `duetime
    apply` reads, to keep schedules in a file: secrets become variables of the environment.
    """
    known_kind(kind)
    check_choice("format", format_, ("jsonl", "toml"))
    is_toml = format_ == "toml"
    if [ical, json_, is_toml].count(True) > 1:
        raise InvalidInput("--ical, --json and --format toml: cannot be combined; leave one of them out")
    with opened(db, tasks, load_tasks=is_toml) as app:
        living = _living(app, kind)
        schedules = [schedule for schedule in living if is_toml or not _is_last_run_taken(schedule)]
        rows, notes = progress(schedules, "writing"), app.services.list_notes(kind)
        if ical:
            from duetime.service.calendar import calendar_of

            text = calendar_of(rows, app.clock.now(), days=days).decode()
        elif is_toml:
            from duetime.cli.data.schedule_file import toml_export

            text, schedules, further = toml_export(app.call, schedules, owner, Path(output or "schedules").stem)
            notes = [*notes, *further]
        else:
            text = _lines(app.call, rows, json_)
        if not is_toml and (left := len(living) - len(schedules)):
            notes = [*notes, f"{plural(left, 'schedule')} left out: the last of max_runs is under way or waits"]
    if output is None:
        sys.stdout.write(text)
    else:
        try:
            replace_private(Path(output), text)  # atomically, so that a full disk does not destroy the old file
        except OSError as error:
            raise InvalidInput(f"--output: {output} cannot be written ({error.strerror})") from error
        note(f"Wrote {plural(len(schedules), 'schedule')} to {clean(output)}.")
    warn(notes)


def _living(app: Application, kind: str | None) -> list[Schedule]:
    request = ListSchedules(kind=kind, status="living", order="oldest", limit=PAGE, count_to=COUNT_ALL)
    schedules: list[Schedule] = []
    total = 0
    with bar("reading") as show_progress:
        for page in pages_of_schedules(app.call, request):
            total = total or page.total
            schedules += page.items
            show_progress(len(schedules) / max(total, 1))
    return schedules


def _is_last_run_taken(schedule: Schedule) -> bool:
    """Return whether `max_runs` allows no further run: an import would allow one more."""
    most = json.loads(schedule.definition.policy).get("max_runs")
    return most is not None and schedule.progress.run_count >= most


def _lines(call: Call, schedules: Iterable[Schedule], json_: bool) -> str:
    documents = (_document_of(call, each) for each in schedules)
    if json_:
        return f"{escaped(json.dumps({'schedules': list(documents)}, ensure_ascii=False, indent=2))}\n"
    lines = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in documents)
    return "".join(f"{escaped(line)}\n" for line in lines)
