"""Commands that cannot be undone ask a person on a terminal, and require an option from a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Cli
from tests.support.terminal import on_terminal


@pytest.fixture
def seven(cli: Cli) -> Cli:
    for number in range(1, 8):
        assert cli("job", "add", f"beat {number}", "--task", "echo", "--every", f"{number}h").code == 0
    return cli


def listed(cli: Cli, status: str) -> int:
    return len(cli("job", "list", "--status", status, "--json").document["jobs"])


@pytest.mark.parametrize(("action", "doing"), [("cancel", "cancelling"), ("delete", "deleting")])
def test_a_program_says_how_many_or_yes(seven: Cli, action: str, doing: str) -> None:
    refused = seven("change", action, "--all")
    assert refused.code == 2
    assert (
        f"--expected: {doing} ends schedules, so say how many, or pass --yes; 7 match (--dry-run lists" in refused.err
    )
    assert seven("change", action, "--all", "--expected", "6").code == 4
    assert listed(seven, "scheduled") == 7
    assert seven("change", action, "j1", "j2", "--expected", "2").code == 0
    assert "1 schedule was " in seven("change", action, "j3", "--expected", "1").out
    assert seven("change", action, "--all", "--yes").code == 0
    assert listed(seven, "scheduled") == 0


@pytest.mark.parametrize("action", ["cancel", "delete"])
def test_a_person_is_asked_about_many(seven: Cli, tmp_path: Path, action: str) -> None:
    with on_terminal("change", action, "--all", "--db", "my.db", folder=tmp_path) as terminal:
        shown = terminal.until(f"{action.capitalize()} 7 schedules? [y/N]")
        assert shown.count("beat") == 5 and "and 2 more" in shown
        terminal.type("\n")
        assert "Nothing was changed." in terminal.rest()
    assert listed(seven, "scheduled") == 7
    with on_terminal("change", action, "--all", "--db", "my.db", folder=tmp_path) as terminal:
        terminal.until("[y/N]")
        terminal.type("y\n")
        assert f"7 schedules were {action}" in terminal.rest()
    assert listed(seven, "scheduled") == 0


def test_a_person_is_asked_before_one_is_deleted(seven: Cli, tmp_path: Path) -> None:
    with on_terminal("job", "delete", "beat 3", "--db", "my.db", folder=tmp_path) as terminal:
        terminal.until("Delete j3  beat 3? `duetime restore` brings it back for a day. [y/N]")
        terminal.type("n\n")
        assert "Nothing was changed." in terminal.rest()
    assert listed(seven, "scheduled") == 7
    with on_terminal("job", "delete", "beat 3", "--yes", "--db", "my.db", folder=tmp_path) as terminal:
        assert "Deleted j3 beat 3. " in terminal.rest()
    assert seven("job", "delete", "j4").code == 0, "a program is not asked"
    assert listed(seven, "scheduled") == 5


def test_a_pause_says_what_falls_into_it(seven: Cli) -> None:
    assert seven("prompt", "add", "call the dentist", "--at", "in 2 hours").code == 0
    alone = seven("job", "pause", "j1").out
    assert "until  you resume it\nnote   Its times are skipped until it is resumed, the first at " in alone
    tried = seven("change", "pause", "--all", "--until", "in 5 hours", "--dry-run").out
    assert "call the dentist: Its time, " in tried and "it is held and runs when the pause ends." in tried
    assert "beat 2: It is skipped 2 times in the pause, the first at " in tried
    assert "7 schedules would be paused until " in tried
