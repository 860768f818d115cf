"""An operator changes what belongs to others by its id, and every confirmation names the owner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from duetime.engine.kind import Caller
from duetime.engine.validation import NewSchedule
from tests.support.cli import Cli
from tests.support.stage import Stage

MALLORY = Caller("mallory")
OWNED = "nightly-report (owner mallory)"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(str(tmp_path / "my.db"))
    yield made
    made.time.close()


@pytest.fixture
def theirs(stage: Stage) -> str:
    """A job that somebody gave the name of the operator's."""
    payload = {"task": "echo", "args": ["hers"], "kwargs": {}}
    made = stage.app.scheduler.create(
        MALLORY, NewSchedule("job", "nightly-report", "cron", {"expression": "0 9 * * *"}, payload)
    )
    return f"j{made.definition.id}"


def test_a_command_changes_nothing_of_others_by_its_name(cli: Cli, stage: Stage, theirs: str) -> None:
    for arguments in (("edit", "--arg", "operator-secret-value"), ("run",), ("pause",), ("delete", "--yes")):
        command, *options = arguments
        answer = cli("job", command, "nightly-report", *options)
        assert answer.code == 3 and f"by their id: {theirs} (owner mallory)" in answer.err, answer
    assert stage.agent("mallory").knows("job_status", job_id=theirs)["args"] == ["hers"]


def test_a_command_names_the_owner_of_what_it_changed(cli: Cli, theirs: str) -> None:
    for command in (("edit", theirs, "--arg", "x"), ("run", theirs), ("pause", theirs), ("resume", theirs)):
        assert OWNED in cli("job", *command).out, command
    assert "Its owner is mallory." in cli("job", "stop", theirs).out
    assert OWNED in cli("change", "resume", theirs).out
    again = cli("run", "again", "1", "--json").document["run_id"]
    assert OWNED in cli("run", "stop", str(again)).out
    assert OWNED in cli("run", "again", str(again)).out
    assert OWNED in cli("job", "cancel", theirs).out
    assert OWNED in cli("job", "delete", theirs, "--yes").out
    added = cli("job", "add", "own", "--task", "echo", "--arg", "x", "--every", "1h")
    assert added.code == 0 and "owner" not in added.out


def test_a_tool_names_the_owner_to_an_operator(stage: Stage, theirs: str) -> None:
    root, job = stage.agent("local", operator=True), {"schedule_id": theirs}
    assert root.knows("run_now", schedule_id="nightly-report")["error"].startswith("Not found")
    prompt = {"id": stage.make(at="2031-02-10 3:00 PM")}
    assert root.knows("edit_schedule", job, name="nightly")["owner"] == "mallory"
    assert root.knows("pause_schedule", job)["owner"] == "mallory"
    assert root.knows("resume_schedule", job)["owner"] == "mallory"
    assert root.knows("run_now", job)["run"]["owner"] == "mallory"
    assert root.knows("change_schedules", action="pause", ids=[theirs])["schedules"][0]["owner"] == "mallory"
    assert root.knows("cancel_job", job_id=theirs)["owner"] == "mallory"
    assert root.knows("delete_schedule", job)["owner"] == "mallory"
    assert root.knows("schedule_edit", prompt, prompt="other")["owner"] == "ada"
    assert root.knows("schedule_cancel", prompt)["owner"] == "ada"
    own = stage.make(at="2031-02-10 3:00 PM")
    assert "owner" not in stage.ada.knows("schedule_cancel", id=own)


def test_a_list_says_that_everything_is_cancelled(cli: Cli) -> None:
    assert cli("list").out.startswith("There are no schedules yet. Add one:")
    for name in ("a", "b"):
        assert cli("job", "add", name, "--task", "echo", "--arg", "x", "--every", "1h").code == 0
    assert cli("change", "cancel", "--all", "--yes").code == 0
    answer = cli("list").out
    assert answer.startswith("There are no active schedules; 2 are cancelled (") and "list --status cancelled" in answer
