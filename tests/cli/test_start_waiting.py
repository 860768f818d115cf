"""`worker` and `serve` wait for a store that cannot be reached when they start, and say so once."""

from __future__ import annotations

from typing import Any, cast

import pytest

from duetime.app import App
from duetime.cli.serve import worker
from duetime.engine.errors import StoreUnavailable
from duetime.settings import Settings

APP = cast(App, object())
AWAY = "PostgreSQL cannot be reached; work continues when it is back"


@pytest.fixture
def problems(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What goes wrong at each attempt to open the store, before the one that succeeds."""
    left: list[str] = []

    def build(settings: Settings) -> Any:
        if left:
            raise StoreUnavailable(left.pop(0))
        return APP

    monkeypatch.setattr(worker, "build", build)
    monkeypatch.setattr(worker, "_RETRY", 0.0)
    return left


def test_it_waits_and_says_what_for(problems: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    problems += [AWAY, AWAY, "PostgreSQL refuses the connection (starting up); work continues when it is back"]
    assert worker.build_when_reachable(Settings(), wait=True) is APP
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2, "each problem is named once"
    assert lines[0] == f"warning: {AWAY}. Waiting for it; with --no-wait, this command fails instead."
    assert "starting up" in lines[1]


def test_it_fails_at_once_if_that_is_wanted(problems: list[str]) -> None:
    problems.append(AWAY)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        worker.build_when_reachable(Settings(), wait=False)


def test_a_store_that_is_there_needs_no_word(problems: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert worker.build_when_reachable(Settings(), wait=True) is APP
    assert capsys.readouterr().err == ""
