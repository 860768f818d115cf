"""A recurrence rule that would take too long to work out is refused at every entrance, and stores nothing."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.store import ScheduleQuery
from tests.support.api import serving_api
from tests.support.cli import Cli
from tests.support.stage import Stage

SIXTY = ",".join(map(str, range(60)))
ENDLESS = f"FREQ=HOURLY;COUNT=10000;BYMINUTE={SIXTY};BYSECOND={SIXTY};BYSETPOS=366"
REASON = "too many steps to work out when this fires; make the rule narrower"


def test_the_api_refuses_to_create_preview_and_change(tmp_path: Path) -> None:
    with serving_api(tmp_path) as api:
        ada, trigger = api.client(), {"type": "rrule", "rrule": ENDLESS}
        job = ada.job()
        begun = time.process_time()
        new = {"kind": "job", "name": "x", "trigger": trigger, "payload": {"task": "echo"}}
        for method, path, body in (
            ("POST", "/schedules", new),
            ("POST", "/preview", {"trigger": trigger}),
            ("PATCH", f"/schedules/{job['id']}", {"trigger": trigger}),
        ):
            problem = ada.refused(method, path, 422, json=body)
            assert REASON in problem["detail"]
        assert time.process_time() - begun < 3
        assert ada.ids() == [job["id"]]


def test_tools_refuse_it(stage: Stage) -> None:
    begun = time.process_time()
    given: dict[str, Any] = {"trigger_type": "rrule", "trigger_config": {"rrule": ENDLESS}}
    said = [
        stage.ada.use("preview_schedule", **given),
        stage.ada.use("schedule_job", name="x", task="echo", **given),
    ]
    assert all(REASON in str(answer) for answer in said)
    assert time.process_time() - begun < 2
    assert stage.app.store.search(ScheduleQuery()).total == 0


@pytest.mark.parametrize("command", ["next", "explain"])
def test_the_command_line_refuses_to_explain_it(cli: Cli, command: str) -> None:
    answer = cli(command, f"RRULE:{ENDLESS}")
    assert answer.code != 0
    assert REASON in answer.err


def test_the_command_line_refuses_to_add_or_to_import_it(cli: Cli, tmp_path: Path) -> None:
    added = cli("job", "add", "x", "--task", "echo", "--rrule", ENDLESS)
    assert added.code != 0
    assert REASON in added.err
    assert cli("job", "add", "ruled", "--task", "echo", "--rrule", "FREQ=WEEKLY;BYDAY=MO", "--tz", "UTC").code == 0
    assert cli("export", "-o", "all.jsonl").code == 0
    file = tmp_path / "all.jsonl"
    file.write_text(file.read_text().replace("FREQ=WEEKLY;BYDAY=MO", ENDLESS))
    imported = cli("import", "jsonl", "all.jsonl", "--yes", "--db", "b.db")
    assert REASON in imported.out + imported.err
    assert json.loads(cli("job", "list", "--json", "--db", "b.db").out)["total"] == 0
