"""Text of strangers on its way through the command line: what hides in it is shown, and comes back as it was."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest

from duetime.api import Duetime
from duetime.engine.encoding import UNSAFE
from duetime.terminal.output import between_words, escaped, one_date_format
from tests.support.cli import Cli
from tests.support.workers import eventually

HIDDEN = ["\x1b[2J", "\x7f", "\xad", "\u202e", "\u2028", "\ufeff", "\U000e0041\U000e0042", "\ud800"]


@pytest.mark.parametrize("text", HIDDEN)
def test_json_says_the_same_without_what_hides(text: str) -> None:
    shown = escaped(json.dumps({"a": f"x{text}y"}, ensure_ascii=False, indent=2))
    assert json.loads(shown) == {"a": f"x{text}y"}
    assert UNSAFE.sub("", shown.replace("\n", "")) == shown.replace("\n", "")


def test_an_export_comes_back_as_it_was(cli: Cli, tmp_path: Path) -> None:
    name = "a\U000e0041b\u202ec"
    assert cli("job", "add", name, "--task", "echo", "--arg", name, "--every", "2h").code == 0
    assert cli("export", "-o", "all.jsonl").code == 0
    assert cli("import", "jsonl", "all.jsonl", "--yes", "--db", "new.db").code == 0
    [job] = cli("job", "list", "--json", "--db", "new.db").document["jobs"]
    assert (job["name"], job["payload"]["args"]) == (name, [name])


def test_credentials_are_shown_by_the_export_alone(cli: Cli, tmp_path: Path) -> None:
    """What an agent put into a payload, and what came back in a result."""
    secret = {"password": "hunter2", "note": "token=hunter3 kept"}
    given = ("--task", "echo", "--arg", json.dumps(secret), "--every", "2h")
    id = cli("job", "add", "login", *given, "--json").document["id"]
    assert cli("job", "run", id).code == 0
    with Duetime(str(tmp_path / "my.db")) as duetime:
        eventually(lambda: duetime.history(id)[0].status == "completed", 30, "a run")
        assert duetime.history(id)[0].result == secret, "Python has it whole"
    run = cli("run", "list", "--json").document["runs"][0]
    assert run["result"] == {"password": "***", "note": "token=*** kept"}
    shown = [
        *(cli("job", verb, id, *more) for verb in ("show", "history") for more in ((), ("--json",))),
        *(cli(*room, *more) for room in (("job", "list"), ("run", "list")) for more in ((), ("--json",))),
        *(cli("run", "show", str(run["run_id"]), *more) for more in ((), ("--json",))),
        cli("job", "edit", id, "--name", "again", "--json"),
    ]
    assert all(answer.code == 0 and "hunter" not in answer.out for answer in shown)
    assert "hunter2" in cli("export").out, "or it could not be brought in again"


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [40, 60, 200])
def test_a_terminal_breaks_lines_between_words_and_leaves_commands_whole(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    text = (
        "next at 09:00 (Europe/Berlin), see `duetime inbox`, or:\n  start one: duetime worker --db my.db --tasks mine"
    )
    shown = between_words(text, Screen())
    assert shown.split() == text.split()
    assert "`duetime inbox`" in shown and "duetime worker --db my.db --tasks mine" in shown
    assert all(len(line) < columns for line in shown.splitlines() if "worker" not in line)
    assert between_words(text, StringIO()) == text, "a file gets whole lines"


def test_times_that_agents_read_are_written_as_all_others_here() -> None:
    said = "Feb 9, 2026 12:05 AM PST is in the past; it is now Feb 10, 2026 3:00 PM PST."
    assert one_date_format(said) == "2026-02-09 00:05 PST is in the past; it is now 2026-02-10 15:00 PST."
    with_offsets = "--at: 2026-02-09T00:05:00-08:00 is in the past; it is now 2026-02-10T15:00:07-08:00."
    assert one_date_format(with_offsets) == "--at: 2026-02-09 00:05 is in the past; it is now 2026-02-10 15:00:07."
    assert one_date_format('could not parse "Feb 30, 2026 3:00 PM"') == 'could not parse "Feb 30, 2026 3:00 PM"'


def test_an_export_is_private_whatever_lay_in_its_way(cli: Cli, tmp_path: Path) -> None:
    """Somebody else may have made a file of a name that could be guessed, to read along."""
    assert cli("job", "add", "tidy", "--task", "echo", "--every", "2h").code == 0
    for name in ("all.jsonl", "all.jsonl.new"):
        (tmp_path / name).touch(mode=0o666)
    (tmp_path / "all.jsonl").chmod(0o666)
    before = {each.name for each in tmp_path.iterdir()}
    assert cli("export", "-o", "all.jsonl").code == 0
    assert (tmp_path / "all.jsonl").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "all.jsonl.new").read_text() == ""
    assert {each.name for each in tmp_path.iterdir()} == before
