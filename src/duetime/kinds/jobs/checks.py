"""Checks of `duetime doctor` for jobs: whether task modules can be imported, and whether jobs call unknown tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from duetime.engine.clock import Clock
from duetime.engine.errors import DuetimeError
from duetime.engine.store import ScheduleQuery
from duetime.kinds.jobs import shell_task
from duetime.kinds.jobs.gate_tasks import tasks_of
from duetime.kinds.jobs.loading import load, load_entry_points
from duetime.kinds.jobs.registry import Registry, default_registry
from duetime.service.checks import Check, Checks, Installation
from duetime.service.services import OPERATOR
from duetime.settings import Settings
from duetime.terminal.output import clean

SUBJECT = "tasks"
OPERATOR_TASKS = frozenset({"backup_database", "prune_history"})
"""Tasks that every worker registers itself once it has a store."""
MAX_JOBS = 1000
"""Number of jobs whose tasks are looked up: enough to detect missing tasks, and still fast."""


def _registry(settings: Settings) -> Registry:
    return Registry(tasks_of(settings), base=default_registry)


def _modules(settings: Settings, clock: Clock) -> Iterator[Check]:
    """Import the task modules, with a check for each."""
    for module in settings.tasks:
        try:
            load([module], settings.origin.modules)
            yield Check("ok", SUBJECT, f"{module} is imported")
        except DuetimeError as error:
            yield Check("fail", SUBJECT, error.message)
    announced: list[str] = []
    try:
        announced = load_entry_points()
    except DuetimeError as error:
        yield Check("fail", SUBJECT, error.message)
    if announced:
        yield Check("ok", SUBJECT, f"announced by packages: {', '.join(announced)}")
    if settings.executors:
        from duetime.kinds.jobs.executors.status import executor_checks

        yield from executor_checks(settings)
    names = ", ".join(sorted({task.name for task in _registry(settings)} | OPERATOR_TASKS))
    more = "" if settings.tasks or announced else "; name your own with --tasks, or in duetime.toml"
    yield Check("ok", SUBJECT, f"known: {names}{more}")


def _unknown_tasks(installation: Installation) -> Iterator[Check]:
    registry, scheduler = _registry(installation.settings), installation.services.scheduler
    unknown: Counter[str] = Counter()
    for status in ("pending", "running", "paused"):
        page = scheduler.search(OPERATOR, ScheduleQuery(kind="job", status=status, limit=MAX_JOBS))
        tasks = [item.definition.subject for item in page.items if item.definition.id not in installation.samples]
        unknown.update(task for task in tasks if registry.get(task) is None and task not in OPERATOR_TASKS)
    if unknown:
        named = ", ".join(f"{clean(name)} ({number})" for name, number in sorted(unknown.items())[:5])
        advice = "the worker needs their modules: --tasks MODULE, or tasks in duetime.toml"
        advice += f"; {shell_task.NAME} is in {shell_task.MODULE}" if shell_task.NAME in unknown else ""
        yield Check("warn", SUBJECT, f"jobs call tasks that are not known here: {named}; {advice}")


CHECKS = Checks(_modules, _unknown_tasks)
