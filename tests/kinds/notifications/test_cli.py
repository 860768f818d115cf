"""`duetime notify`: send at once, schedule, and look after what was scheduled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from duetime.api import Duetime
from duetime.settings import load_settings
from tests.support.cli import Cli
from tests.support.ntfy import NtfyReceiver
from tests.support.qstash_standin import TOKEN, StandIn
from tests.support.receiver import Behaviour
from tests.support.settings import write_trusted
from tests.support.terminal import on_terminal

ADD = ("notify", "add", "Water the plants", "--topic", "home")


@pytest.fixture
def ntfy() -> Iterator[NtfyReceiver]:
    with NtfyReceiver() as server:
        yield server


@pytest.fixture
def set_up(tmp_path: Path, ntfy: NtfyReceiver) -> None:
    """A folder whose settings name an ntfy server."""
    write_trusted(tmp_path, f'[notifications]\nserver = "{ntfy.url}"\nprefix = "p-"\n')


def test_send_says_that_it_arrived(cli: Cli, tmp_path: Path, ntfy: NtfyReceiver, set_up: None) -> None:
    looks = ("--title", "Plants", "--priority", "4", "--tag", "seedling", "--tag", "house", "--markdown")
    more = (
        "--click",
        "https://example.org",
        "--action",
        '{"action":"view","label":"Open","url":"https://example.org"}',
    )
    with Duetime(str(tmp_path / "my.db"), settings=load_settings(environment={}, folder=tmp_path)):
        answer = cli("notify", "send", "dry \x1b[31m", "--topic", "home", *looks, *more)
    assert (answer.code, answer.out) == (0, "Sent to home through ntfy.\n"), answer
    sent = ntfy.publications[0].fields
    assert (sent["topic"], sent["message"]) == ("p-home", "dry \x1b[31m")
    assert (sent["title"], sent["priority"]) == ("Plants", 4)
    assert sent["tags"] == ["seedling", "house"]
    assert sent["actions"][0]["label"] == "Open"


def test_send_says_why_it_did_not_arrive_and_whether_it_is_tried_again(
    cli: Cli, tmp_path: Path, ntfy: NtfyReceiver, set_up: None
) -> None:
    with Duetime(str(tmp_path / "my.db"), settings=load_settings(environment={}, folder=tmp_path)):
        ntfy.misbehave = lambda request: Behaviour(503)
        away = cli("notify", "send", "hello", "--topic", "home", "--json")
        ntfy.misbehave = lambda request: Behaviour(403)
        refused = cli("notify", "send", "hello", "--topic", "home")
    assert away.code == 1
    assert (away.document["arrived"], away.document["retried"]) == (False, True)
    assert "503" in away.document["error"]
    assert refused.code == 1
    assert "Not delivered: " in refused.out and refused.out.count("will not be retried") == 1


def test_send_without_a_worker_says_what_to_do(cli: Cli) -> None:
    answer = cli("notify", "send", "hello", "--topic", "home")
    assert answer.code == 1
    assert "Not delivered yet" in answer.out
    assert "duetime worker --db my.db" in answer.err
    assert cli("notify", "list", "--json").document["total"] == 1


def test_what_goes_to_the_inbox_warns(cli: Cli) -> None:
    answer = cli(*ADD, "--delay", "2h")
    assert answer.code == 0
    assert "built-in inbox" in answer.err and "No worker is running" in answer.err
    assert "in 1 h 59 min" in answer.out or "in 2 h" in answer.out


def test_a_notification_from_add_to_delete(cli: Cli) -> None:
    added = cli(*ADD, "--cron", "0 9 * * 1-5", "--tz", "Asia/Tokyo", "--label", "plants", "--json").document
    id = added["id"]
    assert id.startswith("scd_") and added["created"] is True
    assert added["payload"] == {"message": "Water the plants", "topic": "home", "label": "plants"}
    assert added["trigger"]["timezone"] == "Asia/Tokyo"
    shown = cli("notify", "show", "plants")
    assert "Water the plants" in shown.out and id in shown.out
    edited = cli("notify", "edit", id, "--message", "Water them all", "--priority", "5", "--every", "1d", "--json")
    assert edited.document["payload"] == {
        "message": "Water them all", "topic": "home", "label": "plants", "priority": 5,
    }  # fmt: skip
    assert cli("notify", "pause", id).code == 0
    assert "  -  " in cli("notify", "list").out.splitlines()[1]
    assert cli("notify", "resume", id).code == 0
    assert cli("notify", "run", id, "--json").document["run"]["cause"] == "manual"
    assert len(cli("notify", "history", id, "--json").document["runs"]) == 1
    assert cli("notify", "cancel", id, "--json").document["status"] == "cancelled"
    assert cli("notify", "delete", id).code == 0
    assert cli("notify", "show", id).code == 3
    assert len(cli("notify", "history", id, "--json").document["runs"]) == 1


def test_policy_reaches_the_policy(cli: Cli) -> None:
    policy = cli(*ADD, "--every", "1h", "--max-attempts", "3", "--timeout", "20s", "--json").document["policy"]
    assert [policy[name] for name in ("max_attempts", "overlap", "timeout_seconds")] == [3, "allow", 20]


def test_a_beginning_of_an_id_is_enough_where_it_fits_one_alone(cli: Cli) -> None:
    ids = [cli(*ADD, "--delay", "2h", "--json").document["id"] for _ in range(3)]
    for id in ids:
        assert cli("notify", "show", id[:20], "--json").document["id"] == id
    assert cli("notify", "show", "msg_ffff0000ffff").code == 3
    several = cli("notify", "show", "Water the plants")
    assert several.code == 2
    assert "could mean several notifications; give the id, such as n1: once, on " in several.err
    assert [f"n{number}: once" in several.err for number in (1, 2, 3)] == [True] * 3


BAD = {
    "no topic": (("notify", "add", "x", "--every", "2h"), "Missing option '--topic'"),
    "a topic that is none": (("notify", "add", "x", "--topic", "My Home", "--every", "2h"), "--topic: "),
    "no message": (("notify", "add", " ", "--topic", "home", "--every", "2h"), "message: "),
    "a priority beyond": ((*ADD, "--every", "2h", "--priority", "9"), "--priority: "),
    "an action that is no JSON": ((*ADD, "--every", "2h", "--action", "open"), "--action: 'open' is not JSON"),
    "an action that does nothing known": ((*ADD, "--every", "2h", "--action", '{"action": "x"}'), "view, http"),
    "a link that runs something": ((*ADD, "--every", "2h", "--click", "javascript:alert(1)"), "--click: "),
    "no time": (ADD, "exactly one of --at, --delay, --every"),
    "a delay that is none": ((*ADD, "--delay", "soon"), "--delay: "),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_is_refused(cli: Cli, name: str) -> None:
    arguments, words = BAD[name]
    answer = cli(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err and answer.err.count("\n") == 1
    assert cli("notify", "list", "--json").document["total"] == 0


# -- kept elsewhere ---------------------------------------------------------------------------------------------------


@pytest.fixture
def qstash(qstash: StandIn, tmp_path: Path) -> StandIn:
    """The settings of the folder name it."""
    write_trusted(
        tmp_path,
        '[notifications]\nbackend = "qstash"\nserver = "https://ntfy.example.org"\nprefix = "p-"\n'
        f'qstash_url = "{qstash.url}"\nqstash_token = "{TOKEN}"\n',
    )
    return qstash


def test_what_is_kept_elsewhere_is_made_listed_changed_and_deleted_there(cli: Cli, qstash: StandIn) -> None:
    once = cli(*ADD, "--delay", "2h", "--json").document
    assert once["kept_at"] == "QStash" and once["id"] in str(qstash.messages)
    made = cli(*ADD, "--cron", "0 9 * * 1-5", "--tz", "Asia/Tokyo")
    assert made.code == 0 and made.err == ""
    (id,) = qstash.schedules
    assert f"Added {id} at QStash, which sends it to home" in made.out
    listed = cli("notify", "list", "--json").document
    assert [each["id"] for each in listed["notifications"]] == [id, once["id"]] and listed["total"] == 2
    assert {each["note"] for each in listed["notifications"]} == {"kept at QStash, which sends it"}
    shown = cli("notify", "list").out
    assert id in shown and once["id"] in shown
    paused = f"Paused {id}  Water the plants\nuntil  you resume it\n"
    assert cli("notify", "pause", id).out.startswith(paused)
    assert id in qstash.paused
    assert cli("notify", "list", "--json").document["notifications"][0]["status"] == "paused"
    assert cli("notify", "resume", id, "--json").document["status"] == "pending"
    assert cli("pause", id).out.startswith(paused) and cli("resume", id).code == 0
    assert cli("notify", "delete", id).code == 0
    assert cli("notify", "cancel", once["id"]).code == 0
    assert (qstash.schedules, cli("notify", "list", "--json").document["notifications"]) == ({}, [])
    assert cli("notify", "pause", id).code == 3


@pytest.mark.parametrize("command", [("show",), ("history",), ("run",), ("edit", "--message", "x")])
def test_what_cannot_be_done_with_what_is_kept_elsewhere_is_said(
    cli: Cli, qstash: StandIn, command: tuple[str, ...]
) -> None:
    again = cli(*ADD, "--cron", "0 9 * * 1-5", "--json").document["id"]
    once = cli(*ADD, "--delay", "2h", "--json").document["id"]
    verb, *more = command
    for id, can in ((again, "list, pause, resume and delete"), (once, "list and delete")):
        for group in (("notify",),) if verb == "edit" else (("notify",), ()):
            answer = cli(*group, verb, id, *more)
            assert (answer.code, answer.out) == (4, "")
            assert f"{id} is kept at QStash, and so is its history; {can} work there" in answer.err
    unknown = cli("notify", verb, "scd_unknown", *more)
    assert unknown.code == 3 and "there is no notification" in unknown.err


def test_the_list_of_dead_letters_says_what_it_cannot_know(cli: Cli, qstash: StandIn) -> None:
    listed = cli("dead", "list")
    assert "Nothing failed" not in listed.out and "kept at QStash" in listed.out
    [note] = cli("dead", "list", "--json").document["notes"]
    assert note in listed.out
    assert "notes" not in cli("dead", "list", "--kind", "request", "--json").document


def test_what_cannot_be_kept_elsewhere_is_said(cli: Cli, qstash: StandIn) -> None:
    for option in (("--every", "2h"), ("--rrule", "FREQ=DAILY"), ("--cron", "@daily", "--jitter", "5m")):
        answer = cli(*ADD, *option)
        assert (answer.code, answer.err.count("\n")) == (2, 1)
        assert "takes --at, --delay or --cron alone" in answer.err
    qstash.refuses = [Behaviour(500, {}, TOKEN.encode())] * 20
    failed = cli(*ADD, "--delay", "2h")
    assert failed.code == 1
    assert TOKEN not in failed.err
    sent = cli("notify", "send", "hello", "--topic", "home", "--json")
    assert (sent.code, TOKEN in sent.out) == (1, False)


def test_people_read_short_ids_and_programs_whole_ones(cli: Cli, tmp_path: Path) -> None:
    id = cli(*ADD, "--delay", "2h", "--json").document["id"]
    assert cli("notify", "list", "--json").document["notifications"][0]["id"] == id
    with on_terminal("notify", "list", "--db", "my.db", folder=tmp_path, columns=80) as terminal:
        shown = terminal.rest()
    assert "\nn1 " in shown and id[:12] not in shown
    assert "Water the plants" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_a_narrow_terminal_gets_lines_instead_of_a_table(cli: Cli, tmp_path: Path) -> None:
    assert cli(*ADD, "--delay", "2h").code == 0
    with on_terminal("notify", "list", "--db", "my.db", folder=tmp_path, columns=40) as terminal:
        lines = [line.rstrip() for line in terminal.rest().splitlines()]
    assert "  message  Water the plants" in lines
    assert "  topic home  runs 0" in lines
    assert all(len(line) <= 40 for line in lines)
