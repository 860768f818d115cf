"""Completion with Tab beyond commands and options: ids and names, runs, zones, topics, and whatever a kind adds.

The functions that complete are declared only while a shell asks, because Typer inspects each of them.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr, suppress
from typing import Annotated, Any

from duetime.service.kind_spec import known_specs
from duetime.terminal.context import Application, opened, settings_for
from duetime.terminal.declarations import option

COMPLETION = "_DUETIME_COMPLETE"
"""Environment variable that is set when a shell asks for completions instead of running a command."""
MOST = 200
"""Maximum number of candidates that are read from the store."""
_LONGEST = 60
"""Maximum length of a description."""

Found = Iterable[str | tuple[str, str]]
"""Candidates, each alone or with a description."""
Finder = Callable[[Application, Any, str], Found]


def completed_by(complete: Callable[..., Any]) -> dict[str, Any]:
    """Return the declaration of an option or argument that this function completes."""
    return {"autocompletion": complete} if COMPLETION in os.environ else {}


def one_of(*values: str) -> dict[str, Any]:
    """Return the declaration of an option or argument that takes one of these values."""
    return completed_by(lambda incomplete: list(values))


def from_store(find: Finder, *, load_tasks: bool = False) -> dict[str, Any]:
    """Return the declaration of an option or argument whose candidates are found in the store."""

    def complete(ctx: Any, incomplete: str) -> list[Any]:
        # a shell that shows an error instead of candidates would not help
        with redirect_stderr(io.StringIO()), suppress(Exception):
            db = ctx.params.get("db") or settings_for().path_of_db()  # one that is named is not created
            with opened(db, load_tasks=load_tasks) as app:
                return [safe for each in find(app, ctx, incomplete) if (safe := _safe(each)) is not None]
        return []

    return completed_by(complete)


def _safe(candidate: str | tuple[str, str]) -> str | tuple[str, str] | None:
    """Return a candidate without characters that a shell might evaluate: agents write names, and zsh evaluates
    descriptions."""
    value, text = (candidate, "") if isinstance(candidate, str) else candidate
    if not re.fullmatch(r"[\w.:/@+-]+", value):
        return None
    description = " ".join(re.sub(r"[^\w .,:/@+-]", " ", text).split())[:_LONGEST]
    return (value, description) if description else value


def _schedules(app: Application, ctx: Any, incomplete: str) -> Found:
    """Return short ids with names, and names that begin with what was typed."""
    from duetime.service.operations.schedules import ListSchedules, list_schedules

    path = ctx.command_path.split()
    kind = next((spec.name for spec in known_specs().values() if spec.command in path), None)
    status = None if "history" in path else "living"
    request = ListSchedules(kind=kind, status=status, order="time", limit=MOST, count_to=0)
    definitions = [each.definition for each in list_schedules(app.call, request).value.items]
    names = [
        each.name for each in definitions if incomplete and each.name.startswith(incomplete) and " " not in each.name
    ]
    return [*((each.short_id, each.name) for each in definitions), *names]


def _runs(app: Application, _ctx: Any, _incomplete: str) -> Found:
    from duetime.service.operations.history import History, history

    runs = history(app.call, History(limit=MOST, count_to=0)).value.items
    return [(str(run.id), f"{run.status}: {run.name}") for run in runs]


def _dead_runs(app: Application, _ctx: Any, _incomplete: str) -> Found:
    from duetime.service.operations.dead_letters import ListDeadLetters, dead_letters

    runs = dead_letters(app.call, ListDeadLetters(limit=MOST)).value.items
    return [(str(run.id), f"{run.status}: {run.name}") for run in runs]


def _topics(app: Application, _ctx: Any, _incomplete: str) -> Found:
    from duetime.engine.kind import LOCAL
    from duetime.service.operations.schedules import ListSchedules, list_schedules

    request = ListSchedules(status="living", order="oldest", limit=1000, count_to=0)
    living = list_schedules(app.call, request).value.items
    used = (app.services.topic_of(each.definition) for each in living)
    return sorted({topic for topic in (*used, *app.services.delivery_topics(LOCAL)) if topic})


def _zones(incomplete: str) -> Sequence[str]:
    from zoneinfo import available_timezones

    return sorted(name for name in available_timezones() if name.startswith(incomplete))


IDS, RUNS, DEAD_RUNS = (from_store(each) for each in (_schedules, _runs, _dead_runs))
TOPICS, ZONES = from_store(_topics), completed_by(_zones)
Zone = Annotated[str | None, option("--tz ZONE", "IANA time zone, such as Europe/Berlin.", **ZONES)]
STATUSES = one_of("scheduled", "running", "completed", "failed", "failing", "cancelled", "paused", "broken")
