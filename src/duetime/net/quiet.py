"""Keeps packages that log addresses and answers, with whatever credentials are in them, from being heard while they
work for us."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_working_for_us: ContextVar[bool] = ContextVar("duetime_muffled", default=False)
_reached = 0


@contextmanager
def muffled() -> Iterator[None]:
    """For this thread alone: whoever uses the same packages beside us hears them as before."""
    before = _working_for_us.set(True)
    try:
        _reach_every_logger()
        yield
        _reach_every_logger()  # what was loaded meanwhile
    finally:
        _working_for_us.reset(before)


def _reach_every_logger() -> None:
    """A filter is asked by its own logger only, so every one gets it; adding it twice changes nothing."""
    global _reached  # noqa: PLW0603 - loggers are never removed, so that their number tells whether there are new ones
    known = logging.root.manager.loggerDict
    if len(known) == _reached:
        return
    _reached = len(known)
    for name in ("", *known):
        logging.getLogger(name).addFilter(_audible)


def _audible(_record: logging.LogRecord) -> bool:
    return not _working_for_us.get()
