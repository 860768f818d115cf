"""Retry delays as formulas that clients write: numbers, `retried`, + - * / and a few functions.

Only this arithmetic is accepted: everything else that a client sends is rejected before Python's parser sees it.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import NoReturn, TypeAlias

from duetime.engine.clock import DAY
from duetime.engine.errors import InvalidInput

USUAL = "min(86400, exp(2.5 * (retried + 1))) * 1000"
"""The default: 12 seconds, two and a half minutes, half an hour, six hours, then a day each."""
LONGEST = DAY
LONGEST_TEXT = 500
_DEEPEST = 20

Term: TypeAlias = Callable[[float], float]
"""A part of a formula, as a function of the number of retries."""

_NUMBER = r"[0-9]+(?:\.[0-9]*)?(?:[eE][0-9]{1,3})?|\.[0-9]+"
_WORD = re.compile(rf"({_NUMBER}|[A-Za-z]+|[-+*/(),])|(\S.*)", re.ASCII | re.DOTALL)
_VALUE = re.compile(rf"{_NUMBER}|retried", re.ASCII)
_SIGNS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: dict[str, tuple[Callable[..., float], int]] = {
    "pow": (math.pow, 2),
    "sqrt": (math.sqrt, 1),
    "abs": (abs, 1),
    "exp": (math.exp, 1),
    "floor": (math.floor, 1),
    "ceil": (math.ceil, 1),
    "round": (lambda value: math.floor(value + 0.5), 1),
    "min": (min, 2),
    "max": (max, 2),
}


def retry_delay(formula: str, retried: int) -> int:
    """Return the delay in microseconds, at most a day; the formula is in milliseconds. If the formula has no value for
    this retry, the delay is a day, because a formula that overflows requests a long delay."""
    try:
        milliseconds = read_formula(formula)(float(retried))
    except (ArithmeticError, ValueError):
        return LONGEST
    if math.isnan(milliseconds):
        return LONGEST
    return round(min(max(milliseconds, 0.0), LONGEST / 1000) * 1000)


@lru_cache(maxsize=256)
def read_formula(formula: str) -> Term:
    """Parse a formula. Raises InvalidInput."""
    if len(formula) > LONGEST_TEXT:
        raise InvalidInput(field="retry_delay", problem=f"has more than {LONGEST_TEXT} characters; shorten it")
    words = []
    for word, unknown in _WORD.findall(formula.rstrip()):
        if unknown:
            _refuse(f"{unknown.strip()[:20]!r} is not known")
        words.append(word)
    _check_order(words)
    # 007 is not a number in Python, but 007. is one
    python = " ".join(f"{word}." if word.isdigit() else word for word in words)
    return _term(ast.parse(python, mode="eval").body)


def _check_order(words: list[str]) -> None:
    """Check that each word may follow the one before it, so that Python reads the words as the same arithmetic."""
    depth = 0
    for before, word in pairwise(["", *words, ""]):
        if before in _FUNCTIONS:
            fits, why = word == "(", f"{before} needs brackets"
        elif before == ")" or _VALUE.fullmatch(before):
            fits = word in (("+", "-", "*", "/", ",", ")") if depth else ("+", "-", "*", "/", ""))
            why = "a bracket is not closed" if depth else f"{word!r} is not expected there"
        else:
            fits = word in ("+", "-", "(", *_FUNCTIONS) or _VALUE.fullmatch(word) is not None
            why = f"{word!r} is not expected there" if word else "it ends too early"
        if not fits:
            _refuse(why)
        depth += (word == "(") - (word == ")")
        if depth > _DEEPEST:
            _refuse("its parentheses are nested too deeply")


def _term(node: ast.expr) -> Term:
    negative = False
    while isinstance(node, ast.UnaryOp):
        negative ^= isinstance(node.op, ast.USub)
        node = node.operand
    if negative:
        positive = _term(node)
        return lambda retried: -positive(retried)
    match node:
        case ast.Constant(float(number)):
            return lambda _retried: number
        case ast.Name("retried"):
            return lambda retried: retried
        case ast.BinOp(left, sign, right):
            apply, first, second = _SIGNS[type(sign)], _term(left), _term(right)
            return lambda retried: apply(first(retried), second(retried))
        case ast.Call(ast.Name(name), arguments):
            function, count = _FUNCTIONS[name]
            if len(arguments) != count:
                _refuse(f"{len(arguments)} values given where {count} expected")
            terms = [_term(argument) for argument in arguments]
            return lambda retried: float(function(*(term(retried) for term in terms)))
        case ast.Tuple(values):
            _refuse(f"{len(values)} values given where 1 expected")
        case _:
            _refuse("it is not arithmetic")


def _refuse(why: str) -> NoReturn:
    known = ", ".join(_FUNCTIONS)
    message = f"{why}; write milliseconds with numbers, retried, + - * / ( ) and {known}"
    raise InvalidInput(field="retry_delay", problem=message)
