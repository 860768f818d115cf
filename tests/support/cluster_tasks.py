"""Tasks that run on a cluster, whose workers import this module by its name."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from duetime.kinds.jobs.context import PermanentError, RetryLater, TaskContext
from duetime.kinds.jobs.registry import Registry

registry = Registry()
on_cluster = registry.task(runs_on="cluster")


@on_cluster
def work(key: str, seconds: float, events: str) -> str:
    """Work for some seconds, and append a line to a file, so that executions are counted outside of every store."""
    threading.Event().wait(seconds)
    file = os.open(events, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{key}\n".encode())
    os.close(file)
    return key


@on_cluster
def about(context: TaskContext, gift: Any = "") -> dict[str, Any]:
    """Return what the context says."""
    event = None if context.event is None else context.event.data
    return {"run": context.run_id, "attempt": context.attempt, "owner": context.owner, "event": event, "gift": gift}


@on_cluster
async def later(number: int) -> int:
    return number + 1


@on_cluster
def send(context: TaskContext) -> None:
    context.emit("done")


@on_cluster
def stumble(token: str = "") -> None:
    raise ValueError(f"no water in {token}")


@on_cluster
def give_up() -> None:
    raise PermanentError("never")


@on_cluster
def come_again(seconds: float) -> None:
    raise RetryLater(seconds, "the shop is closed")


@on_cluster
def wait_for(file: str) -> str:
    """Work until a file exists."""
    while not Path(file).exists():
        threading.Event().wait(0.01)
    return "done"


@on_cluster
def work_for_good(folder: str) -> None:
    """Create a file whose name is the process, and never end."""
    (Path(folder) / str(os.getpid())).touch()
    threading.Event().wait()


@registry.task
def here(value: object = None) -> object:
    return value
