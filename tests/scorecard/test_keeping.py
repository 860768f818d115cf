"""The folder of an experiment goes away when nothing is wrong, and stays with its history otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scorecard.history import SECOND, Definition, Execution, Fault, History, Row
from scorecard.keeping import KEEP, kept, read_history

FIRST = 1_800_000_000 * SECOND
DEFINITION = Definition("job", FIRST, SECOND, FIRST + SECOND, paused=((1, 2),))
HISTORY = History(
    [DEFINITION, replace(DEFINITION, id="other", paused=(), cancelled=(3, 4))],
    [Row(1, "job", "trigger", FIRST, "completed", 1, FIRST + 5, None, 1)],
    [Execution(1, "job", FIRST, 1, 7, FIRST, None, "unknown")],
    [Fault("kill", 7, FIRST, FIRST + 1)],
    FIRST + 9 * SECOND,
)


def test_a_folder_without_findings_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEEP, raising=False)
    with kept("sound") as place:
        place.write(HISTORY, [])
    assert not place.folder.exists()


def test_a_folder_that_is_asked_for_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(KEEP, str(tmp_path / "kept"))
    with kept("sound") as place:
        place.write(HISTORY, [])
    assert place.folder.parent == tmp_path / "kept"
    assert read_history(place.folder) == HISTORY


def test_a_folder_with_findings_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(KEEP, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with kept("lost") as place:
        place.write(HISTORY, ["lost: one"])
    assert (place.folder / "findings.txt").read_text() == "lost: one\n"
    assert read_history(place.folder) == HISTORY


def test_a_folder_stays_after_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(KEEP, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(RuntimeError), kept("raised") as place:
        raise RuntimeError
    assert place.folder.exists()
