"""A logger of the standard library, which a command that logs nothing does not import: a fiftieth of its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from logging import Logger


class _LazyLogger:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        import logging

        return getattr(logging.getLogger(self._name), name)


def lazy_logger(name: str) -> Logger:
    return cast("Logger", _LazyLogger(name))
