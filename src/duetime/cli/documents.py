"""Schedules and runs as the command line shows them: without credentials, which `export` alone writes out."""

from __future__ import annotations

from typing import Any

from duetime.core.model import Run, Schedule
from duetime.faces.masked import masked, masked_payload
from duetime.faces.present import run_view, schedule_view


def schedule_document(schedule: Schedule, zone: str) -> dict[str, Any]:
    view = schedule_view(schedule, zone)
    return view | {"payload": masked_payload(schedule.definition.kind, view["payload"])}


def run_document(run: Run, zone: str) -> dict[str, Any]:
    view = run_view(run, zone)
    return view | {"result": masked(view["result"])}
