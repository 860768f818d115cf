"""Builds the job kind: loads the task modules that the settings name, and adds the tasks that come with Duetime."""

from __future__ import annotations

from typing import Any

from duetime.engine.clock import DAY, Instant, datetime_of
from duetime.kinds.jobs.builtin import operator_tasks
from duetime.kinds.jobs.gate_tasks import tasks_of
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.loading import load, load_entry_points
from duetime.kinds.jobs.registry import Registry, Task, default_registry
from duetime.service.kind_spec import BuildContext
from duetime.settings.locations import make_folder

PRUNE_BATCH = 1000


def build(context: BuildContext) -> JobKind:
    """Build the kind. Options: the `registry` of tasks, and whether to `load_tasks` that the settings name."""
    settings = context.settings
    if context.options.get("load_tasks", True):
        load_entry_points()
        load(settings.tasks, settings.origin.modules)
    own = (*tasks_of(settings), *_operator_tasks(context))
    registry: Registry | None = context.options.get("registry")
    tasks = Registry(own, base=default_registry if registry is None else registry)
    return JobKind(tasks, scheduler=context.scheduler, labels=settings.labels, executors=settings.executors)


def _operator_tasks(context: BuildContext) -> tuple[Task, ...]:
    store, settings, clock = context.store, context.settings, context.clock

    def backup() -> dict[str, Any]:
        folder = settings.path_of_backups()
        make_folder(folder)
        target = folder / f"duetime-{datetime_of(clock.now()):%Y%m%dT%H%M%S}.db"
        store.backup(str(target))
        return {"file": target.name, "bytes": target.stat().st_size}

    def prune() -> dict[str, Any]:
        """Delete history in batches, so that no single transaction blocks the workers."""
        before, deleted = Instant(clock.now() - int(settings.retention_days * DAY)), 0
        while settings.retention_days and (batch := store.prune(before, PRUNE_BATCH)):
            deleted += batch
        return {"deleted": deleted}

    return operator_tasks(backup, prune)
