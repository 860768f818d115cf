"""Duetime: a durable scheduler for AI agents and the people they work for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duetime.api import Duetime as Duetime
    from duetime.kinds.context import TaskContext as TaskContext
    from duetime.kinds.registry import task as task
    from duetime.kinds.signals import PermanentError as PermanentError
    from duetime.kinds.signals import RetryLater as RetryLater
    from duetime.simulation import Simulation as Simulation

_PLACES = {
    "Duetime": "duetime.api",
    "PermanentError": "duetime.kinds.signals",
    "RetryLater": "duetime.kinds.signals",
    "Simulation": "duetime.simulation",
    "TaskContext": "duetime.kinds.context",
    "task": "duetime.kinds.registry",
}

__all__ = ["Duetime", "PermanentError", "RetryLater", "Simulation", "TaskContext", "task"]


def __getattr__(name: str) -> Any:
    """Loaded when asked for: a module that only registers tasks does not pay for the rest."""
    if name not in _PLACES:
        raise AttributeError(f"module 'duetime' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
