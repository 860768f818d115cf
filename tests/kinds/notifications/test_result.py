"""The two results have the names and fields of the contract."""

from __future__ import annotations

from duetime.kinds.notifications.result import Err, Ok, Result


def test_both_results_say_whether_they_are_ok_or_an_error() -> None:
    done: Result[int] = Ok(5)
    failed: Result[int] = Err("api_error", "it broke")
    assert (done.is_ok, done.is_err, failed.is_ok, failed.is_err) == (True, False, False, True)
    assert isinstance(done, Ok) and done.value == 5
    assert isinstance(failed, Err) and (failed.code, failed.message) == ("api_error", "it broke")
    assert Err("not_found") == Err(code="not_found", message="")
