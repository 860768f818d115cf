"""Step budgets: working out when a trigger fires has a bounded cost, whatever rule somebody wrote.

A step is one turn of an inner loop, a few microseconds. Steps are counted instead of time, so that the same rule is
accepted or refused on every machine. Budgets nest: the tightest one decides.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Final, ParamSpec, TypeVar

from duetime.engine.errors import InvalidTrigger

P = ParamSpec("P")
T = TypeVar("T")

CREATION_STEPS: Final = 40_000
"""For everything that a create, an edit or a preview works out about one trigger."""
EVALUATION_STEPS: Final = 100_000
"""For one answer of a trigger outside a transaction: more than at its creation, since later gaps may be longer."""
LIST_STEPS: Final = 60_000
"""For all triggers of one list, calendar or page together."""
LOCKED_STEPS: Final = 500
"""For the answers within a store's transaction; an answer that needs more is worked out elsewhere, and then the other
ones have so many steps again."""
MOST_POSTPONED: Final = 8
"""How often within one transaction."""
TRANSACTION_STEPS: Final = LOCKED_STEPS * MOST_POSTPONED
"""For all answers within one transaction of a store."""


class TooManySteps(InvalidTrigger):
    """It takes too many steps to work out when this fires; make the rule narrower: a smaller COUNT, fewer BYHOUR,
    BYMINUTE and BYSECOND values below BYSETPOS, or a shorter FREQ."""

    def __init__(self) -> None:
        reason = " ".join((type(self).__doc__ or "").split())
        super().__init__(f"rrule: {reason[0].lower()}{reason[1:]}", field="rrule")


class OutOfSteps(Exception):
    """An evaluation within a transaction needs more than its few steps: it is done outside, then asked for again."""

    evaluate: Callable[[], object] | None = None
    """Works the answer out and keeps it, so that the repeated transaction finds it."""


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
    """Count one step, and return whether a budget is open at all; the same as `spend`, for the innermost path."""
    left = _meter.left - 1
    if left == math.inf:
        return False
    _meter.left = left
    if left < 0:
        raise _meter.refuse()
    return True


class step_budget:
    """Let what happens inside take at most so many steps; `refuse` is raised beyond."""

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
        """Steps so far; to be asked inside, and 0 where no limit is set."""
        used = self._begun - _meter.left
        return int(used) if math.isfinite(used) else 0

    def refill(self) -> None:
        """Allow as many steps again, as far as the outer budget has them."""
        used = self._begun - _meter.left
        left, refuse = self._outer
        self._outer = left - used, refuse
        _meter.left = self._begun = min(self._steps, self._outer[0])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        used = self._begun - _meter.left
        left, _meter.refuse = self._outer
        _meter.left = left - used if math.isfinite(left) else left


def budgeted(method: Callable[P, T]) -> Callable[P, T]:
    """Give an evaluation a budget of its own where its caller has opened none."""

    @functools.wraps(method)
    def evaluated(*args: P.args, **kwargs: P.kwargs) -> T:
        if _meter.left != math.inf:
            return method(*args, **kwargs)
        with step_budget(EVALUATION_STEPS):
            return method(*args, **kwargs)

    return evaluated


def remembered(size: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Keep the answers of a pure evaluation, and also that one takes too many steps.

    Within a transaction an answer that is not kept yet and needs more than a few steps raises OutOfSteps, which
    knows how to work it out.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.lru_cache(maxsize=size)
        def kept(*args: Hashable) -> T | TooManySteps:
            try:
                if _meter.left < EVALUATION_STEPS:  # when that is used up, it says nothing about this trigger
                    return function(*args)  # type: ignore[arg-type, call-arg]
            except OutOfSteps as error:
                error.evaluate = functools.partial(kept, *args)
                raise
            try:
                with step_budget(EVALUATION_STEPS):
                    return function(*args)  # type: ignore[arg-type, call-arg]
            except TooManySteps as error:
                return error

        @functools.wraps(function)
        def answer(*args: P.args, **kwargs: P.kwargs) -> T:
            found = kept(*args)
            if found.__class__ is TooManySteps:  # cheaper than isinstance, on a path that every run takes
                raise TooManySteps
            return found  # type: ignore[return-value]

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
