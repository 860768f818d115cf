"""Checks of `duetime doctor`, which every kind can add to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from duetime.engine.clock import Clock
from duetime.engine.model import ScheduleId
from duetime.service.services import Services
from duetime.settings import Settings


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    status: Literal["ok", "info", "warn", "fail"]
    """`info`: the check was not made, and the message says how to make it."""
    subject: str
    message: str


class Installation(NamedTuple):
    """A store that can be used, and what was built on it."""

    settings: Settings
    clock: Clock
    services: Services
    samples: Collection[ScheduleId] = ()
    """Schedules of the demo, some of which fail on purpose."""


def _none(*parts: object) -> Iterable[Check]:
    return ()


class Checks(NamedTuple):
    """The checks of a kind."""

    setup: Callable[[Settings, Clock], Iterable[Check]] = _none
    """Checks the settings and the machine, without a store."""
    store: Callable[[Installation], Iterable[Check]] = _none
    """Checks what the store holds."""
