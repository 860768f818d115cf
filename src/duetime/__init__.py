"""Duetime: a durable scheduler for AI agents and the people they work for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duetime.api import AsyncSchedule as AsyncSchedule
    from duetime.api import Duetime as Duetime
    from duetime.api import NotStartedWarning as NotStartedWarning
    from duetime.api import Schedule as Schedule
    from duetime.api.asynchronous import AsyncDuetime as AsyncDuetime
    from duetime.engine.clock import instant_of as instant_of
    from duetime.engine.errors import Conflict as Conflict
    from duetime.engine.errors import DuetimeError as DuetimeError
    from duetime.engine.errors import InvalidInput as InvalidInput
    from duetime.engine.errors import LimitReached as LimitReached
    from duetime.engine.errors import NotFound as NotFound
    from duetime.engine.errors import Refused as Refused
    from duetime.engine.errors import StoreUnavailable as StoreUnavailable
    from duetime.kinds.jobs.context import PermanentError as PermanentError
    from duetime.kinds.jobs.context import RetryLater as RetryLater
    from duetime.kinds.jobs.context import TaskContext as TaskContext
    from duetime.kinds.jobs.registry import Registry as Registry
    from duetime.kinds.jobs.registry import task as task
    from duetime.service.answers import Message as Message
    from duetime.service.answers import Run as Run
    from duetime.settings import Settings as Settings
    from duetime.testing import Simulation as Simulation

_NAMES = {
    "duetime.api": "AsyncSchedule Duetime NotStartedWarning Schedule",
    "duetime.api.asynchronous": "AsyncDuetime",
    "duetime.engine.clock": "instant_of",
    "duetime.engine.errors": "Conflict DuetimeError InvalidInput LimitReached NotFound Refused StoreUnavailable",
    "duetime.kinds.jobs.context": "PermanentError RetryLater TaskContext",
    "duetime.kinds.jobs.registry": "Registry task",
    "duetime.service.answers": "Message Run",
    "duetime.settings": "Settings",
    "duetime.testing": "Simulation",
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    """Load a name on first access, so that a module that only registers tasks does not import the rest."""
    if name not in _PLACES:
        raise AttributeError(f"module 'duetime' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
