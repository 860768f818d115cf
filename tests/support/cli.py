"""The command line, called in this process or as a separate process."""

from __future__ import annotations

import json
import os
import queue
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

ROOT = Path(__file__).parents[2]


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Cli(Protocol):
    def __call__(self, *arguments: str) -> Answer: ...


def environment() -> dict[str, str]:
    """Return an environment without the caller's settings and without the variables of `make`, which a nested `make`
    would inherit; our own source comes first."""
    foreign = ("DUETIME_", "MAKE", "MFLAGS", "ARGS")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return own | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}


def processor_seconds(folder: Path, *arguments: str) -> float:
    """Return the processor time of a Python process, with compiled modules cached on disk as in an installation."""
    env = {name: value for name, value in environment().items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=folder, env=env, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start(*arguments: str, folder: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "duetime", *arguments],
        cwd=folder,
        env=environment() | {"XDG_DATA_HOME": str(folder / "data")} | dict(env or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Output:
    """Lines of a process as they arrive, each with a deadline."""

    def __init__(self, process: subprocess.Popen[str], patience: float = 30.0) -> None:
        self._patience = patience
        self.lines: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                self._queue.put(line.rstrip("\n"))
        except ValueError:
            pass  # whoever ended the process closed it: there is nothing more to read
        self._queue.put(None)

    def until(self, wanted: Callable[[str], bool]) -> str:
        """Return the next line that contains the wanted text."""
        while (line := self._queue.get(timeout=self._patience)) is not None:
            self.lines.append(line)
            if wanted(line):
                return line
        raise AssertionError("the output ended:\n" + "\n".join(self.lines))

    def rest(self) -> str:
        """Return everything up to the end."""
        while (line := self._queue.get(timeout=self._patience)) is not None:
            self.lines.append(line)
        self._reader.join(self._patience)
        return "\n".join(self.lines)
