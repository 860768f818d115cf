"""Runs as spans of OpenTelemetry's real SDK: their place in a trace, what they say, and what they never say."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.cli import ROOT, environment

pytestmark = pytest.mark.process

SCENES = (
    "one_off", "coroutine", "keyed", "recurring", "retry", "failure", "timeout", "run_now", "event", "isolated",
    "command", "request", "own_header", "notification", "over_http", "over_mcp",
)  # fmt: skip
Span = dict[str, Any]
SECRET = "canary-5d41402abc4b"
OUTSIDE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE, SPAN = OUTSIDE.split("-")[1:3]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each scene of `tests.support.traced` led to."""
    folder = str(tmp_path_factory.mktemp("traced"))
    command = [sys.executable, "-m", "tests.support.traced", folder, SECRET, OUTSIDE, *SCENES]
    env = environment() | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    played: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return played


def ids(span: Span) -> tuple[str, str]:
    return span["context"]["trace_id"].removeprefix("0x"), span["context"]["span_id"].removeprefix("0x")


def is_named(span: Span, header: str) -> bool:
    version, trace, number, _ = header.strip().split("-")
    return version == "00" and (trace, number) == ids(span)


def runs_in(spans: list[Span]) -> list[Span]:
    return [span for span in spans if span["name"].endswith(" run")]


def request_in(spans: list[Span]) -> Span:
    (request,) = [span for span in spans if span["name"] == "request"]
    return request


def is_child(span: Span, parent: Span) -> bool:
    return ids(span)[0] == ids(parent)[0] and span["parent_id"] == parent["context"]["span_id"]


def statuses(spans: list[Span]) -> list[str]:
    return [span["attributes"]["duetime.status"] for span in spans]


@pytest.mark.parametrize("name", ["one_off", "coroutine"])
def test_a_one_off_is_in_the_trace_of_its_request_and_the_task_in_that_of_the_run(
    scenes: dict[str, Any], name: str
) -> None:
    spans = scenes[name]["spans"]
    (run,) = runs_in(spans)
    (own,) = [span for span in spans if span["name"] == "my own"]
    assert is_child(run, request_in(spans)) and is_child(own, run)
    number = run["attributes"]["duetime.run"]
    assert run["name"] == "job run" and number > 0
    facts = {"kind": "job", "run": number, "attempt": 1, "status": "completed"}
    schedule = run["attributes"].pop("duetime.schedule")
    assert schedule.startswith("j")
    assert run["attributes"] == {f"duetime.{name}": value for name, value in facts.items()}
    assert run["status"] == {"status_code": "UNSET"}
    assert scenes[name]["seen"] == SECRET


def test_a_run_of_a_schedule_with_a_key_has_a_trace_of_its_own(scenes: dict[str, Any]) -> None:
    (run,) = runs_in(scenes["keyed"]["spans"])
    assert run["parent_id"] is None and run["links"] == []
    assert ids(run)[0] != ids(request_in(scenes["keyed"]["spans"]))[0]


def test_runs_of_a_schedule_that_recurs_refer_to_the_request_that_created_it(scenes: dict[str, Any]) -> None:
    spans = scenes["recurring"]["spans"]
    runs, request = runs_in(spans), request_in(spans)
    assert len({ids(run)[0] for run in [*runs, request]}) == 3, "each has a trace of its own"
    for run in runs:
        (link,) = run["links"]
        assert link["context"]["span_id"] == request["context"]["span_id"] and run["parent_id"] is None


def test_all_attempts_of_a_run_are_in_one_trace(scenes: dict[str, Any]) -> None:
    first, second = runs_in(scenes["retry"]["spans"])
    assert ids(first)[0] == ids(second)[0] and ids(first)[1] != ids(second)[1]
    assert first["attributes"]["duetime.run"] == second["attributes"]["duetime.run"]
    assert [span["attributes"]["duetime.attempt"] for span in (first, second)] == [1, 2]
    assert statuses([first, second]) == ["failed", "completed"]
    assert [span["status"]["status_code"] for span in (first, second)] == ["ERROR", "UNSET"]


@pytest.mark.parametrize(("name", "status"), [("failure", "failed"), ("timeout", "timeout")])
def test_an_attempt_that_fails_says_no_more_than_that(scenes: dict[str, Any], name: str, status: str) -> None:
    (run,) = runs_in(scenes[name]["spans"])
    assert statuses([run]) == [status] and run["status"] == {"status_code": "ERROR"} and run["events"] == []


def test_a_run_that_is_started_by_hand_is_in_the_trace_of_who_started_it(scenes: dict[str, Any]) -> None:
    spans = scenes["run_now"]["spans"]
    assert [is_child(run, request_in(spans)) for run in runs_in(spans)] == [True]


def test_a_run_that_an_event_starts_is_in_the_trace_of_the_run_that_sent_it(scenes: dict[str, Any]) -> None:
    reported, woken = [span for span in scenes["event"]["spans"] if span["name"] == "job run"]
    assert is_child(woken, reported) and scenes["event"]["seen"] == SECRET


@pytest.mark.parametrize("name", ["isolated", "command", "request", "notification"])
def test_programs_and_receivers_are_told_the_span(scenes: dict[str, Any], name: str) -> None:
    (run,) = runs_in(scenes[name]["spans"])
    seen = scenes[name]["seen"]
    assert is_named(run, seen["text"] if isinstance(seen, dict) else seen)


def test_a_header_of_the_request_itself_stays(scenes: dict[str, Any]) -> None:
    assert scenes["own_header"]["seen"] == OUTSIDE


@pytest.mark.parametrize("name", ["over_http", "over_mcp"])
def test_a_request_of_another_program_is_continued(scenes: dict[str, Any], name: str) -> None:
    (run,) = runs_in(scenes[name]["spans"])
    assert ids(run)[0] == TRACE
    calls = [span for span in scenes[name]["spans"] if span["name"].startswith("tools/call")]
    parent = calls[0]["context"]["span_id"] if calls else f"0x{SPAN}"
    assert run["parent_id"] == parent


def test_no_span_contains_what_users_tasks_or_agents_wrote(scenes: dict[str, Any]) -> None:
    told = json.dumps({name: runs_in(scene["spans"]) for name, scene in scenes.items()})
    assert "job run" in told and SECRET not in told
