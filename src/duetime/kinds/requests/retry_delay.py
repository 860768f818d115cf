"""Retry delays as formulas that clients write: numbers, `retried`, + - * / and a few functions.

The parser accepts only this arithmetic and rejects everything else that a client sends.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from functools import lru_cache
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

_WORD = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][0-9]{1,3})?|\.[0-9]+|[A-Za-z]+|[-+*/(),])", re.ASCII)
_SIGNS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
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
    """Return the delay in microseconds, at most a day; the formula is in milliseconds. If it has no value for this
    retry, the delay is a day, because a formula that overflows asks for a long delay."""
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
        raise InvalidInput(f"retry_delay: has more than {LONGEST_TEXT} characters; shorten it", field="retry_delay")
    return _Reader(formula).whole()


class _Reader:
    """Recursive descent parser with one method per grammar rule."""

    def __init__(self, formula: str) -> None:
        self._words = _split(formula)
        self._next = 0
        self._depth = 0

    def whole(self) -> Term:
        term = self._sum()
        if self._peek():
            _refuse(f"{self._peek()!r} is not expected there")
        return term

    def _sum(self) -> Term:
        term = self._product()
        while self._peek() in ("+", "-"):
            term = _joined(_SIGNS[self._take()], term, self._product())
        return term

    def _product(self) -> Term:
        term = self._signed()
        while self._peek() in ("*", "/"):
            term = _joined(_SIGNS[self._take()], term, self._signed())
        return term

    def _signed(self) -> Term:
        negative = False
        while self._peek() in ("+", "-"):
            negative ^= self._take() == "-"
        term = self._operand()
        return (lambda retried: -term(retried)) if negative else term

    def _operand(self) -> Term:
        word = self._take()
        if word == "(":
            return self._inside(1)[0]
        if word == "retried":
            return lambda retried: retried
        if word in _FUNCTIONS:
            return self._call(word)
        if not (word[:1].isdigit() or word[:1] == "."):
            _refuse(f"{word!r} is not expected there" if word else "it ends too early")
        number = float(word)
        return lambda _retried: number

    def _call(self, name: str) -> Term:
        function, count = _FUNCTIONS[name]
        if self._take() != "(":
            _refuse(f"{name} needs brackets")
        arguments = self._inside(count)
        return lambda retried: float(function(*(argument(retried) for argument in arguments)))

    def _inside(self, count: int) -> list[Term]:
        self._depth += 1
        if self._depth > _DEEPEST:
            _refuse("it has too many brackets within each other")
        terms = [self._sum()]
        while self._peek() == ",":
            self._take()
            terms.append(self._sum())
        if self._take() != ")":
            _refuse("a bracket is not closed")
        if len(terms) != count:
            _refuse(f"{len(terms)} values stand where {count} belong")
        self._depth -= 1
        return terms

    def _peek(self) -> str:
        return self._words[self._next] if self._next < len(self._words) else ""

    def _take(self) -> str:
        word = self._peek()
        self._next += 1
        return word


def _split(formula: str) -> list[str]:
    words: list[str] = []
    position, end = 0, len(formula.rstrip())
    while position < end:
        match = _WORD.match(formula, position)
        if match is None:
            _refuse(f"{formula[position:].strip()[:20]!r} is not known")
        words.append(match[1])
        position = match.end()
    return words


def _joined(sign: Callable[[float, float], float], left: Term, right: Term) -> Term:
    return lambda retried: sign(left(retried), right(retried))


def _refuse(why: str) -> NoReturn:
    known = ", ".join(_FUNCTIONS)
    message = f"retry_delay: {why}; write milliseconds with numbers, retried, + - * / ( ) and {known}"
    raise InvalidInput(message, field="retry_delay")
