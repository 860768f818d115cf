"""Time travel for tests: the real scheduler, worker and store, on a clock that the test controls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from duetime.api import Duetime
from duetime.engine.clock import SECOND, Instant, datetime_of, instant_of
from duetime.engine.model import Run
from duetime.engine.store import RunQuery
from duetime.engine.worker.label_check import note_unreachable
from duetime.engine.worker.runner import ClaimedRun, InlineExecutor
from duetime.engine.worker.worker import Worker, WorkerOptions
from duetime.kinds.jobs.declarations import Declarations
from duetime.kinds.jobs.registry import Registry, default_registry
from duetime.settings import Settings


class SettableClock:
    """A clock that moves only when told to. A jump of the wall clock does not affect the monotonic clock."""

    def __init__(self, start: Instant) -> None:
        self._now = start
        self._elapsed = 0.0

    def now(self) -> Instant:
        """Return the wall-clock time in microseconds since 1970."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds that have passed since the start."""
        return self._elapsed

    def boottime(self) -> float:
        """Return the seconds that have passed since the start, including sleep."""
        return self._elapsed

    def move_to(self, time: Instant | datetime) -> None:
        """Let time pass until a time, which is a `datetime` or an instant; see `duetime.instant_of`."""
        instant = instant_of(time) if isinstance(time, datetime) else time
        if instant < self._now:
            raise ValueError("time goes forward; to turn the wall clock back, use jump()")
        self._elapsed += (instant - self._now) / SECOND
        self._now = instant

    def jump(self, by: timedelta) -> None:
        """Set the wall clock forward or back, as an administrator or a time server would."""
        self._now = Instant(self._now + by // timedelta(microseconds=1))


class Simulation:
    """The real scheduler, worker and store on a settable clock. Nothing runs until the test advances the clock.

    `duetime` is the Python API on the simulated store, `clock` the clock, and `now` the simulated time.
    """

    def __init__(
        self,
        start: datetime,
        *,
        url: str = ":memory:",
        timezone: str = "UTC",
        registry: Registry | None = None,
        lease: float = 10.0,
        settings: Settings | None = None,
    ) -> None:
        """Start a simulation at a time. `settings` replaces `url`, `timezone`, `lease` and the labels of all tasks."""
        self.clock = SettableClock(instant_of(start))
        labels = tuple({task.needs for task in registry or default_registry if task.needs is not None})
        chosen = settings or Settings(db=url, timezone=timezone, lease=lease, labels=labels)
        self.duetime = Duetime(settings=chosen, clock=self.clock, registry=registry)
        self.worker = self._new_worker()
        Declarations(self.duetime.app.services, self.duetime.app.registry).apply()

    def _new_worker(self) -> Worker:
        options = WorkerOptions(lease=self.duetime.app.settings.lease, name="simulation", lead=0)
        worker = Worker(self.duetime.app.store, self.duetime.app.kinds, self.clock, options)
        worker.register()
        return worker

    @property
    def now(self) -> datetime:
        return datetime_of(self.clock.now())

    def advance(self, to: datetime | timedelta) -> None:
        """Advance to a time, or by a duration, and execute what becomes due, in order, in the calling thread."""
        target = instant_of(self.now + to if isinstance(to, timedelta) else to)
        self.settle()
        while (stop := self._next_stop()) is not None and stop <= target:
            self.clock.move_to(max(stop, self.clock.now()))
            self.settle()
        self.clock.move_to(max(target, self.clock.now()))
        self.settle()

    def settle(self) -> None:
        """Run everything that is due now, until nothing is left to do."""
        while self.worker.tick():
            pass

    def tell(self) -> int:
        """Create the messages that owners are to get about what went wrong, and return their number. A real worker does
        so every few seconds; a simulation only on request, so that no test has to expect them."""
        note_unreachable(self.duetime.app.store, self.clock.now())
        return self.duetime.app.store.tell_incidents(self.clock.now())

    def _next_stop(self) -> Instant | None:
        """Return the next due instant; while another worker is registered, also stop to check whether it is alive."""
        entry = self.duetime.app.store.earliest(self.worker.lanes)
        stops = [] if entry is None else [entry.at]
        if len(self.duetime.app.store.workers()) > 1:
            stops.append(Instant(self.clock.now() + int(self.worker.watch_interval * SECOND)))
        return min(stops, default=None)

    def crash(self) -> None:
        """Let the worker claim what is due and die before executing any of it. A new worker replaces it."""
        self.worker.beat()
        self.worker.executor = _Dead(self.worker.execute)
        self.worker.notice()
        self.worker.record_and_claim()
        self.worker = self._new_worker()

    def runs(self, limit: int = 1000) -> list[Run]:
        """Return the runs, earliest first."""
        return list(reversed(self.duetime.app.store.runs(RunQuery(limit=limit)).items))

    def close(self) -> None:
        """Close the store. `with Simulation(...)` does so at the end."""
        self.duetime.close()

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Dead(InlineExecutor):
    def put(self, items: Sequence[ClaimedRun]) -> None:
        """Drop the runs, like a worker that died."""
