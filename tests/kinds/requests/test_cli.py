"""`duetime request`: schedule an HTTP request, and change it."""

from __future__ import annotations

import pytest

from duetime.engine.clock import DAY, SECOND
from duetime.kinds.requests.retry_delay import USUAL, retry_delay
from tests.support.cli import Cli

URL = "https://hooks.example.org/nightly"


def test_a_request_is_added_with_its_headers_and_body(cli: Cli) -> None:
    parts = ("--method", "PUT", "--header", "X-One: a:b", "--header", "Accept:text/plain", "--body", "hi")
    added = cli(
        "request", "add", URL, *parts, "--cron", "0 3 * * *", "--max-attempts", "2", "--timeout", "9s", "--json"
    )
    assert added.code == 0, added
    assert added.document["limits"]["max_attempts"] == 2
    document = cli("request", "show", "r1", "--json").document
    assert document["name"] == URL and set(document["payload"]["headers"]) == {"X-One", "Accept"}
    assert [document["payload"][part] for part in ("method", "body", "timeout")] == ["PUT", "hi", 9]
    assert cli("request", "add", URL, "--delay", "1h", "--label", "ping").out.startswith("Added r2  ping: once, ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--header", "X-One"), "--header: write it as 'Name: value'"),
        (("--method", "BREW"), "--method: must be one of GET, POST"),
    ],
)
def test_a_part_that_cannot_be_used_is_named_by_its_option(cli: Cli, options: tuple[str, ...], said: str) -> None:
    answer = cli("request", "add", URL, "--delay", "1h", *options)
    assert answer.code == 2 and said in answer.err


def test_a_backoff_sets_the_delay_before_retries(cli: Cli) -> None:
    def delays() -> list[int]:
        formula = cli("request", "show", "r1", "--json").document["payload"].get("retry_delay", USUAL)
        return [retry_delay(formula, retried) // SECOND for retried in range(3)]

    assert cli("request", "add", URL, "--delay", "1h", "--backoff", "10s").code == 0
    assert delays() == [10, 20, 40]
    assert cli("request", "edit", "r1", "--backoff", "1d").code == 0
    assert delays() == [DAY // SECOND] * 3
    for refused in ("25h", "0s"):
        assert "--backoff" in cli("request", "edit", "r1", "--backoff", refused).err
    assert cli("request", "edit", "r1", "--backoff", "none").code == 0
    assert delays() == [12, 148, 1808]


def test_the_address_has_one_name_whether_it_is_an_argument_or_an_option(cli: Cli) -> None:
    assert cli("request", "add", URL, "--delay", "1h").code == 0
    for command in (("add", "nonsense", "--delay", "1h"), ("edit", "r1", "--url", "nonsense")):
        answer = cli("request", *command)
        assert answer.code == 2 and answer.err.startswith("duetime: the URL: "), answer


def test_an_edit_changes_the_timeout_of_each_attempt_as_it_was_added(cli: Cli) -> None:
    cli("request", "add", URL, "--delay", "1h", "--timeout", "30s", "--header", "Authorization: Bearer hush")

    def timeouts() -> list[object]:
        document = cli("request", "show", "r1", "--json").document
        return [document[part].get("timeout") for part in ("payload", "policy")]

    assert timeouts() == [30, None]
    assert cli("request", "edit", "r1", "--timeout", "2m").code == 0
    assert timeouts() == [120, None]
    assert cli("request", "edit", "r1", "--timeout", "none").code == 0
    assert timeouts() == [None, None]
