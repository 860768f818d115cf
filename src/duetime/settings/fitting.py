"""From the texts and tables of a source to typed settings; what does not fit is refused with its name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, get_args, get_type_hints

from duetime.core.errors import InvalidInput

T = TypeVar("T")
Source: TypeAlias = str


def names_of(of: type) -> list[str]:
    return [item.name for item in fields(of) if item.name not in ("sources", "origin")]


def read_file(path: Path, content: bytes | None = None) -> dict[str, Any] | None:
    """None where there is no file. `content` is what was read of it already."""
    try:
        return tomllib.loads((path.read_bytes() if content is None else content).decode())
    except FileNotFoundError:
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}") from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror})") from error


def fitted(settings: T, values: Mapping[str, Any], source: Source, within: str = "") -> T:
    """A copy of a table of settings with what the source says."""
    of = type(settings)
    hints, names = get_type_hints(of), names_of(of)
    unknown = sorted(set(values) - set(names))
    if unknown:
        raise InvalidInput(f"{source}: unknown setting {within + unknown[0]!r}; there are {', '.join(sorted(names))}")
    fit = {name: _fit(within + name, getattr(settings, name), hints[name], values[name], source) for name in values}
    return replace(settings, **fit)  # type: ignore[type-var]


def _fit(name: str, now: Any, hint: Any, value: Any, source: Source) -> Any:
    if is_dataclass(now):
        return fitted(now, _table(name, value, source), source, f"{name}.")
    if isinstance(now, Mapping):
        return _named(name, hint, _table(name, value, source), source)
    wanted = type(now)
    try:
        if wanted is tuple:
            parts = value.split(",") if isinstance(value, str) else value
            return tuple(str(part) if value is parts else part.strip() for part in parts if str(part).strip())
        if isinstance(value, bool) or (wanted is str and not isinstance(value, str)):
            raise ValueError(value)
        return wanted(value)
    except (TypeError, ValueError) as error:
        shown = type(value).__name__ if "." in name else repr(value)  # tables hold tokens and addresses
        raise InvalidInput(f"{source}: {name} must be a {wanted.__name__}, not {shown}", field=name) from error


def _named(name: str, hint: Any, value: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """A table of tables, such as `[channels.phone]`, or of texts, such as headers."""
    of = get_args(hint)[1]
    if of is str:
        return {key: _fit(f"{name}.{key}", "", str, each, source) for key, each in value.items()}
    return {
        key: fitted(of(), _table(f"{name}.{key}", each, source), source, f"{name}.{key}.")
        for key, each in value.items()
    }


def _table(name: str, value: Any, source: Source) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{source}: {name} is a table: write [{name}]", field=name)
    return value
