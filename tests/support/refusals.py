"""The errors that calls raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pytest

from duetime.engine.errors import DuetimeError

P = ParamSpec("P")
T = TypeVar("T")


def attempt(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | DuetimeError:
    """Return what a call returns, or the error that it raises."""
    try:
        return call(*args, **kwargs)
    except DuetimeError as error:
        return error


def refusal_of(call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> DuetimeError:
    """Return the error that a call raises; fail if it raises none."""
    with pytest.raises(DuetimeError) as caught:
        call(*args, **kwargs)
    return caught.value
