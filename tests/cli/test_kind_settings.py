"""A kind of another package brings settings and a check: the one that the documentation shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-kind.md"
ENTRY_POINT = "[duetime.kinds]\nline = mykinds:SPEC\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the package of the kind, as the last example of the page has it."""
    [*_, code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "mykinds.py").write_text(code)
    package = tmp_path / "mykinds-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: mykinds\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(ENTRY_POINT)
    return tmp_path


def duetime(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {"PYTHONPATH": folder, "DUETIME_CONFIG": folder / "duetime.toml", "XDG_DATA_HOME": folder / "data"}
    known = {**os.environ, **{name: str(path) for name, path in own.items()}, **environment}
    command = [sys.executable, "-m", "duetime", *arguments]
    return subprocess.run(command, cwd=folder, env=known, capture_output=True, text=True, timeout=60, check=False)


def checks(done: subprocess.CompletedProcess[str], subject: str) -> list[tuple[str, str]]:
    found: dict[str, Any] = json.loads(done.stdout)
    return [(each["status"], each["message"]) for each in found["checks"] if each["subject"] == subject]


def test_its_settings_are_read_and_its_check_is_shown(folder: Path) -> None:
    (folder / "duetime.toml").write_text(f'db = "my.db"\n[lines]\nfolder = "{folder}"\n')
    done = duetime(folder, "doctor", "--json")
    assert checks(done, "lines") == [("ok", f"they are written to {folder}")], done.stdout + done.stderr
    elsewhere = duetime(folder, "doctor", "--json", DUETIME_LINES_FOLDER="/nowhere")
    assert checks(elsewhere, "lines") == [("fail", "there is no folder /nowhere; create it, or set lines.folder")]
    assert elsewhere.returncode == 1


def test_its_settings_reach_the_kind(folder: Path) -> None:
    (folder / "duetime.toml").write_text('db = ":memory:"\n[lines]\nmax_length = 3\n')
    script = (
        "from duetime.app import build; from duetime.settings import load_settings\n"
        "print(build(load_settings()).kinds['line'].settings)"
    )
    environment = {**os.environ, "PYTHONPATH": str(folder), "DUETIME_CONFIG": str(folder / "duetime.toml")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "LineSettings(folder='.', max_length=3)\n", done.stderr


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[lines]\nmax_length = 0", "lines.max_length must be at least 1"),
        ("[lines]\nmax_length = 'long'", "lines.max_length must be a whole number"),
        ("[lines]\nmax_length = 1.5", "lines.max_length must be a whole number"),
        ("[lines]\nfoldre = '.'", "lines.foldre"),
        ("[linse]\nfolder = '.'", "linse"),
    ],
)
def test_what_it_cannot_use_is_refused(folder: Path, table: str, message: str) -> None:
    (folder / "duetime.toml").write_text(f"{table}\n")
    done = duetime(folder, "list", "--db", "my.db")
    assert done.returncode == 2
    assert message in done.stderr and "duetime.toml" in done.stderr
    assert checks(duetime(folder, "doctor", "--json"), "settings")[0][0] == "fail"


def test_its_settings_are_shown_and_changed(folder: Path) -> None:
    (folder / "duetime.toml").write_text("")
    assert duetime(folder, "config", "set", "lines.max_length", "7").returncode == 0
    assert "[lines]\nmax_length = 7\n" in (folder / "duetime.toml").read_text()
    assert duetime(folder, "config", "get", "lines.max_length").stdout == "7\n"
    assert "lines.max_length = 7 " in duetime(folder, "config", "show").stdout
    assert duetime(folder, "config", "set", "lines.max_length", "0").returncode == 2


def test_a_table_that_is_taken_is_refused(folder: Path) -> None:
    module = folder / "mykinds.py"
    module.write_text(module.read_text().replace('tables={"lines"', 'tables={"channels"'))
    (folder / "duetime.toml").write_text("")
    done = duetime(folder, "list", "--db", "my.db")
    assert done.returncode == 2 and "'channels', which is taken" in done.stderr


def test_a_check_that_fails_does_not_prevent_the_others(folder: Path) -> None:
    module = folder / "mykinds.py"
    module.write_text(module.read_text().replace("    folder = settings", "    1 / 0\n    folder = settings"))
    (folder / "duetime.toml").write_text('db = "my.db"\n')
    done = duetime(folder, "doctor", "--json")
    [(status, message)] = checks(done, "line")
    assert status == "fail" and "ZeroDivisionError" in message
    assert checks(done, "disk") and checks(done, "store")
