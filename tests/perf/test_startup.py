"""Commands and the MCP server start quickly. Processor time is measured, and the least of several counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.mcp import ERAS, START_BOUND, measure_starts_on_the_processor
from tests.support.cli import environment, processor_seconds

HELP_SECONDS = 0.3
BARE_PYTHON = 0.015
"""Seconds that an empty program takes on the machine for which `HELP_SECONDS` was set; slower ones get more."""


def test_help_of_a_command(tmp_path: Path) -> None:
    bare = min(processor_seconds(tmp_path, "-c", "pass") for _ in range(5))
    bound = HELP_SECONDS * max(1.0, bare / BARE_PYTHON)
    measured = (processor_seconds(tmp_path, "-m", "duetime", "job", "list", "--help") for _ in range(6))
    assert any(seconds <= bound for seconds in measured)


_IMPORTED = """
import contextlib, io, sys
from duetime.cli.main import main
for arguments in (["--help"], ["job", "--help"], ["job", "list", "--help"]):
    with contextlib.redirect_stdout(io.StringIO()):
        main(arguments)
print(*sys.modules)
"""


def test_help_imports_neither_the_engine_nor_what_it_does_not_need(tmp_path: Path) -> None:
    """Count what the processor time above is spent on, which no busy machine changes."""
    loaded = subprocess.run(
        [sys.executable, "-c", _IMPORTED], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    ).stdout.split()
    own = {name for name in loaded if name.startswith("duetime.")}
    slow = {
        "duetime.engine.model",
        "duetime.engine.store",
        "duetime.engine.times",
        "duetime.settings",
        "pydantic",
        "rich",
    }
    assert "duetime.kinds.jobs.cli" in own
    assert slow.isdisjoint(loaded)
    assert len(own) <= 40, sorted(own)


@pytest.mark.parametrize(
    "line", [("list", "--limit", "5"), ("pause", "j1", "--note", "x"), ("dead", "dismiss", "1", "2"), ("runs", "list")]
)
def test_no_command_imports_pydantic_for_its_options(tmp_path: Path, line: tuple[str, ...]) -> None:
    script = f"import sys\nfrom duetime.cli.main import main\nmain({list(line)!r})\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment() | {"DUETIME_DB": "my.db"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = done.stdout.split()
    assert "duetime.engine.store" in loaded and "pydantic" not in loaded


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the processor time of a process from /proc")
@pytest.mark.parametrize("era", ERAS)
def test_first_list_of_tools_over_stdio_beside_a_bare_server(tmp_path: Path, era: str) -> None:
    starts = measure_starts_on_the_processor(tmp_path, era, 1)
    if starts.ratio > START_BOUND:
        starts = measure_starts_on_the_processor(tmp_path, era, 4)
    assert starts.ratio <= START_BOUND, starts
