"""`duetime dead`: what could not be delivered is listed, sent again under the same id, or forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from duetime.api import Duetime
from duetime.core.store import RunQuery
from duetime.settings import load_settings
from tests.support.cli import Cli
from tests.support.ntfy import NtfyReceiver
from tests.support.receiver import Behaviour
from tests.support.workers import eventually

ONCE = ("--topic", "home", "--at", "now", "--max-attempts", "1")


@pytest.fixture
def ntfy(tmp_path: Path) -> Iterator[NtfyReceiver]:
    """A server that refuses everything, which the settings of the folder name."""
    with NtfyReceiver() as server:
        server.misbehave = lambda request: Behaviour(403)
        (tmp_path / "duetime.toml").write_text(f'[notifications]\nserver = "{server.url}"\n')
        yield server


def worked(tmp_path: Path, status: str, number: int) -> None:
    """Lets a worker deliver until so many have this status."""
    query = RunQuery(kind="notification", status=status)
    with Duetime(str(tmp_path / "my.db"), settings=load_settings(environment={}, folder=tmp_path)) as duetime:
        eventually(lambda: duetime.app.store.runs(query).total == number, 20, f"{number} {status}")


def failed(cli: Cli, tmp_path: Path, *messages: str) -> list[int]:
    for message in messages:
        assert cli("notify", "add", message, *ONCE).code == 0
    worked(tmp_path, "failed", len(messages))
    return [run["run_id"] for run in cli("dead", "list", "--json").document["dead"]]


def test_nothing_is_dead(cli: Cli) -> None:
    assert "Everything was delivered" in cli("dead", "list").out
    assert cli("dead", "list", "--json").document == {"dead": [], "total": 0, "next_cursor": None}
    assert "Nothing was sent again" in cli("dead", "retry", "--all").out


def test_a_dead_letter_is_listed_shown_and_sent_again_with_the_same_id(
    cli: Cli, tmp_path: Path, ntfy: NtfyReceiver
) -> None:
    (run,) = failed(cli, tmp_path, "Water \x1b[31mthem")
    listed = cli("dead", "list")
    assert "Water \\x1b[31mthem" in listed.out and "403" in listed.out
    assert f"duetime dead retry {run} --db my.db" in listed.out
    shown = cli("dead", "show", str(run))
    assert "home" in shown.out and "403" in shown.out
    document = cli("dead", "show", str(run), "--json").document
    assert (document["kind"], document["to"], document["payload"]["message"]) == (
        "notification", "home", "Water \x1b[31mthem",
    )  # fmt: skip
    ntfy.misbehave = lambda request: None
    again = cli("dead", "retry", str(run))
    assert (again.code, again.out) == (0, "Sent again: 1 message.\n")
    assert "no worker is running" in again.err
    assert cli("dead", "list", "--json").document["total"] == 0
    worked(tmp_path, "completed", 1)
    first, second = ntfy.publications
    assert first.key == second.key == document["schedule"]
    refused = cli("dead", "retry", str(run))
    assert refused.code == 4
    assert f"run {run} was not sent again" in refused.err


def test_all_at_once(cli: Cli, tmp_path: Path, ntfy: NtfyReceiver) -> None:
    runs = failed(cli, tmp_path, "one", "two", "three")
    assert cli("dead", "retry", "--all", "--kind", "request", "--json").document["retried"] == []
    assert sorted(cli("dead", "retry", "--all", "--json").document["retried"]) == sorted(runs)
    ntfy.misbehave = lambda request: None
    worked(tmp_path, "completed", 3)
    assert sorted(each.fields["message"] for each in ntfy.publications[3:]) == ["one", "three", "two"]


def test_what_is_forgotten_stays_in_the_history(cli: Cli, tmp_path: Path, ntfy: NtfyReceiver) -> None:
    first, *_ = failed(cli, tmp_path, "one", "two")
    schedule = cli("dead", "show", str(first), "--json").document["schedule"]
    assert cli("dead", "forget", str(first), "--json").document["forgotten"] == [first]
    assert cli("dead", "list", "--json").document["total"] == 1
    assert cli("notify", "history", schedule, "--json").document["runs"][0]["status"] == "failed"
    assert cli("dead", "forget", "--all").out == "Forgotten: 1 message.\n"
    assert cli("dead", "retry", str(first)).code == 0
    assert cli("notify", "delete", schedule).code == 0


def test_jobs_and_prompts_that_fail_are_no_letters(cli: Cli, tmp_path: Path) -> None:
    payload = ("--task", "shorten", "--arg", "text", "--kwarg", "words=0")
    assert cli("job", "add", "x", *payload, "--at", "now").code == 0
    with Duetime(str(tmp_path / "my.db")) as duetime:
        eventually(lambda: duetime.list("failed"), 20, "a failed job")
    (run,) = cli("job", "history", "x", "--json").document["runs"]
    assert cli("dead", "list", "--json").document["total"] == 0
    assert cli("dead", "show", str(run["run_id"])).code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("retry",), 2, "give the numbers of runs, or --all"),
        (("retry", "1", "--all"), 2, "give the numbers of runs, or --all"),
        (("retry", "first"), 2, "'first' is not a number"),
        (("forget", "1"), 3, "there is no dead letter 1"),
        (("show", "1"), 3, "dead list"),
        (("list", "--kind", "job"), 2, "--kind: there is no 'job' here"),
    ],
)
def test_what_cannot_be_done(cli: Cli, arguments: tuple[str, ...], code: int, words: str) -> None:
    answer = cli("dead", *arguments)
    assert answer.code == code
    assert words in answer.err and answer.err.count("\n") == 1
