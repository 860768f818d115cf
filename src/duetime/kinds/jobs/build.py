"""Builds the job kind: loads the task modules that the settings name, and adds the tasks that come with Duetime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from duetime.engine.clock import DAY, Clock, Instant, datetime_of
from duetime.engine.errors import InvalidInput, StoreUnusable
from duetime.engine.store import Store
from duetime.kinds.jobs.fetch_task import fetch
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.loading import load, load_entry_points
from duetime.kinds.jobs.registry import Registry, Task, default_registry
from duetime.service.kind_spec import BuildContext
from duetime.settings import Settings

# The tasks that come with Duetime.


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


PRUNE_BATCH = 1000


def build(context: BuildContext) -> JobKind:
    """Build the kind. Options: the `registry` of tasks, and whether to `load_tasks` that the settings name."""
    settings = context.settings
    if context.options.get("load_tasks", True):
        load_entry_points()
        load(settings.tasks, settings.origin.modules)
    own = (*TASKS, fetch_task(settings), *_operator_tasks(context))
    given: Registry | None = context.options.get("registry")
    return JobKind(Registry(own, base=default_registry if given is None else given))


def _operator_tasks(context: BuildContext) -> tuple[Task, ...]:
    store, settings, clock = context.store, context.settings, context.clock

    def backup() -> dict[str, Any]:
        folder = settings.path_of_backups()
        make_folder(folder)
        target = folder / f"duetime-{datetime_of(clock.now()):%Y%m%dT%H%M%S}.db"
        store.backup(str(target))
        return {"file": target.name, "bytes": target.stat().st_size}

    def prune() -> dict[str, Any]:
        return {"deleted": prune_history(store, clock, settings)}

    return operator_tasks(backup, prune)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreUnusable(f"{folder} cannot be made ({error.strerror}); choose another place with --db") from error


def prune_history(store: Store, clock: Clock, settings: Settings) -> int:
    """Delete history beyond the retention period, in batches, so that no single transaction blocks the workers."""
    if not settings.retention_days:
        return 0
    before = Instant(clock.now() - int(settings.retention_days * DAY))
    total = 0
    while deleted := store.prune(before, PRUNE_BATCH):
        total += deleted
    return total
