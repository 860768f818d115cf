"""Each wording stands in one test file: whoever changes it changes one line, and finds what else depends on it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LONG, WORDS = 40, 4


def wordings(source: str) -> Iterator[str]:
    """Yield the long texts of a module, without its docstrings."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
    for each in nodes:
        text = each.value if isinstance(each, ast.Constant) and id(each) not in docstrings else None
        if isinstance(text, str) and len(text) >= LONG and len(text.split()) >= WORDS:
            yield text


@pytest.mark.slow
def test_no_wording_stands_in_two_files() -> None:
    files: dict[str, set[str]] = defaultdict(set)
    for path in TESTS.rglob("*.py"):
        for text in wordings(path.read_text(encoding="utf-8")):
            files[text].add(path.relative_to(TESTS).as_posix())
    repeated = {text: sorted(names) for text, names in files.items() if len(names) > 1}
    assert not repeated, "name it in tests/support (wordings.py), or assert the code or the field instead"
