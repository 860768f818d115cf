"""Wordings that tests in several files compare with, each written only here."""

from __future__ import annotations

from duetime.engine.kind import StopReason

NO_TASKS = "No scheduled tasks found matching filters."
NOTHING_TO_EDIT = "Error: provide at least one of 'at' or 'prompt' to edit."
ID_OR_RUN = "Error: give exactly one of 'id' or 'run_id'."
RESULT_OR_ERROR = "Error: give exactly one of 'result' or 'error'."
SCHEDULE_ID_MISSING = "Missing argument: schedule_id is required (a string or an integer)."
BODY_MISSING = "The body is missing; send a JSON object."
NO_CODER = "Error: agent: there is no 'coder'; choose from inbox"
NO_CHANNEL = "deliver_to: No channel is named phon, so it goes to"
SESSION_WARNING = "It fires only while an agent client is open: run `duetime service install` to have it always."
NOT_ZERO = "Error: every: must be greater than zero, such as 30s or 2h"
NEVER_FIRES = "This never fires: there is no such date, or it has passed."
NOT_FINISHED = "the agent that took it did not finish in time"
STOPPED = {
    StopReason.CANCELLED: "stopped on request",
    StopReason.LEASE: "its worker lost its lease before it was done",
    StopReason.SHUTDOWN: "the worker stopped before it was done",
}


def not_editable(task: int | str, verb: str = "edited") -> str:
    return f"Task #{task} not found or not editable (only pending tasks can be {verb})."


def not_cancelled(task: int | str) -> str:
    return not_editable(task, "cancelled")


def schedule_not_found(public_id: str) -> str:
    return f"Schedule not found: {public_id}. It may have already been deleted or the ID is incorrect."
