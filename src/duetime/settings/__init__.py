"""The settings and their sources: defaults < one settings file < environment < flags."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from duetime.engine.errors import InvalidInput
from duetime.engine.times.zones import known_zone
from duetime.settings.kind_settings import kind_tables
from duetime.settings.loading import Source, fit_settings, names_of, problems_of, read_file
from duetime.settings.locations import (
    CONFIG,
    FILE,
    Origin,
    SettingsFile,
    absolute_paths,
    config_folder,
    data_folder,
    find_file,
    user_file,
    with_absolute_paths,
)
from duetime.settings.model import RUNS_PER_HOUR, Settings
from duetime.settings.sections import (
    AgentSettings,
    ChannelSettings,
    ExecutorSettings,
    HeartbeatSettings,
    McpServerSettings,
    NotificationSettings,
)

__all__ = [
    "CONFIG",
    "FILE",
    "RUNS_PER_HOUR",
    "AgentSettings",
    "ChannelSettings",
    "ExecutorSettings",
    "HeartbeatSettings",
    "McpServerSettings",
    "NotificationSettings",
    "Origin",
    "Settings",
    "data_folder",
    "environment_names",
    "environment_values",
    "find_file",
    "is_postgres",
    "load_settings",
    "local_zone",
    "user_file",
]

PREFIX = "DUETIME_"
ENVIRONMENT = "the environment"
COMMAND_LINE = "the command line"
_TABLES = {"notifications": NotificationSettings, "heartbeat": HeartbeatSettings}
_TABLES_OF_TABLES = ("channels", "agents", "mcp_servers", "executors")
"""Tables whose entries have names that the operator chooses, so environment variables cannot set them."""


def is_postgres(db: str) -> bool:
    """Return whether the database is on a server; every other value is a file, whatever its name."""
    return db.startswith(("postgresql://", "postgres://"))


def _linked_zone() -> str:
    """Return the zone that most systems name in a link; empty if this one does not, or a variable names another."""
    try:
        return "" if "TZ" in os.environ else str(Path("/etc/localtime").readlink()).partition("/zoneinfo/")[2]
    except OSError:
        return ""


def _searched_zone() -> str:
    import tzlocal  # with what it imports, it takes as long as opening the store

    return tzlocal.get_localzone_name()


def local_zone(settings: Settings) -> str:
    """Return the configured zone, otherwise the machine's IANA zone, otherwise UTC."""
    if settings.timezone:
        return known_zone(settings.timezone).key
    try:
        return known_zone(_linked_zone() or _searched_zone()).key
    except (InvalidInput, LookupError, ValueError):
        return "UTC"


def load_settings(
    flags: Mapping[str, Any] | None = None, *, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Settings:
    """Load the settings. Later sources win; an invalid value is refused with the name of its source. The settings file
    of `folder` is read without a trust check, because the caller named it; otherwise, see `find_file`."""
    env = os.environ if environment is None else environment
    file, origin = find_file(env, folder)
    settings = _with(Settings(), _from_file(file, env), "" if file is None else str(file.path))
    variables = environment_values(env)
    settings = _with(settings, variables, ENVIRONMENT)
    values = {name: value for name, value in (flags or {}).items() if value is not None}
    settings = _with(settings, values, COMMAND_LINE)
    tasks = settings.origin.tasks
    own = Path(origin.file).parent if origin.file else config_folder(env)
    if origin.here or (tasks and tasks == origin.file):
        modules: str | None = str(own)
    else:  # whoever types a module means the current folder; a variable is the same in every folder
        modules = str(Path.cwd()) if tasks == COMMAND_LINE else None
    if tasks == ENVIRONMENT:
        settings = replace(settings, tasks=tuple(absolute_paths({"tasks": [*settings.tasks]}, own)["tasks"]))
    refusal = "" if "db" in values or "db" in variables else origin.refusal
    return replace(settings, origin=origin._replace(tasks=tasks, modules=modules, refusal=refusal))


def _from_file(file: SettingsFile | None, env: Mapping[str, str]) -> dict[str, Any]:
    values = None if file is None else read_file(file.path, file.content)
    if file is None or values is None:
        if CONFIG in env:
            raise InvalidInput(f"{CONFIG} (or --config) names {env[CONFIG]}, which does not exist")
        return {}
    return with_absolute_paths(values, file.path.parent)


def _variables() -> dict[str, tuple[str, ...]]:
    """Return the environment variables and the settings that they set, such as `DUETIME_NOTIFICATIONS_SERVER` for a
    table."""
    plain = [(name,) for name in names_of(Settings) if name not in (*_TABLES, *_TABLES_OF_TABLES)]
    inside = [(table, name) for table, of in {**_TABLES, **kind_tables()}.items() for name in names_of(of)]
    return {f"{PREFIX}{'_'.join(path).upper()}": path for path in (*plain, *inside)}


def environment_names() -> frozenset[str]:
    """Return the names of the environment variables for settings."""
    return frozenset(_variables())


def environment_values(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the settings that the environment sets, as texts."""
    env = os.environ if environment is None else environment
    variables = {name.upper(): value for name, value in env.items() if name.startswith(PREFIX)}
    known: dict[str, Any] = {}
    for variable, (name, *inside) in _variables().items():
        if variable in variables and inside:
            known.setdefault(name, {})[inside[0]] = variables[variable]
        elif variable in variables:
            known[name] = variables[variable]
    return known


_FROM_ZERO = (
    "drain", "max_runs_per_hour", "max_stored_bytes", "max_log_bytes", "pause_after",
    "prompts_per_day", "max_connections",
)  # fmt: skip
_FROM_ONE = (
    "threads", "lease", "retention_days", "max_requests_at_once", "max_sessions", "max_streams", "max_watches",
    "max_connections_per_address",
)  # fmt: skip
_LEAST: dict[str, float] = {
    **dict.fromkeys(_FROM_ZERO, 0), **dict.fromkeys(_FROM_ONE, 1), "head_timeout": 0.1, "body_timeout": 0.1,
}  # fmt: skip


def _with(settings: Settings, values: Mapping[str, Any], source: Source) -> Settings:
    if not values:
        return settings
    changed = fit_settings(settings, values, source)
    for name, least in _LEAST.items():
        value = getattr(changed, name)
        if name in values and value < least and not (value == 0 and name == "retention_days"):
            raise InvalidInput(f"{source}: {name} must be at least {least}, not {value}", field=name)
    for name, problem in problems_of(changed):
        raise InvalidInput(f"{source}: {problem}", field=name)
    tasks = source if "tasks" in values else settings.origin.tasks
    return replace(changed, sources=(*settings.sources, source), origin=Origin(tasks=tasks))
