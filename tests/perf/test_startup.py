"""Commands and the MCP server start quickly. Processor time is measured, and the least of several counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.mcp import ERAS, START_BOUND, measure_starts_on_the_processor
from tests.support.cli import processor_seconds

HELP_SECONDS = 0.3
BARE_PYTHON = 0.015
"""Seconds that an empty program takes on the machine for which `HELP_SECONDS` was set; slower ones get more."""


def test_help_of_a_command(tmp_path: Path) -> None:
    bare = min(processor_seconds(tmp_path, "-c", "pass") for _ in range(5))
    bound = HELP_SECONDS * max(1.0, bare / BARE_PYTHON)
    measured = (processor_seconds(tmp_path, "-m", "duetime", "job", "list", "--help") for _ in range(6))
    assert any(seconds <= bound for seconds in measured)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the processor time of a process from /proc")
@pytest.mark.parametrize("era", ERAS)
def test_first_list_of_tools_over_stdio_beside_a_bare_server(tmp_path: Path, era: str) -> None:
    starts = measure_starts_on_the_processor(tmp_path, era, 1)
    if starts.ratio > START_BOUND:
        starts = measure_starts_on_the_processor(tmp_path, era, 4)
    assert starts.ratio <= START_BOUND, starts
