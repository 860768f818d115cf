"""The threads of a worker: they exchange with the store, send heartbeats and rescue runs, watch for changes, and
execute runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial

from duetime.engine.clock import SECOND, Clock, Instant, StoreClock
from duetime.engine.errors import TRANSIENT, DuetimeError, WorkerGone, describe
from duetime.engine.kind import Kind, StopReason, lane_names
from duetime.engine.policy.restore import KEPT_AFTER_DELETE
from duetime.engine.store import Store
from duetime.engine.times import zones
from duetime.engine.worker.capture import capture
from duetime.engine.worker.label_check import note_unreachable
from duetime.engine.worker.lease import ExchangeAge
from duetime.engine.worker.pool import Pool, Timer
from duetime.engine.worker.runner import ClaimedRun
from duetime.engine.worker.worker import Worker, WorkerOptions

log = logging.getLogger("duetime.worker")

WATCH_SECONDS = 1.0
"""Seconds that the watching thread waits for the store at a time."""
LONGEST_PATIENCE = 2.0
"""Maximum number of seconds between two attempts to reach a store that is unavailable."""

TIDY_PAUSE = 0.2
"""Seconds between two batches of deleted history."""

TIDY_FIRST = 60.0
TIDY_EVERY = 3600.0
"""Seconds between two checks for history that is too old."""

TELL_EVERY = 3.0
"""Seconds between two checks for incidents that owners are to be told of."""
LABELS_EVERY = 15.0
"""Seconds between two checks for work that no worker can take."""

LOGS_EVERY = 1.0
"""Seconds between two writes of what runs in progress have written."""

FOREVER = threading.TIMEOUT_MAX

MIN_EXCHANGE_PATIENCE = 10.0
"""Minimum number of seconds that a stopping worker waits for an exchange with the store to end."""

MAX_THREAD_WAIT = 2.0
"""Seconds that a claimed run may wait for a thread before it is released to other workers."""


class Engine:
    """Runs a worker from `start()` to `stop()`; events in between are logged and recorded in the store."""

    on_failure: Callable[[], None] = staticmethod(lambda: None)
    """Called when the worker cannot continue."""

    def __init__(
        self,
        store: Store,
        kinds: Mapping[str, Kind],
        clock: Clock,
        options: WorkerOptions | None = None,
        exchange_age: ExchangeAge | None = None,
    ) -> None:
        self.options = options or WorkerOptions()
        self.exchange_age = exchange_age or ExchangeAge(clock)
        self.exchange_age.limit = self._longest_pause
        self._following = clock = StoreClock(clock)
        self.worker = Worker(store, kinds, clock, self.options)
        self.pool = Pool(self.options.threads, self._execute, self._note_end, lane_names(kinds))
        self.timer = Timer(clock)
        self.worker.executor = self.pool
        self.worker.shares.threads = self.pool.shares
        self.worker.start_later = self._start_later  # type: ignore[method-assign]
        self._later: set[ClaimedRun] = set()
        """Runs that were claimed ahead of their instant and wait for a timer."""
        self._store, self._clock = store, clock
        self._wake, self._stopping, self._idle = threading.Event(), threading.Event(), threading.Event()
        """The last is set when there is nothing to do for the first time: until then, what can wait does so."""
        self._passed = threading.Event()
        """Set when a claim is planned, so that the next one can be planned while it is committed."""
        self._ended = threading.Event() if store.writes_overlap else self._wake
        loops: dict[str, Callable[[], None]] = {"beat": self._beat, "watch": self._watch}
        loops |= {"claim": partial(self._exchange_loop, "claim", self._claim, self._wake)}
        if store.writes_overlap:
            self.worker.overlap.on_pass = self._passed.set
            loops |= {"claim too": partial(self._exchange_loop, "claim too", self._claim_too, self._passed)}
            loops |= {"record": partial(self._exchange_loop, "record", self._record, self._ended)}
        self._advanced = dict.fromkeys(loops.keys() - {"beat", "watch"}, clock.monotonic())
        """When each thread that exchanges with the store last began an exchange."""
        self._threads = [
            threading.Thread(target=target, name=f"duetime-{name}", daemon=True) for name, target in loops.items()
        ]
        self._forget_store: Callable[[], None] = lambda: None
        self._next_beat = 0.0
        self._failed: float | None = None
        """When an exchange or a heartbeat failed last, until the store is available again."""
        self._next_tidy = clock.monotonic() + TIDY_FIRST
        self._is_watching = self._is_tidying = self._is_capturing = False
        self._next_tell = self._next_logs = self._next_labels = 0.0
        self.failure: BaseException | None = None
        self.registered: Callable[[threading.Event], None] = lambda _stopping: None
        """Called once the worker is registered, before it runs anything, with the event that says that it stops."""

    def start(self) -> None:
        self._following.follow(self._store.now)
        self.worker.register()
        self.registered(self._stopping)
        self._forget_store = self._store.on_change(self._notice, only_soon=True)
        if self.options.log_bytes:
            capture.begin()
            self._is_capturing = True
        self.timer.start()
        self.pool.start()
        self._watch_lease()
        self.exchange_age.completed()
        for thread in self._threads:
            thread.start()

    def _notice(self) -> None:
        self.worker.notice()
        self._wake.set()

    # -- running ------------------------------------------------------------------------------------------------

    def _start_later(self, seconds: float, item: ClaimedRun) -> None:
        self._later.add(item)
        self._start_after(seconds, item)

    def _start_after(self, seconds: float, item: ClaimedRun) -> None:
        self.timer.after(seconds, lambda: self._start_in_time(item))

    def _start_in_time(self, item: ClaimedRun) -> None:
        """Start a run, or wait longer if the clock was corrected meanwhile, because no run may start early by the
        clock."""
        left = item.claim.at - self._clock.now()
        if 0 < left <= self.options.lead:
            self._start_after(left / SECOND, item)
        elif self._take(item):
            self.pool.put([item])

    def _take(self, item: ClaimedRun) -> bool:
        """Take a run from those that wait for a timer, and return whether nobody else has taken it."""
        try:
            self._later.remove(item)
        except KeyError:
            return False
        return True

    def _execute(self, item: ClaimedRun) -> None:
        try:
            timeout = item.timeout
            if timeout is None:
                self.worker.execute(item)
                return
            limit = self.timer.after(timeout / SECOND, lambda: item.stop.set(StopReason.TIMEOUT))
            self.worker.execute(item)
            self.timer.cancel(limit)
        except BaseException as error:  # a thread that ends would be missing for good, and its run would stay running
            self.worker.execution_failed(item, error)

    def _note_end(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
        if self.worker.needs_room and not self._wake.is_set():
            self._wake.set()

    # -- recording and claiming: in one thread, or in two where the store lets two transactions write at once ----------

    def _exchange_loop(self, name: str, step: Callable[[], float], wake: threading.Event) -> None:
        """Repeat a step, which returns for how many seconds there is nothing to do as far as is known."""
        patience = 0.05
        while not self._stopping.is_set():
            self._advanced[name] = self._clock.monotonic()
            try:
                pause = step()
                patience = 0.05
            except WorkerGone:
                self._wake.set()  # the thread that claims registers again
            except TRANSIENT as error:
                self._unavailable(error)
                self._stopping.wait(patience)
                patience = min(LONGEST_PATIENCE, patience * 2)
            except Exception as error:
                self._fail(error)
                return
            else:
                if pause == FOREVER:
                    self._advanced[name] = FOREVER
                if pause and not wake.wait(pause):
                    self._idle.set()
            wake.clear()  # before the stop signal is checked, which `stop` sets first

    def _claim_too(self) -> float:
        """Claim only while the other thread commits its claim; at any other time, that thread does all the claiming."""
        return 0.0 if self.worker.overlap.passed and self.worker.claim() else FOREVER

    def _claim(self) -> float:
        """Claim what is due; where no other thread records, do that as well."""
        if self.worker.leave_to_others(MAX_THREAD_WAIT):
            self._ended.set()  # for the thread that records, because no execution ended
        more = self.worker.claim() if self._store.writes_overlap else self.worker.record_and_claim()
        if not self.worker.lease.expired():  # with an expired lease, a worker claims nothing
            self.exchange_age.completed()
        pause = 0.0 if more else self.worker.seconds_to_look(latest=True)
        if pause and not (self.worker.claimed or self.worker.needs_room):
            self._idle.set()
        return pause

    def _record(self) -> float:
        more = self.worker.record()
        if more and self.worker.needs_room:
            self._wake.set()
        return 0.0 if more else FOREVER

    def _fail(self, error: BaseException) -> None:
        """Log why the worker cannot continue, and stop its heartbeats so that others take over."""
        log.critical("the worker stops: %s", error, exc_info=not isinstance(error, DuetimeError))
        self.failure = error
        self._stopping.set()
        self.worker.stop_all(StopReason.LEASE)
        self.on_failure()

    # -- liveness -----------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        while not self._stopping.wait(self._seconds_to_beat()):
            try:
                # A worker that hangs in an exchange must not look alive.
                if self._clock.monotonic() - min(self._advanced.values()) < self._longest_pause:
                    self._keep_alive()
                    if self.worker.rescue():
                        self._notice()
            except WorkerGone:
                self._wake.set()  # the exchange registers again
            except TRANSIENT as error:
                self.worker.failure_detector.forget()
                self._unavailable(error, is_heartbeat=True)
            except Exception as error:
                self._fail(error)
                return

    def _unavailable(self, error: Exception, *, is_heartbeat: bool = False) -> None:
        """Log that the store does not answer; of frequent heartbeats only the first that fails in an outage."""
        if not is_heartbeat or self._failed is None:
            log.warning("%s", describe(error))
        self._failed = self._clock.monotonic()

    def _seconds_to_beat(self) -> float:
        """Return the pause of the heartbeat thread. Beside other workers it is short, because it also detects their
        deaths; alone, a worker has nothing to do before its next heartbeat."""
        alone = self._next_beat - self._clock.monotonic() if self.worker.is_alone else 0.0
        return max(self.worker.watch_interval, alone)

    def _watch_lease(self) -> None:
        """Stop all runs when the lease expires. This uses a timer, because the heartbeat thread may hang in the store
        at that time."""
        left = self.worker.lease.left
        if left < 0:
            self.worker.stop_all(StopReason.LEASE)
        self.timer.after(max(self.worker.watch_interval, left), self._watch_lease)

    def _keep_alive(self) -> None:
        now = self._clock.monotonic()
        if now >= self._next_beat:
            self.worker.beat()
            self._next_beat = now + self.options.lease / 4
            if self._failed is not None and now - self._failed > LONGEST_PATIENCE:
                log.warning("the store is available again; work continues")
                self._failed = None
            self._following.follow(self._store.now)

    @property
    def _longest_pause(self) -> float:
        return max(2.0, self.options.lease / 2)

    def _watch(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._wait_for_change():
                    self._notice()
                self._store_logs()
                self._tell()
                self._tidy()
            except TRANSIENT:
                self._stopping.wait(1.0)
            except Exception as error:
                self._fail(error)
                return

    def _wait_for_change(self) -> bool:
        """Wait for a moment, and return whether something may have changed. A worker that is not idle looks anyway."""
        if self._is_watching:
            return self._store.wait(TIDY_PAUSE if self._is_tidying else WATCH_SECONDS)
        if not self._idle.wait(WATCH_SECONDS) or self._stopping.is_set():
            return False
        self._is_watching = True
        threading.Thread(target=zones.preload, name="duetime-zones", daemon=True).start()
        self._store.wait(0)  # from here on, changes are reported
        return True

    def _store_logs(self) -> None:
        """Store what runs in progress have written, so that it can be read while they run."""
        monotonic = self._clock.monotonic()
        if monotonic >= self._next_logs and self.worker.logs.open:
            self._next_logs = monotonic + LOGS_EVERY
            self.worker.logs.store_live(self._store, self.worker.claimed)

    def _tell(self) -> None:
        """Create the messages about what went wrong, and about what went well again."""
        monotonic = self._clock.monotonic()
        if monotonic >= self._next_tell:
            self._next_tell = monotonic + TELL_EVERY
            if monotonic >= self._next_labels:
                self._next_labels = monotonic + LABELS_EVERY
                note_unreachable(self._store, self._clock.now())
            self._store.tell_incidents(self._clock.now())

    def _tidy(self) -> None:
        """Delete history that is too old or too large, in small batches so that nobody has to wait for it."""
        monotonic = self._clock.monotonic()
        if monotonic < self._next_tidy:
            return
        now, deleted, batch = self._clock.now(), 0, self._store.tidy_batch
        self._store.drop_tombstones(Instant(now - KEPT_AFTER_DELETE))
        if self.options.retention is not None:
            deleted = self._store.prune(Instant(now - int(self.options.retention * SECOND)), batch)
        if self.options.stored_bytes is not None:
            deleted += self._store.trim(self.options.stored_bytes, now, batch)
        self._is_tidying = deleted > 0
        self._next_tidy = monotonic + (TIDY_PAUSE if self._is_tidying else TIDY_EVERY)

    # -- stopping -----------------------------------------------------------------------------------------------

    def stop(self, patience: float = 10.0) -> int:
        """Release runs that have not started, wait for the others, and return how many were left unrecorded."""
        self.worker.claiming = False
        self.worker.draining = True
        self._stopping.set()
        for event in (self._wake, self._ended, self._passed, self._idle):
            event.set()
        self._store.stop_waiting()
        if not self._join_threads(max(patience, MIN_EXCHANGE_PATIENCE)):
            return self._abandon()
        self.exchange_age.forget()  # no thread completes another exchange from here on
        deadline = self._clock.monotonic() + patience
        self.worker.give_back_unstarted([item for item in list(self._later) if self._take(item)])
        self._drain(deadline)
        if self.worker.claimed:
            log.warning("%s runs did not end within %g s and are told to stop", len(self.worker.claimed), patience)
            self.worker.stop_all(StopReason.SHUTDOWN)
            self._drain(self._clock.monotonic() + min(2.0, patience))
        self._forget_store()
        self.timer.stop()
        self.pool.stop(wait=0.5)
        left = len(self.worker.claimed)
        try:
            if self.worker.id is not None:
                self._store.retire(self.worker.id)
        except (DuetimeError, *TRANSIENT) as error:
            log.warning("the worker could not be deregistered: %s", error)
        if left:
            log.warning("%s runs stayed unrecorded; another worker takes them over when the lease expires", left)
        self._end_capture()
        return left

    def _end_capture(self) -> None:
        if self._is_capturing:
            self._is_capturing = False
            capture.end()

    def _join_threads(self, patience: float) -> bool:
        """Wait for the threads of this worker, and return whether all of them ended: one may be waiting for a store
        that hangs."""
        deadline = self._clock.monotonic() + patience
        others = [each for each in self._threads if each.is_alive() and each is not threading.current_thread()]
        for thread in others:
            thread.join(max(0.0, deadline - self._clock.monotonic()))
        return not any(thread.is_alive() for thread in others)

    def _abandon(self) -> int:
        """Stop without the store, which does not answer: tell the runs to stop, and leave their recording to the worker
        that takes them over. The threads that wait for the store do not keep the process from ending."""
        self.worker.stop_all(StopReason.SHUTDOWN)
        self.timer.stop()
        self.pool.stop(wait=2.0)
        self._end_capture()
        left = len(self.worker.claimed)
        log.warning("the store does not answer; %s runs stay unrecorded until another worker takes them over", left)
        return left

    def _drain(self, deadline: float) -> None:
        left = 1.0
        while self.worker.claimed and left > 0:  # at least once, to record the released runs
            self._ended.clear()
            left = max(0.0, deadline - self._clock.monotonic())
            try:
                if not self.worker.record_and_claim():
                    self._ended.wait(min(left, 0.2))
                self._keep_alive()
                self._store_logs()
            except WorkerGone:
                continue  # the exchange drops runs that no longer belong to this worker
            except TRANSIENT as error:
                log.warning("while the worker stops: %s", describe(error))
                self._ended.wait(min(left, 0.2))
            except Exception as error:
                log.critical("nothing can be recorded while the worker stops: %s", error)
                return
