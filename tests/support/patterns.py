"""Every regular expression of the package, found in its source, and hostile texts for each of them."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from re import _constants, _parser  # the parsed form of a pattern
from typing import Any, NamedTuple

import duetime

ROOT = Path(duetime.__file__).parent
_FUNCTIONS = frozenset({"compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"})
_CALLS = frozenset({"pattern", *(f"re.{each}" for each in _FUNCTIONS)})
"""`pattern` is the one of `engine.value_class`."""
_UNITS = (
    "a", "A", "0", " ", "\n", "-", "_", ".", ":", "=", "/", "@", '"', "'", "\\", "<", "a-", "a=", "a.", "a ", "0 ",
    "eyJ-", "eyJaaaaaaaa.", "a://", "a:a", "://a", '"a":"', "bearer ", "basic  ", "password=", "token: ", "x-key:",
    "key-a",
)  # fmt: skip


class Found(NamedTuple):
    place: str
    pattern: re.Pattern[Any]
    methods: tuple[str, ...]
    """How it is applied; all ways if its module does not show it."""


class Unknown(NamedTuple):
    """A pattern that is built at run time and known only to its function."""

    place: str


def patterns() -> Iterator[Found | Unknown]:
    for file in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(file.read_text())
        uses = _uses(tree)
        for call, name in _calls(tree):
            function = getattr(call.func, "attr", "compile")
            place = f"{file.relative_to(ROOT)}:{name or ast.unparse(call)}"
            compiled = _compiled(file, call, whole=function == "compile")
            if compiled is None:
                yield Unknown(place)
            else:
                yield Found(place, compiled, _methods(uses.get(name, set()) if function == "compile" else {function}))


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Yield calls that compile a pattern, with the name of the pattern if it has one."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            names[id(node.value)] = target.id if isinstance(target, ast.Name) else ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _CALLS:
            yield node, names.get(id(node), "")


def _uses(tree: ast.Module) -> dict[str, set[str]]:
    uses: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in _FUNCTIONS:
            uses.setdefault(node.value.id, set()).add(node.attr)
    return uses


def _methods(used: set[str]) -> tuple[str, ...]:
    anchored = used & {"match", "fullmatch"}
    return tuple(sorted(anchored)) if used and used == anchored else ("sub", "fullmatch")


def _compiled(file: Path, call: ast.Call, *, whole: bool) -> re.Pattern[Any] | None:
    """Evaluate a call in its module; for a call such as `re.sub`, only its pattern."""
    source = compile(ast.Expression(call if whole else call.args[0]), str(file), "eval")
    known: dict[str, Any] = {"re": re, "pattern": re.compile}
    lookups: tuple[Callable[[], dict[str, Any]], ...] = (lambda: known, lambda: _names_of(file) | known)
    for names in lookups:  # most name nothing, and their modules load slowly
        try:
            value = eval(source, names())  # noqa: S307  our own source
            return value if isinstance(value, re.Pattern) else re.compile(value)
        except NameError:
            continue
    return None


def _names_of(file: Path) -> dict[str, Any]:
    return vars(importlib.import_module(".".join(("duetime", *file.relative_to(ROOT).with_suffix("").parts))))


def hostile_units(pattern: re.Pattern[Any]) -> list[str]:
    """Return texts that, repeated, nearly match the pattern: built from its own parts, and some common ones."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    pieces = [piece for piece in _samples(_parser.parse(source, pattern.flags & ~re.UNICODE)) if piece][:7]
    slices = {"".join(pieces[i:j]) for i in range(len(pieces)) for j in range(i + 1, len(pieces) + 1)}
    return sorted({*slices, *_UNITS})


def _samples(parsed: Any) -> Iterator[str]:
    """Return one text for each part; for alternatives, the first."""
    for code, given in parsed:
        if code is _constants.LITERAL:
            yield chr(given)
        elif code in (_constants.IN, _constants.NOT_LITERAL, _constants.ANY):
            yield _one_of(code, given)
        elif code in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT):
            least, _, inner = given
            yield "".join(_samples(inner)) * max(1, min(least, 20))
        elif code is _constants.SUBPATTERN:
            yield from _samples(given[-1])
        elif code is _constants.BRANCH:
            yield "".join(_samples(given[1][0]))
        elif code is _constants.ATOMIC_GROUP:
            yield from _samples(given)


def _one_of(code: Any, given: Any) -> str:
    if code is not _constants.IN:
        return "a" if given != ord("a") else "b"
    text = {_constants.CATEGORY_SPACE: " ", _constants.CATEGORY_DIGIT: "0", _constants.CATEGORY_WORD: "a"}
    negated = given[0][0] is _constants.NEGATE
    if negated:
        literals = {value for kind, value in given if kind is _constants.LITERAL}
        return next(each for each in "a0-. x/" if ord(each) not in literals)
    kind, value = given[-1]  # the last of a class such as [\w-] is what a boundary stumbles over
    if kind is _constants.CATEGORY:
        return text.get(value, "a")
    return chr(value if kind is _constants.LITERAL else value[0])
