"""Names in `src`: a class name stands once, and values are nouns and functions are verbs."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "duetime"
ROWS_AND_ANSWERS = frozenset({"Run", "Schedule"})
"""Names of rows of the engine that the answers made of them have, too."""
PARTICIPLES = frozenset(
    ("asked", "fitted", "found", "given", "heard", "kept", "made", "meant", "said", "shown", "told", "wanted", "worded")
)


def names_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the names of functions, parameters and variables, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def participles_in(tree: ast.AST) -> list[str]:
    return [f"{line}: {name}" for line, name in names_in(tree) if name.strip("_") in PARTICIPLES]


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.AST]:
    """All sources, read once for all tests of this file."""
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def test_every_class_name_stands_once(trees: dict[Path, ast.AST]) -> None:
    places = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert len(places) > 300, "the classes were read"
    assert {name: found for name, found in places.items() if len(found) > 1 and name not in ROWS_AND_ANSWERS} == {}


def test_no_participle_is_a_name(trees: dict[Path, ast.AST]) -> None:
    assert len(trees) > 300, "the sources were read"
    assert [f"{path.name}:{each}" for path, tree in trees.items() for each in participles_in(tree)] == []


@pytest.mark.parametrize(
    "text",
    ["found = 1", "def _told(run): pass", "def f(given): pass", "for made in x: pass", "with a as asked: pass"],
)
def test_a_participle_is_seen(text: str) -> None:
    assert len(participles_in(ast.parse(text))) == 1
    assert participles_in(ast.parse("founder, told_at = 1, x.found")) == []
