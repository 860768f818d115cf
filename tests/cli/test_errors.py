"""Whatever goes wrong: one clear line, the right exit code, nothing half-written."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from duetime.service.when import WAYS
from tests.support.cli import Answer, Cli
from tests.support.settings import write_trusted

ADD = ("job", "add", "x", "--task", "echo")
NOBODY = 65_534


def is_one_clear_line(answer: Answer, code: int, *words: str) -> None:
    assert answer.code == code, answer
    assert answer.out == ""
    assert answer.err.count("\n") == 1, answer.err
    assert answer.err.startswith("duetime: ")
    assert "Traceback" not in answer.err
    for word in words:
        assert word in answer.err


BAD = {
    "unknown task": (("job", "add", "x", "--task", "nope", "--every", "2h"), ["Unknown task: nope", "--tasks"]),
    "a misspelled task": (
        ("job", "add", "x", "--task", "ecko", "--every", "2h"),
        ["Unknown task: ecko; did you mean echo? known here: backup_database, "],
    ),
    "an open bracket": (
        ("job", "add", "x", "--task", "echo('a' | shorten(words=5)", "--every", "2h"),
        ["Unknown task: echo('a' | shorten(words=5); it cannot be read: check its brackets and quotes\n"],
    ),
    "code is no task": (("job", "add", "x", "--task", "__import__('os')", "--every", "2h"), ["Unknown task"]),
    "an unknown argument": (
        ("job", "add", "x", "--task", "shorten", "--kwarg", "wordz=3", "--every", "2h"),
        ["wordz", "text, words"],
    ),
    "a missing argument": (("job", "add", "x", "--task", "shorten", "--every", "2h"), ["text: missing"]),
    "an argument of the wrong type": (
        ("job", "add", "x", "--task", "shorten", "--arg", "a", "--arg", "many", "--every", "2h"),
        ["words"],
    ),
    "a negative interval": ((*ADD, "--every", "-5s"), ["--every", '"-5s"']),
    "no interval": ((*ADD, "--every", "0s"), ["--every", "greater than zero"]),
    "a past time": ((*ADD, "--at", "2020-01-01T00:00"), ["--at: 2020-01-01", "is in the past; it is now"]),
    "an unreadable time": ((*ADD, "--at", "someday"), ['--at: could not parse "someday"']),
    "an unknown zone": ((*ADD, "--every", "2h", "--tz", "Europe/Berln"), ["did you mean Europe/Berlin"]),
    "a malformed cron": ((*ADD, "--cron", "99 * * * *"), ["Invalid cron expression: 99", "minute cannot be '99'"]),
    "a cron with a wrong weekday": ((*ADD, "--cron", "0 9 * * MONDAY"), ["day of the week cannot be 'MONDAY'"]),
    "a cron of seconds with a wrong month": ((*ADD, "--cron", "0 0 9 * 13 *"), ["the month cannot be '13'"]),
    "a cron with a field too few": ((*ADD, "--cron", "0 9 * *"), ["it has 4 fields, and cron has 5"]),
    "an unknown short cron": ((*ADD, "--cron", "@nightly"), ["there are @yearly"]),
    "a cron that never fires": ((*ADD, "--cron", "0 0 31 2 *"), ["--cron: it never fires"]),
    "a phrase that is no rule": ((*ADD, "--when", "every blue moon"), ['--when: could not read "blue moon"']),
    "a phrase that is no time": ((*ADD, "--when", "gibberish"), ['--when: could not parse "gibberish"', "weekday"]),
    "help for an unknown command": (("help", "jop"), ["No such command 'jop'", "duetime --help"]),
    "a malformed rule": ((*ADD, "--rrule", "FREQ=SOMETIMES"), ["FREQ"]),
    "no trigger": (ADD, ["give exactly one of --at, --delay", *(f"--{way}" for way in WAYS)]),
    "two triggers": ((*ADD, "--every", "2h", "--at", "tomorrow 9am"), ["exactly one of"]),
    "an oversized payload": ((*ADD, "--every", "2h", "--arg", "x" * 300_000), ["bytes, and the limit is 262144"]),
    "an empty name": (("job", "add", " ", "--task", "echo", "--every", "2h"), ["name: must not be empty"]),
    "a name that is no text": (("job", "add", "a\x00b", "--task", "echo", "--every", "2h"), ["name: "]),
    "no runs": ((*ADD, "--every", "2h", "--max-runs", "0"), ["--max-runs"]),
    "a number that is none": ((*ADD, "--every", "2h", "--max-runs", "many"), ["'many' is not a whole number"]),
    "retries of what runs at most once": (
        (*ADD, "--every", "2h", "--at-most-once", "--max-attempts", "2"),
        ["--max-attempts: work that runs at most once"],
    ),
    "an unknown policy": ((*ADD, "--every", "2h", "--overlap", "maybe"), ["--overlap: must be one of skip, queue"]),
    "a pair that is none": ((*ADD, "--every", "2h", "--kwarg", "value"), ["--kwarg: write it as name=value"]),
    "an unknown option": ((*ADD, "--evry", "2h"), ["No such option", "duetime job add --help"]),
    "a missing option": (("job", "add", "x", "--every", "2h"), ["Missing option '--task'"]),
    "an unknown command": (("jobs",), ["No such command 'jobs'"]),
    "an unknown status": (
        ("job", "list", "--status", "happy"),
        ["Unknown status: happy", "scheduled (or pending), running"],
    ),
    "a cursor that is none": (("job", "list", "--cursor", "???"), ["cursor"]),
    "an unknown store": (("job", "list", "--db", "mysql://localhost/x"), ["mysql:// is not known"]),
    "an unknown store of a server": (("open", "--db", "mysql://localhost/x"), ["mysql:// is not known"]),
    "no topic": (
        ("notify", "add", "x", "--topic", "My Phone", "--delay", "1h"),
        ["--topic: must be lowercase letters and digits, joined by", "for example home-alerts; not 'My Phone'"],
    ),
    "nothing to follow": (
        ("job", "add", "x", "--task", "echo", "--after", "bakup"),
        ["--after: there is no schedule 'bakup' to follow; give the id", "succeeds, fails or ends"],
    ),
    "an expression that is none": (("next", "whenever"), ['"whenever" cannot be read', "0 9 * * 1-5"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_one_line_and_leaves_nothing(cli: Cli, name: str) -> None:
    arguments, words = BAD[name]
    is_one_clear_line(cli(*arguments), 2, *words)
    assert cli("job", "list", "--json").document["total"] == 0


@pytest.mark.parametrize("name", BAD)
def test_programs_get_the_same_as_a_document(cli: Cli, name: str) -> None:
    arguments, _ = BAD[name]
    answer = cli(*arguments, "--json")
    assert (answer.code, answer.err) == (2, "")
    assert set(answer.document["error"]) == {"code", "message"}


def test_what_is_not_there(cli: Cli) -> None:
    for verb in ("show", "cancel", "run", "pause", "resume", "delete", "history"):
        is_one_clear_line(cli("job", verb, "job_1_1"), 3, "there is no job 'job_1_1'", "job list")
    is_one_clear_line(cli("job", "edit", "job_1_1", "--name", "y"), 3, "there is no job")
    assert cli("job", "show", "\x1b\ud800", "--json").document["error"]["code"] == "not_found"
    is_one_clear_line(cli("hook", "rotate", "githib"), 3, "list them: `duetime hook list`")


def test_what_is_cancelled_names_the_command_that_brings_it_back(cli: Cli) -> None:
    assert cli("job", "add", "beat", "--task", "echo", "--arg", "x", "--every", "2h").code == 0
    assert cli("cancel", "beat").code == 0
    for verb in ("run", "pause"):
        is_one_clear_line(cli(verb, "j1"), 4, "it is cancelled, so it cannot be", "bring it back: ", " restore j1")


def test_what_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    id = cli(*ADD, "--every", "2h", "--key", "k", "--json").document["id"]
    is_one_clear_line(cli(*ADD, "--every", "3h", "--key", "k"), 4, "this --key was used with other arguments")
    assert cli("job", "run", id).code == 0
    is_one_clear_line(cli("job", "run", id), 4, "an earlier run has not started yet")
    assert cli("job", "cancel", id).code == 0
    is_one_clear_line(cli("job", "edit", id, "--name", "y"), 4, "cannot be edited")
    is_one_clear_line(cli("job", "run", id), 4, "job j1: it is cancelled")
    monkeypatch.setenv("DUETIME_MAX_SCHEDULES", "0")
    assert cli(*ADD, "--every", "2h").code == 4
    assert cli("job", "list", "--json").document["total"] == 1


def test_an_edit_of_nothing(cli: Cli) -> None:
    id = cli(*ADD, "--every", "2h", "--json").document["id"]
    is_one_clear_line(cli("job", "edit", id), 2, "nothing to change", "see ", "job edit --help")
    is_one_clear_line(cli("job", "edit", id, "--tz", "Asia/Tokio"), 2, "did you mean Asia/Tokyo")
    is_one_clear_line(
        cli("change", "pause"),
        2,
        "ID: give ids, or a filter (--kind, --topic, --label, --tagged, --status, --older-than), or --all",
    )
    is_one_clear_line(
        cli("change", "delete", "--all"), 2, "--expected: deleting ends schedules", "(--dry-run lists them)"
    )
    assert cli("job", "show", id, "--json").document["version"] == 1


# -- stores -----------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_database_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "my.db"
    file.write_text("Dear diary, " * 500)
    before = file.read_bytes()
    for arguments in ((*ADD, "--every", "2h"), ("job", "list"), ("worker", "--db", "my.db")):
        is_one_clear_line(cli(*arguments), 5, "is not a SQLite database")
    assert file.read_bytes() == before


def test_a_database_of_another_program_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    other = apsw.Connection(str(tmp_path / "my.db"))
    other.execute("CREATE TABLE recipes (name); INSERT INTO recipes VALUES ('soup')")
    is_one_clear_line(cli(*ADD, "--every", "2h"), 5, "another program")
    assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("recipes",)]
    other.close()


def test_a_store_from_the_future(cli: Cli, tmp_path: Path) -> None:
    assert cli(*ADD, "--every", "2h").code == 0
    other = apsw.Connection(str(tmp_path / "my.db"))
    other.execute("PRAGMA user_version = 999; UPDATE meta SET value = 999 WHERE key = 'floor'")
    other.close()
    is_one_clear_line(cli("job", "list"), 5, "schema 999", "install a newer Duetime")


def test_a_folder_that_cannot_be_made(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    is_one_clear_line(cli("job", "list", "--db", "file/my.db"), 5, "there is no file/my.db", "--db")
    is_one_clear_line(cli(*ADD, "--every", "2h", "--db", "nowhere/my.db"), 5, "nowhere/my.db cannot be opened")
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "folder").mkdir()
    is_one_clear_line(cli("job", "list", "--db", "folder"), 5, "folder cannot be opened")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may look into, as the tests' own folders are not."""
    folder = Path(tempfile.mkdtemp(prefix="duetime-cli-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_store_that_may_only_be_read(cli: Cli, open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(open_folder)
    store = str(open_folder / "their.db")
    assert cli(*ADD, "--every", "2h", "--db", store).code == 0
    (open_folder / "their.db").chmod(0o444)
    before = (open_folder / "their.db").read_bytes()
    user = os.geteuid()
    if user == 0:  # who may write everything
        os.seteuid(NOBODY)
    else:
        open_folder.chmod(0o555)
    try:
        answer = cli(*ADD, "--every", "3h", "--db", store)
    finally:
        os.seteuid(user)
        open_folder.chmod(0o755)
    assert answer.code == 5
    assert "check" in answer.err and answer.err.count("\n") == 1
    assert (open_folder / "their.db").read_bytes() == before
    assert cli("job", "list", "--db", store, "--json").document["total"] == 1


@pytest.mark.postgres
def test_a_postgresql_that_is_not_there(cli: Cli) -> None:
    url = "postgresql://me:secret@127.0.0.1:1/duetime"
    for arguments in (
        (*ADD, "--every", "2h"),
        ("job", "list"),
        ("worker", "--no-wait"),
        ("serve", "--no-wait", "--port", "0"),
    ):
        answer = cli(*arguments, "--db", url)
        is_one_clear_line(answer, 5, "PostgreSQL cannot be reached", "check --db")
        assert "secret" not in answer.err
    assert cli("job", "list", "--db", url, "--json").document["error"]["code"] == "store_unavailable"


# -- surroundings -----------------------------------------------------------------------------------------------


def test_settings_that_cannot_be_read(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trusted(tmp_path, "threads = 'many'")
    is_one_clear_line(cli("job", "list"), 2, "duetime.toml", "threads")
    assert cli("doctor").code == 1
    write_trusted(tmp_path, "= ?")
    is_one_clear_line(cli("next", "@daily"), 2, "is not valid TOML")
    (tmp_path / "duetime.toml").unlink()
    monkeypatch.setenv("DUETIME_TIMEZONE", "Mars/Olympus")
    is_one_clear_line(cli("next", "@daily"), 2, "Mars/Olympus")


def test_task_modules_that_cannot_be_loaded(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('no coffee')")
    is_one_clear_line(cli("worker", "--db", "my.db", "--tasks", "broken.py"), 1, "RuntimeError: no coffee")
    is_one_clear_line(cli(*ADD, "--every", "2h", "--tasks", "no_such_module"), 1, "there is no module no_such_module")
    assert cli("job", "list", "--json").document["total"] == 0


def test_the_unexpected_is_told_shortly_and_with_debug_in_full(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of luck\x1b[2J")

    monkeypatch.setattr("duetime.app.build", fail)
    is_one_clear_line(cli("job", "list"), 1, "unexpected RuntimeError: out of luck\\x1b", "--debug")
    assert "Traceback" in cli("job", "list", "--debug").err
    assert cli("job", "list", "--json").document["error"]["code"] == "unexpected"


def test_ctrl_c(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("duetime.app.build", interrupt)
    answer = cli("job", "list")
    assert answer.code == 130
    assert "Traceback" not in answer.err
