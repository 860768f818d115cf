"""A standby worker, which works only while no other worker does; for processes that exist only while a client is open.

Of several standby workers, the one that registered first works and the others wait. Regular workers take precedence.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from duetime.engine.clock import Clock
from duetime.engine.errors import TRANSIENT, DuetimeError
from duetime.engine.kind import StopReason
from duetime.engine.model import WorkerId, WorkerRow
from duetime.engine.store import Store
from duetime.engine.worker.lease import FailureDetector
from duetime.engine.worker.threads import Engine

log = logging.getLogger("duetime.worker")


class Standby:
    def __init__(self, store: Store, clock: Clock, lease: float, make: Callable[[], Engine], patience: float) -> None:
        self._store, self._clock, self._make, self._patience = store, clock, make, patience
        self._interval = min(0.5, lease / 20)
        self._failure_detector = FailureDetector(clock, lease, self._interval, store.probe)
        self._engine: Engine | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="duetime-stand-in", daemon=True)
        self.decided = threading.Event()
        """Set once it is known whether another worker is active, or once the loop has ended."""

    @property
    def working(self) -> bool:
        return self._engine is not None

    @property
    def _me(self) -> WorkerId | None:
        return None if self._engine is None else self._engine.worker.id

    def start(self) -> None:
        self._thread.start()

    def stop(self, patience: float) -> int:
        """Stop all runs at once, because the client is gone, and return how many runs were left unrecorded."""
        self._stopping.set()
        engine = self._engine
        if engine is not None:
            engine.worker.claiming = False
            engine.worker.stop_all(StopReason.SHUTDOWN)
        if self._thread.is_alive():
            self._thread.join()
        engine, self._engine = self._engine, None
        return 0 if engine is None else engine.stop(patience)

    def _loop(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self.step()
                    self.decided.set()
                except TRANSIENT as error:
                    log.warning("the store is unavailable: %s", error)
                    self._failure_detector.forget()
                self._stopping.wait(self._interval)
        except DuetimeError as error:
            log.critical("nothing fires in this process: %s", error)
        except Exception:
            log.critical("nothing fires in this process", exc_info=True)
        finally:
            self.decided.set()

    def step(self) -> None:
        """Check which workers are alive, and start or stop working accordingly."""
        if self._engine is not None and self._engine.failure is not None:
            raise self._engine.failure
        others, me = self._living_others(), self._me
        if self._engine is None and not others:
            self._begin()
        elif self._engine is not None and any(not row.session or (me is not None and row.id < me) for row in others):
            engine, self._engine = self._engine, None
            log.info("another worker is active; this process stops working")
            engine.stop(self._patience)

    def _begin(self) -> None:
        engine = self._make()
        engine.start()
        self._engine = engine
        log.info("no other worker is active; this process starts working")

    def _living_others(self) -> list[WorkerRow]:
        """Return the other live workers. Dead workers are rescued here: a new worker would have to observe them for a
        full lease."""
        rows = self._store.workers()
        dead = {row.id: row for row in self._failure_detector.observe(rows, self._me)}
        for row in dead.values():
            count = self._store.rescue(row.id, row.beat, self._clock.now())
            if count is not None:
                log.warning("worker %s (%s) is dead; %s of its runs were given back", row.id, row.name, count)
        return [row for row in rows if row.id not in dead and row.id != self._me]
