"""`duetime service` on a machine whose managers are scripts that write down what they were asked."""

from __future__ import annotations

import plistlib
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from duetime.cli.setup.service_units import PrivateFile, launchd_agent, systemd_unit
from tests.support.cli import Cli

COMMAND = ["/opt/my python/bin/python", "-m", "duetime", "serve", "--db", "postgresql://u:p%40s$s@h/db", 'say "hi"\\']


NOTHING = PrivateFile(Path("/nowhere"), {})


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `systemctl` was asked, line by line; a file `broken` makes it fail."""
    folder, log = tmp_path / "bin", tmp_path / "asked"
    folder.mkdir()
    script = folder / "systemctl"
    broken = shlex.quote(str(tmp_path / "broken"))
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {shlex.quote(str(log))}\n'
        f"if [ -e {broken} ]; then echo 'Failed to connect to bus' >&2; exit 1; fi\n"
    )
    script.chmod(0o755)
    log.touch()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "platform", "linux")
    return log


def unit_file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "systemd" / "user" / "duetime.service"


@pytest.mark.process
def test_install_shows_the_file_writes_it_and_starts_the_service(cli: Cli, asked: Path, tmp_path: Path) -> None:
    answer = cli("service", "install", "--yes", "--db", "my.db", "--tasks", "mine", "--port", "9000")
    assert answer.code == 0, answer
    written = unit_file(tmp_path).read_text()
    assert written in answer.out
    command = [
        sys.executable,
        "-P",
        "-m",
        "duetime",
        "serve",
        "--no-link",
        "--db",
        "my.db",
        "--tasks",
        "mine",
        "--port",
        "9000",
    ]
    quoted = " ".join(f'"{part}"' for part in command)
    assert f"ExecStart={quoted}\n" in written
    assert f"WorkingDirectory={tmp_path}\n" in written
    assert f'Environment="XDG_DATA_HOME={tmp_path / "data"}"\n' in written
    assert stat.S_IMODE(unit_file(tmp_path).stat().st_mode) == 0o600
    assert asked.read_text().splitlines() == [
        "--user daemon-reload",
        "--user enable duetime.service",
        "--user restart duetime.service",
    ]
    assert "loginctl enable-linger" in answer.out
    assert "connect claude-code" in answer.out


def test_a_dry_run_does_nothing(cli: Cli, asked: Path, tmp_path: Path) -> None:
    answer = cli("service", "install", "--dry-run")
    assert answer.code == 0
    assert "ExecStart=" in answer.out
    assert "Would then run: systemctl --user daemon-reload; " in answer.out
    assert not unit_file(tmp_path).exists()
    assert asked.read_text() == ""


def test_nobody_is_surprised(cli: Cli, asked: Path, tmp_path: Path) -> None:
    answer = cli("service", "install")
    assert answer.code == 2
    assert "pass --yes, or preview with --dry-run" in answer.err
    assert not unit_file(tmp_path).exists()


@pytest.mark.process
def test_the_settings_go_along_and_the_secret_does_not(
    cli: Cli, asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_TIMEZONE", "Europe/Berlin")
    monkeypatch.setenv("DUETIME_SECRET", "s" * 64)
    answer = cli("service", "install", "--yes")
    private = tmp_path / "config" / "duetime" / "service.env"
    assert private.read_text() == 'DUETIME_TIMEZONE="Europe/Berlin"\n'
    assert f"EnvironmentFile={private}\n" in unit_file(tmp_path).read_text()
    assert "s" * 64 not in answer.out + answer.err + unit_file(tmp_path).read_text()
    assert "DUETIME_SECRET is set here, but no service sees it" in answer.err


@pytest.mark.process
def test_status_and_uninstall(cli: Cli, asked: Path, tmp_path: Path) -> None:
    assert (cli("service", "status").code, cli("service", "uninstall", "--yes").code) == (1, 0)
    cli("service", "install", "--yes")
    assert cli("service", "status").out.startswith("The service runs")
    (tmp_path / "broken").touch()
    assert cli("service", "status", "--json").document["running"] is False
    assert cli("service", "uninstall", "--yes").code == 1
    (tmp_path / "broken").unlink()
    assert "would run" in cli("service", "uninstall", "--dry-run").out.lower()
    assert cli("service", "uninstall", "--yes").out == "The service is stopped and removed.\n"
    assert not unit_file(tmp_path).exists()
    assert "--user disable --now duetime.service" in asked.read_text()


@pytest.mark.process
def test_a_manager_that_fails_is_quoted(cli: Cli, asked: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    answer = cli("service", "install", "--yes")
    assert answer.code == 1
    assert "`systemctl --user daemon-reload` failed: Failed to connect to bus" in answer.err


def test_a_machine_without_systemd_is_told_what_to_do(
    cli: Cli, asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    answer = cli("service", "install", "--yes")
    assert answer.code == 1
    assert "there is no systemctl on this machine; have its own supervisor keep" in answer.err
    assert not unit_file(tmp_path).exists()


def test_another_system_is_told_what_to_do(cli: Cli, asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "freebsd14")
    answer = cli("service", "install", "--yes")
    assert answer.code == 1
    assert "services are supported on Linux and macOS" in answer.err


NASTY = 'p"a$$`w\\d %h'


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.process
def test_a_password_stands_in_a_file_of_its_own_that_only_its_owner_reads(
    cli: Cli, asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DUETIME_NOTIFICATIONS_TOKEN", NASTY)
    monkeypatch.setenv("DUETIME_TOKEN", "of-something-else")
    (tmp_path / "bin" / "launchctl").symlink_to(tmp_path / "bin" / "systemctl")
    url = "postgresql://me:canary@127.0.0.1:1/db"
    for arguments in (("--dry-run",), ("--dry-run", "--json"), ("--yes",)):
        answer = cli("service", "install", "--db", url, *arguments)
        assert answer.code == 0, answer
        assert "canary" not in answer.out + answer.err and NASTY not in answer.out
        assert str(tmp_path / "config/duetime/service.env") in answer.out
    private = tmp_path / "config" / "duetime" / "service.env"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    shown = subprocess.run(
        ["/bin/sh", "-c", 'set -a; . "$0"; exec env', private], capture_output=True, text=True, check=True, env={}
    ).stdout.splitlines()
    assert f"DUETIME_DB={url}" in shown and f"DUETIME_NOTIFICATIONS_TOKEN={NASTY}" in shown
    assert not any("of-something-else" in line for line in shown)
    places = [unit_file(tmp_path), tmp_path / "Library" / "LaunchAgents" / "dev.duetime.serve.plist"]
    [written] = [place.read_text() for place in places if place.exists()]
    assert "canary" not in written and "--db" not in written and str(private) in written
    assert cli("service", "uninstall", "--yes").code == 0
    assert not private.exists()


def test_words_that_systemd_would_read_otherwise_are_escaped() -> None:
    unit = systemd_unit(COMMAND, Path("/my 100%"), {"PATH": "/a $b"}, NOTHING)
    assert '"/opt/my python/bin/python" "-m"' in unit.text
    assert '"postgresql://u:p%%40s$$s@h/db"' in unit.text
    assert '"say \\"hi\\"\\\\"' in unit.text
    assert "WorkingDirectory=/my 100%%\n" in unit.text
    assert 'Environment="PATH=/a $b"\n' in unit.text
    with pytest.raises(ValueError, match="control characters"):
        systemd_unit(["a\nExecStartPre=evil"], Path("/"), {}, NOTHING)
    with pytest.raises(ValueError, match="control characters"):
        _ = PrivateFile(Path("/x"), {"DUETIME_DB": "a\nLD_PRELOAD=evil"}).text


@pytest.mark.process
def test_systemd_itself_finds_nothing_to_complain_about(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze on this machine")
    path = tmp_path / "duetime.service"
    path.write_text(systemd_unit([sys.executable, "-m", "duetime"], tmp_path, {"PATH": "/bin"}, NOTHING).text)
    done = subprocess.run(["systemd-analyze", "--user", "verify", path], capture_output=True, text=True, check=False)
    assert "duetime.service" not in done.stderr, done.stderr


def test_a_launchd_agent() -> None:
    unit = launchd_agent(COMMAND, Path("/my folder"), {"PATH": "/bin"}, NOTHING)
    document = plistlib.loads(unit.text.encode())
    assert document["ProgramArguments"] == COMMAND
    assert document["WorkingDirectory"] == "/my folder"
    assert (document["RunAtLoad"], document["KeepAlive"]) == (True, True)
    assert unit.path.parts[-3:] == ("Library", "LaunchAgents", "dev.duetime.serve.plist")
    assert unit.load[0][:2] == ("launchctl", "bootstrap")


@pytest.mark.process
def test_programs_get_documents_and_are_never_asked(cli: Cli, asked: Path, tmp_path: Path) -> None:
    look = cli("service", "install", "--dry-run", "--json").document
    assert (look["installed"], look["file"]) == (False, str(unit_file(tmp_path)))
    assert look["commands"][0] == "systemctl --user daemon-reload"
    refused = cli("service", "install", "--json")
    assert (refused.code, refused.document["error"]["code"]) == (2, "invalid")
    assert not unit_file(tmp_path).exists()
    made = cli("service", "install", "--yes", "--json").document
    assert made["installed"] is True
    assert made["text"] == unit_file(tmp_path).read_text()
    assert cli("service", "uninstall", "--dry-run", "--json").document["removed"] is False
    assert cli("service", "uninstall", "--yes", "--json").document["removed"] is True
    assert cli("service", "uninstall", "--yes", "--json").document["removed"] is False
