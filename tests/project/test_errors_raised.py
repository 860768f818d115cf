"""Errors are raised with the class that the table of codes has, and only notifications return them as values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from duetime.engine import errors
from duetime.engine.errors import DuetimeError
from duetime.service.errors import ERRORS

SOURCE = Path(__file__).parents[2] / "src" / "duetime"
CLASSES = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, DuetimeError)}


def raised_with_a_code(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the class and the code of each error that is made with a code of its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLASSES:
            codes = [each.value for each in node.keywords if each.arg == "code"]
            yield from ((node.func.id, str(each.value)) for each in codes if isinstance(each, ast.Constant))


def test_an_error_with_a_code_has_the_class_of_that_code() -> None:
    texts = [path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))]
    pairs = {pair for text in texts for pair in raised_with_a_code(ast.parse(text))}
    assert {code for _, code in pairs} >= {"busy", "broken", "depth", "not_possible", "not_yours"}, "they were read"
    assert {(name, code) for name, code in pairs if ERRORS[code].type.__name__ != name} == set()


def test_a_class_that_does_not_fit_its_code_is_seen() -> None:
    assert list(raised_with_a_code(ast.parse('raise NotFound("gone", code="busy")'))) == [("NotFound", "busy")]


def test_only_notifications_return_errors_as_values() -> None:
    module = "duetime.kinds.notifications.result"
    users = {path.relative_to(SOURCE).parts[:2] for path in SOURCE.rglob("*.py") if module in path.read_text("utf-8")}
    assert users == {("kinds", "notifications")}
