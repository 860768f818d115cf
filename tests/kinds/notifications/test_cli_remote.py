"""The command line where notifications are kept at QStash: nothing is left out in silence, and nothing kept here."""

from __future__ import annotations

from pathlib import Path

import pytest

from duetime.app import build
from duetime.engine.store import ScheduleQuery
from duetime.settings import Settings
from tests.support.cli import Cli
from tests.support.qstash_standin import TOKEN, StandIn
from tests.support.settings import write_trusted

ADD = ("notify", "add", "Water the plants", "--topic", "home")


@pytest.fixture
def moved(qstash: StandIn, cli: Cli, tmp_path: Path) -> Cli:
    """A folder whose settings name QStash from now on, with an export from before: a job and a notification."""
    assert cli("job", "add", "tidy", "--task", "echo", "--every", "2h").code == 0
    assert cli(*ADD, "--cron", "0 9 * * *").code == 0
    assert cli("export", "-o", "all.jsonl").err == "Wrote 2 schedules to all.jsonl.\n"
    write_trusted(
        tmp_path,
        '[notifications]\nbackend = "qstash"\nserver = "https://ntfy.example.org"\n'
        f'qstash_url = "{qstash.url}"\nqstash_token = "{TOKEN}"\n',
    )
    return cli


def test_a_one_off_cannot_be_paused_there_and_that_is_said(moved: Cli, qstash: StandIn) -> None:
    once = moved(*ADD, "--delay", "2h", "--json").document["id"]
    for verb, done in (("pause", "paused"), ("resume", "resumed")):
        answer = moved("notify", verb, once)
        assert (answer.code, answer.out) == (4, "")
        assert f"{once} goes out once, at QStash, so it cannot be {done}; delete it" in answer.err
    assert moved("notify", "delete", once).code == 0
    assert moved("notify", "pause", once).code == 3, "there is none any more"


def test_an_import_keeps_no_notification_here(moved: Cli, qstash: StandIn, tmp_path: Path) -> None:
    for sure in ((), ("--yes",)):
        answer = moved("import", "jsonl", "all.jsonl", "--db", "new.db", *sure, "--json")
        [job], [problem] = answer.document["schedules"], answer.document["problems"]
        assert (answer.code, job["name"]) == (4, "tidy")
        assert problem["text"] == "notification Water the plants"
        assert "notifications are kept at QStash" in problem["reason"] and "`duetime notify add`" in problem["reason"]
    room = build(Settings(db=str(tmp_path / "new.db")))
    try:
        assert [each.definition.name for each in room.store.search(ScheduleQuery()).items] == ["tidy"]
    finally:
        room.close()
    assert qstash.schedules == {}


def test_what_is_there_already_is_no_problem(moved: Cli) -> None:
    assert moved("import", "jsonl", "all.jsonl", "--yes").code == 0


def test_an_export_says_what_is_not_in_it(moved: Cli) -> None:
    note = "warning: Notifications are kept at QStash and are not in this list"
    for more in ((), ("--ical",), ("--kind", "notification"), ("-o", "again.jsonl")):
        answer = moved("export", *more)
        assert answer.code == 0 and note in answer.err and note not in answer.out
    assert moved("export", "--kind", "job").err == ""


def test_an_empty_list_says_so(moved: Cli) -> None:
    (kept,) = moved("notify", "list", "--json").document["notifications"]
    assert moved("notify", "delete", kept["id"]).code == 0
    assert moved("notify", "list").out.startswith("There are no notifications yet.")


@pytest.mark.parametrize(
    "rule",
    [("--max-runs", "3"), ("--backoff", "10s"), ("--at-most-once",), ("--deliver-to", "daily"), ("--pause-after", "3")],
)
def test_a_rule_that_does_not_hold_there_is_refused(moved: Cli, qstash: StandIn, rule: tuple[str, ...]) -> None:
    for when in (("--cron", "0 9 * * *"), ("--delay", "2h")):
        answer = moved(*ADD, *when, *rule)
        assert answer.code == 2
        assert f"{rule[0]}: QStash, which keeps notifications here, has no such rule" in answer.err
    assert (qstash.schedules, qstash.messages) == ({}, {})
    assert moved(*ADD, "--cron", "0 9 * * *", "--max-attempts", "3", "--timeout", "20s").code == 0


def test_jitter_is_refused_there(moved: Cli, qstash: StandIn) -> None:
    answer = moved(*ADD, "--cron", "0 9 * * *", "--jitter", "5m")
    assert answer.code == 2 and "takes --at, --delay or --cron alone" in answer.err
    assert qstash.schedules == {}
