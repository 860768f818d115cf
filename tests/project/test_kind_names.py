"""Only kinds, and what puts them together, name a kind: everything else treats all kinds alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "duetime"
KINDS = ("job", "prompt", "notification", "request")
NAMES = frozenset({*KINDS, *(f"{kind}s" for kind in KINDS)})
MAY_NAME_KINDS = ("kinds/", "cli/", "app.py", "api/", "testing.py")

ALLOWED = {
    "settings/__init__.py": "the table [notifications] of the settings file",
    "stores/run_search.py": "the conditions of the partial indexes that the migrations created",
}


def literals(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and node.value in NAMES:
            yield f"{path.relative_to(SOURCE)}:{node.lineno} {node.value!r}"


def test_no_other_module_names_a_kind() -> None:
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(MAY_NAME_KINDS) and name not in ALLOWED:
            found += literals(path)
    assert found == []


def test_every_exception_is_needed() -> None:
    assert len(ALLOWED) <= 8
    assert [name for name in sorted(ALLOWED) if not any(literals(SOURCE / name))] == []
