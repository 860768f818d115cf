"""Converts the texts and tables of a source to typed settings; an invalid value is refused with its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, get_args, get_type_hints

from duetime.engine.errors import InvalidInput, unknown
from duetime.engine.policy.options import is_tag
from duetime.settings.kind_settings import kind_settings, kind_tables
from duetime.settings.model import Settings

T = TypeVar("T")
Source: TypeAlias = str
_WANTED = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", tuple: "a list"}


def names_of(of: type) -> list[str]:
    return [item.name for item in fields(of) if item.name not in ("tables", "sources", "origin")]


def values_of(settings: Any) -> dict[str, Any]:
    """Return the values of a table by their names. Tables of kinds from other packages are beside the built-in ones."""
    values = {name: getattr(settings, name) for name in names_of(type(settings))}
    return {**values, **settings.tables} if isinstance(settings, Settings) else values


def read_file(path: Path, content: bytes | None = None) -> dict[str, Any] | None:
    """Return the values of a file, or None if there is no file. `content` is the content, if it was already read."""
    try:
        text = (path.read_bytes() if content is None else content).decode()
        import tomllib  # many have no file

        return tomllib.loads(text)
    except FileNotFoundError:
        return None
    except ValueError as error:  # of TOML or UTF-8
        raise InvalidInput(f"{path} is not valid TOML: {error}") from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror})") from error


def fit_settings(settings: T, values: Mapping[str, Any], source: Source, within: str = "") -> T:
    """Return a copy of a settings table with the values of the source."""
    hints, present = get_type_hints(type(settings)), values_of(settings)
    if isinstance(settings, Settings):
        present = {name: model() for name, model in kind_tables().items()} | present
    surplus = sorted(set(values) - set(present))
    if surplus:
        raise InvalidInput(f"{source}: {unknown('setting', within + surplus[0], sorted(present))}")
    fit = {name: _fit(within + name, present[name], hints.get(name), values[name], source) for name in values}
    if isinstance(settings, Settings):
        tables = {name: fit.pop(name) for name in values if name not in hints}
        fit["tables"] = {**settings.tables, **tables}
    return replace(settings, **fit)  # type: ignore[type-var]


def _fit(name: str, now: Any, hint: Any, value: Any, source: Source) -> Any:
    if is_dataclass(now):
        return fit_settings(now, _table(name, value, source), source, f"{name}.")
    if isinstance(now, Mapping):
        return _fit_named(name, hint, _table(name, value, source), source)
    type_ = type(now)
    try:
        if type_ is tuple:
            parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
            of = next(iter(get_args(hint)), str)
            items = [str(part) if of is str else part for part in parts if str(part).strip()]
            return tuple(_fit(name, of(), of, item, source) for item in items)
        if type_ is bool and isinstance(value, bool):
            return value
        if type_ is bool or isinstance(value, bool) or (type_ is str and not isinstance(value, str)):
            raise ValueError(value)
        if type_ is int and isinstance(value, float) and not value.is_integer():
            raise ValueError(value)
        return type_(value)
    except (TypeError, ValueError) as error:
        quote = type(value).__name__ if "." in name else repr(value)  # tables contain tokens and URLs
        raise InvalidInput(f"{source}: {name} must be {_WANTED[type_]}, not {quote}", field=name) from error


def _fit_named(name: str, hint: Any, value: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """Convert a table of tables, such as `[channels.phone]`, or of texts, such as headers."""
    of = get_args(hint)[1]
    if of is str:
        return {key: _fit(f"{name}.{key}", "", str, each, source) for key, each in value.items()}
    return {
        key: fit_settings(of(), _table(f"{name}.{key}", each, source), source, f"{name}.{key}.")
        for key, each in value.items()
    }


def _table(name: str, value: Any, source: Source) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{source}: {name} is a table: write [{name}]", field=name)
    return value


def problems_of(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the settings of the right type that would still be useless or harmful, each as the name of its field and
    the problem."""
    for proxy in settings.trusted_proxies:
        if not _is_network(proxy):
            advice = "is not an address or network; write one such as 10.0.0.5 or 10.0.0.0/24"
            yield "trusted_proxies", f"trusted_proxies: {proxy!r} {advice}"
    for label in settings.labels:
        if not is_tag(label):
            yield "labels", f"labels: {label!r} is not a label; write one such as gpu, in lowercase"
    for each in kind_settings():
        yield from each.problems(settings)


def _is_network(text: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True
