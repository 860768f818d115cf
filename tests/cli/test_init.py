"""`duetime init`: a few questions, and a settings file that answers them and keeps what it held."""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from pathlib import Path

import pytest

from duetime.cli.setup.init_choices import unguessable_prefix
from duetime.settings import Settings, load_settings
from duetime.settings.settings_file import CannotChange, with_values
from tests.cli.conftest import write
from tests.support.cli import Cli
from tests.support.settings import write_trusted
from tests.support.terminal import on_terminal

pytestmark = pytest.mark.usefixtures("own")


def written(own: Path) -> dict[str, object]:
    return tomllib.loads(own.read_text())


def settings_in(own: Path) -> Settings:
    return load_settings(environment={}, folder=own.parent)


# -- without questions ----------------------------------------------------------------------------------------------


def test_flags_write_a_file_that_only_its_owner_reads(cli: Cli, own: Path, tmp_path: Path) -> None:
    answer = cli("init", "--yes", "--ntfy", "https://ntfy.sh", "--timezone", "Europe/Berlin", "--agent", "claude")
    assert answer.code == 0, answer
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    settings = settings_in(own)
    assert (settings.timezone, settings.agent) == ("Europe/Berlin", "claude")
    assert settings.agents["claude"].preset == "claude"
    prefix = settings.notifications.prefix
    assert len(prefix) == 13 and prefix.endswith("-")
    assert f"https://ntfy.sh/{prefix}reminders" in answer.out
    assert "notify send 'It works' --topic reminders" in answer.out
    assert [path.name for path in tmp_path.iterdir()] == ["config"], "nothing is written into the current folder"
    assert [path.name for path in own.parent.iterdir()] == ["duetime.toml"]


def test_no_two_prefixes_are_alike() -> None:
    made = {unguessable_prefix() for _ in range(1000)}
    assert len(made) == 1000
    assert all(set(prefix) <= set("abcdefghjkmnpqrstuvwxyz23456789-") for prefix in made)


def test_programs_get_a_document_without_the_token(cli: Cli, own: Path) -> None:
    answer = cli("init", "--json", "--ntfy", "https://ntfy.example.org", "--token", "tk_secret", "--tz", "UTC")
    assert answer.code == 0, answer
    document = answer.document
    assert document["written"] == ["timezone", "notifications.server", "notifications.token", "notifications.topic"]
    assert document["subscribe"]["reminders"] == "https://ntfy.example.org/reminders"
    assert "tk_secret" not in answer.out
    ntfy = {"server": "https://ntfy.example.org", "token": "tk_secret", "topic": "reminders"}
    assert written(own)["notifications"] == ntfy


def test_what_is_there_is_kept_and_replaced_only_on_request(cli: Cli, own: Path) -> None:
    before = (
        "# mine\nthreads = 4  # few\ntimezone = 'Asia/Tokyo'\ntasks = [\n  'a',\n  'b',\n]\n\n"
        '[notifications]\n# ours\nserver = "https://ntfy.example.org"\n'
    )
    write(own, before)
    refused = cli("init", "--json", "--ntfy", "https://ntfy.sh")
    assert (refused.code, refused.document["error"]["code"]) == (4, "not_possible")
    assert "notifications.server" in refused.document["error"]["message"]
    assert own.read_text() == before
    assert cli("init", "--yes", "--ntfy", "https://ntfy.sh", "--prefix", "p-").code == 0
    after = own.read_text()
    assert (
        after
        == before.replace('server = "https://ntfy.example.org"', 'server = "https://ntfy.sh"')
        + 'prefix = "p-"\ntopic = "reminders"\n'
    )
    assert "needs no change" in cli("init", "--yes").out
    assert own.read_text() == after


TOKEN_OF = ("init", "--yes", "--ntfy", "https://ntfy.example.org", "--token", "tk_secret")


@pytest.mark.parametrize("server", ["https://ntfy.sh", "https://ntfy.example.org:8443", "http://ntfy.example.org"])
def test_the_token_of_one_server_is_not_for_another(cli: Cli, own: Path, server: str) -> None:
    assert cli(*TOKEN_OF).code == 0
    refused = cli("init", "--json", "--ntfy", server)
    assert refused.code == 4 and "notifications.token" in refused.document["error"]["message"]
    moved = cli("init", "--yes", "--ntfy", server)
    assert moved.code == 0 and "token of the server before was taken out" in moved.err
    settings = settings_in(own).notifications
    assert (settings.server, settings.token) == (server, "")
    assert "tk_secret" not in own.read_text()


def test_a_token_stays_with_its_server(cli: Cli, own: Path) -> None:
    assert cli(*TOKEN_OF).code == 0
    again = cli("init", "--yes", "--ntfy", "https://NTFY.example.org/", "--prefix", "p-")
    assert (again.code, again.err) == (0, "")
    assert settings_in(own).notifications.token == "tk_secret"
    both = cli("init", "--yes", "--ntfy", "https://ntfy.sh", "--token", "tk_other")
    assert (both.code, both.err) == (0, "")
    assert settings_in(own).notifications.token == "tk_other"
    assert cli("init", "--yes", "--inbox").code == 0
    assert cli("init", "--yes", "--ntfy", "https://ntfy.example.org").code == 0
    assert settings_in(own).notifications.token == "", "nobody knows whose it was"


def test_a_channel_is_added_and_its_address_is_not_shown(cli: Cli, own: Path) -> None:
    answer = cli("init", "--yes", "--channel", "phone=json://user:hunter2@127.0.0.1/x")
    assert answer.code == 0, answer
    assert "hunter2" not in answer.out + answer.err
    assert "--topic phone" in answer.out
    assert written(own)["channels"] == {"phone": {"url": "json://user:hunter2@127.0.0.1/x"}}


def test_where_alerts_go_is_said_with_a_channel_alone(cli: Cli, own: Path) -> None:
    first = cli("init", "--yes", "--channel", "phone=json://127.0.0.1/x")
    facts = [line.split() for line in first.out.splitlines()]
    assert ["alerts", "phone"] in facts and first.err == "", "the channel is the default topic"
    write(own, own.read_text().replace("[notifications]\n", '[notifications]\nalerts = "mail"\n'))
    third = cli("init", "--yes")
    assert "the built-in inbox" in third.out and "duetime config set notifications.alerts phone" in third.err
    write(own, own.read_text().replace('alerts = "mail"', 'alerts = "phone"'))
    second = cli("init", "--yes", "--json", "--ntfy", "https://ntfy.example.org")
    assert (second.code, second.document["warnings"]) == (0, [])
    assert list(second.document["subscribe"]) == ["reminders"], "alerts go to the channel, and not there"


BAD = {
    "a server with a path": (("--ntfy", "https://ntfy.sh/mytopic"), "without a topic or a path"),
    "no server": (("--ntfy", "ntfy.sh"), "--ntfy"),
    "a prefix with a blank": (("--ntfy", "https://ntfy.sh", "--prefix", "a b"), "letters, digits"),
    "an unknown zone": (("--timezone", "Europe/Berln"), "Europe/Berlin"),
    "an unknown agent": (("--agent", "hal"), "Choose one of: inbox, claude"),
    "a channel without an address": (("--channel", "phone"), "NAME=URL"),
    "a channel that no topic can name": (("--channel", "My Phone=x://y"), "lowercase letters"),
    "two places": (("--inbox", "--ntfy", "https://ntfy.sh"), "cannot be combined"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_is_refused_and_nothing_is_written(cli: Cli, own: Path, name: str) -> None:
    arguments, words = BAD[name]
    answer = cli("init", "--yes", *arguments)
    assert answer.code == 2
    assert words in answer.err and answer.err.count("\n") == 1
    assert not own.exists()


def test_a_file_that_cannot_be_changed_by_lines_is_left_alone(cli: Cli, own: Path) -> None:
    before = 'notifications = { server = "https://ntfy.sh" }\n'
    write(own, before)
    answer = cli("init", "--yes", "--prefix", "p-", "--tz", "UTC")
    assert answer.code == 2
    assert "notifications.prefix" in answer.err
    assert own.read_text() == before
    write(own, "threads = 'many'\n")
    assert cli("init", "--yes").code == 2
    assert own.read_text() == "threads = 'many'\n"


def test_where_nobody_is_there_nothing_is_asked(cli: Cli, own: Path) -> None:
    answer = cli("init")
    assert answer.code == 2
    assert "not a terminal" in answer.err
    assert not own.exists()


def test_the_file_of_the_folder_is_left_alone_and_named(cli: Cli, own: Path, tmp_path: Path) -> None:
    folder = write_trusted(tmp_path, 'timezone = "Asia/Tokyo"\n')
    answer = cli("init", "--yes", "--tz", "Europe/Berlin")
    assert (answer.code, folder.read_text()) == (0, 'timezone = "Asia/Tokyo"\n')
    assert f"in this folder {folder} is used instead; `duetime config set` changes it" in answer.err
    assert settings_in(own).timezone == "Europe/Berlin"
    folder.write_text('timezone = "UTC"\n')  # not trusted any more, so the user's own file is used here, too
    assert cli("init", "--yes", "--tz", "Europe/Paris").err == ""
    assert folder.read_text() == 'timezone = "UTC"\n'


def test_the_summary_says_how_to_go_on(cli: Cli) -> None:
    steps = cli("init", "--json", "--inbox").document["next"]
    assert steps[0].endswith(" serve")
    assert any(step.endswith(" connect claude-code") for step in steps)
    assert steps[-1].endswith(" notify send 'It works' --topic inbox")
    shown = cli("init", "--yes").out
    assert "the dashboard: http://127.0.0.1:8765/" in shown and "connect an agent (or claude-desktop, cursor" in shown


def test_an_inbox_that_was_chosen_is_not_warned_of(cli: Cli) -> None:
    before = cli("notify", "add", "Tea", "--topic", "kitchen", "--delay", "1h")
    assert "No notification channel is set up" in before.err
    assert cli("init", "--yes", "--inbox").code == 0
    after = cli("notify", "add", "Tea", "--topic", "kitchen", "--delay", "1h")
    assert after.code == 0 and "notification channel" not in after.err
    without_topic = cli("notify", "add", "Tea", "--delay", "1h", "--json")
    assert without_topic.document["payload"]["topic"] == "inbox"


def test_the_default_topic_follows_the_place(cli: Cli, own: Path) -> None:
    assert cli("init", "--yes", "--inbox").code == 0 and settings_in(own).notifications.topic == "inbox"
    assert cli("init", "--yes", "--ntfy", "https://ntfy.example.org").code == 0
    assert settings_in(own).notifications.topic == "reminders", "an inbox that nobody wants any more"
    assert cli("init", "--yes", "--channel", "phone=json://127.0.0.1/x").code == 0
    assert settings_in(own).notifications.topic == "reminders", "it was chosen, and stays"
    assert cli("init", "--yes", "--topic", "phone").code == 0 and settings_in(own).notifications.topic == "phone"
    assert cli("init", "--yes", "--topic", "My Phone").code == 2


def test_a_prefix_that_can_be_guessed_is_warned_of(cli: Cli) -> None:
    assert (
        "anyone who guesses this prefix" in cli("init", "--yes", "--ntfy", "https://ntfy.sh", "--prefix", "berlin-").err
    )
    assert cli("init", "--yes", "--ntfy", "https://ntfy.sh", "--prefix", unguessable_prefix()).err == ""


def test_the_file_that_the_environment_names(
    cli: Cli, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_CONFIG", str(tmp_path / "other.toml"))
    assert cli("init", "--yes", "--tz", "Asia/Tokyo").code == 0
    assert (tmp_path / "other.toml").read_text().endswith('timezone = "Asia/Tokyo"\n')
    assert not own.exists()


# -- with questions, on a terminal ------------------------------------------------------------------------------------


def test_questions_on_a_terminal(own: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "codex").write_text("#!/bin/sh\n")
    (tools / "codex").chmod(0o755)
    env = {"PATH": f"{tools}:{os.environ['PATH']}"}
    with on_terminal("init", folder=tmp_path, env=env) as terminal:
        terminal.until("Number [1]: ")
        terminal.type("9\n")
        terminal.until("Give a number from 1 to 4.")
        terminal.until("Number [1]: ")
        terminal.type("2\n")
        terminal.until("They begin with [")
        terminal.type("\n")
        terminal.until("Time zone")
        terminal.type("Europe/Berln\n")
        terminal.until("did you mean Europe/Berlin")
        terminal.until("Time zone")
        terminal.type("Europe/Berlin\n")
        terminal.until("Codex (codex), which is installed here")
        terminal.until("Number [1]: ")
        terminal.type("codex\n")
        shown = terminal.rest()
    assert terminal.process.returncode == 0, shown
    settings = settings_in(own)
    assert (settings.timezone, settings.agent) == ("Europe/Berlin", "codex")
    assert f"https://ntfy.sh/{settings.notifications.prefix}reminders" in shown and "what needs you" in shown


def test_a_no_changes_nothing_and_so_does_the_end_of_answers(own: Path, tmp_path: Path) -> None:
    before = 'timezone = "Asia/Tokyo"\n'
    write(own, before)
    env = {"PATH": "/nowhere"}
    with on_terminal("init", folder=tmp_path, env=env) as terminal:
        terminal.until("Number [1]: ")
        terminal.type("\n")
        terminal.until("[Asia/Tokyo]: ")
        terminal.type("UTC\n")
        terminal.until("Claude Code (claude), once you have installed it")
        terminal.until("Number [1]: ")
        terminal.type("\n")
        terminal.until("has other values for timezone. Replace them? [y/N]")
        terminal.type("n\n")
        assert "Nothing was changed." in terminal.rest()
    with on_terminal("init", folder=tmp_path, env=env) as terminal:
        terminal.until("Number [1]: ")
        terminal.type("\x04")
        assert "the input ended" in terminal.rest()
    assert terminal.process.returncode == 2
    assert own.read_text() == before


def test_secrets_are_not_shown_while_they_are_typed(own: Path, tmp_path: Path) -> None:
    with on_terminal("init", folder=tmp_path, env={"PATH": "/nowhere"}) as terminal:
        terminal.until("Number [1]: ")
        terminal.type("3\n")
        terminal.until("Its address")
        terminal.type("https://ntfy.example.org\n")
        terminal.until("it is not shown): ")
        terminal.type("tk_secret\n")
        terminal.until("They begin with: ")
        terminal.type("\n")
        terminal.until("Time zone")
        terminal.type("\n")
        terminal.until("Number [1]: ")
        terminal.type("\n")
        shown = terminal.rest()
    assert terminal.process.returncode == 0, shown
    assert "tk_secret" not in shown
    ntfy = {"server": "https://ntfy.example.org", "token": "tk_secret", "topic": "reminders"}
    assert written(own)["notifications"] == ntfy


# -- the text of a file -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'a = 1\n\n[t]\nb = "x"\n'),
        ("# only a comment\n", '# only a comment\na = 1\n\n[t]\nb = "x"\n'),
        ("[t]\nc = 2\n\n\n[u]\nd = 3\n", 'a = 1\n\n[t]\nc = 2\nb = "x"\n\n\n[u]\nd = 3\n'),
        ("a = [\n 1, # one\n]\n[t]\nb = '''\nlong\n'''\n", 'a = 1\n[t]\nb = "x"\n'),
        ("a = 0\n['t']\n\"b\" = 2 # two\n[t.b2]\n", 'a = 1\n[\'t\']\n"b" = "x" # two\n[t.b2]\n'),
        ("[[rows]]\nb = 1\n[t]\nab = 3\n", 'a = 1\n[[rows]]\nb = 1\n[t]\nab = 3\nb = "x"\n'),
    ],
)
def test_values_are_put_where_they_belong(before: str, after: str) -> None:
    assert with_values(before, {("a",): 1, ("t", "b"): "x"}) == after


def test_texts_of_any_kind_come_back_as_they_were() -> None:
    nasty = 'quo"te \\ back\nline \u00e9 \U0001f600 \x1b'
    made = with_values("", {("channels", "my phone", "url"): nasty})
    assert tomllib.loads(made) == {"channels": {"my phone": {"url": nasty}}}


@pytest.mark.parametrize("before", ["t = { b = 1 }\n", "t.b = 1\n"])
def test_what_lines_cannot_change_is_said(before: str) -> None:
    with pytest.raises(CannotChange):
        with_values(before, {("t", "c"): 2})


def test_a_place_that_cannot_be_written_is_named_in_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "touch", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    answer = cli("init", "--inbox", "--yes")
    assert answer.code == 2 and answer.err.count("\n") == 1
    assert "cannot be written (Read-only file system); name another file with --config" in answer.err
