"""The page of a failed run shows every exception of a chain with its message, and how often a recursion repeated."""

from __future__ import annotations

import linecache
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from duetime.engine.store import RunQuery
from duetime.engine.tracebacks import TraceFrame
from duetime.kinds.jobs.registry import Task
from duetime.service.source_lines import AFTER, BEFORE, source_around
from tests.support.browsing import made, signed_in, words, working
from tests.support.web import Reply, Site
from tests.support.workers import eventually


def check(depth: int, amount: int) -> None:
    if depth:
        check(depth - 1, amount)
    raise ValueError(f"amount {amount} exceeds the limit of <b>100000</b>")


def charge(amount: int) -> None:
    """Charge an invoice."""
    try:
        check(40, amount)
    except ValueError as error:
        raise RuntimeError("the charge failed") from error


def test_a_failed_run_shows_what_caused_its_error(served: Site) -> None:
    served.room.registry.add(Task(charge, name="charge"))
    once = ("once", {"run_at": "now"})
    with working(served):
        made(served, "Charge", once, payload={"task": "charge", "args": [129900]}, policy={"max_attempts": 1})
        eventually(lambda: served.room.store.runs(RunQuery(status="dead")).items, 20, "it failed")
    [run] = served.room.store.runs(RunQuery(status="dead")).items
    page = signed_in(served).get(f"/runs/{run.id}").body
    before_the_text = words(Reply(200, {}, page.partition(b'id="traceback-details"')[0]))
    error = before_the_text.partition("RuntimeError: the charge failed")[2]
    assert re.search(r"in charge \d+ try: .* raise RuntimeError", error.partition("Caused by")[0])
    cause = error.partition("Caused by")[2]
    assert cause.lstrip().startswith("ValueError: amount 129900 exceeds the limit of <b>100000</b>")
    assert "in check repeated 37 more times" in cause
    assert "Full traceback (43 frames)" in words(Reply(200, {}, page))
    assert 'class="raised"' in page.decode(), "with the lines around"


def frame_of(file: str, line: int) -> TraceFrame:
    return TraceFrame(file, line, "charge", linecache.getline(file, line).strip(), True)


def test_only_modules_of_this_process_are_read_for_the_lines_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, line = charge.__code__.co_filename, charge.__code__.co_firstlineno
    lines = source_around(frame_of(file, line))
    assert [number for number, _ in lines] == list(range(line - BEFORE, line + AFTER + 1))
    assert lines[BEFORE] == (line, "def charge(amount: int) -> None:")
    assert source_around(frame_of(file, line)._replace(line=line + 1)) == [], "the source was changed since"
    assert source_around(frame_of(file, line)._replace(line=10**8)) == []
    other = tmp_path / "other.py"
    other.write_text("key = 1\n")
    assert source_around(frame_of(str(other), 1)) == [], "whoever raised the error may have written any path"
    other.write_text('import os\npassword = "hunter2"\nraise KeyError(password)\n')
    module = ModuleType("other")
    module.__file__ = str(other)
    monkeypatch.setitem(sys.modules, "other", module)
    assert "hunter2" not in str(source_around(frame_of(str(other), 3))), "credentials are masked"
