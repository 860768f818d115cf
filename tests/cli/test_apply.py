"""`duetime apply` and `duetime export --format toml`, as people and pipelines use them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duetime.cli.data.schedule_file import read_schedules
from duetime.engine.errors import DuetimeError
from tests.support.cli import Cli
from tests.support.terminal import on_terminal

FILE = """
[jobs.backup]
task = "echo"
args = [{ target = "disk", token = "${BACKUP_TOKEN}" }]
when = "every day at 2:00"
timezone = "Europe/Berlin"
timeout = "5m"

[jobs.report]
task = "echo"
args = ["done"]
when = "after backup succeeds"

[notifications.tea]
message = "Tea costs $${PRICE}"
topic = "kitchen"
every = "2h30m"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BACKUP_TOKEN", "geheim123")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "schedules.toml"
    path.write_text(FILE)
    return path


def test_a_pipeline_applies_a_file(cli: Cli, file: Path) -> None:
    planned = cli("apply", "schedules.toml", "--dry-run")
    assert planned.code == 2 and "3 to be created" in planned.out
    assert "+ jobs.backup  every day at 02:00 (Europe/Berlin)" in planned.out
    assert "geheim" not in planned.out
    refused = cli("apply", "schedules.toml")
    assert refused.code == 2 and "pass --yes" in refused.err
    assert cli("list", "--json").document["schedules"] == []
    done = cli("apply", "schedules.toml", "--yes")
    assert done.code == 0 and "3 created" in done.out
    again = cli("apply", "schedules.toml", "--dry-run")
    assert (again.code, again.out.strip()) == (0, "Nothing to change, 3 unchanged.")
    tea = cli("show", "tea", "--json").document
    assert tea["payload"]["message"] == "Tea costs ${PRICE}" and tea["source"] == "the file schedules"
    assert "the file schedules" in cli("show", "tea").out


def test_the_plan_names_each_difference_and_hides_credentials(
    cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("apply", "schedules.toml", "--yes")
    monkeypatch.setenv("BACKUP_TOKEN", "andere456")
    file.write_text(
        '[duetime]\nname = "schedules"\n'
        + file.read_text().replace("2:00", "3:00").replace("[notifications.tea]", "[notifications.coffee]")
    )
    planned = cli("apply", "schedules.toml", "--prune", "--dry-run", "--json")
    assert planned.code == 2 and "geheim" not in planned.out and "andere" not in planned.out
    changes = {each["path"]: each for each in planned.document["changes"]}
    assert {path: each["action"] for path, each in changes.items()} == {
        "jobs.backup": "change",
        "notifications.coffee": "create",
        "notifications.tea": "remove",
    }
    fields = {each["field"]: each for each in changes["jobs.backup"]["differences"]}
    assert fields["when"]["after"] == "every day at 03:00 (Europe/Berlin)"
    assert "(changed)" in str(fields["args"]["after"])
    text = cli("apply", "schedules.toml", "--yes").out
    assert "when: every day at 02:00 (Europe/Berlin) -> every day at 03:00 (Europe/Berlin)" in text
    assert "kept: notifications.tea; --prune deletes them" in text
    assert cli("apply", "schedules.toml", "--prune", "--yes").out.startswith("- notifications.tea")
    assert cli("apply", "schedules.toml", "--prune", "--dry-run").code == 0


def test_the_plan_hides_what_comes_from_the_environment(cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("""
[jobs.water]
task = "echo"
args = [["need ${WATER}", "plain", "costs $${PRICE}", "${SHORT}"]]
when = "on rain where place = '${WATER}'"
name = "water of ${WATER}"

[jobs.tea]
task = "echo"
args = ["plain"]
every = "1h"
""")
    monkeypatch.setenv("SHORT", "ab")
    outputs = []
    for number in (1, 2):
        monkeypatch.setenv("WATER", f"geheim-{number}")
        if number == 2:
            file.write_text(file.read_text().replace("plain", "fancy ab"))
        planned = cli("apply", "schedules.toml", "--dry-run")
        assert planned.code == 2 and "geheim" not in planned.out, planned.out
        assert "geheim" not in cli("apply", "schedules.toml", "--dry-run", "--json").out
        outputs.append(cli("apply", "schedules.toml", "--yes").out)
    shown = "".join(outputs)
    assert "geheim" not in shown
    assert 'args: [["***", "***", "costs ${PRICE}", "***"]] -> [["***", "fancy ab", "costs ${PRICE}", "***"]]' in shown
    assert 'args: ["plain"] -> ["fancy ab"]' in shown
    assert "name: *** -> *** (changed)" in shown and "when: *** -> *** (changed)" in shown
    file.write_text(file.read_text().replace("need ${WATER}", "need geheim-2").replace("'${WATER}'", "'geheim-2'"))
    assert cli("apply", "schedules.toml", "--dry-run").out.startswith("Nothing to change")
    monkeypatch.setenv("WATER", "andere-3")
    planned = cli("apply", "schedules.toml", "--dry-run")
    assert "name: *** -> *** (changed)" in planned.out and "andere" not in planned.out


def test_a_hidden_change_is_shown_as_json(cli: Cli, file: Path) -> None:
    table = '[jobs.a]\ntask = "echo"\nevery = "1h"\nkwargs = { value = { Authorization = "geheim-1", count = 1 } }'
    file.write_text(table)
    cli("apply", "schedules.toml", "--yes")
    file.write_text(table.replace("geheim-1", "geheim-2"))
    done = cli("apply", "schedules.toml", "--yes")
    shown = '{"value": {"Authorization": "***", "count": 1}}'
    assert f"kwargs: {shown} -> {shown} (changed)" in done.out


def test_only_a_file_with_a_name_of_its_own_is_pruned(cli: Cli, file: Path) -> None:
    """Each project may have a `schedules.toml`, and prune would delete what the others made."""
    for folder in ("shop", "blog"):
        Path(folder).mkdir()
        text = FILE.replace("[jobs.backup]", f"[jobs.{folder}]").replace("after backup", f"after {folder}")
        Path(folder, "schedules.toml").write_text(text)
        assert cli("apply", f"{folder}/schedules.toml", "--yes").code == 0
    refused = cli("apply", "blog/schedules.toml", "--prune", "--yes")
    assert refused.code == 4 and refused.out == ""
    assert '[duetime] and name = "schedules"' in refused.err and "no other file" in refused.err
    assert cli("apply", "blog/schedules.toml", "--prune", "--dry-run").code == 4
    assert {"shop", "blog"} <= {each["name"] for each in cli("list", "--json").document["schedules"]}
    Path("blog", "schedules.toml").write_text(f'[duetime]\nname = "blog"\n{FILE}')
    pruned = cli("apply", "blog/schedules.toml", "--prune", "--yes")
    assert pruned.code == 0 and "removed" not in pruned.out


def test_what_is_exported_changes_nothing(cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("apply", "schedules.toml", "--yes")
    cli("job", "add", "hello", "--task", "echo", "--arg", "hi", "--every", "1h", "--key", "mine")
    cli("prompt", "add", "Summarize\nmy mail", "--cron", "0 9 * * 1-5", "--name", "same")
    cli("prompt", "add", "Another", "--at", "2099-01-01 09:00", "--name", "same")
    exported = cli("export", "--format", "toml", "-o", "out.toml")
    assert exported.code == 0 and "BACKUP_TOKEN" in exported.err
    text = Path("out.toml").read_text()
    assert "geheim" not in text and '"""Summarize\nmy mail"""' in text and "[prompts.same-2]" in text
    for name in ("out.toml", "schedules.toml"):
        planned = cli("apply", name, "--dry-run")
        assert (planned.code, planned.out.strip().split(",")[0]) == (0, "Nothing to change"), planned.out
    monkeypatch.delenv("BACKUP_TOKEN")
    refused = cli("apply", "out.toml", "--yes")
    assert refused.code == 4 and "the environment has no BACKUP_TOKEN" in refused.err
    own = cli("export", "--format", "toml", "-o", "schedules.toml", "--kind", "notification")
    assert own.code == 0 and "id =" not in Path("schedules.toml").read_text()


def test_what_is_exported_fires_at_the_same_times_where_another_zone_is_usual(
    cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_TIMEZONE", "Europe/Berlin")
    file.write_text('[jobs.morning]\ntask = "echo"\nargs = ["x"]\nwhen = "every day at 06:30"\n')
    assert cli("apply", str(file), "--yes").code == 0
    assert cli("export", "--format", "toml", "-o", "out.toml").code == 0
    monkeypatch.setenv("DUETIME_TIMEZONE", "America/New_York")
    assert cli("apply", "out.toml", "--yes", "--db", "other.db").code == 0
    (row,) = cli("list", "--db", "other.db", "--json").document["schedules"]
    assert row["trigger"]["timezone"] == "Europe/Berlin"


def test_an_export_follows_no_schedule_of_another_store_by_its_number(cli: Cli, tmp_path: Path) -> None:
    cli("prompt", "add", "look", "--name", "Ask A", "--every", "1h", "--db", "a.db")
    cli("job", "add", "f", "--task", "echo", "--after", "Ask A", "--db", "a.db")
    assert cli("export", "--kind", "job", "--format", "toml", "-o", "jobs.toml", "--db", "a.db").code == 0
    cli("prompt", "add", "look", "--name", "unrelated", "--every", "1h", "--db", "b.db")
    refused = cli("apply", "jobs.toml", "--yes", "--db", "b.db")
    assert (refused.code, "to follow" in refused.err) == (4, True), refused
    cli("prompt", "edit", "Ask A", "--name", "Ask B", "--db", "a.db")
    planned = cli("apply", "jobs.toml", "--dry-run", "--db", "a.db")
    assert planned.out.startswith("Nothing to change"), planned
    cli("delete", "f", "--yes", "--db", "a.db")
    assert cli("apply", "jobs.toml", "--yes", "--db", "a.db").code == 0
    assert cli("show", "f", "--json", "--db", "a.db").document["reads_as"] == "after Ask B succeeds"


def test_an_edit_of_what_a_file_declares_is_warned_about(cli: Cli, file: Path) -> None:
    cli("apply", "schedules.toml", "--yes")
    edited = cli("job", "edit", "backup", "--timeout", "9m")
    assert "also change it in the file schedules" in edited.err
    assert "timeout_seconds: 540 -> 300" in cli("apply", "schedules.toml", "--yes").out


def test_a_person_is_asked(file: Path, tmp_path: Path) -> None:
    env = {"BACKUP_TOKEN": "geheim123"}
    with on_terminal("apply", "schedules.toml", folder=tmp_path, env=env) as terminal:
        terminal.until("Apply 3 changes?")
        terminal.type("n\r")
        terminal.until("Nothing was changed.")
    with on_terminal("apply", "schedules.toml", folder=tmp_path, env=env) as terminal:
        terminal.until("Apply 3 changes?")
        terminal.type("y\r")
        terminal.until("3 created.")


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_other_formats(cli: Cli, file: Path, suffix: str) -> None:
    table = {"task": "echo", "args": ["hi"], "on": "github.push", "timeout": 30}
    text = json.dumps({"duetime": {"name": "schedules"}, "jobs": {"push": table, "once": table}})
    if suffix == "yaml":
        text = """
duetime: {name: schedules}
jobs:
  push: {task: echo, args: [hi], on: github.push, timeout: 30}
  once:
    task: echo
    args: [hi]
    at: 2099-01-01 09:00:00
"""
    Path(f"other.{suffix}").write_text(text)
    done = cli("apply", f"other.{suffix}", "--yes")
    assert done.code == 0 and "2 created" in done.out, done.err
    assert cli("show", "push", "--json").document["source"] == "the file schedules"
    assert cli("apply", f"other.{suffix}", "--dry-run").code == 0


def test_yaml_without_its_package_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(DuetimeError, match="pip install pyyaml"):
        read_schedules("a.yaml", "jobs: {}", {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("jobs", "cannot be read"),
        ("[chores.a]\nx = 1", "chores"),
        ("[jobs]\ntask = 'echo'", "[jobs.backup]"),
        ("[jobs.a]\ntask = 'echo'\nevery = '1h'\n[job.a]\ntask = 'echo'\nevery = '1h'", "jobs.a is there twice"),
        ("[duetime]\ncolour = 'red'", "nothing else"),
        ("[duetime]\nname = 'a:b'", "no colon"),
        ("[jobs.a]\ntask = 'echo'\nargs = ['${NOT_THERE} ${NOR_THIS}']\nevery = '1h'", "no NOT_THERE, NOR_THIS"),
        ("[jobs.a]\ntask = 'echo'\nevery = '1h'\ntiemout = 3", "jobs.a: tiemout"),
        ("[jobs.a]\ntask = 'echo'\nevery = '1h'\nmax_atempts = 3", "did you mean the option max_attempts?"),
        ("[notifications.a]\nmessage = 'hi'\ntopic = 'me'\nevery = '1h'\ntag = ['x']", "the option tagged?"),
        ("[jobs.a]\ntask = 'echo'", "jobs.a: give exactly one of"),
        ("[jobs.a]\ntask = 'echo'\nevery = '1h'\ntrigger = { type = 'cron', expression = '@daily' }", "leave one"),
    ],
)
def test_a_file_that_cannot_be_applied_is_not_taken_for_one_with_changes(
    cli: Cli, file: Path, text: str, reason: str
) -> None:
    Path("wrong.toml").write_text(text)
    refused = cli("apply", "wrong.toml", "--dry-run")
    assert refused.code == 4 and reason in refused.err and refused.out == ""
    assert cli("apply", "missing.toml", "--dry-run").code == 4
