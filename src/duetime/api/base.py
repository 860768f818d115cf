"""The common part of all operations of the Python API: the app of this process, its worker, and the caller."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from duetime.api.methods import Blocking
from duetime.app import App, build
from duetime.engine.actor import MODULE, Actor
from duetime.engine.clock import Clock
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.scheduler import Scheduler
from duetime.kinds.jobs.loading import imported_for_a_task
from duetime.kinds.jobs.registry import Registry
from duetime.processes.memory import relaxed_collector
from duetime.service.errors import refuse
from duetime.service.operations.create import CreatedSchedule, CreateSchedule, create
from duetime.service.operations.declaration import Answer
from duetime.service.services import NO_WORKER, OPERATOR, Call, Services
from duetime.settings import Settings, load_settings

if TYPE_CHECKING:
    from types import FrameType

    from duetime.engine.worker.threads import Engine

SECONDS_BETWEEN_CHECKS = 0.5
"""How long `run_forever` waits between two checks whether the worker is still running."""


class NotStartedWarning(UserWarning):
    """A schedule was created, but no worker is running that would execute it."""


def warn_not_started() -> None:
    """Warn at the line outside this package that created the schedule."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("duetime."):
        frame, level = frame.f_back, level + 1
    text = "nothing fires yet: call start(), or run `duetime worker` on the same database"
    warnings.warn(text, NotStartedWarning, stacklevel=level)


class Base(Blocking):
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
        self._starting = threading.Lock()
        self._warned = False
        self._warn: Callable[[], None] = warn_not_started

    @property
    def zone(self) -> str:
        """The time zone in which times are interpreted and shown."""
        return self.scheduler.zone

    # -- lifecycle ----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the worker. Due schedules fire from now on."""
        if imported_for_a_task:
            text = "is imported to run one of its tasks in a process of its own, and must not start a worker there; put"
            how = 'what the program does below `if __name__ == "__main__":`, or its tasks into another module'
            raise refuse("not_possible", f"{imported_for_a_task[0]} {text} {how}")
        with self._starting:
            if self._engine is None:
                self._engine = self.app.engine()
                self._engine.start()
        return self

    def stop(self) -> int:
        """Stop the worker, and return the number of runs whose outcome could not be recorded.

        Active runs have as long as the setting `drain` says to finish; then they are asked to stop.
        """
        with self._starting:
            engine, self._engine = self._engine, None
            return 0 if engine is None else engine.stop(self.app.settings.drain)

    def close(self) -> None:
        """Stop the worker and close the store."""
        self.stop()
        self.app.close()

    def run_forever(self) -> None:
        """Run the worker until Ctrl-C, SIGTERM, or a call of `stop` in another thread. Raise the error if it fails.

        In the main thread, this makes the process one of a worker: its garbage collector runs less often meanwhile.
        """
        pause, main = threading.Event(), threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGTERM, _interrupt) if main else None
        try:
            with relaxed_collector() if main else nullcontext():
                self.start()
                while (engine := self._engine) is not None and engine.failure is None:
                    pause.wait(SECONDS_BETWEEN_CHECKS)
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

    # -- for the methods that `Duetime` shares with `AsyncDuetime` -------------------------------------------------

    @property
    def _call(self) -> Call:
        return Call(self._services, self.caller, self.zone)

    def _create(self, request: CreateSchedule) -> Answer[CreatedSchedule]:
        """Create a schedule; warn once if no worker would run it."""
        answer = create(self._call, request)
        if self._engine is None and not self._warned and any(each.code == NO_WORKER for each in answer.warnings):
            self._warned = True
            self._warn()
        return answer

    def _name_of(self, task: str | Callable[..., object]) -> str:
        if isinstance(task, str):
            return task
        for known in self.app.registry:
            if known.function is task:
                return known.name
        raise InvalidInput(f"{task!r} is not registered; decorate it with @task", field="task")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
