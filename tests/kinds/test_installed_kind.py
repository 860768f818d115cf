"""A kind that another package brings by an entry point: over Python and the HTTP API, and when it is due."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import environment

TOY = Path(__file__).parents[1] / "toykind"

PYTHON = """
import json
from threading import Event
from duetime import Duetime

with Duetime("my.db") as duetime:
    made = duetime.create("beep", {"text": "tea", "file": "lines", "times": 2, "loud": True}, at="now")
    ended = duetime.app.clock.monotonic() + 20
    while not (runs := duetime.history(made.id)) or runs[0].status != "completed":
        assert duetime.app.clock.monotonic() < ended, runs
        Event().wait(0.02)
    later = duetime.create("beep", {"text": "tea", "file": "lines"}, every="1h", key="hourly")
    again = duetime.create("beep", {"text": "tea", "file": "lines"}, every="1h", key="hourly")
    listed = [each.id for each in duetime.schedules(kind="beep")]
    duetime.cancel(later.id)
    status = duetime.get(later.id).status
runs, made, later, again = [each.as_dict() for each in runs], made.as_dict(), later.as_dict(), again.as_dict()
print(json.dumps({"runs": runs, "made": made, "later": later, "again": again, "listed": listed, "status": status}))
"""

HTTP = """
import json
from starlette.testclient import TestClient
from duetime.app import build, web
from duetime.settings import Settings

app = build(Settings(db="my.db"))
http = TestClient(web(app, None), base_url="http://localhost")
trigger = {"type": "interval", "hours": 1}
body = {"kind": "beep", "name": "tea", "trigger": trigger, "payload": {"text": "tea", "file": "lines", "times": "2"}}
wrong = http.post("/api/v1/schedules", json=body).json()
body["payload"]["times"] = 2
made = http.post("/api/v1/schedules", json=body).json()
listed = http.get("/api/v1/schedules", params={"kind": "beep"}).json()["schedules"]
ended = http.post(f"/api/v1/schedules/{made['id']}/cancel").json()
described = http.get("/api/openapi.json").json()["components"]["schemas"]["NewScheduleGiven"]["properties"]["kind"]
app.close()
print(json.dumps({"wrong": wrong, "made": made, "listed": listed, "ended": ended, "described": described}))
"""


def run(script: str, folder: Path) -> Any:
    env = environment()
    env |= {"PYTHONPATH": f"{env['PYTHONPATH']}:{TOY}", "XDG_DATA_HOME": str(folder / "data")}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(90)
def test_it_is_created_run_listed_and_cancelled_over_python(tmp_path: Path) -> None:
    found = run(PYTHON, tmp_path)
    assert (tmp_path / "lines").read_text() == "TEA\nTEA\n"
    assert found["runs"][0]["result"] == {"written": 2}
    assert found["later"]["created"] and not found["again"]["created"]
    assert found["again"]["id"] == found["later"]["id"] and len(found["listed"]) == 2
    assert found["status"] == "cancelled"


@pytest.mark.later
@pytest.mark.timeout(90)
def test_it_is_created_listed_and_cancelled_over_http(tmp_path: Path) -> None:
    found = run(HTTP, tmp_path)
    assert (found["wrong"]["field"], found["wrong"]["status"]) == ("times", 422)
    assert found["made"]["payload"] == {"text": "tea", "file": "lines", "times": 2, "loud": False}
    assert [each["id"] for each in found["listed"]] == [found["made"]["id"]]
    assert found["ended"]["status"] == "cancelled"
    assert "beep" in found["described"]["description"]


def test_it_is_small() -> None:
    assert len((TOY / "toykind.py").read_text().splitlines()) <= 60
