"""Docstrings that Python does not keep: those below the fields of a class and below the names of a module."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from textwrap import dedent
from types import ModuleType


def field_docs(of: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class, without inherited ones."""
    return dict(_pairs(_definition(of).body))


def own_fields(of: type) -> list[str]:
    """Return the names of the fields that a class declares itself."""
    return [
        each.target.id
        for each in _definition(of).body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]


def declared_types(of: type) -> dict[str, str]:
    """Return the types of the fields that are `Annotated`, as they are written."""
    return {
        each.target.id: ast.unparse(parts[0]).replace("'", '"')
        for each in _definition(of).body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        if isinstance(each.annotation, ast.Subscript) and isinstance(each.annotation.slice, ast.Tuple)
        if isinstance(each.annotation.value, ast.Name) and each.annotation.value.id == "Annotated"
        for parts in [each.annotation.slice.elts]
    }


def base_names(of: type) -> list[str]:
    """Return the names of the classes that a class extends, as they are written."""
    return [each.id for each in _definition(of).bases if isinstance(each, ast.Name)]


def name_docs(of: ModuleType) -> dict[str, str]:
    """Return the docstrings below the names that a module assigns."""
    return dict(_pairs(ast.parse(inspect.getsource(of)).body))


def class_docs(of: type) -> str:
    """Return the docstring of a class, but not the signature that dataclasses put in its place."""
    text = inspect.cleandoc(of.__doc__ or "")
    return "" if text.startswith(f"{of.__name__}(") else text


def _definition(of: type) -> ast.ClassDef:
    [made] = ast.parse(dedent(inspect.getsource(of))).body
    assert isinstance(made, ast.ClassDef)
    return made


def _pairs(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, after in pairwise(body):
        match field, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)
            case _:
                pass
