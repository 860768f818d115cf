"""The task `run_command`, which runs a local program. It exists only where settings name `duetime.kinds.command`.

It runs what the operator gave on the command line, such as a line of a crontab, and nothing that an agent can request:
over MCP and HTTP the task does not exist, not even for operators. Its process has its own group, which is killed as a
whole when the run is stopped, when it times out, or when its worker dies.
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
"""Default for the seconds that a command may take."""
KEPT = 16 * 1024
"""Bytes of output that are kept: the end, which shows how the command went."""
LINGER = 1.0
"""Seconds to wait for the rest of the output if a process that the command left behind holds the pipe open."""
_TICK = 0.1
_GRACE = 4.0
"""Seconds between SIGTERM and SIGKILL; the task's own process is killed a second later."""
_USUAL = ("HOME", "LOGNAME", "USER", "PATH", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""Variables that a command inherits from the worker: few, as under cron, and none of Duetime's secrets."""


class CommandFailed(Exception):
    """The command was stopped, took too long, or ended with an exit code other than 0."""


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
    """Wait for the process. Return None if it ended by itself, otherwise the reason why it was stopped."""
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
    assert pipe is not None  # because of stdin=PIPE
    try:
        pipe.write(text.encode())
        pipe.close()
    except OSError:
        pass  # a command that does not read its input is no error


class _Output:
    """Reads output as fast as the command writes it, and keeps the end."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        assert pipe is not None  # because of stdout=PIPE
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
        """Return the kept text and the number of bytes dropped before it."""
        self._reader.join(LINGER)
        kept = b"".join(list(self._pieces))[-KEPT:]
        return kept.decode(errors="replace"), self._total - len(kept)


def _how(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"ended by signal {-code}"


def _ending(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1]}" if lines else ""
