"""A worker in a process of its own, for tests that kill, stop and starve it.

Its tasks append a line to the events file for whatever they do, so that executions are counted outside the store. It
says `ready` on standard output, then how it ended: `left N` after a SIGTERM, `failed MESSAGE` when the engine gave up.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Protocol

from duetime.app import build
from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.registry import Registry, Task
from duetime.kinds.jobs.shell_task import run_command
from duetime.settings import AgentSettings, Settings
from tests.support import isolated

LOOK = 0.01
"""Seconds between two checks for a file that the test creates."""


class Events:
    """One write per line, in append mode, so that lines of several processes never mix."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(self, verb: str, key: str) -> None:
        os.write(self._file, f"{verb} {key} {os.getpid()}\n".encode())


def test_tasks(events: Events) -> Registry:
    own = Task(run_command, isolation="process", local=True)
    registry = Registry([own], base=isolated.registry)

    @registry.task
    def mark(key: str, context: TaskContext) -> None:
        """Record which occurrence ran."""
        events.say("ran", f"{key}@{context.due.isoformat()}#{context.run_id}")

    @registry.task
    def hold(key: str, gate: str, context: TaskContext) -> None:
        """Work until the gate is open or the task is told to stop."""
        events.say("begun", key)
        while not Path(gate).exists():
            if context.cancelled.wait(LOOK):
                events.say("told", key)
                raise RuntimeError("told to stop")
        events.say("ended", key)

    @registry.task
    def insist(key: str, gate: str) -> None:
        """Work until the gate is open, ignoring requests to stop."""
        events.say("begun", key)
        while not Path(gate).exists():
            threading.Event().wait(LOOK)
        events.say("ended", key)

    @registry.task
    def park(key: str, context: TaskContext) -> None:
        """Do nothing until told to stop."""
        events.say("begun", key)
        context.cancelled.wait()

    @registry.task
    def stumble(key: str) -> None:
        """Fail, always in the same way."""
        events.say("ran", key)
        raise RuntimeError("no water")

    @registry.task
    def die(key: str, gate: str) -> None:
        """Kill the process when the gate is open."""
        events.say("begun", key)
        while not Path(gate).exists():
            threading.Event().wait(LOOK)
        os.kill(os.getpid(), signal.SIGKILL)

    registry.extend(Task(function, name=f"{function.__name__}_gpu", needs="gpu") for function in (mark, hold))
    add_gated_tasks(registry, events)
    return registry


def add_gated_tasks(registry: Registry, events: Events) -> None:
    """Add a task for gates and one for their work, which stop at each step for which there is a file."""

    def stop_at(step: str, key: str, folder: str) -> None:
        events.say(step, key)
        while Path(folder, f"{key}.{step}").exists():
            threading.Event().wait(LOOK)

    @registry.task
    def look(key: str, folder: str) -> str:
        """Return what a file shows."""
        stop_at("looks", key, folder)
        return Path(folder, key).read_text(encoding="utf-8")

    @registry.task
    def use(key: str, folder: str, context: TaskContext) -> None:
        """Record what the gate gave."""
        stop_at("begins", key, folder)
        events.say("ran", f"{key}@{context.gate}")
        stop_at("ends", key, folder)


def test_agents(options: dict[str, Any]) -> dict[str, AgentSettings]:
    """Build the agent `program`, if a test gives its command."""
    return {"program": AgentSettings(command=tuple(options["agent"]))} if "agent" in options else {}


def main(options: dict[str, Any]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(created).3f %(levelname)s %(name)s %(message)s")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    settings = Settings(
        db=options["url"],
        timezone="UTC",
        threads=options.get("threads", 12),
        lease=options.get("lease", 2.0),
        drain=options.get("drain", 5.0),
        agents=test_agents(options),
        labels=options.get("labels", ()),
    )
    app = build(settings, registry=test_tasks(Events(options["events"])))
    engine = app.engine()
    if options.get("claims_ahead"):
        engine.worker.pace.seconds = 0.0001  # as after much short work
    engine.start()
    print("ready", flush=True)  # noqa: T201 - the test waits for it
    while not stop.wait(0.05) and engine.failure is None:
        pass
    if engine.failure is not None:
        print(f"failed {engine.failure}", flush=True)  # noqa: T201 - as above
    left = engine.stop(settings.drain)
    app.close()
    print(f"left {left}", flush=True)  # noqa: T201 - as above
    return 0 if engine.failure is None else 3


class PassedFile(Protocol):
    """An open file on its way to another process: `multiprocessing.reduction.DupFd`."""

    def detach(self) -> int: ...


def run(options: dict[str, Any], environment: dict[str, str], output: PassedFile, log: PassedFile) -> None:
    """Work in a process that was forked for it, with this environment and these files for its output and its log."""
    os.environ.clear()
    os.environ.update(environment)
    for number, file in ((1, output), (2, log)):
        given = file.detach()
        os.dup2(given, number)
        os.close(given)
    sys.exit(main(options))
