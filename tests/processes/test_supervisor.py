"""Programs that cannot be started."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from duetime.processes.child import ProcessSpec
from duetime.processes.supervisor import ChildLease, GuardedCommand


def test_a_start_without_descriptors_leaks_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    pipe = os.pipe

    def only_one() -> tuple[int, int]:
        if made:
            raise OSError(errno.EMFILE, "too many open files")
        made.extend(pipe())
        return made[0], made[1]

    monkeypatch.setattr(os, "pipe", only_one)
    with pytest.raises(OSError, match="too many"):
        GuardedCommand(ProcessSpec(("true",)), ChildLease(None, 30.0), str(tmp_path))
    for descriptor in made:
        with pytest.raises(OSError):
            os.fstat(descriptor)
