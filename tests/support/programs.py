"""Programs that simulate an agent: a few lines of Python each, run in real processes."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

from duetime.engine.clock import SystemClock
from duetime.engine.kind import StopReason
from duetime.engine.worker.lease import Lease
from duetime.kinds.prompts.agent import AgentReply, AgentRequest
from duetime.kinds.prompts.agents.command import CommandAgent
from duetime.kinds.prompts.agents.gateway_tools import ToolSources
from duetime.processes.child import StopRequest
from duetime.processes.supervisor import LIMITS, ProcessLimits
from duetime.settings import AgentSettings
from tests.support.waking import agent_request
from tests.support.workers import eventually

QUICK = ProcessLimits(grace=0.3, patience=30.0)


def program(folder: Path, code: str, name: str = "agent") -> list[str]:
    """Return a command that runs this code. It starts quickly, because it loads only the standard library."""
    path = folder / f"{name}.py"
    path.write_text(dedent(code))
    return [sys.executable, "-I", "-S", str(path)]


def executable(folder: Path, code: str, name: str) -> str:
    """Return the same as an executable, as a preset calls it."""
    path = folder / name
    path.write_text(f"#!{sys.executable} -IS\n{dedent(code)}")
    path.chmod(0o700)
    return str(path)


def command_agent(
    name: str,
    *,
    environment: Mapping[str, str] | None = None,
    limits: ProcessLimits = LIMITS,
    sources: ToolSources | None = None,
    **given: Any,
) -> CommandAgent:
    """Build an agent with these settings, whose lists may be given as lists."""
    settings: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    return CommandAgent(name, AgentSettings(**settings), environment=environment, limits=limits, sources=sources)


def agent(command: list[str], **more: Any) -> CommandAgent:
    return command_agent("test", **{"command": command, "limits": QUICK, **more})


def timed_from(begun: Path, woken: CommandAgent) -> CommandAgent:
    """Let the time of an agent's program begin when the program writes this file: on a busy machine, starting a program
    may take longer than the whole time of a test's."""
    ask, waited = woken._stop_request, list[float]()

    def stop_request(request: AgentRequest, passed: float) -> StopRequest | None:
        if not waited and begun.exists():
            waited.append(passed)
        return ask(request, passed - waited[0] if waited else 0.0)

    woken._stop_request = stop_request  # type: ignore[method-assign]
    return woken


class LeaseFrom(Lease):
    """A lease that its worker renews until a program writes this file, and never again."""

    def __init__(self, begun: Path, seconds: float) -> None:
        super().__init__(SystemClock(), seconds)
        self._begun = begun

    @property
    def left(self) -> float:
        now = self._clock.boottime()
        if not self._begun.exists():
            self.renew(now)
        return super().left


class Background:
    """A run in a thread, as in a worker's pool."""

    def __init__(self, woken: CommandAgent, given: AgentRequest | None = None) -> None:
        self.agent_request = given or agent_request()
        self._replies: list[AgentReply] = []
        self._thread = threading.Thread(target=lambda: self._replies.append(woken.wake(self.agent_request)))
        self._thread.start()

    def stop(self, reason: StopReason) -> None:
        self.agent_request.stop.set(reason)

    def reply(self) -> AgentReply:
        self._thread.join(30)
        assert self._replies, "it did not come back"
        return self._replies[0]


def told(path: Path) -> list[int]:
    """Return the process ids that a program wrote, once it has. It renames its file, so a partial file is never
    seen."""
    eventually(path.exists, 30, "the program began")
    return [int(number) for number in path.read_text().split()]


def assert_gone(process: int) -> None:
    eventually(lambda: not lives(process), 30, f"process {process} is gone")


def open_descriptors() -> set[tuple[str, str]]:
    """Return the descriptors of this process, each with what it is open on. Others may be closed at any moment, such as
    those that an earlier test left to the garbage collector."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one by which this folder is read
            found.add((each.name, str(each.readlink())))
    return found


def processor_time(process: int) -> float:
    """Return the seconds of processor time that a process has used so far, in user and system mode."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def is_stopped(process: int) -> bool:
    """Return whether all threads of a process stand still: they do up to 30 ms after SIGSTOP was sent, and one could
    take a lock meanwhile."""
    states = set()
    for stat in Path(f"/proc/{process}/task").glob("*/stat"):
        with suppress(OSError):  # the thread has ended
            states.add(stat.read_text().rpartition(")")[2].split()[0])
    return states <= {"T"}


def lives(process: int) -> bool:
    """Return whether a process lives; a dead process that was not reaped yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def watched_temporary_folder(folder: Path) -> Iterator[Path]:
    """The folder in which runs create their private folders, so that a test sees what is left of them."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield folder
    finally:
        tempfile.tempdir = before


def with_environment(**variables: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **variables}
