"""`duetime config`: the file in use, what the settings say and from where, and a change that keeps comments."""

from __future__ import annotations

import io
import stat
from pathlib import Path

import pytest

from duetime.settings import load_settings
from tests.cli.conftest import write
from tests.support.cli import Cli
from tests.support.settings import write_trusted

pytestmark = pytest.mark.usefixtures("own")


# -- path -------------------------------------------------------------------------------------------------------------


def test_the_path_is_the_file_in_use_or_the_one_that_would_be_written(cli: Cli, own: Path, tmp_path: Path) -> None:
    absent = cli("config", "path")
    assert (absent.out, absent.code) == (f"{own}\n", 0) and "no such file yet" in absent.err
    write(own, 'timezone = "Asia/Tokyo"\n')
    found = cli("config", "path", "--json").document
    assert found == {"file": str(own), "exists": True, "user_file": str(own), "ignored": ""}
    (tmp_path / "duetime.toml").write_text("threads = 4\n")
    ignored = cli("config", "path", "--json")
    assert ignored.document["file"] == str(own) and "is not trusted" in ignored.document["ignored"]
    assert cli("trust").code == 0
    assert cli("config", "path").out == f"{tmp_path}/duetime.toml\n"
    (tmp_path / "other.toml").write_text("")
    assert cli("config", "path", "--config", "other.toml").out == f"{tmp_path}/other.toml\n"


# -- show -------------------------------------------------------------------------------------------------------------

SECRETS = """
db = "postgresql://me:hunter2@127.0.0.1/duetime"
timezone = "Asia/Tokyo"
[notifications]
server = "https://ntfy.example.org"
prefix = "hushhushhush-"
token = "tk_hush"
qstash_token = "hush"
[channels.phone]
url = "tgram://hush/ChatID"
headers = { Authorization = "Bearer hush" }
body = "hush {message}"
[agents.remote]
type = "webhook"
url = "https://hush@example.org/hush"
secret = "hush"
[agents.script]
command = ["run", "--token=hush"]
"""


@pytest.mark.parametrize("flags", [(), ("--all",), ("--json",), ("--all", "--json"), ("channels",)])
def test_no_secret_is_shown(cli: Cli, own: Path, flags: tuple[str, ...]) -> None:
    write(own, SECRETS)
    answer = cli("config", "show", *flags)
    assert answer.code == 0, answer
    assert "hush" not in answer.out + answer.err and "hunter2" not in answer.out + answer.err
    assert "tgram://***" in answer.out


def test_each_value_is_shown_with_its_source(cli: Cli, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(own, SECRETS)
    monkeypatch.setenv("DUETIME_THREADS", "7")
    document = cli("config", "show", "--json").document
    assert document["file"] == str(own)
    assert document["settings"]["timezone"] == {"value": "Asia/Tokyo", "source": str(own)}
    assert document["settings"]["threads"] == {"value": 7, "source": "the environment"}
    assert document["settings"]["notifications.token"]["value"] == "***"
    assert "lease" not in document["settings"]
    assert cli("config", "show", "--all", "--json").document["settings"]["lease"]["source"] == "default"
    assert cli("config", "show", "timezone").out == f'timezone = "Asia/Tokyo"   # {own}\n'
    assert cli("config", "show", "lease").out == "lease = 10.0   # default\n"
    assert cli("config", "show", "colour").code == 3


def test_where_nothing_is_set_that_is_said(cli: Cli) -> None:
    assert "every setting has its default" in cli("config", "show").out


# -- set --------------------------------------------------------------------------------------------------------------


def test_a_change_keeps_comments_and_makes_the_file_where_there_is_none(cli: Cli, own: Path) -> None:
    answer = cli("config", "set", "timezone", "Europe/Berlin")
    assert answer.code == 0, answer
    assert f'timezone = "Europe/Berlin" in {own}' in answer.out
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    write(own, '# mine\nthreads = 4  # few\n\n[notifications]\n# ours\nserver = "https://ntfy.example.org"\n')
    for name, value in (("threads", "8"), ("notifications.topic", "reminders"), ("channels.phone.url", "json://a.org")):
        assert cli("config", "set", name, value).code == 0
    assert own.read_text() == (
        '# mine\nthreads = 8  # few\n\n[notifications]\n# ours\nserver = "https://ntfy.example.org"\n'
        'topic = "reminders"\n\n[channels.phone]\nurl = "json://a.org"\n'
    )


def test_values_have_the_type_of_their_setting(cli: Cli, own: Path) -> None:
    for name, value in (("lease", "2.5"), ("hosts", "a.org, b.org"), ("agents.x.command", '["run", "a,b"]')):
        assert cli("config", "set", name, value, "--json").code == 0
    settings = load_settings(environment={}, folder=own.parent)
    assert (settings.lease, settings.hosts) == (2.5, ("a.org", "b.org"))
    assert settings.agents["x"].command == ("run", "a,b")


BAD = {
    "an unknown setting": ("colour", "red", "Unknown setting 'colour'. Choose one of: "),
    "an unknown zone": ("timezone", "Europe/Berln", "Europe/Berlin"),
    "a number that is none": ("threads", "many", "the command line: threads must be a whole number, not 'many'"),
    "a number that is too small": ("threads", "0", "must be at least 1"),
    "an agent that there is not": ("agent", "hal", "the settings name no 'hal'"),
    "a topic that is none": ("notifications.topic", "My Phone", "notifications.topic must be a topic"),
    "a whole table": ("channels.phone", "x", "is a table"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_is_refused_and_the_file_stays(cli: Cli, own: Path, name: str) -> None:
    setting, value, words = BAD[name]
    write(own, "# mine\nthreads = 4\n")
    answer = cli("config", "set", setting, value)
    assert answer.code == 2, answer
    assert words in answer.err and answer.err.count("\n") == 1 and ".new" not in answer.err
    assert own.read_text() == "# mine\nthreads = 4\n"
    assert [path.name for path in own.parent.iterdir()] == ["duetime.toml"]


def test_a_secret_comes_from_standard_input_and_is_not_printed(
    cli: Cli, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("tk_hush\n"))
    answer = cli("config", "set", "notifications.token", "-", "--json")
    assert answer.document == {"file": str(own), "name": "notifications.token", "value": "***"}
    assert 'token = "tk_hush"' in own.read_text()


def test_a_path_is_one_of_the_folder_in_which_it_was_typed(cli: Cli, own: Path, tmp_path: Path) -> None:
    for missing in ("mine.py", "not_installed"):
        refused = cli("config", "set", "tasks", missing)
        assert refused.code != 0 and "there is no " in refused.err and not own.exists(), "nothing could import it"
    (tmp_path / "mine.py").touch()
    assert cli("config", "set", "tasks", "mine.py,wave").code == 0
    assert load_settings(environment={}, folder=own.parent).tasks == (f"{tmp_path}/mine.py", "wave")


def test_a_trusted_file_is_still_trusted_after_a_change(cli: Cli, own: Path, tmp_path: Path) -> None:
    folder = write_trusted(tmp_path, "threads = 4\n")
    assert cli("config", "set", "threads", "5").code == 0
    assert (folder.read_text(), own.exists()) == ("threads = 5\n", False)
    assert cli("job", "list").err == ""
    folder.write_text("threads = 6\n")
    answer = cli("config", "set", "threads", "7")
    assert answer.code == 4 and "has changed since it was trusted, so nothing was done" in answer.err
    assert (folder.read_text(), own.exists()) == ("threads = 6\n", False)


# -- get and unset ----------------------------------------------------------------------------------------------------


def test_one_setting_is_printed_alone(cli: Cli, own: Path) -> None:
    assert cli("config", "get", "channels").code == 2  # a table that is empty
    write(own, SECRETS)
    assert cli("config", "get", "timezone").out == "Asia/Tokyo\n"
    assert cli("config", "get", "lease").out == "10.0\n"
    assert "hush" not in cli("config", "get", "notifications.token").out
    assert cli("config", "get", "timezone", "--json").document["source"] == str(own)
    assert "is a table; `duetime config show notifications`" in cli("config", "get", "notifications").err
    method = cli("config", "get", "path_of_db")
    assert method.code == 3 and "there is no setting path_of_db; `duetime config show" in method.err
    unknown = cli("config", "get", "tmezone")
    assert unknown.code == 3 and "no setting tmezone; did you mean timezone? `duetime config show" in unknown.err


def test_a_setting_that_is_removed_has_its_default_again(cli: Cli, own: Path) -> None:
    write(own, '# mine\nthreads = 4  # few\ntimezone = "Asia/Tokyo"\n[channels.phone]\nurl = "https://a.org/x"\n')
    assert cli("config", "unset", "timezone").code == 0
    assert cli("config", "unset", "channels.phone", "--json").document == {"file": str(own), "name": "channels.phone"}
    assert own.read_text().startswith("# mine\nthreads = 4  # few\n") and "phone" not in own.read_text()
    assert cli("config", "get", "timezone", "--json").document["source"] == "default"
    again = cli("config", "unset", "timezone")
    assert again.code == 4 and f"timezone is not set in {own}" in again.err
    assert cli("config", "unset", "tmezone").code == 3
    write(own, 'threads = 4\n[carrier]\nurl = "https://a.org/x"\n')  # of a kind whose package was removed
    assert "Unknown setting 'carrier'" in cli("config", "unset", "tmezone").err
    assert cli("config", "unset", "carrier").code == 0 and own.read_text().strip() == "threads = 4"
    write(own, 'channels = { phone = { url = "https://a.org/x" } }\n')
    assert "; change channels.phone.url in it yourself" in cli("config", "unset", "channels.phone.url").err
