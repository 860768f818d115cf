"""No file of `src` imports itself by way of others, wherever in a file the imports stand."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"
FILES = {
    ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCES.rglob("*.py")
}


def imported_files(tree: ast.AST, files: Mapping[str, object]) -> Iterator[str]:
    """Yield the files that a module names in its imports: at its top, in functions, and for type checkers alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in files:
                    yield name
                elif node.module in files:
                    yield node.module


def circles_in(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Return circles, each as a path of files with the first of them at both ends, so that none is left without their
    imports."""
    left = {name: set(imported) for name, imported in imports.items()}
    circles: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1]
            circles.append(circle)
            for imported, importer in pairwise(circle):
                left[importer].discard(imported)
        else:
            return circles


def test_no_file_imports_itself_by_way_of_others() -> None:
    imports = {
        name: set(imported_files(ast.parse(path.read_text("utf-8")), FILES)) - {name} for name, path in FILES.items()
    }
    assert sum(map(len, imports.values())) > 1000, "the imports were read"
    circles = circles_in(imports)
    assert not circles, "\n".join(" is imported by ".join(circle) for circle in circles)


@pytest.mark.parametrize(
    ("sources", "has_circle"),
    [
        ({"a": "import b", "b": "import c", "c": ""}, False),
        ({"a": "import b", "b": "import c", "c": "import a"}, True),
        ({"a": "from b import x", "b": "def f():\n    from a import y"}, True),
        ({"a": "from b import x", "b": "if TYPE_CHECKING:\n    from a import y"}, True),
        ({"p.a": "from p import b", "p.b": "from p.a import x", "p": ""}, True),
        ({"p.a": "from p import b", "p.b": "", "p": "from p.a import x"}, False),
    ],
)
def test_a_circle_is_found(sources: dict[str, str], has_circle: bool) -> None:
    imports = {name: set(imported_files(ast.parse(text), sources)) for name, text in sources.items()}
    assert bool(circles_in(imports)) is has_circle


def test_every_circle_is_listed() -> None:
    circles = circles_in({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c", "a"}})
    assert sorted(map(sorted, map(set, circles))) == [["a", "b"], ["c", "d"]]
