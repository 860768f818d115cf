"""The common part of all operations of the Python API: the app of this process, its worker, and the caller."""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from duetime.api.types import Id, Runs, Schedules
from duetime.app import App, build
from duetime.engine.actor import MODULE, Actor
from duetime.engine.clock import Clock, Instant, instant_of
from duetime.engine.errors import InvalidInput, UnreadableTime
from duetime.engine.kind import Caller
from duetime.engine.model import Run, Schedule
from duetime.engine.result import Err
from duetime.engine.scheduler import Scheduler
from duetime.engine.times import read_instant
from duetime.kinds.jobs.registry import Registry
from duetime.service.errors import refuse, unwrap
from duetime.service.lookup import find_schedule
from duetime.service.options import Time
from duetime.service.presenters import run_shapes, schedule_shape
from duetime.service.services import OPERATOR, Call, Services
from duetime.service.shapes import RunShape, ScheduleShape
from duetime.service.state_details import detail_of, details_of
from duetime.settings import Settings, load_settings

if TYPE_CHECKING:
    from types import FrameType

    from duetime.engine.worker.threads import Engine

LOOK = 0.5
"""Seconds between two checks whether the worker is still running."""


class NotStartedWarning(UserWarning):
    """A schedule was created, but no worker is running that would execute it."""


class Base:
    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        registry: Registry | None = None,
        clock: Clock | None = None,
        owner: str = OPERATOR.owner,
    ) -> None:
        """Open a store.

        `url` is the path of a SQLite file or a `postgresql://` URL; by default, the store of the settings. `settings`
        replaces the settings file and the environment. `registry` contains the tasks; by default, those decorated with
        `@task`. `owner` is whose schedules this object creates and sees.
        """
        chosen = load_settings() if settings is None else settings
        if settings is None and url is None and chosen.origin.refusal:
            raise refuse("not_possible", f"{chosen.origin.refusal} (in Python: `Duetime(url)`)")
        if settings is None and chosen.origin.ignored:
            logging.getLogger("duetime").warning("%s", chosen.origin.ignored)
        if url is not None:
            chosen = replace(chosen, db=url)
        self.app: App = build(chosen, clock=clock, registry=registry)
        self.scheduler: Scheduler = self.app.scheduler
        self._services: Services = self.app.services
        actor = Actor(MODULE, Path(sys.argv[0]).stem or "python", "python")
        self.caller: Caller = OPERATOR._replace(owner=owner, operator=owner == OPERATOR.owner, actor=actor)
        self._engine: Engine | None = None
        self._warned = False

    @property
    def zone(self) -> str:
        """The time zone in which times are interpreted and shown."""
        return self.scheduler.zone

    # -- lifecycle ----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the worker. Due schedules fire from now on."""
        if self._engine is None:
            self._engine = self.app.engine()
            self._engine.start()
        return self

    def stop(self) -> int:
        """Stop the worker, and return the number of runs whose outcome could not be recorded.

        Active runs have as long as the setting `drain` says to finish; then they are asked to stop.
        """
        engine, self._engine = self._engine, None
        return 0 if engine is None else engine.stop(self.app.settings.drain)

    def close(self) -> None:
        """Stop the worker and close the store."""
        self.stop()
        self.app.close()

    def run_forever(self) -> None:
        """Run the worker until Ctrl-C, SIGTERM, or a call of `stop` in another thread. Raise the error if it fails."""
        pause, main = threading.Event(), threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGTERM, _interrupt) if main else None
        try:
            self.start()
            while (engine := self._engine) is not None and engine.failure is None:
                pause.wait(LOOK)
        except KeyboardInterrupt:
            engine = None
        finally:
            if main:
                signal.signal(signal.SIGTERM, before)
            self.stop()
        if engine is not None and engine.failure is not None:
            raise engine.failure

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        import asyncio

        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    @property
    def _call(self) -> Call:
        return Call(self._services, self.caller, self.zone)

    # -- helpers ------------------------------------------------------------------------------------------------

    def _find(self, id: Id, *, deleted: bool = False) -> Schedule:
        found = find_schedule(self.scheduler, self.caller, id, deleted=deleted)
        if isinstance(found, Err) and found.code == "not_found":
            raise refuse("not_found", missing(id))
        return unwrap(found)

    def _views(self, schedules: Sequence[Schedule]) -> Schedules:
        """Return schedules with their payloads as they were given: a program may have to send them back."""
        details = details_of(self.scheduler, schedules)
        shapes = [schedule_shape(each, self.zone, details.get(each.definition.id), hidden=False) for each in schedules]
        return cast("Schedules", shapes)

    def _view(self, schedule: Schedule) -> ScheduleShape:
        detail = detail_of(self.scheduler, schedule)
        return cast("ScheduleShape", schedule_shape(schedule, self.zone, detail, hidden=False))

    def _runs(self, runs: Sequence[Run]) -> Runs:
        """Return runs with their results unchanged."""
        shapes = cast("list[RunShape]", run_shapes(self.scheduler, runs, self.zone))
        for shape, run in zip(shapes, runs, strict=True):
            shape["result"] = None if run.result is None else json.loads(run.result)
        return shapes

    def _time(self, given: Time | None, field: str, *, last: bool = False, past: bool = False) -> Instant | None:
        """Return the instant of a time. With `last`, it is an inclusive end, and a day means all of that day. With
        `past`, it may be `yesterday` or `2 hours ago`, and a weekday is the most recent one."""
        if given is None:
            return None
        if isinstance(given, datetime) and given.tzinfo is not None:
            return instant_of(given)
        if not isinstance(given, str):
            problem = f"must be a datetime with a time zone, or a text such as 'tomorrow 9am', not {given!r:.80}"
            raise InvalidInput(field=field, problem=problem)
        try:
            return read_instant(given, self.zone, self.scheduler.clock.now(), last=last, past=past)
        except UnreadableTime as error:
            raise InvalidInput(f"{field}: {error.message}", field=field) from None


def missing(id: object) -> str:
    return f"there is no schedule {id!r}; list() shows all of them"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
