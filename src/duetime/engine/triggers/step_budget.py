"""Step budgets, which bound the cost of evaluating a trigger, whatever its rule.

A step is one iteration of an inner loop, a few microseconds. Steps are counted instead of time, so that the same rule
is accepted or rejected on every machine. Budgets nest, and the tightest one decides.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Hashable
from typing import Final, ParamSpec, TypeVar

from duetime.engine.errors import InvalidTrigger

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")

CREATION_STEPS: Final = 40_000
"""For everything that a create, an edit or a preview evaluates for one trigger."""
EVALUATION_STEPS: Final = 100_000
"""For one evaluation of a trigger outside a transaction: more than at creation, because later gaps may be longer."""
LIST_STEPS: Final = 60_000
"""For all triggers of one list, calendar or page together."""
LOCKED_STEPS: Final = 500
"""For the evaluations of a claim within a store's transaction. An evaluation that needs more is postponed until after
the transaction, and the others get the full budget again."""
MOST_POSTPONED: Final = 8
"""The number of postponed evaluations in a claim after which its budget is refilled with only a few steps. Owners share
this number: one that has used up its part gets no more steps in this claim."""
FEW_STEPS: Final = 50
"""Enough for nearly every rule that people write."""
TRANSACTION_STEPS: Final = LOCKED_STEPS * MOST_POSTPONED
"""For all evaluations within one transaction of a store."""


class TooManySteps(InvalidTrigger):
    """It takes too many steps to work out when this fires; make the rule narrower: a smaller COUNT, fewer BYHOUR,
    BYMINUTE and BYSECOND values below BYSETPOS, or a shorter FREQ."""

    def __init__(self) -> None:
        reason = " ".join((type(self).__doc__ or "").split())
        super().__init__(f"rrule: {reason[0].lower()}{reason[1:]}", field="rrule")


class OutOfSteps(Exception):
    """Raised if an evaluation in a transaction needs too many steps: it is computed outside. A claim postpones the
    entry until then; any other transaction is repeated."""

    evaluate: Callable[[], object] | None = None
    """Computes the answer and caches it, so that the repeated transaction finds it."""


class _Meter(threading.local):
    left: float = math.inf
    refuse: type[Exception] = TooManySteps


_meter: Final = _Meter()


def spend(steps: int = 1) -> None:
    """Count steps against the open budget of this thread."""
    left = _meter.left = _meter.left - steps
    if left < 0:
        raise _meter.refuse()


def take_step() -> bool:
    """Count one step, like `spend`, and return whether a budget is open at all; for the innermost path."""
    left = _meter.left - 1
    if left == math.inf:
        return False
    _meter.left = left
    if left < 0:
        raise _meter.refuse()
    return True


class step_budget:
    """Limits the steps that the enclosed code may take; beyond the limit, `refuse` is raised."""

    def __init__(self, steps: int, refuse: type[Exception] = TooManySteps) -> None:
        self._steps, self._refuse = steps, refuse

    def __enter__(self) -> step_budget:
        self._outer = _meter.left, _meter.refuse
        if self._steps <= _meter.left:
            _meter.left, _meter.refuse = self._steps, self._refuse
        self._begun = _meter.left
        return self

    @property
    def used(self) -> int:
        """The steps used so far, to be read inside the block; 0 if no limit is set."""
        used = self._begun - _meter.left
        return int(used) if math.isfinite(used) else 0

    def refill(self, steps: int | None = None) -> None:
        """Allow the full number of steps again, or `steps`, within what the outer budget has left."""
        used = self._begun - _meter.left
        left, refuse = self._outer
        self._outer = left - used, refuse
        _meter.left = self._begun = min(self._steps if steps is None else steps, self._outer[0])

    def __exit__(self, *error: object) -> None:
        used = self._begun - _meter.left
        left, _meter.refuse = self._outer
        _meter.left = left - used if math.isfinite(left) else left


def with_own_budget(evaluate: Callable[[A], T], argument: A) -> T:
    """Evaluate with a budget of its own, in a thread that has opened none; cheaper than `step_budget`."""
    _meter.left = EVALUATION_STEPS
    try:
        return evaluate(argument)
    finally:
        _meter.left = math.inf


def budgeted(method: Callable[P, T]) -> Callable[P, T]:
    """Give an evaluation a budget of its own if its caller has opened none."""

    @functools.wraps(method)
    def evaluated(*args: P.args, **kwargs: P.kwargs) -> T:
        if _meter.left != math.inf:
            return method(*args, **kwargs)
        with step_budget(EVALUATION_STEPS):
            return method(*args, **kwargs)

    return evaluated


def remembered(size: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Cache the answers of a pure evaluation, including the answer that it takes too many steps. Within a transaction,
    an answer that is not cached yet and needs more than a few steps raises OutOfSteps, whose `evaluate` computes it."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.lru_cache(maxsize=size)
        def cached(*args: Hashable) -> T | TooManySteps:
            try:
                if _meter.left < EVALUATION_STEPS:  # using up a smaller budget says nothing about this trigger
                    return function(*args)  # type: ignore[arg-type, call-arg]
            except OutOfSteps as error:
                error.evaluate = functools.partial(cached, *args)
                raise
            try:
                with step_budget(EVALUATION_STEPS):
                    return function(*args)  # type: ignore[arg-type, call-arg]
            except TooManySteps as error:
                return error

        @functools.wraps(function)
        def answer(*args: P.args, **kwargs: P.kwargs) -> T:
            result = cached(*args)
            if result.__class__ is TooManySteps:  # cheaper than isinstance, on a path that every run takes
                raise TooManySteps
            return result  # type: ignore[return-value]

        return answer

    return decorate


def within_transaction(transaction: Callable[P, T]) -> Callable[P, T]:
    """Repeat a transaction whose evaluations need more than a few steps, after doing those outside of it."""

    @functools.wraps(transaction)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(_MOST_REPEATED):
            try:
                with step_budget(TRANSACTION_STEPS, OutOfSteps):
                    return transaction(*args, **kwargs)
            except OutOfSteps as error:
                if error.evaluate is None:
                    break
                error.evaluate()
        with step_budget(EVALUATION_STEPS):
            return transaction(*args, **kwargs)

    return repeated


_MOST_REPEATED: Final = 8
