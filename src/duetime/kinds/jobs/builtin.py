"""The tasks that come with Duetime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from duetime.engine.errors import InvalidInput
from duetime.kinds.jobs.fetch_task import fetch
from duetime.kinds.jobs.registry import Task
from duetime.settings import Settings


def echo(value: Any = None) -> Any:
    """Returns what it is given: to try a schedule out, or to begin a pipeline with."""
    return value


def shorten(text: Annotated[str, "the text to cut"], words: Annotated[int, "how many words to keep"] = 50) -> str:
    """Cuts a text after a number of words. What was cut is marked with three dots."""
    if words < 1:
        raise InvalidInput(field="words", problem=f"must be at least 1, not {words}")
    kept = str(text).split(maxsplit=words)  # the previous step may have returned any type
    return " ".join(kept) if len(kept) <= words else " ".join(kept[:words]) + " ..."


TASKS = (Task(echo, portable=True), Task(shorten, portable=True))


def operator_tasks(backup: Callable[[], dict[str, Any]], prune: Callable[[], dict[str, Any]]) -> tuple[Task, ...]:
    """Return the tasks for operators. Backup path and retention come from the settings, never from arguments."""

    def backup_database() -> dict[str, Any]:
        """Writes a copy of the database to the place that the settings name."""
        return backup()

    def prune_history() -> dict[str, Any]:
        """Deletes ended runs that are older than the settings say."""
        return prune()

    return Task(backup_database, operator=True), Task(prune_history, operator=True)


def fetch_task(settings: Settings) -> Task:
    """Return the task `fetch`. It runs in its own process: a hostile page blocks nothing, and a timeout ends it."""
    constants = {"allowed_hosts": list(settings.allowed_hosts)}
    return Task(fetch, isolation="process", portable=True, constants=constants)
