"""Tasks for separate processes. They report through files that tests watch."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from duetime.kinds.jobs.context import PermanentError, RetryLater, TaskContext
from duetime.kinds.jobs.registry import Registry

registry = Registry()


@registry.task(isolation="process")
def add(a: int, b: int = 1) -> int:
    return a + b


@registry.task(isolation="process")
def whoami(context: TaskContext, **more: Any) -> dict[str, Any]:
    context.progress("half way")
    return {
        "pid": os.getpid(),
        "leader": os.getpgrp() == os.getpid(),
        "run": context.run_id,
        "attempt": context.attempt,
        "due": context.due.isoformat(),
        "name": context.name,
        "owner": context.owner,
        "stdin": sys.stdin.read(),
        "more": more,
    }


@registry.task(isolation="process")
def segfault() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@registry.task(isolation="process")
def leave(code: int) -> None:
    os._exit(code)


@registry.task(isolation="process")
def say_and_exit(code: int) -> None:
    sys.exit(code)


@registry.task(isolation="process")
def fail(how: str) -> None:
    if how == "permanent":
        raise PermanentError("no use")
    if how == "later":
        raise RetryLater(90, "busy")
    raise ValueError("bad\0value")


@registry.task(isolation="process")
def hang(told: str) -> None:
    """Ignore SIGTERM, and leave a child process behind."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    offspring = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    _tell(told, f"{os.getpid()} {offspring.pid}")
    threading.Event().wait()


@registry.task(isolation="process")
def hog(told: str) -> None:
    """Never let another thread of the interpreter run: only the kernel can end it."""
    import ctypes

    _tell(told, f"{os.getpid()}")
    ctypes.PyDLL(None).pause()


@registry.task(isolation="process")
def wait_for_cancel(told: str, context: TaskContext) -> str:
    _tell(told, f"{os.getpid()}")
    context.cancelled.wait()
    return "tidied up"


@registry.task(isolation="process")
def leave_offspring(told: str) -> str:
    offspring = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    _tell(told, f"{os.getpid()} {offspring.pid}")
    return "done"


@registry.task(isolation="process")
def flood(megabytes: int) -> str:
    block = b"x" * 1023 + b"\n"
    for _ in range(megabytes * 1024):
        os.write(1, block)
    sys.stdout.write('{"result": "forged"}\n')
    return "survived"


@registry.task(isolation="process")
def chatter(count: int, context: TaskContext) -> int:
    for number in range(count):
        context.progress(f"step {number}")
    return count


@registry.task(isolation="process")
def big(size: int) -> str:
    return "x" * size


@registry.task(isolation="process")
def size_of(text: str) -> int:
    return len(text)


@registry.task(isolation="process")
def close_everything() -> None:
    os.closerange(0, 256)
    threading.Event().wait()


@registry.task(isolation="process")
async def soon(value: str) -> str:
    await asyncio.sleep(0)
    return value


def _tell(path: str, text: str) -> None:
    """Write in one step, so that a watcher never reads half of it."""
    draft = Path(f"{path}.draft")
    draft.write_text(text)
    draft.rename(path)


@registry.task(isolation="process")
def pass_on(name: str, context: TaskContext) -> Any:
    """Sends the data of the event that started it under another name."""
    assert context.event is not None
    context.emit(name, context.event.data, key=f"run-{context.run_id}")
    return context.event.name
