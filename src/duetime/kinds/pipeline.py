"""Inline definitions such as `fetch('https://example.org') | shorten(words=50)`: read as data, never evaluated."""

from __future__ import annotations

import ast
import copy
import math
from functools import lru_cache
from typing import Any, NamedTuple

MOST_CHARACTERS = 8192
MOST_STEPS = 20
MOST_LEVELS = 20


class Unreadable(ValueError):
    """The text is no pipeline of names, calls and literals."""


class Step(NamedTuple):
    task: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}  # noqa: RUF012  a named tuple's default, never changed
    nested: bool = False
    """Whether there are lists or objects among the arguments: a task may change what it is given."""

    def given(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, for one call."""
        if self.nested:
            return copy.deepcopy(list(self.args)), copy.deepcopy(self.kwargs)
        return list(self.args), dict(self.kwargs)


@lru_cache(maxsize=1024)
def parse(text: str) -> tuple[Step, ...]:
    """The steps in order. Raises Unreadable."""
    if len(text) > MOST_CHARACTERS:
        raise Unreadable(f"longer than {MOST_CHARACTERS} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Unreadable("not an expression") from error
    return tuple(_step(node) for node in _stages(tree))


def _stages(node: ast.expr) -> list[ast.expr]:
    """`a | b | c` is read by Python as `(a | b) | c`."""
    stages: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        stages.append(node.right)
        node = node.left
        if len(stages) >= MOST_STEPS:
            raise Unreadable(f"more than {MOST_STEPS} steps")
    return [node, *reversed(stages)]


def _step(node: ast.expr) -> Step:
    if not isinstance(node, ast.Call):
        return Step(_name(node, MOST_LEVELS))
    args = tuple(_literal(arg, MOST_LEVELS) for arg in node.args)
    kwargs: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in kwargs:
            raise Unreadable("an argument without a name or with the name of another")
        kwargs[keyword.arg] = _literal(keyword.value, MOST_LEVELS)
    nested = any(isinstance(value, list | dict) for value in (*args, *kwargs.values()))
    return Step(_name(node.func, MOST_LEVELS), args, kwargs, nested)


def _name(node: ast.expr, levels: int) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and levels:
        return f"{_name(node.value, levels - 1)}.{node.attr}"
    raise Unreadable("a step is the name of a task, or its call")


def _literal(node: ast.expr, levels: int) -> Any:
    """What JSON knows: texts, finite numbers, true, false, null, lists and objects."""
    if not levels:
        raise Unreadable("nested too deeply")
    if isinstance(node, ast.Constant):
        return _constant(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return _signed(node)
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(item, levels - 1) for item in node.elts]
    if isinstance(node, ast.Dict):
        return _object(node, levels)
    raise Unreadable("an argument is a literal")


def _constant(value: Any) -> Any:
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise Unreadable("a literal that JSON does not know")


def _signed(node: ast.UnaryOp) -> Any:
    value = _constant(node.operand.value) if isinstance(node.operand, ast.Constant) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Unreadable("a sign stands before a number")
    return -value if isinstance(node.op, ast.USub) else value


def _object(node: ast.Dict, levels: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            raise Unreadable("a key is a text")
        result[key.value] = _literal(value, levels - 1)
    return result
