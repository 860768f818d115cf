"""One run, of whatever kind: found by its number, shown with what it was about, and as programs read it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from duetime.api import LOCAL, Refused
from duetime.cli import screen
from duetime.cli.documents import run_document
from duetime.cli.schedule_tables import print_runs
from duetime.compose import App
from duetime.core.errors import InvalidInput
from duetime.core.model import Run, Schedule, ScheduleState
from duetime.core.result import Err
from duetime.core.times import format_local
from duetime.faces.masked import masked_payload
from duetime.faces.present import attempt_view

KINDS = ("job", "prompt", "notification", "request")
Kind = Annotated[
    str | None, typer.Option("--kind", metavar="KIND", help="job, prompt, notification or request; otherwise all.")
]
OVER = frozenset({ScheduleState.DELETED, ScheduleState.CANCELLED})
"""Schedules of which nothing runs any more."""


def known_kind(kind: str | None) -> str | None:
    if kind is not None and kind not in KINDS:
        raise InvalidInput(f"--kind: there is no {kind!r}; there are {', '.join(KINDS)}")
    return kind


def run_number(text: str, where: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise InvalidInput(f"RUN: {text[:40]!r} is not a number; {where} shows them")
    return int(text)


def found_run(room: App, id: int, where: str) -> Run:
    run = room.scheduler.run(LOCAL, id)
    if run is None:
        raise Refused(Err("not_found", f"there is no run {id}; {where} shows those there are"))
    return run


def over(schedule: Schedule | None) -> str | None:
    """Why nothing of it can run again, where that is so."""
    state = ScheduleState.DELETED if schedule is None else schedule.progress.state
    return state if state in OVER else None


def payload_of(schedule: Schedule | None) -> dict[str, Any]:
    definition = None if schedule is None else schedule.definition
    found = {} if definition is None else masked_payload(definition.kind, json.loads(definition.payload))
    return found if isinstance(found, dict) else {}


def whole_view(run: Run, schedule: Schedule | None, zone: str) -> dict[str, Any]:
    about = {"kind": run.kind, "owner": run.owner, "name": run.name, "can_retry": over(schedule) is None}
    if schedule is None:
        return run_document(run, zone) | about | {"schedule": None, "to": None, "payload": None}
    definition = schedule.definition
    where = {"schedule": definition.public_id, "to": definition.subject, "payload": payload_of(schedule)}
    return run_document(run, zone) | about | where


def print_run(room: App, run: Run, json_: bool) -> None:
    schedule, zone = room.scheduler.schedule_of(LOCAL, run), room.scheduler.zone
    if json_:
        attempts = [attempt_view(each, zone) for each in room.scheduler.attempts(LOCAL, run.id)]
        screen.print_json(whole_view(run, schedule, zone) | {"attempts": attempts})
        return
    screen.facts([
        (run.kind, f"{run.name}  (run {run.id})"),
        ("status", screen.status_text(run.status)),
        ("owner", run.owner),
        ("schedule", "deleted" if schedule is None else schedule.definition.public_id),
        ("due", format_local(run.due, zone)),
        *((name, _shown(value)) for name, value in payload_of(schedule).items() if value not in (None, [], {}, "")),
    ])  # fmt: skip
    print()
    print_runs(room, [run])


def _shown(value: object) -> object:
    return screen.block(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
