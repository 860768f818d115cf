"""The history checker finds each sort of broken promise in a made-up history, and nothing in a sound one."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scorecard.history import SECOND, SLOW, Definition, Execution, Fault, History, Row, check, excused_by_chance
from scorecard.lines import LINES
from scorecard.planted import PATCHES, SOURCES, Patch, problems

ROOT = Path(__file__).parents[2]
T0 = 1_800_000_000 * SECOND
NEVER = Definition("never", T0 + 900 * SECOND, 0, T0 + 900 * SECOND)
EVERY = Definition("job", T0, SECOND, T0 + 2 * SECOND, max_attempts=2, backoff=SECOND)
PROCESS = 7


def row(second: int, **changes: Any) -> Row:
    due = T0 + second * SECOND
    return Row(second + 1, "job", "trigger", due, "completed", 1, due + SECOND // 10, None, 1)._replace(**changes)


def call(second: int, **changes: Any) -> Execution:
    due = T0 + second * SECOND
    ran = Execution(second + 1, "job", due, 1, PROCESS, due + 1000, due + SECOND // 20, "completed")
    return ran._replace(**changes)


def rules(
    rows: list[Row], calls: list[Execution], definition: Definition = EVERY, faults: tuple[Fault, ...] = ()
) -> set[str]:
    history = History((definition, NEVER), rows, calls, faults, T0 + 20 * SECOND)
    return {finding.rule for finding in check(history)}


ROWS = [row(0), row(1), row(2)]
CALLS = [call(0), call(1), call(2)]
KILLED = (Fault("kill", PROCESS, T0 + SECOND, T0 + SECOND + 5000),)
AGAIN = call(1, begin=T0 + 2 * SECOND, end=T0 + 2 * SECOND + 5)


def test_a_sound_history_has_no_finding() -> None:
    assert rules(ROWS, CALLS) == set()


@pytest.mark.parametrize(
    ("rule", "rows", "calls", "definition"),
    [
        ("lost", ROWS[:2], CALLS[:2], EVERY),
        ("doubled", [*ROWS, row(2, run=9)], [*CALLS, call(2, run=9)], EVERY),
        ("invented", [*ROWS, row(5)], [*CALLS, call(5)], EVERY),
        ("count", [row(0), row(1, status="skipped", last=T0 + 2 * SECOND, number=5)], [call(0)], EVERY),
        ("stuck", [row(0), row(1), row(2, status="running", finished=None)], CALLS, EVERY),
        ("missed", [row(0), row(1), row(2, status="missed", last=T0 + 2 * SECOND)], CALLS[:2], EVERY),
        ("skipped", [row(0), row(1), row(2, status="skipped", last=T0 + 2 * SECOND)], CALLS[:2], EVERY),
        ("early", ROWS, [call(0), call(1), call(2, begin=T0 + 2 * SECOND - 900)], EVERY),
        ("repeated", ROWS, [*CALLS, AGAIN], EVERY),
        ("at most once", ROWS, [*CALLS, AGAIN], replace(EVERY, at_most_once=True)),
        ("retry", [row(0), row(1), row(2, status="failed")], [call(0), call(1), call(2, how="failed")], EVERY),
        ("overlap", ROWS, [call(0, end=T0 + 3 * SECOND), call(1), call(2)], EVERY),
        ("outcome", ROWS, [call(0), call(1), call(2, how="failed")], EVERY),
        ("paused", ROWS, CALLS, replace(EVERY, paused=((T0, T0 + 5 * SECOND),))),
        ("cancelled", ROWS, CALLS, replace(EVERY, cancelled=(T0, T0))),
        ("max_runs", ROWS, CALLS, replace(EVERY, max_runs=2)),
    ],
)
def test_a_broken_promise_is_found(rule: str, rows: list[Row], calls: list[Execution], definition: Definition) -> None:
    assert rule in rules(rows, calls, definition)


def test_a_retry_before_its_backoff_is_found() -> None:
    first = call(1, how="failed")
    second = call(1, attempt=2, begin=T0 + SECOND + 100_000, end=T0 + SECOND + 100_001)
    assert rules([row(0), row(1, attempt=2), row(2)], [call(0), first, second, call(2)]) == {"retry"}


def test_a_repeat_is_explained_by_a_kill_of_its_own_worker_alone() -> None:
    assert rules(ROWS, [*CALLS, AGAIN], faults=KILLED) == set()
    assert rules(ROWS, [*CALLS, AGAIN], faults=(KILLED[0]._replace(process=8),)) == {"repeated"}
    assert rules(ROWS, [*CALLS, AGAIN], faults=(KILLED[0]._replace(process=0),)) == set()


def test_the_share_that_chance_would_excuse() -> None:
    history = History((EVERY,), ROWS, CALLS, KILLED, T0 + 20 * SECOND)
    assert excused_by_chance(history) == pytest.approx(1 / 3)


def test_the_checker_imports_nothing_of_the_product() -> None:
    """Whatever it judges cannot have a hand in the judgement."""
    for name in ("history.py", "experiment.py", "exam.py", "chaos_worker.py"):
        tree = ast.parse((ROOT / "scorecard" / name).read_text(encoding="utf-8"))
        at_import = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = [alias.name for node in at_import for alias in node.names]
        names += [node.module or "" for node in at_import if isinstance(node, ast.ImportFrom)]
        assert not [found for found in names if found.startswith("duetime")], name
    history = ast.parse((ROOT / "scorecard" / "history.py").read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(history) if isinstance(node, ast.ImportFrom) and node.module}
    assert {module.partition(".")[0] for module in modules} <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)
def test_a_planted_bug_still_applies(patch: Patch) -> None:
    assert problems(patch) == []


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)
def test_a_planted_bug_names_only_what_exists(patch: Patch) -> None:
    """A name that is gone would raise an error instead of the silent mistake that is to be caught."""
    for edit in patch.edits:
        text = (SOURCES / edit.file).read_text(encoding="utf-8").replace(edit.old, edit.new)
        if edit.file.endswith(".py"):
            command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,E9", "-"]
            checked = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
            assert checked.returncode == 0, checked.stdout


def test_there_are_as_many_planted_bugs_as_the_line_says() -> None:
    assert len({patch.name for patch in PATCHES}) == len(PATCHES) == 22
    (line,) = [line for line in LINES if line.name == "planted-bugs"]
    assert line.bound.startswith("22 of 22 caught")


def test_a_pause_shorter_than_the_lease_explains_a_repeat_and_no_failure() -> None:
    slow = (Fault(SLOW, PROCESS, T0 + SECOND, T0 + 2 * SECOND),)
    ended = call(1, how="unknown", end=None)
    assert rules(ROWS, [call(0), ended, AGAIN, call(2)], faults=slow) == set()
    assert rules([row(0), row(1, status="failed"), row(2)], [call(0), ended, call(2)], faults=slow) == {"retry"}


def test_a_run_that_was_told_to_stop_just_after_a_fault_may_run_again_and_one_that_completed_may_not() -> None:
    locked = (Fault("stop", 0, T0, T0 + SECOND - SECOND // 5),)
    stopped = [call(0), call(1, how="stopped"), AGAIN, call(2)]
    assert rules(ROWS, stopped, faults=locked) == set()
    assert "repeated" in rules(ROWS, [call(0), call(1), AGAIN, call(2)], faults=locked)
    long_ago = (Fault("stop", 0, T0, T0 + SECOND // 2),)
    assert "repeated" in rules(ROWS, stopped, faults=long_ago)
