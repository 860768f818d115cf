"""Interfaces use the service layer: they import little else from the engine than clock types, errors and ids."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import duetime

SOURCE = Path(duetime.__file__).parent
INTERFACES = {"mcp", "rest", "dashboard", "terminal", "cli", "api"}
PARTS_OF_KINDS = {"mcp", "cli", "form", "api", "dashboard", "chat"}
FREE = {"duetime.engine.clock", "duetime.engine.errors", "duetime.engine.value_class"}
"""Modules of which everything may be imported."""
FREE_NAMES = {"Caller", "LOCAL", "RunId", "ScheduleId", "WorkerId"}
MAX_IMPORTED = 52
"""How many names are imported otherwise. It may only become smaller: use an operation, or `service.vocabulary`."""


def _is_interface(path: Path) -> bool:
    first, *others = path.relative_to(SOURCE).parts
    within = {part.removesuffix(".py") for part in others[1:]}
    return first in INTERFACES or (first == "kinds" and not within.isdisjoint(PARTS_OF_KINDS))


def _imported() -> Iterator[str]:
    for path in filter(_is_interface, sorted(SOURCE.rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("duetime.engine"):
                names = [each.name for each in node.names if node.module not in FREE and each.name not in FREE_NAMES]
                yield from (f"{path.relative_to(SOURCE)}: {node.module}.{name}" for name in names)


def test_interfaces_import_no_more_of_the_engine_than_before() -> None:
    imported = list(_imported())
    assert len(imported) <= MAX_IMPORTED, "\n".join(imported)
