"""Child side of `process_runner.py`: runs one task and reports the result. Run as a program, never imported.

It kills its own process group as soon as its parent is gone or has not extended the deadline in time. Deadlines are on
the boot clock, which all processes share and which goes on while they are stopped.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duetime.kinds.jobs.context import TaskContext

_MOST_TRACE = 20_000
_TICK = 0.05
"""Seconds between two checks of the deadline: a machine that resumes from sleep does not shorten a longer wait."""
_PIPE = 65536
"""Bytes that a pipe holds: after having been stopped, one read gets all that was sent before the deadline is judged."""


def main() -> None:
    results, life = int(sys.argv[1]), int(sys.argv[2])
    control = Control(_own(results, life))
    request = json.loads(control.line())
    steps = json.loads(control.line())
    sys.path[:] = request["path"]
    control.begin(float(request["deadline"]))
    threading.Thread(target=control.watch, name="duetime-watch", daemon=True).start()
    answers = Answers(results)
    answers.send(_perform(request, steps, control.cancelled, answers))


class Control:
    """Input from the parent process: a request of two lines, then later deadlines, and `c` to cancel."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._ahead = b""
        self._deadline = 0.0
        self._poll = select.poll()  # unlike `select`, it takes descriptors beyond 1023
        self._poll.register(descriptor, select.POLLIN)
        self.cancelled = threading.Event()

    def line(self) -> bytes:
        while b"\n" not in self._ahead:
            data = os.read(self._descriptor, 65536)
            if not data:
                _end_group()
            self._ahead += data
        line, _, self._ahead = self._ahead.partition(b"\n")
        return line

    def begin(self, deadline: float) -> None:
        """Set the deadline. If the process started so slowly that it has passed, a later one must have arrived."""
        self._deadline = deadline
        self._take_notes()
        while _boottime() >= self._deadline:
            self._listen()

    def watch(self) -> None:
        while True:
            self._listen()

    def _listen(self) -> None:
        """Wait up to a tick for input. Kill the group at end of file, or if the deadline passed without new input."""
        over = _boottime() >= self._deadline
        ready = self._poll.poll(0 if over else _TICK * 1000)
        data = os.read(self._descriptor, _PIPE) if ready else b""
        if not data and (ready or over):
            _end_group()
        self._ahead += data
        self._take_notes()

    def _take_notes(self) -> None:
        *notes, self._ahead = self._ahead.split(b"\n")
        for note in notes:
            if note == b"c":
                self.cancelled.set()
            else:
                self._deadline = max(self._deadline, float(note))


class Answers:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._writing = threading.Lock()
        self._said = ""

    def send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        with self._writing:
            while data:
                data = data[os.write(self._descriptor, data) :]

    def progress(self, text: str) -> None:
        text = str(text)[:500]
        if text != self._said:
            self._said = text
            self.send({"progress": text})


def _own(results: int, life: int) -> int:
    """Hide the pipes from what the task starts and stdin from the task; return the control descriptor."""
    for descriptor in (results, life):
        os.set_inheritable(descriptor, False)
    control = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    _tie(life)
    return control


def _tie(life: int) -> None:
    """Let the kernel kill the group when the other end closes, which works even while a task keeps Python busy."""
    try:
        import fcntl

        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    except (ImportError, AttributeError, OSError):
        pass  # only Linux has all of it; elsewhere the watcher thread has to suffice


def _boottime() -> float:
    source = getattr(time, "CLOCK_BOOTTIME", None)
    # The same as the worker's clock, which this program does not import.
    return time.monotonic() if source is None else time.clock_gettime(source)  # noqa: TID251


def _end_group() -> None:
    if os.getpgrp() == os.getpid():  # never a group that another process leads
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def _perform(request: dict[str, Any], steps: list[Any], cancelled: threading.Event, answers: Answers) -> dict[str, Any]:
    import faulthandler

    faulthandler.enable()  # prints the trace of a crash for the operator
    try:
        value = _call(request, steps, lambda: _context(request["context"], cancelled, answers))
        return _answer(value, request)
    except BaseException as error:  # also SystemExit, which must not prevent the report
        return _failure(error)
    finally:
        _flush()


def _call(request: dict[str, Any], steps: list[Any], context: Any) -> Any:
    """Run the steps; each one after the first gets the previous result as its first argument."""
    from duetime.engine.encoding import encode_whole
    from duetime.kinds.jobs.loading import Location, find_function
    from duetime.kinds.jobs.registry import Task

    value: Any = None
    for index, (location, (args, kwargs)) in enumerate(zip(request["functions"], steps, strict=True)):
        function = find_function(Location(**location))
        given = args if index == 0 else [json.loads(encode_whole(value)), *args]
        value = Task(function, name=request["task"]).call(given, kwargs, context)
        if type(value).__name__ == "coroutine":
            import asyncio

            value = asyncio.run(value)
    return value


def _answer(value: Any, request: dict[str, Any]) -> dict[str, Any]:
    from duetime.engine.encoding import encode, encode_whole

    text = encode(value) if request["last"] else encode_whole(value)
    if len(text.encode()) > request["limit"]:
        return {"error": f"{request['task']}: its result is too large to be passed on", "permanent": True}
    return {"result": text}


def _failure(error: BaseException) -> dict[str, Any]:
    import traceback

    from duetime.kinds.jobs.context import verdict_on

    trace = "".join(traceback.format_exception(error))
    return {**verdict_on(error)._asdict(), "trace": trace[-_MOST_TRACE:]}


def _context(about: dict[str, Any], cancelled: threading.Event, answers: Answers) -> TaskContext:
    from datetime import datetime

    from duetime.kinds.jobs.context import TaskContext

    due = datetime.fromisoformat(about["due"])
    return TaskContext(**{**about, "due": due}, cancelled=cancelled, progress=answers.progress)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: S110  a task may have closed or replaced it
            pass


if __name__ == "__main__":
    main()
