"""Suppresses the logs of packages that would log addresses and answers, and any credentials in them, during our
calls."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_working_for_us: ContextVar[bool] = ContextVar("duetime_muffled", default=False)
_reached = 0


@contextmanager
def muffled() -> Iterator[None]:
    """Suppress logs in this thread only: other users of the same packages still get theirs."""
    before = _working_for_us.set(True)
    try:
        _reach_every_logger()
        yield
        _reach_every_logger()  # loggers that were created meanwhile
    finally:
        _working_for_us.reset(before)


def _reach_every_logger() -> None:
    """Add the filter to every logger, because it applies to its own logger only; adding it twice changes nothing."""
    global _reached  # noqa: PLW0603 - loggers are never removed, so that their number tells whether there are new ones
    known = logging.root.manager.loggerDict
    if len(known) == _reached:
        return
    _reached = len(known)
    for name in ("", *known):
        logging.getLogger(name).addFilter(_audible)


def _audible(_record: logging.LogRecord) -> bool:
    return not _working_for_us.get()
