"""What an answer means for a run."""

from __future__ import annotations

import json

import pytest

from duetime.engine.clock import DAY, SECOND
from duetime.engine.outcome import Completed, Failed, Retry
from duetime.net.calls import retry_after
from duetime.net.client import CallFailed, HttpAnswer
from duetime.net.host_limits import Sign
from duetime.net.outcomes import outcome_of, outcome_of_failure, sign_of, sign_of_failure

HOST = "https://hooks.example.org"
NOON = "Tue, 10 Feb 2026 12:00:00 GMT"


def answer(status: int, **headers: str) -> HttpAnswer:
    return HttpAnswer(status, {name.replace("_", "-"): value for name, value in headers.items()}, b"secret", False)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_2xx_is_done_with_what_the_run_shows(status: int) -> None:
    outcome = outcome_of(answer(status), {"channel": "ops"}, HOST)
    assert isinstance(outcome, Completed)
    assert json.loads(outcome.result or "") == {"channel": "ops", "status": status}


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_what_may_pass_is_tried_again(status: int) -> None:
    outcome = outcome_of(answer(status, retry_after="7"), {}, HOST)
    assert isinstance(outcome, Retry)
    assert outcome.after == 7 * SECOND
    assert outcome.error.startswith(f"{HOST} answered {status}")


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 403, 404, 405, 410, 413, 422, 451, 499])
def test_everything_else_is_final_and_quotes_nothing(status: int) -> None:
    outcome = outcome_of(answer(status, location="https://x/?token=secret"), {}, HOST)
    assert isinstance(outcome, Failed)
    assert outcome.permanent
    assert "secret" not in outcome.error
    assert ("redirects are not followed" in outcome.error) == (status < 400)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("0", 0),
        ("120", 120 * SECOND),
        (" 5 ", 5 * SECOND),
        ("86400", DAY),
        ("86401", DAY),
        ("9" * 5000, DAY),
        ("-5", 0),
        ("1.5", 0),
        ("soon", 0),
        ("", 0),
        ("\u0665", 0),
        ("Tue, 10 Feb 2026 12:02:00 GMT", 120 * SECOND),
        ("Tue, 10 Feb 2026 14:02:00 +0200", 120 * SECOND),
        ("Tue, 10 Feb 2026 11:00:00 GMT", 0),
        ("Tue, 10 Feb 2036 12:00:00 GMT", DAY),
        ("Tue, 99 Feb 2026 12:00:00 GMT", 0),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date_and_capped(asked: str, expected: int) -> None:
    assert retry_after({"retry-after": asked, "date": NOON}) == expected


def test_a_date_without_one_to_compare_it_with_asks_for_nothing() -> None:
    assert retry_after({"retry-after": NOON}) == 0
    assert retry_after({}) == 0


def test_no_answer_is_tried_again_unless_it_cannot_help() -> None:
    assert outcome_of_failure(CallFailed("no answer")) == Retry("no answer")
    assert outcome_of_failure(CallFailed("bad URL", permanent=True)) == Failed("bad URL", permanent=True)


@pytest.mark.parametrize(
    ("status", "sign"), [(200, Sign.ANSWERED), (404, Sign.ANSWERED), (429, Sign.ANSWERED), (503, Sign.FAILED)]
)
def test_429_is_a_sign_of_life_and_503_is_not(status: int, sign: Sign) -> None:
    assert sign_of(answer(status)) is sign


def test_what_never_left_is_no_sign_at_all() -> None:
    assert sign_of_failure(CallFailed("no answer")) is Sign.FAILED
    assert sign_of_failure(CallFailed("no answer in time", timed_out=True)) is Sign.SILENT
    assert sign_of_failure(CallFailed("bad URL", permanent=True)) is Sign.NONE
