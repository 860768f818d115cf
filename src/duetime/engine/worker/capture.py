"""Captures what a run prints and logs: in whatever thread its context is, the text goes to the log of that run."""

from __future__ import annotations

import codecs
import logging
import sys
import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, Final, Protocol


class LogSink(Protocol):
    most: int
    """Bytes that are kept of one attempt; 0 if nothing is."""

    def write(self, item: Any, text: str) -> None: ...


CURRENT: ContextVar[tuple[LogSink, Any] | None] = ContextVar("duetime_run", default=None)
"""The run that is executed in this context. It stays after the end of the run, whose log is closed then."""
OURS: Final = "duetime"
"""The root of the loggers that are not the task's: their records are for operators."""
LOG_ONLY: Final = "\x1e"
"""The first character of lines of a process that are in the log of the run and not shown to the operator."""


def write_log(text: str) -> None:
    """Add a text to the log of the run in this context, if there is one."""
    if (current := CURRENT.get()) is not None:
        current[0].write(current[1], text)


def byte_writer() -> Callable[[bytes], None] | None:
    """Return a function that adds bytes to the log of the run in this context; None if nothing is kept."""
    current = CURRENT.get()
    if current is None or not current[0].most:
        return None
    sink, item = current
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return lambda data: sink.write(item, decode(data))


class CapturedStream:
    """A standard stream, which also writes to the log of the run in whose context it is used."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: Any) -> Any:
        if CURRENT.get() is not None:
            write_log(text if isinstance(text, str) else bytes(text).decode("utf-8", "replace"))
        return self.stream.write(text)

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> CapturedStream:
        return CapturedStream(self.stream.buffer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def line_of(record: logging.LogRecord) -> str:
    """Return a record as lines of a log."""
    try:
        text = f"{record.levelname} {record.name}: {record.getMessage()}\n"
    except Exception:  # the arguments do not fit, which is the task author's mistake and no reason to fail
        text = f"{record.levelname} {record.name}: {record.msg!r:.200}\n"
    if not record.exc_info or record.exc_info[0] is None:
        return text
    import traceback

    return text + "".join(traceback.format_exception(*record.exc_info))


class Capture:
    """Replaces the standard streams of this process, and what passes records to handlers, while a worker runs in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._call: Any = None
        self._call_before: Any = None

    def begin(self) -> None:
        with self._lock:
            self._users += 1
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if stream is not None and not isinstance(stream, CapturedStream):
                    setattr(sys, name, CapturedStream(stream))
            if logging.Logger.callHandlers != self._call:
                self._call_before = logging.Logger.callHandlers
                self._call = self._call_over(self._call_before)
                logging.Logger.callHandlers = self._call  # type: ignore[method-assign]

    def end(self) -> None:
        """Restore what nobody else has replaced since."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if isinstance(stream, CapturedStream):
                    setattr(sys, name, stream.stream)
            if logging.Logger.callHandlers == self._call:
                logging.Logger.callHandlers = self._call_before  # type: ignore[method-assign]
            self._call = None

    def _call_over(self, before: Callable[..., None]) -> Callable[..., None]:
        """Return a function that writes a record, to which the filters of its logger were applied, to the log and then
        has the handlers called. What they print is not the task's. Of several in a chain, because somebody else put one
        over an earlier one, only the last one writes."""

        def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
            if self._call is not call_handlers or CURRENT.get() is None:
                before(logger, record)
                return
            if record.name and record.name.partition(".")[0] != OURS:
                write_log(line_of(record))
            token = CURRENT.set(None)
            try:
                before(logger, record)
            finally:
                CURRENT.reset(token)

        return call_handlers


capture: Final = Capture()
"""That of this process, which all its workers share."""
