"""Signals and logs of long-running commands: the first signal asks for a stop, the second one interrupts."""

from __future__ import annotations

import logging
import math
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from duetime.terminal.logs import BriefFormatter, RepeatFilter, SafeFormatter, is_failure_of_a_run

_SLICE = 0.1
"""Seconds between two checks of a flag that cannot be waited for."""
LOOK = 0.2
"""Seconds between two reads of the store while it is shown live."""


class StoppedAtOnce(KeyboardInterrupt):
    """Raised by the second signal."""


class Flag:
    """Set by a signal handler and waited for by the main thread. An Event would deadlock: its `set` needs the lock that
    the interrupted `wait` may be holding."""

    def __init__(self) -> None:
        self._raised = False
        self._here, self._there = os.pipe()

    def set(self) -> None:
        if not self._raised:
            self._raised = True
            os.write(self._there, b".")

    def is_set(self) -> bool:
        return self._raised

    def wait(self, timeout: float) -> bool:
        self.wait_or_read(timeout, None)
        return self._raised

    def wait_or_read(self, timeout: float, descriptor: int | None) -> bool:
        """Wait for the flag, or until the descriptor can be read. Return whether it can."""
        if self._raised:
            return False
        if not hasattr(select, "poll"):  # on Windows, where nothing but sockets can be waited for
            for _ in range(math.ceil(timeout / _SLICE)):
                threading.Event().wait(min(timeout, _SLICE))  # never set, so that no handler needs its lock
                if self.is_set():
                    break
            return False
        poll = select.poll()  # unlike `select`, it accepts descriptors beyond 1023
        for each in (self._here, descriptor):
            if each is not None:
                poll.register(each, select.POLLIN)
        readable = [ready for ready, _ in poll.poll(timeout * 1000)]
        if self._here in readable and not self._raised:  # a signal that is none of ours
            os.read(self._here, 64)
        return any(ready == descriptor for ready in readable)

    @contextmanager
    def woken_by_signals(self) -> Iterator[None]:
        """Let every signal end the wait. A handler alone cannot: one that is due just before the system waits runs only
        after the wait."""
        if not hasattr(select, "poll"):
            yield
            return
        os.set_blocking(self._there, False)
        before = signal.set_wakeup_fd(self._there, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)

    def close(self) -> None:
        os.close(self._here)
        os.close(self._there)


class StopButton:
    """Signal handler: the first signal requests a stop, the second one interrupts whatever is being waited for."""

    def __init__(self) -> None:
        self.stop = Flag()

    def __call__(self, _number: int, _frame: Any) -> None:
        if self.stop.is_set():
            raise StoppedAtOnce
        self.stop.set()

    @contextmanager
    def installed(self) -> Iterator[None]:
        before = {number: signal.signal(number, self) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with self.stop.woken_by_signals():
                yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self.stop.close()


def log_to(path: str | None, *, verbose: bool = False, live: bool = False) -> None:
    """Log to standard error, or to a file for the demo. The web server and the SDK log there too.

    A failed run is one line, with its traceback if `verbose`; if `live`, the live output shows it instead.
    """
    if path is not None:
        Path(path).parent.mkdir(exist_ok=True)
    handler = logging.StreamHandler(sys.stderr) if path is None else logging.FileHandler(path, encoding="utf-8")
    handler.addFilter(RepeatFilter(handler))
    handler.setFormatter(SafeFormatter() if verbose or path is not None else BriefFormatter())
    if live and not verbose and path is None:
        handler.addFilter(lambda record: not is_failure_of_a_run(record))
    if logging.lastResort is not None:  # which writes for loggers without a handler, such as asyncio's
        logging.lastResort.setFormatter(SafeFormatter())
    if not logging.root.handlers:  # nothing writes these records, but they are in the logs of runs
        logging.root.setLevel(logging.INFO)
    for name in ("duetime", "uvicorn", "mcp", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.INFO if name == "duetime" else logging.WARNING)
        logger.propagate = False
