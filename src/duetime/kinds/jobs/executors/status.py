"""How the executors of an installation are: for `status`, the dashboard and `duetime doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, Final

from duetime.engine.clock import SECOND
from duetime.engine.encoding import error_text
from duetime.engine.model import executor_holder
from duetime.engine.redaction import redacted, without_password
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import RunQuery
from duetime.kinds.jobs.executors import executor_type
from duetime.service.checks import Check
from duetime.service.presenters import moment_view
from duetime.settings import ExecutorSettings, Settings

_FRESH: Final = 60 * SECOND
_UNTRACKED: Final = "no worker that is running tracks it: start one that has it in its settings"


def executor_views(scheduler: Scheduler, settings: Mapping[str, ExecutorSettings]) -> list[dict[str, Any]]:
    """Return the executors of the settings and those that a living worker tracks: their workers, how many runs are out,
    and since when the oldest one is."""
    now = scheduler.clock.now()
    seen = {row.name: row for row in scheduler.store.executors() if now - row.seen < _FRESH}
    types = {name: each.type for name, each in settings.items()} | {name: row.type for name, row in seen.items()}
    views = []
    for name, type_ in sorted(types.items()):
        query = RunQuery(holder=executor_holder(name), oldest_first=True, limit=1)
        page, row = scheduler.store.runs(query), seen.get(name)
        problem = _UNTRACKED if row is None else row.problem
        view = {"name": name, "type": type_, "workers": None if row is None else row.workers, "out": page.total}
        view["oldest"] = moment_view(page.items[0].started, scheduler.zone) if page.items else None
        views.append(view | {"can_start": problem is None} | ({"missing": problem} if problem else {}))
    return views


def executor_checks(settings: Settings) -> Iterator[Check]:
    """Connect to each executor."""
    for name, each in settings.executors.items():
        what = f"{name} ({each.type} at {without_password(each.address)})"
        try:
            with closing(executor_type(each.type)(each.address)) as executor:
                workers = executor.workers()
        except Exception as error:
            problem = redacted(error_text(error))
            yield Check("fail", "executor", f"{what} cannot be reached: {problem}; start it, or correct its address")
            continue
        if workers == 0:
            yield Check("warn", "executor", f"{what} has no workers, so that its runs wait; start some")
        else:
            yield Check("ok", "executor", what if workers is None else f"{what}, workers: {workers}")
