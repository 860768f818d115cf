"""Schedules and runs as the command line shows them: without credentials, which `export` alone writes out."""

from __future__ import annotations

import json
from typing import Any

from duetime.core.model import Run, Schedule
from duetime.faces.masked import masked, masked_payload, masked_result
from duetime.faces.present import run_view, schedule_view
from duetime.faces.words import gist


def schedule_document(schedule: Schedule, zone: str) -> dict[str, Any]:
    view = schedule_view(schedule, zone)
    return view | {"payload": masked_payload(schedule.definition.kind, view["payload"])}


def run_document(run: Run, zone: str) -> dict[str, Any]:
    view = run_view(run, zone)
    return view | {"result": masked_result(run.kind, view["result"])}


def outcome(run: Run) -> str:
    """Why it failed, how far it is, or what came of it."""
    return gist(run.error, run.report, None if run.result is None else masked(json.loads(run.result)))
