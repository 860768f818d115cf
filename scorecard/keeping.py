"""Folders of experiments: they go away when nothing is wrong, and stay to be looked at otherwise."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from scorecard.history import Definition, Execution, Fault, History, Row

KEEP = "KEEP"
"""The environment variable with the folder that every experiment is kept in, also where nothing is wrong."""


class Kept:
    """The folder of one experiment."""

    def __init__(self, folder: Path, *, always: bool) -> None:
        self.folder = folder
        self.wanted = always

    def write(self, history: History, findings: list[str]) -> None:
        """Write down what happened and what is wrong with it; with findings, the folder stays."""
        self.wanted = self.wanted or bool(findings)
        text = {
            "definitions": [asdict(one) for one in history.definitions],
            "rows": [one._asdict() for one in history.rows],
            "executions": [one._asdict() for one in history.executions],
            "faults": [one._asdict() for one in history.faults],
            "until": history.until,
        }
        (self.folder / "history.json").write_text(json.dumps(text), encoding="utf-8")
        (self.folder / "findings.txt").write_text("".join(f"{one}\n" for one in findings), encoding="utf-8")


@contextmanager
def kept(name: str) -> Iterator[Kept]:
    """Yield a new folder. It is removed at the end, unless it is wanted or something was raised."""
    parent = os.environ.get(KEEP)
    if parent is not None:
        Path(parent).mkdir(parents=True, exist_ok=True)
    place = Kept(Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent)), always=parent is not None)
    try:
        yield place
    except BaseException:
        place.wanted = True
        raise
    finally:
        if not place.wanted:
            shutil.rmtree(place.folder, ignore_errors=True)


def read_history(folder: Path) -> History:
    """Return the history that was written to a kept folder."""
    text = json.loads((folder / "history.json").read_text(encoding="utf-8"))
    return History(
        [_definition(one) for one in text["definitions"]],
        [Row(**one) for one in text["rows"]],
        [Execution(**one) for one in text["executions"]],
        [Fault(**one) for one in text["faults"]],
        text["until"],
    )


def _definition(fields: dict[str, object]) -> Definition:
    paused, cancelled = fields["paused"], fields["cancelled"]
    assert isinstance(paused, list)
    spans = tuple((begin, end) for begin, end in paused)
    ended = (cancelled[0], cancelled[1]) if isinstance(cancelled, list) else None
    return Definition(**{**fields, "paused": spans, "cancelled": ended})  # type: ignore[arg-type]
