"""Named queries and numbered migrations, read from the SQL files beside this module."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from duetime.engine.model import Attempt, Definition, Progress, Run, WorkerRow
from duetime.engine.store_interfaces import Remote

_NAMED = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_WHOLE_ROW = re.compile(r"\b([sprwam])\.\*")
_FIELDS = {
    "s": Definition._fields,
    "p": Progress._fields,
    "r": Run._fields,
    "w": WorkerRow._fields,
    "a": Attempt._fields,
    "m": Remote._fields,
}


def whole_rows(statement: str) -> str:
    """Replace `s.*` and the like by column names: a newer schema may have more columns than this code reads."""
    return _WHOLE_ROW.sub(lambda found: ", ".join(f"{found[1]}.{name}" for name in _FIELDS[found[1]]), statement)


@cache
def load_queries(dialect: str) -> dict[str, str]:
    """Return the named queries: those that all dialects share, and those of this dialect."""
    folder = files("duetime.stores") / "sql"
    return {**_named(folder / "queries.sql"), **_named(folder / dialect / "queries.sql")}


def _named(file: Traversable) -> dict[str, str]:
    pieces = _NAMED.split(file.read_text(encoding="utf-8"))[1:]
    return {name: whole_rows(_bare(body)) for name, body in zip(pieces[::2], pieces[1::2], strict=True)}


def _bare(body: str) -> str:
    """Strip the comments, because a statement's text is also its key in the driver's cache."""
    return "\n".join(line for line in body.strip().splitlines() if not line.startswith("--"))


def load_migrations(dialect: str) -> list[tuple[int, str]]:
    """Return (version, script) in order; version n turns schema n-1 into n."""
    folder = files("duetime.stores") / "sql" / dialect
    found = [
        (int(entry.name[:4]), entry.read_text(encoding="utf-8"))
        for entry in folder.iterdir()
        if re.fullmatch(r"\d{4}_\w+\.sql", entry.name)
    ]
    return sorted(found)
