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
_EMIT: Final = logging.StreamHandler.emit.__code__


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
        if CURRENT.get() is not None and sys._getframe(1).f_code is not _EMIT:  # records are captured as such
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
    """Replaces the standard streams and the factory of log records of this process while a worker runs in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._factory: Any = None
        self._factory_before: Any = None

    def begin(self) -> None:
        with self._lock:
            self._users += 1
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if stream is not None and not isinstance(stream, CapturedStream):
                    setattr(sys, name, CapturedStream(stream))
            if logging.getLogRecordFactory() != self._factory:
                self._factory_before = logging.getLogRecordFactory()
                self._factory = self._factory_over(self._factory_before)
                logging.setLogRecordFactory(self._factory)

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
            if logging.getLogRecordFactory() == self._factory:
                logging.setLogRecordFactory(self._factory_before)

    def _factory_over(self, before: Callable[..., logging.LogRecord]) -> Callable[..., logging.LogRecord]:
        """Return a factory that calls another one. Of several in a chain, because somebody else put a factory over an
        earlier one, only the last one writes."""

        def make_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
            record = before(*args, **kwargs)
            is_last = self._factory is make_record
            if is_last and CURRENT.get() is not None and record.name and record.name.partition(".")[0] != OURS:
                write_log(line_of(record))
            return record

        return make_record


capture: Final = Capture()
"""That of this process, which all its workers share."""
