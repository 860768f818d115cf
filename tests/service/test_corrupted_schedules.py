"""Schedules that somebody spoilt by hand: every face still shows them, and says what to do."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.support.cli import Cli
from tests.support.stage import Stage

POLICY, TRIGGER = "UPDATE schedules SET policy = ?", "UPDATE schedules SET trigger = ?"


def spoil(path: Path, statement: str, *values: str) -> None:
    database = apsw.Connection(str(path))
    database.execute(statement, values)
    database.close()


@pytest.mark.parametrize(
    ("statement", "value"),
    [(POLICY, '{"overlap":"sideways"}'), (POLICY, "[]"), (TRIGGER, "[]"), (TRIGGER, "{}"), (TRIGGER, "no JSON")],
)
def test_a_job_that_cannot_be_read_is_shown_all_the_same(cli: Cli, tmp_path: Path, statement: str, value: str) -> None:
    id = cli("job", "add", "tidy", "--task", "echo", "--every", "2h", "--json").document["id"]
    spoil(tmp_path / "my.db", statement, value)
    shown = cli("job", "show", id)
    assert (shown.code, shown.err) == (0, "")
    assert "cannot be read" in shown.out and "tidy" in shown.out
    stage = Stage(str(tmp_path / "my.db"))
    try:
        told = stage.agent("local").knows("job_status", job_id=id)
        assert (told["job_id"], told["name"], told["max_runs"]) == (id, "tidy", None)
        assert stage.agent("local").knows("list_jobs")["total"] == 1
    finally:
        stage.time.close()
    if statement == TRIGGER:
        assert "edit it to give it a new rule, or delete it" in " ".join(shown.out.split())
        refused = cli("job", "edit", id, "--jitter", "5m")
        assert refused.code == 2 and "--jitter: its rule cannot be read; give a new one with its zone" in refused.err
        assert cli("job", "edit", id, "--every", "3h").code == 0
        assert cli("job", "edit", id, "--jitter", "5m", "--cron", "@daily", "--tz", "Asia/Tokyo").code == 0


def test_a_cancelled_notification_whose_trigger_is_no_json_is_shown(cli: Cli, tmp_path: Path) -> None:
    id = cli("notify", "add", "Drink", "--topic", "home", "--every", "2h", "--json").document["id"]
    spoil(tmp_path / "my.db", TRIGGER, "no JSON")
    assert cli("notify", "cancel", id).code == 0
    shown = cli("notify", "show", id)
    assert (shown.code, shown.err) == (0, "") and "cancelled" in shown.out


def test_the_doctor_names_the_room_of_what_is_in_trouble(cli: Cli, tmp_path: Path) -> None:
    def advice(subject: str) -> str:
        checks = cli("doctor", "--json").document["checks"]
        return str(next(check["message"] for check in checks if check["subject"] == subject))

    assert cli("prompt", "add", "Read my mail", "--every", "2h").code == 0
    assert (advice("broken"), advice("failed")) == ("no schedule is broken", "no schedule's last run failed")
    spoil(tmp_path / "my.db", "UPDATE progress SET state = ?", "broken")
    assert advice("broken").endswith("fix the trigger with `prompt edit ID`, or delete it")
    assert cli("doctor").code == 1, "it will never fire by itself"
    assert cli("notify", "add", "Drink", "--topic", "home", "--every", "2h").code == 0
    spoil(tmp_path / "my.db", "UPDATE progress SET state = ?, last_status = ?", "active", "failed")
    assert advice("failed").endswith("; `duetime history ID` shows why")
    spoil(tmp_path / "my.db", "UPDATE progress SET kind = ?", "request")
    spoil(tmp_path / "my.db", "UPDATE schedules SET kind = ?", "request")
    assert advice("failed").endswith("; `duetime history ID` shows why")
    assert cli("doctor").code == 0, "what failed once may go well the next time"
