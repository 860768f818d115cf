"""The task `run_command`, which runs a local program. It exists only where settings name `duetime.kinds.command`.

It runs what the operator gave on the command line, such as a line of a crontab, and nothing that an agent can request:
over MCP and HTTP, the task does not exist, not even for operators. Its process has its own group, which is killed as a
whole when the run is stopped, when it times out, or when its worker dies.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from duetime.engine.clock import SystemClock
from duetime.engine.kind import STOPPED, StopReason
from duetime.engine.worker.capture import byte_writer
from duetime.kinds.jobs.context import PermanentError, TaskContext
from duetime.processes.child import ChildProcess, ProcessSpec, Sink, StopRequest
from duetime.processes.output import OutputBuffer

MODULE = "duetime.kinds.command"
NAME = "run_command"
LONGEST = 24 * 3600.0
"""Default for the seconds that a command may take."""
KEPT = 16 * 1024
"""Bytes of output that are kept: the end, which shows the outcome of the command."""
LINGER = 1.0
"""Seconds to wait for the rest of the output if a process that the command left behind holds the pipe open."""
_GRACE = 4.0
"""Seconds between SIGTERM and SIGKILL; the task's own process is killed a second later."""
_USUAL = ("HOME", "LOGNAME", "USER", "PATH", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""Variables that a command inherits from the worker: few, as under cron, and none of Duetime's secrets."""
_clock = SystemClock()


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
    output, write = OutputBuffer(0, KEPT), byte_writer() or bytes

    def receive(data: bytes) -> None:
        output.add(data)
        write(data)

    process = _start(argv, stdin, env or {}, folder, receive)
    deadline = _clock.monotonic() + seconds
    try:
        stopped = process.watch(lambda: _stop_request(context, deadline, seconds))
        process.wait(LINGER, lambda: process.silent)
    finally:
        status = process.close()
    text, cut = output.raw().decode(errors="replace"), output.left_out
    if stopped:
        raise CommandFailed(f"{stopped}{_ending(text)}")
    if status != 0:
        how = f"exit code {status}" if status > 0 else f"ended by signal {-status}"
        raise CommandFailed(f"{how}{_ending(text)}")
    return {"exit_code": 0, "output": text, **({"bytes_cut": cut} if cut else {})}


def _start(argv: list[str], stdin: str, env: dict[str, str], folder: str, output: Sink) -> ChildProcess:
    if not argv or not argv[0]:
        raise PermanentError("argv: names no program")
    surroundings = {name: os.environ[name] for name in _USUAL if name in os.environ} | env
    where = Path(folder or surroundings.get("HOME") or "/").expanduser()
    spec = ProcessSpec(argv, stdin.encode(errors="replace"), output, env=surroundings, folder=where)
    try:
        return ChildProcess(spec)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        named = getattr(error, "filename", None) or argv[0]
        raise PermanentError(f"{named} cannot be started: {reason}") from None


def _stop_request(context: TaskContext, deadline: float, seconds: float) -> StopRequest | None:
    if context.cancelled.is_set():
        return StopRequest(STOPPED[StopReason.CANCELLED], _GRACE)
    if _clock.monotonic() >= deadline:
        return StopRequest(f"it took longer than {seconds:g} s", _GRACE)
    return None


def _ending(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1]}" if lines else ""
