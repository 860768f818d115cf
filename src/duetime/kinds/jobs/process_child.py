"""The child side of `ProcessRunner`: `main` runs one task in a separate process and reports the result."""

from __future__ import annotations

import faulthandler
import io
import json
import logging
import os
import sys
import threading
from contextlib import suppress
from datetime import datetime
from typing import Any

from duetime.engine.encoding import encode, encode_whole
from duetime.engine.tracebacks import traceback_of
from duetime.engine.worker.capture import CURRENT, LOG_ONLY, line_of
from duetime.kinds.jobs.context import TaskContext, TaskEvent, verdict_on
from duetime.kinds.jobs.loading import Location, find_function
from duetime.kinds.jobs.registry import Task


class ResultWriter:
    most = 1

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._writing = threading.Lock()
        self._last_progress = ""

    def send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        with self._writing:
            while data:
                data = data[os.write(self._descriptor, data) :]

    def progress(self, text: str) -> None:
        text = str(text)[:500]
        if text != self._last_progress:
            self._last_progress = text
            self.send({"progress": text})

    def write(self, item: Any, text: str) -> None:
        """Send a text for the log of the run."""
        self.send({"log": text})

    def emit(self, event: str, data: Any = None, *, key: str | None = None) -> int | None:
        """Have the worker store an event, which it does before it reads the result."""
        self.send({"emit": event, "data": json.loads(encode_whole(data)), "key": key})
        return None


class LogFormatter(logging.Formatter):
    """Formats records for the log of the run. Python by itself writes no less than warnings to standard error, so the
    worker does not show the rest to the operator: such lines begin with a mark."""

    def format(self, record: logging.LogRecord) -> str:
        mark = LOG_ONLY if record.levelno < logging.WARNING else ""
        return "\n".join(f"{mark}{line}" for line in line_of(record).splitlines())


def main(request: dict[str, Any], steps: list[Any], cancelled: threading.Event, report: int) -> None:
    faulthandler.enable()  # prints the trace of a crash for the operator
    results = ResultWriter(report)
    if request["logs"]:
        CURRENT.set((results, None))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # so that its log can be read while it runs
    answer = answer_to(request, steps, alone=True, cancelled=cancelled, progress=results.progress, emit=results.emit)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a task may have closed or replaced it
            stream.flush()
    results.send(answer)


def answer_to(request: dict[str, Any], steps: list[Any], *, alone: bool = False, **signals: Any) -> dict[str, Any]:
    """Call the task and return its result, or how it failed, for the worker. `signals` are the other fields of its
    context; `alone` is as in `find_function`."""
    about = {**request["context"], "due": datetime.fromisoformat(request["context"]["due"])}
    try:
        event = request.get("event")
        if event is not None:
            about["event"] = TaskEvent(**{**event, "at": datetime.fromisoformat(event["at"])})
        context = TaskContext(**about, **signals)
        return _answer(_call(request, steps, lambda: context, alone), request)
    except BaseException as error:  # also SystemExit, which must not prevent the report
        return {**verdict_on(error)._asdict(), "trace": traceback_of(error)}


def _call(request: dict[str, Any], steps: list[Any], context: Any, alone: bool) -> Any:
    """Run the steps; each one that is not apart gets the previous result as its first argument."""
    value: Any = None
    for index, (location, (args, kwargs)) in enumerate(zip(request["functions"], steps, strict=True)):
        function = find_function(Location(**location), alone=alone)
        if request["logs"] and not logging.root.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(LogFormatter())
            logging.basicConfig(level=logging.INFO, handlers=[handler])
        arguments = args if request["apart"][index] else [json.loads(encode_whole(value)), *args]
        value = Task(function, name=request["task"]).call(arguments, kwargs, context)
        if type(value).__name__ == "coroutine":
            import asyncio

            value = asyncio.run(value)
    return value


def _answer(value: Any, request: dict[str, Any]) -> dict[str, Any]:
    text = encode(value) if request["last"] else encode_whole(value)
    if len(text.encode()) > request["limit"]:
        return {"error": f"{request['task']}: its result is too large to be passed on", "permanent": True}
    return {"result": text}
