"""`duetime backup`, `db` and `completion`, and what every command has in common."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import typer

from duetime.api import Duetime
from duetime.app import build
from duetime.cli import all_commands
from duetime.cli.root import command
from duetime.engine.clock import DAY, Instant
from duetime.settings import Settings
from tests.support.cli import Cli, environment, processor_seconds
from tests.support.settings import write_trusted
from tests.support.size import some
from tests.support.terminal import on_terminal
from tests.support.wordings import NO_CHANNEL
from tests.support.workers import eventually

ADD = ("job", "add", "report", "--task", "echo", "--every", "2h")


# -- backup -----------------------------------------------------------------------------------------------------------


def test_a_backup_holds_everything_and_is_its_owners_alone(cli: Cli, tmp_path: Path) -> None:
    assert cli(*ADD).code == 0
    answer = cli("backup", "copy.db")
    assert answer.code == 0
    assert "Wrote copy.db" in answer.out
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    assert cli("job", "list", "--db", "copy.db", "--json").document["jobs"][0]["name"] == "report"


def test_a_backup_goes_to_the_folder_of_the_settings(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = cli("backup", "--json").document
    assert Path(document["file"]).parent == tmp_path / "data" / "duetime" / "backups"
    assert document["bytes"] == Path(document["file"]).stat().st_size
    monkeypatch.setenv("DUETIME_BACKUP_FOLDER", str(tmp_path / "mine"))
    assert Path(cli("backup", "--json").document["file"]).parent == tmp_path / "mine"
    assert Path(cli("backup", "mine", "--json").document["file"]).parent == Path("mine")


def test_a_backup_overwrites_nothing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    answer = cli("backup", "precious")
    assert (answer.code, answer.err.count("\n")) == (4, 1)
    assert (tmp_path / "precious").read_text() == "mine"
    assert cli("backup", "no/such/folder/x.db").code == 2
    assert cli("backup", "x.db", "--db", "nothing.db").code == 5


def test_postgresql_is_copied_by_its_own_tools(cli: Cli, postgres_url: str) -> None:
    answer = cli("backup", "x.db", "--db", postgres_url)
    assert answer.code == 4
    assert "pg_dump" in answer.err


# -- db ---------------------------------------------------------------------------------------------------------------


def test_status_of_a_store(cli: Cli, tmp_path: Path) -> None:
    assert cli(*ADD).code == 0
    document = cli("db", "status", "--json").document
    assert (document["fits"], document["schedules"]) == (True, 1)
    assert document["bytes"] > 0
    with closing(build(Settings(db=str(tmp_path / "my.db")))):  # whoever is the last to close it takes the log away
        assert cli(*ADD).code == 0
        parts = [(tmp_path / name).stat().st_size for name in ("my.db", "my.db-wal")]
        assert cli("db", "status", "--json").document["bytes"] == sum(parts)
        assert all(parts)
    told = cli("db", "status").out
    assert "up to date" in told
    assert "overdue    nothing" in told


def test_a_store_of_an_older_schema_is_shown_and_brought_up_to_date(cli: Cli, tmp_path: Path) -> None:
    known = cli("db", "status", "--json").document["known_schema"]
    older = apsw.Connection(str(tmp_path / "old.db"))
    script = next(iter(sorted((Path(build.__code__.co_filename).parent / "stores/sql/sqlite").glob("0001*.sql"))))
    older.execute(script.read_text())
    older.execute("PRAGMA user_version = 1")
    older.close()
    status = cli("db", "status", "--db", "old.db")
    assert status.code == 1
    assert "db migrate" in status.out
    assert cli("db", "status", "--db", "old.db", "--json").document["schema"] == 1
    assert cli("db", "migrate", "--db", "old.db", "--json").document == {"from": 1, "to": known, "changed": True}
    assert cli("db", "migrate", "--db", "old.db").out == f"The schema is already up to date (version {known}).\n"
    assert cli("db", "status", "--db", "old.db").code == 0


def test_a_store_of_a_newer_schema_is_used_if_that_says_so(cli: Cli) -> None:
    assert cli(*ADD, "--db", "new.db").code == 0
    with closing(apsw.Connection("new.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    newer = cli("db", "status", "--db", "new.db")
    assert cli("job", "list", "--db", "new.db").code == 0
    assert newer.code == 0 and "it may go on using it" in newer.out
    with closing(apsw.Connection("new.db")) as connection:
        connection.execute("UPDATE meta SET value = 99 WHERE key = 'floor'")
    too_new = cli("db", "status", "--db", "new.db")
    assert too_new.code == 1 and "must not use it: install a newer one" in too_new.out
    assert cli("job", "list", "--db", "new.db").code == 5


def test_db_makes_no_store(cli: Cli, tmp_path: Path) -> None:
    for verb in ("status", "migrate", "prune"):
        assert cli("db", verb, "--db", "nothing.db").code == 5
    assert not (tmp_path / "nothing.db").exists()


def test_prune_deletes_what_is_old(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("job", "add", "once", "--task", "echo", "--at", "now").code == 0
    with Duetime(str(tmp_path / "my.db")) as duetime:
        eventually(lambda: duetime.schedules("completed"), 20, "it ran")
    assert cli("db", "prune", "--json").document == {"deleted": 0}
    later = Instant(build(Settings(db=":memory:")).clock.now() + 40 * DAY)
    monkeypatch.setattr("duetime.engine.clock.SystemClock.now", lambda self: later)
    assert cli("db", "prune", "--older-than", "90d", "--json").document == {"deleted": 0}
    assert cli("db", "prune", "--json").document["deleted"] >= 1
    assert cli("job", "list", "--json").document["total"] == 0
    monkeypatch.setenv("DUETIME_RETENTION_DAYS", "0")
    assert cli("db", "prune").code == 2
    assert cli("db", "prune", "--older-than", "1d").out == "Deleted 0 rows older than 1 d.\n"


def test_db_on_postgresql(cli: Cli, postgres_url: str) -> None:
    assert cli("db", "migrate", "--db", postgres_url).code == 0
    document = cli("db", "status", "--db", postgres_url, "--json").document
    assert (document["fits"], document["bytes"]) == (True, None)
    assert cli("db", "prune", "--db", postgres_url).code == 0


# -- completion -------------------------------------------------------------------------------------------------------


def asked_by_bash(folder: Path, words: str, number: int, *program: str) -> subprocess.CompletedProcess[str]:
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(number), "_DUETIME_COMPLETE": "complete_bash"}
    command = [sys.executable, *program]
    return subprocess.run(command, cwd=folder, env=environment() | asked, capture_output=True, text=True, check=True)


def complete(folder: Path, words: str, number: int) -> list[str]:
    return asked_by_bash(folder, words, number, "-m", "duetime").stdout.split()


def test_tab_completes_commands_subcommands_and_options(tmp_path: Path) -> None:
    assert complete(tmp_path, "duetime ", 1) == list(all_commands())
    assert complete(tmp_path, "duetime jo", 1) == ["job"]
    assert complete(tmp_path, "duetime notify s", 2) == ["send"], "and no earlier name such as show"
    assert complete(tmp_path, "duetime resu", 1) == ["resume"]
    assert "--max-attempts" in complete(tmp_path, "duetime job add --max", 3)


@pytest.mark.later
def test_tab_completes_ids_names_tasks_zones_topics_and_agents(cli: Cli, tmp_path: Path) -> None:
    assert complete(tmp_path, "duetime job show ", 3) == [], "and makes no store"
    assert cli(*ADD).code == 0
    assert cli("notify", "add", "tea", "--topic", "kitchen", "--every", "2h").code == 0
    store = "--db my.db"
    assert complete(tmp_path, f"duetime job show {store} ", 5) == ["j1"]
    assert complete(tmp_path, f"duetime job history {store} rep", 5) == ["report"]
    for words in ("change pause", "pause", "run", "history"):
        assert complete(tmp_path, f"duetime {words} {store} ", 3 + len(words.split())) == ["j1", "n2"], words
    assert cli("run", "j1").code == 0
    for words in ("runs show", "run show"):
        assert complete(tmp_path, f"duetime {words} {store} ", 5) == ["1"], words
    assert "echo" in complete(tmp_path, f"duetime job add x {store} --task ", 7)
    assert complete(tmp_path, "duetime next x --tz Europe/Berl", 4) == ["Europe/Berlin"]
    assert "kitchen" in complete(tmp_path, f"duetime notify send x {store} --topic ", 7)
    assert complete(tmp_path, f"duetime prompt add x {store} --agent ", 7) == ["inbox"]


def test_a_name_is_never_evaluated_by_a_shell(cli: Cli, tmp_path: Path) -> None:
    evil = "a\\$(touch pwned)`touch pwned`'\"; touch pwned"
    assert cli("job", "add", evil, *ADD[3:]).code == 0
    asked = {"_TYPER_COMPLETE_ARGS": "duetime job show --db my.db ", "_DUETIME_COMPLETE": "complete_zsh"}
    command = [sys.executable, "-m", "duetime"]
    done = subprocess.run(command, cwd=tmp_path, env=environment() | asked, capture_output=True, text=True, check=True)
    assert '"j1":"a touch pwned touch pwned touch pwned"' in done.stdout
    assert complete(tmp_path, "duetime job show --db my.db a", 5) == []


def test_tab_imports_no_command_to_name_them(tmp_path: Path) -> None:
    names = "print(*sys.modules, file=sys.stderr)"
    script = f"import sys\nfrom duetime.cli.main import main\ntry:\n    main([])\nfinally:\n    {names}"
    done = asked_by_bash(tmp_path, "duetime ", 1, "-c", script)
    assert {"duetime.app", "mcp", "apsw", "duetime.kinds.jobs.cli"} & set(done.stderr.split()) == set()
    assert "job" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_that_shells_can_read(cli: Cli, shell: str) -> None:
    script = cli("completion", shell).out
    assert "_DUETIME_COMPLETE" in script
    assert cli("completion", shell, "--json").document["script"] in script
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=script, text=True, check=True, capture_output=True)
    assert cli("completion", "tcsh").code == 2


# -- all commands -----------------------------------------------------------------------------------------------------


def commands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    root = command()
    for name in all_commands():
        inner = getattr(root.get_command(typer.Context(root), name), "commands", None)
        found += [(name, each) for each in inner] if inner else [(name,)]
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_has_help_of_one_style_and_takes_json(cli: Cli, words: tuple[str, ...]) -> None:
    answer = cli(*words, "--help")
    assert answer.code == 0
    assert answer.out.startswith(f"Usage: duetime {' '.join(words)} ")
    assert answer.out.isascii() and "╭" not in answer.out
    assert "--json" in answer.out or words in (("mcp",), ("chat",))


@pytest.mark.later
def test_commands_start_quickly(cli: Cli, tmp_path: Path) -> None:
    """Measured on the processor, since nothing else is steady; the best of a few."""
    assert cli(*ADD).code == 0
    seconds: list[float] = []
    while not seconds or (seconds[-1] >= 0.3 and len(seconds) < 5):
        seconds += [processor_seconds(tmp_path, "-m", "duetime", "job", "list", "--db", "my.db")]
    python = (processor_seconds(tmp_path, "-m", "duetime", "--version") for _ in range(3))
    assert min(seconds) < 0.3 or min(seconds) < 4 * min(python)


def test_a_name_that_only_one_has_is_as_good_as_an_id(cli: Cli) -> None:
    id = cli(*ADD, "--json").document["id"]
    assert cli("job", "show", "report", "--json").document["id"] == id
    second = cli(*ADD, "--json").document["id"]
    several = cli("job", "cancel", "report")
    assert several.code == 2
    assert "such as j1: every 2 hours (Etc/UTC); j2: " in several.err
    assert cli("job", "cancel", "j1").code == 0, "by its short id"
    assert cli("job", "show", "report", "--json").document["id"] == second
    assert cli("job", "show", "repor").code == 3
    assert cli("job", "show", "REPORT").code == 0, "whatever its case"
    assert cli("job", "show", "repor").code == 3


def test_a_second_add_with_one_key_says_so(cli: Cli) -> None:
    first = cli(*ADD, "--key", "k")
    assert first.out.startswith("Added j1  report")
    second = cli(*ADD, "--key", "k")
    assert second.out.startswith("Already exists: j1  report")
    assert [cli(*ADD, "--key", key, "--json").document["created"] for key in ("k", "other")] == [False, True]


def test_what_is_paused_shows_no_next_time(cli: Cli) -> None:
    id = cli(*ADD, "--json").document["id"]
    assert "in 1 h 59 min" in cli("job", "list").out
    assert cli("job", "pause", id).code == 0
    assert cli("job", "list").out.splitlines()[1].split("  ")[2].strip() == "-"
    assert "next " not in cli("job", "show", id).out


def test_what_is_paused_until_a_time_shows_it(cli: Cli) -> None:
    assert cli(*ADD).code == 0 and cli("pause", "report", "--until", "2099-01-05 9am", "--note", "away").code == 0
    assert "paused until 2099-01-05 09:00 UTC (in " in cli("show", "report").out
    assert "): away" in cli("show", "report").out
    assert cli("list").out.splitlines()[1].split("  ")[2].strip().startswith("resumes in ")


def test_a_job_tells_a_topic_how_it_went(cli: Cli) -> None:
    made = cli(*ADD, "--deliver-to", "ops", "--notify-on", "failure", "--json").document
    assert made["policy"].items() >= {"deliver_to": "ops", "notify_on": "failure"}.items()
    assert "result sent to ops · result sent when it failed" in " ".join(cli("job", "show", made["id"]).out.split())
    assert cli("job", "edit", made["id"], "--notify-on", "always").code == 0


def test_a_topic_that_no_phone_shows_is_warned_of(cli: Cli, tmp_path: Path) -> None:
    write_trusted(tmp_path, '[channels.phone]\nurl = "json://127.0.0.1/x"\n')
    for add in (ADD, ("prompt", "add", "look", "--every", "2h")):
        assert NO_CHANNEL not in cli(*add, "--deliver-to", "phone").err
        made = cli(*add, "--deliver-to", "phon", "--json").document
        assert any(each.startswith(NO_CHANNEL) for each in made["warnings"])
        assert NO_CHANNEL not in cli(add[0], "edit", made["id"], "--max-attempts", "2").err
        assert NO_CHANNEL in cli(add[0], "edit", made["id"], "--deliver-to", "phon").err


def test_secrets_among_arguments_are_not_shown(cli: Cli) -> None:
    id = cli(*ADD, "--kwarg", 'value={"api_key": "hunter2"}', "--json").document["id"]
    assert "hunter2" not in cli("job", "show", id).out


def test_lists_fit_every_terminal(cli: Cli, tmp_path: Path) -> None:
    for number in range(3):
        assert cli("job", "add", f"a job with a rather long name, number {number}", *ADD[3:]).code == 0
    for columns in some((30, 45, 60, 80, 132)):
        with on_terminal("job", "list", "--db", "my.db", folder=tmp_path, columns=columns) as terminal:
            lines = terminal.rest().splitlines()
        assert max(map(len, lines)) <= columns
        assert sum("scheduled" in line for line in lines) == 3
        assert sum("a job with a ra" in line for line in lines) == 3, "a name is there to be read"
