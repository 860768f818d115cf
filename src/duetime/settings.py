"""What can be set, and where from: defaults < duetime.toml < environment < flags."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from duetime.core.errors import InvalidInput
from duetime.core.zones import known_zone

FILE = "duetime.toml"
PREFIX = "DUETIME_"


def data_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where this user's data lives unless something else is said."""
    env = os.environ if environment is None else environment
    home = env.get("XDG_DATA_HOME") or (Path.home() / ".local" / "share")
    return Path(home) / "duetime"


@dataclass(frozen=True, slots=True)
class Settings:
    """Durations are seconds unless their name says otherwise."""

    db: str = ""
    """A path, `sqlite:///path`, `:memory:` or `postgresql://…`; empty means a file in the data folder."""
    timezone: str = ""
    """An IANA name; empty means the machine's."""
    tasks: tuple[str, ...] = ()
    """Modules, or paths of `.py` files, that register tasks."""
    threads: int = 16
    lease: float = 10.0
    drain: float = 10.0
    """How long a stopping worker waits for what runs."""
    retention_days: float = 30.0
    """How long workers keep what is over; 0 keeps it for ever."""
    backup_folder: str = ""
    """Where `backup_database` writes; empty means `backups` in the data folder."""
    max_schedules: int = 10_000
    smallest_interval: float = 1.0
    max_runs_per_hour: int = 0
    """Of one owner; 0 means no limit. What is beyond it waits for the next hour."""
    max_payload_bytes: int = 256 * 1024
    max_depth: int = 3
    host: str = "127.0.0.1"
    port: int = 8765
    hosts: tuple[str, ...] = ()
    """Names, besides those of this machine itself, under which the HTTP server may be called."""
    tools: tuple[str, ...] = ()
    """Families of tools; empty means all."""
    issuer: str = "duetime"
    audience: str = "duetime"
    """What the tokens of this installation say in `iss` and `aud`."""
    sources: tuple[str, ...] = field(default=(), compare=False)

    def path_of_db(self) -> str:
        return self.db or str(data_folder() / "duetime.db")

    def path_of_keys(self) -> Path:
        """The secret that signs tokens, and what is known of those that were issued."""
        return data_folder() / "auth"

    def path_of_backups(self) -> Path:
        return Path(self.backup_folder) if self.backup_folder else data_folder() / "backups"


def local_zone(settings: Settings) -> str:
    """The setting, else the machine's IANA zone, else UTC."""
    if settings.timezone:
        return known_zone(settings.timezone).key
    import tzlocal

    try:
        return known_zone(tzlocal.get_localzone_name()).key
    except (InvalidInput, LookupError, ValueError):
        return "UTC"


_TYPES: dict[str, type] = {item.name: type(item.default) for item in fields(Settings) if item.name != "sources"}


_LEAST: dict[str, float] = {"threads": 1, "lease": 1, "drain": 0, "retention_days": 1, "max_runs_per_hour": 0}


def load_settings(
    flags: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Later sources win; a value that does not fit is refused with the name of its source."""
    env = os.environ if environment is None else environment
    settings = Settings()
    path = Path(env[PREFIX + "CONFIG"]) if PREFIX + "CONFIG" in env else (folder or Path.cwd()) / FILE
    if (found := _read(path)) is not None:
        settings = _with(settings, found, str(path))
    elif PREFIX + "CONFIG" in env:
        raise InvalidInput(f"{PREFIX}CONFIG names {path}, which does not exist")
    named = {name.removeprefix(PREFIX).lower(): value for name, value in env.items() if name.startswith(PREFIX)}
    known = {name: value for name, value in named.items() if name in _TYPES}
    settings = _with(settings, known, "the environment")
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    return _with(settings, given, "the command line")


def _read(path: Path) -> dict[str, Any] | None:
    """None where there is no file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}") from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror})") from error


def _with(settings: Settings, values: Mapping[str, Any], source: str) -> Settings:
    if not values:
        return settings
    unknown = sorted(set(values) - set(_TYPES))
    if unknown:
        raise InvalidInput(f"{source}: unknown setting {unknown[0]!r}; there are {', '.join(sorted(_TYPES))}")
    fitted = {name: _fit(name, value, source) for name, value in values.items()}
    for name, value in fitted.items():
        if name in _LEAST and value < _LEAST[name] and not (value == 0 and name == "retention_days"):
            raise InvalidInput(f"{source}: {name} must be at least {_LEAST[name]}, not {value}", field=name)
    return replace(settings, **fitted, sources=(*settings.sources, source))


def _fit(name: str, value: Any, source: str) -> Any:
    wanted = _TYPES[name]
    try:
        if wanted is tuple:
            parts = value.split(",") if isinstance(value, str) else value
            return tuple(str(part).strip() for part in parts if str(part).strip())
        if isinstance(value, bool) or (wanted is str and not isinstance(value, str)):
            raise ValueError(value)
        return wanted(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{source}: {name} must be a {wanted.__name__}, not {value!r}", field=name) from error
