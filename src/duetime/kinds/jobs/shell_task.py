"""`run_command`: a program of this machine, run as a job. Nothing has it unless its settings name this module.

It runs what the operator wrote down at the command line, such as a line of a crontab, and nothing that an agent can ask
for: over MCP and HTTP the task does not exist, for operators neither. Its process has a group of its own, which is
killed as a whole when the run is stopped, when its time is up, or when its worker dies.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections import deque
from pathlib import Path
from typing import IO, Annotated, Any

from duetime.kinds.jobs.context import PermanentError, TaskContext
from duetime.kinds.jobs.registry import Task, default_registry

MODULE = "duetime.kinds.command"
NAME = "run_command"
LONGEST = 24 * 3600.0
"""Seconds that a command may take where its job sets no timeout."""
KEPT = 16 * 1024
"""Bytes of its output: the end, which says how it went."""
LINGER = 1.0
"""Seconds for the rest of the output, where something that the command left behind holds it open."""
_TICK = 0.1
_GRACE = 4.0
"""Seconds between asking it to stop and killing it; the run itself is killed a second later."""
_USUAL = ("HOME", "LOGNAME", "USER", "PATH", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""What a command sees of the worker's surroundings: little, as under cron, and no secret of Duetime's."""


class CommandFailed(Exception):
    """It ended with another exit code than 0."""


def run_command(
    context: TaskContext,
    argv: Annotated[list[str], "the program and its arguments; no shell reads them"],
    stdin: Annotated[str, "what it is given on standard input"] = "",
    env: Annotated[dict[str, str] | None, "variables besides the usual ones"] = None,
    folder: Annotated[str, "where it runs; otherwise the home folder"] = "",
    seconds: Annotated[float, "how long it may take"] = LONGEST,
) -> dict[str, Any]:
    """Runs a program of this machine. Fails when its exit code is not 0; the end of its output is kept."""
    process = _started(argv, env or {}, folder)
    output = _Output(process.stdout)
    feeding = threading.Thread(target=_feed, args=(process.stdin, stdin), daemon=True)
    feeding.start()
    try:
        stopped = _wait(process, context, seconds)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    text, cut = output.end()
    if stopped:
        raise CommandFailed(f"{stopped}{_ending(text)}")
    if process.returncode != 0:
        raise CommandFailed(f"{_how(process.returncode)}{_ending(text)}")
    return {"exit_code": 0, "output": text, **({"bytes_cut": cut} if cut else {})}


default_registry.add(Task(run_command, name=NAME, isolation="process", local=True))


def _started(argv: list[str], env: dict[str, str], folder: str) -> subprocess.Popen[bytes]:
    if not argv or not argv[0]:
        raise PermanentError("argv: names no program")
    surroundings = {name: os.environ[name] for name in _USUAL if name in os.environ} | env
    where = folder or surroundings.get("HOME") or "/"
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=Path(where).expanduser(),
            env=surroundings,
        )
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        named = getattr(error, "filename", None) or argv[0]
        raise PermanentError(f"{named} cannot be started: {said}") from None


def _wait(process: subprocess.Popen[bytes], context: TaskContext, seconds: float) -> str | None:
    """None when it ended by itself, else why it had to end."""
    for _ in range(max(1, int(seconds / _TICK))):
        if process.poll() is not None:
            return None
        if context.cancelled.wait(_TICK):
            _stop(process)
            return "stopped on request"
    _stop(process)
    return f"it took longer than {seconds:g} s"


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()


def _feed(pipe: IO[bytes] | None, text: str) -> None:
    assert pipe is not None  # it was asked for
    try:
        pipe.write(text.encode())
        pipe.close()
    except OSError:
        pass  # it does not read, which is its own affair


class _Output:
    """Reads as fast as the command writes, and keeps the end."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        assert pipe is not None  # it was asked for
        self._pipe = pipe
        self._pieces: deque[bytes] = deque()
        self._held = self._total = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while piece := os.read(self._pipe.fileno(), 65536):
            self._pieces.append(piece)
            self._held += len(piece)
            self._total += len(piece)
            while self._held - len(self._pieces[0]) >= KEPT:
                self._held -= len(self._pieces.popleft())

    def end(self) -> tuple[str, int]:
        """The text, and how many bytes before it are gone."""
        self._reader.join(LINGER)
        kept = b"".join(list(self._pieces))[-KEPT:]
        return kept.decode(errors="replace"), self._total - len(kept)


def _how(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"ended by signal {-code}"


def _ending(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1]}" if lines else ""
