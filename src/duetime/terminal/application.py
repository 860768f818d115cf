"""The application as commands use it, and the checks of `duetime doctor`.

`cli.main` registers how the application is built: commands lie in a lower layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from duetime.engine.clock import Clock
    from duetime.engine.scheduler import Scheduler
    from duetime.engine.store import Store
    from duetime.service.services import Services
    from duetime.settings import Settings


class Application(Protocol):
    @property
    def settings(self) -> Settings: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def store(self) -> Store: ...

    @property
    def scheduler(self) -> Scheduler: ...

    @property
    def services(self) -> Services: ...

    def close(self) -> None: ...


class Builder(Protocol):
    def __call__(self, settings: Settings, *, tasks: bool, must_exist: bool) -> Application: ...


_builders: list[Builder] = []


def register_builder(build: Builder) -> None:
    """Set the function that opens the store and assembles the application."""
    _builders[:] = [build]


def build(settings: Settings, *, tasks: bool, must_exist: bool) -> Application:
    """Build the application with the function that was registered."""
    [builder] = _builders
    return builder(settings, tasks=tasks, must_exist=must_exist)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check of `duetime doctor`."""

    status: Literal["ok", "warn", "fail"]
    subject: str
    message: str
