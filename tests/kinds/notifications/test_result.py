"""The two results have the names and fields of the contract."""

from __future__ import annotations

import pytest

from duetime.engine.errors import InvalidInput, StoreUnavailable
from duetime.kinds.notifications.result import Err, Ok, Result, as_result, unwrap


def test_both_results_say_whether_they_are_ok_or_an_error() -> None:
    done: Result[int] = Ok(5)
    failed: Result[int] = Err("api_error", "it broke")
    assert (done.is_ok, done.is_err, failed.is_ok, failed.is_err) == (True, False, False, True)
    assert isinstance(done, Ok) and done.value == 5
    assert isinstance(failed, Err) and (failed.code, failed.message) == ("api_error", "it broke")
    assert Err("not_found") == Err(code="not_found", message="")


@as_result
def halve(number: int) -> int:
    if number % 2:
        raise InvalidInput(field="number", problem="must be even")
    if number > 100:
        raise StoreUnavailable("/home/ada/my.db is locked")
    return number // 2


def test_what_a_method_returns_or_raises_becomes_a_result() -> None:
    assert halve(10) == Ok(5)
    assert halve(11) == Err("invalid", "number: must be even", {"field": "number", "problem": "must be even"})
    assert halve(102) == Err("api_error", "the store cannot be reached right now; try again in a moment")


def test_an_unwrapped_result_is_its_value_or_raises_the_error_of_its_code() -> None:
    assert unwrap(halve(10)) == 5
    with pytest.raises(InvalidInput, match="must be even") as caught:
        unwrap(halve(11))
    assert (caught.value.field, caught.value.problem) == ("number", "must be even")
