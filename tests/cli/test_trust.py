"""A folder's settings count once its user has agreed to them; the user's own file counts everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from duetime.api import Duetime
from tests.support.cli import Cli, environment, start
from tests.support.settings import write_trusted

HELLO = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},' + (
    '"clientInfo":{"name":"t","version":"1"}}}\n'
)
PLANTED = 'from pathlib import Path\nPath(__file__).with_name("ran").write_text("code of the folder ran")\n'


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """What a cloned repository may hold."""
    (tmp_path / "x.py").write_text(PLANTED)
    (tmp_path / "duetime.toml").write_text('tasks = ["x.py"]\nthreads = 3\n')
    return tmp_path


def settings_line(cli: Cli) -> str:
    checks = cli("doctor", "--json").document["checks"]
    return next(str(check["message"]) for check in checks if check["subject"] == "settings")


# -- what nobody agreed to ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(), ("-P",)], ids=["as-installed", "as-printed"])
@pytest.mark.process
def test_a_server_over_stdio_runs_no_code_of_the_folder_it_is_started_in(planted: Path, flags: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, *flags, "-m", "duetime", "mcp", "--db", "my.db"],
        cwd=planted,
        env=environment() | {"XDG_DATA_HOME": str(planted / "data")},
        input=HELLO,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert '"serverInfo"' in done.stdout, done.stderr
    assert not (planted / "ran").exists()
    assert (
        f"{planted}/duetime.toml is not trusted, so it is ignored; look at it, then run `duetime trust`" in done.stderr
    )


@pytest.mark.later
@pytest.mark.process
def test_the_printed_command_imports_nothing_from_the_folder_that_a_client_has_open(cli: Cli, tmp_path: Path) -> None:
    from duetime.settings import Settings
    from duetime.settings.own_commands import stdio_command

    opened = tmp_path / "opened"
    opened.mkdir()
    for name in ("apsw", "typer", "named_elsewhere"):
        (opened / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    command = stdio_command(Settings(db=str(tmp_path / "my.db"), tasks=("named_elsewhere",)))
    own = environment() | {"XDG_DATA_HOME": str(tmp_path / "data")}
    done = subprocess.run(
        command, cwd=opened, env=own, input=HELLO, capture_output=True, text=True, timeout=60, check=False
    )
    assert "there is no module named_elsewhere" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_doctor_reports_the_file_and_runs_nothing_of_it(cli: Cli, planted: Path) -> None:
    answer = cli("doctor", "--json")
    messages = [check["message"] for check in answer.document["checks"] if check["status"] == "warn"]
    assert any("duetime.toml is not trusted" in message for message in messages)
    assert not (planted / "ran").exists()


def test_other_commands_ignore_it_and_say_so_in_one_line(cli: Cli, planted: Path) -> None:
    for arguments in (("job", "list"), ("token", "list"), ("next", "0 9 * * *"), ("notify", "list", "--json")):
        answer = cli(*arguments)
        assert answer.code == 0, answer
        assert answer.err.count("\n") == 1 and "run `duetime trust` in its folder to use it" in answer.err
    assert not (planted / "ran").exists()


def test_a_file_that_cannot_even_be_read_as_settings_stops_nobody(cli: Cli, tmp_path: Path) -> None:
    for text in ("= ?", "threads = 'many'", "colour = 1", "\x00", "x" * 2_000_000):
        (tmp_path / "duetime.toml").write_text(text)
        assert cli("job", "list").code == 0
    (tmp_path / "duetime.toml").unlink()
    os.mkfifo(tmp_path / "duetime.toml")
    assert cli("job", "list").code == 0


def test_python_says_it_to_its_log(
    planted: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(planted / "data"))
    monkeypatch.chdir(planted)
    Duetime(":memory:").close()
    assert "is not trusted" in caplog.text and not (planted / "ran").exists()


# -- what was agreed to ---------------------------------------------------------------------------------------------


def test_a_trusted_file_is_used_until_it_changes(cli: Cli, planted: Path) -> None:
    answer = cli("trust")
    assert (answer.code, answer.err) == (0, "")
    assert 'tasks = ["x.py"]\n' in answer.out and "is now trusted." in answer.out
    assert settings_line(cli) == f"{planted}/duetime.toml, the command line"
    assert (planted / "ran").exists()
    (planted / "duetime.toml").write_text('tasks = ["y.py"]\n')
    assert "has changed since it was trusted, so it is ignored" in cli("job", "list").err
    assert cli("trust").code == 0
    assert cli("job", "list").err == ""


def test_trust_is_listed_and_taken_back(cli: Cli, planted: Path) -> None:
    assert cli("trust", "--list").out == "No folder's settings are trusted.\n"
    assert cli("trust", str(planted), "--json").document == {"file": f"{planted}/duetime.toml", "trusted": True}
    assert cli("trust", "--list").out == f"trusted   {planted}/duetime.toml\n"
    (planted / "duetime.toml").write_text("threads = 9\n")
    assert cli("trust", "--list", "--json").document["files"][0]["state"] == "changed"
    assert cli("trust", "--remove").out == f"{planted}/duetime.toml is no longer trusted.\n"
    assert "is not trusted, so" in cli("job", "list").err
    again = cli("trust", "--remove")
    assert again.code == 3 and "duetime trust --list" in again.err


def test_what_could_not_be_used_is_not_trusted(cli: Cli, tmp_path: Path) -> None:
    absent = cli("trust")
    assert absent.code == 2 and "so there is nothing to trust" in absent.err
    (tmp_path / "duetime.toml").write_text("threads = 'many'")
    assert cli("trust").code == 2
    assert cli("trust", str(tmp_path / "other.toml")).code == 2
    assert cli("trust", "--list", "--json").document == {"files": []}


def test_a_file_that_others_can_change_is_not_trusted(cli: Cli, planted: Path) -> None:
    file = planted / "duetime.toml"
    file.chmod(0o666)
    answer = cli("trust")
    assert answer.code == 4 and "can be changed by every user of this machine" in answer.err
    file.chmod(0o644)
    assert cli("trust").code == 0
    planted.chmod(0o777)
    answer = cli("trust")
    assert answer.code == 4 and "folder that every user of this machine can write to" in answer.err
    assert "folder that every user of this machine can write to, so it is ignored" in cli("job", "list").err
    planted.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_file_of_somebody_else_is_not_trusted(cli: Cli, planted: Path) -> None:
    os.chown(planted / "duetime.toml", 65534, -1)
    answer = cli("trust")
    assert answer.code == 4 and "belongs to another user" in answer.err
    assert "belongs to another user, so it is ignored" in cli("job", "list").err


def test_a_link_to_a_trusted_file_brings_none_of_its_own_neighbours(cli: Cli, tmp_path: Path) -> None:
    """The modules beside the link are not those that were agreed to."""
    trusted = tmp_path / "mine"
    trusted.mkdir()
    (trusted / "x.py").write_text("")
    write_trusted(trusted, 'tasks = ["x.py"]\nthreads = 3\n', tmp_path / "data")
    (tmp_path / "x.py").write_text(PLANTED)
    (tmp_path / "duetime.toml").symlink_to(trusted / "duetime.toml")
    assert settings_line(cli).startswith(f"{trusted}/duetime.toml")
    assert not (tmp_path / "ran").exists()


def test_a_record_that_was_spoilt_trusts_nothing(cli: Cli, planted: Path) -> None:
    assert cli("trust").code == 0
    [record] = (planted / "data" / "duetime" / "trusted").iterdir()
    assert record.stat().st_mode & 0o077 == 0
    for text in ("", "[]", "{}", '{"path": 1}'):
        record.write_text(text)
        assert "is not trusted" in cli("job", "list").err


# -- init, and the user's own file ----------------------------------------------------------------------------------


def test_the_users_own_file_serves_in_every_folder(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert cli("init", "--yes", "--tz", "Asia/Tokyo").code == 0
    own = tmp_path / "config" / "duetime" / "duetime.toml"
    assert own.stat().st_mode & 0o077 == 0 and not (tmp_path / "duetime.toml").exists()
    assert settings_line(cli).startswith(str(own))
    (tmp_path / "duetime.toml").write_text('timezone = "Europe/Berlin"\n')
    assert settings_line(cli).startswith(str(own)), "one that is not trusted takes nobody's place"
    assert cli("trust").code == 0
    assert settings_line(cli).startswith(f"{tmp_path}/duetime.toml")


@pytest.mark.process
def test_paths_in_a_file_are_read_from_its_own_folder(cli: Cli, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "mine.py").write_text("")
    (there / "beside.py").write_text("")
    (there / "duetime.toml").write_text('tasks = ["mine.py", "beside"]\ndb = "own.db"\n[heartbeat]\nevery = "1h"\n')
    (tmp_path / "mine.py").write_text(PLANTED)
    (tmp_path / "beside.py").write_text(PLANTED)
    answer = cli("token", "list", "--config", "there/duetime.toml")
    assert answer.code == 0, answer
    with start("worker", "--config", "there/duetime.toml", "--json", folder=tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    assert (there / "own.db").exists() and not (tmp_path / "ran").exists()


def test_config_names_a_file_that_has_to_be_there(cli: Cli, tmp_path: Path) -> None:
    assert cli("--config", "none.toml", "job", "list").code == 2
    assert cli("job", "list", "--config").code == 2
    (tmp_path / "some.toml").write_text("threads = 'many'")
    assert "some.toml" in cli("job", "list", "--config=some.toml").err
    assert cli("job", "list").err == "", "it counts for one command"
