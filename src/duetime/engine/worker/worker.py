"""The steps of a worker: register, beat, rescue, claim, execute and record."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from duetime.engine.clock import SECOND, Clock, Instant
from duetime.engine.errors import TRANSIENT, StoreUnavailable, StoreUnusable, WorkerGone
from duetime.engine.kind import Kind, StopReason
from duetime.engine.model import RunId, WorkerId
from duetime.engine.policy.catch_up import LEAD, Answers, evaluate
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.fair_share import Budget
from duetime.engine.store import ClaimRequest, RecordedAndClaimed, Store
from duetime.engine.worker import claim_overlap
from duetime.engine.worker.claim_overlap import ClaimOverlap, Turn
from duetime.engine.worker.claim_requests import LONGEST_SLEEP, ClaimRequests, Pace
from duetime.engine.worker.lease import FailureDetector, Lease
from duetime.engine.worker.poison import Done, Suspects, count_from, record_and_claim_in_parts
from duetime.engine.worker.runner import (
    ClaimedRun,
    InlineExecutor,
    RunExecutor,
    execute_run,
    execution_failed,
    give_back,
)
from duetime.engine.worker.shares import ClaimShares

log = logging.getLogger("duetime.worker")


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    threads: int = 16
    batch: int | None = None
    """The maximum number of runs that one transaction claims; it records up to twice as many. None: as many as suit the
    store."""
    ahead: float = 0.05
    """Seconds of work that may be claimed beyond what the threads are busy with."""
    lease: float = 10.0
    session: bool = False
    """True for a worker that exists only while some client is open."""
    name: str = ""
    known_schema: int = 2**31
    runs_per_hour: Budget | int | None = None
    """The maximum number of runs of one owner in an hour."""
    retention: float | None = None
    """Seconds after which history is deleted; None keeps it forever."""
    stored_bytes: int | None = None
    """Bytes of one owner's data beyond which its oldest history is deleted; None for no limit."""
    lead: int = LEAD
    """Microseconds that a run may be claimed ahead of its instant."""
    published: tuple[str, ...] = ()
    """What the worker's row lists in addition to its lanes, so that others can warn about work that no worker knows."""


class Worker:
    """Holds claimed runs and starts no threads. Except for `execute`, one thread at a time calls each step.

    Where the store lets several transactions write at the same time, two threads take turns to call `claim` and another
    one calls `record`; elsewhere, a single thread calls `record_and_claim`.
    """

    def __init__(self, store: Store, kinds: Mapping[str, Kind], clock: Clock, options: WorkerOptions) -> None:
        self.store, self.kinds, self.clock, self.options = store, kinds, clock, options
        self.name = options.name
        self.id: WorkerId | None = None
        self.lease = Lease(clock, options.lease)
        self.failure_detector = FailureDetector(clock, options.lease, self.watch_interval, store.probe)
        self.claimed: dict[RunId, ClaimedRun] = {}
        self._changing = threading.Lock()
        """Held while claimed runs and suspects change, by a thread that claims or by the thread that records."""
        self.overlap = ClaimOverlap(self._changing)
        self._alone = False
        """True: the turn of the next claim is not passed on, because the last claim failed and its cause has to be
        isolated."""
        # Across a network, every transaction has a fixed cost. A thread that only claims never waits for a record, so
        # it stays ahead with fewer batches.
        self.batch = options.batch or (500 if store.writes_overlap else 250)
        most_ahead = (3 if store.writes_overlap else 4) * self.batch
        self.pace = Pace(clock, options.ahead, most_ahead)
        self.shares = ClaimShares(options.ahead, most_ahead)
        self.requests = ClaimRequests(store, kinds, clock, self.shares, options.lead)
        self.lanes = self.requests.lanes
        self.done: deque[Done] = deque()
        self.claiming = True
        self.draining = False
        """True: no further run is started, and runs that have not started are released."""
        self.suspects = Suspects(clock)
        self.executor: RunExecutor = InlineExecutor(self.execute)
        self.is_alone = False
        """True if no other worker was registered at the last read."""
        self._gone: WorkerId | None = None
        self._strays: list[ClaimedRun] = []
        self._doubt = False
        self._last_now = Instant(0)
        self._answers: Answers = {}

    @property
    def watch_interval(self) -> float:
        return min(0.5, self.options.lease / 20)

    # -- liveness -----------------------------------------------------------------------------------------------

    def register(self) -> None:
        asked = self.clock.boottime()
        self.id = self.store.register(
            self.name,
            [*self.lanes, *self.options.published],
            self.options.session,
            self.clock.now(),
            int(self.options.lease * SECOND),
        )
        self.lease.renew(asked)
        self.notice()

    def beat(self) -> None:
        """Send a heartbeat with progress reports, and stop the runs that were asked to stop."""
        worker = self.id
        if worker is None:
            return
        if self.lease.expired():  # a heartbeat after a long pause may come before the timer that checks the lease
            self.stop_all(StopReason.LEASE)
        items = list(self.claimed.values())
        reports = {item.id: item.report for item in items if not item.reported and item.report is not None}
        not_begun = [item.id for item in items if not item.begun]
        asked = self.clock.boottime()
        try:
            answer = self.store.beat(worker, self.clock.now(), reports, not_begun)
        except WorkerGone:
            self._gone = worker
            raise
        self.lease.renew(asked)
        for item in items:
            item.reported = item.reported or item.report == reports.get(item.id)
        if answer.floor > self.options.known_schema:
            self.claiming = False
            text = "the store was upgraded and this worker is too old to write to it; install a newer Duetime"
            raise StoreUnusable(text)  # a worker that kept sending heartbeats would keep others from taking over
        for run in answer.stop:
            if (held := self.claimed.get(run)) is not None:
                held.stop.set(StopReason.CANCELLED)

    def rescue(self) -> int:
        """Release the runs of dead workers and return their number. A worker whose own heartbeats fail declares nobody
        dead: the same cause may prevent the heartbeats of the others."""
        if self.lease.expired():
            self.failure_detector.forget()
            return 0
        try:
            workers = self.store.workers()
            dead_workers = self.failure_detector.observe(workers, self.id)
        except StoreUnavailable:
            self.failure_detector.forget()
            raise
        self.suspects.look_at(row.id for row in workers)
        self.is_alone = all(row.id == self.id for row in workers)
        given_back = 0
        if dead_workers:
            self.beat()
        for dead in dead_workers:
            count = self.store.rescue(dead.id, dead.beat, self.clock.now())
            if count is not None:
                given_back += count
                self.suspects.start_small()
                log.warning("worker %s (%s) is dead; %s of its runs were given back", dead.id, dead.name, count)
        return given_back

    def stop_all(self, reason: StopReason) -> None:
        """Tell every claimed run to stop."""
        for item in list(self.claimed.values()):
            item.stop.set(reason)

    def re_register(self, gone: WorkerId) -> None:
        """Register again after others declared this worker dead: its runs are theirs, and its outcomes match no row.
        The heartbeat and the exchange may both report the same death; the second report must not end the new
        registration."""
        if self.id != gone:
            return
        lost = "worker %s was declared dead by another worker; it drops %s runs and registers again"
        log.warning(lost, gone, len(self.claimed))
        self.stop_all(StopReason.LEASE)
        self.executor.take_back()
        with self._changing:
            self._strays += [item for item in self.claimed.values() if item.begun]
            self.claimed.clear()
            self.suspects.forget()
        self.id = None
        self.register()

    # -- choosing what to claim ---------------------------------------------------------------------------------

    def notice(self) -> None:
        """Check the queue at once, because something may be due earlier than was known."""
        self.requests.notice()

    def seconds_to_look(self) -> float:
        """Return for how many seconds nothing can become claimable, as far as is known."""
        if not self.claiming or self.lease.expired():
            return LONGEST_SLEEP
        return self.requests.seconds_to_look()

    @property
    def needs_room(self) -> bool:
        """Return whether something may be due that was not requested because the threads were busy."""
        return self.requests.blocked or self.requests.stuck

    def _wants(self, now: Instant) -> list[ClaimRequest]:
        """Return the requests for which there is capacity. Finished runs need no capacity, even if they are not
        recorded yet."""
        self.requests.stuck = False
        if not self.claiming or self.lease.expired() or not self.requests.is_time_to_look(now):
            return []
        if self.overlap.passed:
            with self._changing:
                claimed = list(self.claimed.values())
                committing, ends = self.overlap.committing(), self.overlap.ends()
            holding = [item for item in claimed if not item.over]
            held = len(holding) + committing.total()
            self.requests.count(holding, committing)
        else:
            holding, ends = [item for item in list(self.claimed.values()) if not item.over], {}
            held = len(holding)
            self.requests.count(holding)
        # A dropped run keeps its thread until it returns.
        self._strays = [item for item in self._strays if not item.over]
        threads = self.executor.size - len(self._strays)
        # Hold one run per thread plus what will end in a moment; leave long work to other workers.
        slots = threads + self.pace.runs_ahead(threads, held)
        capacity = min(self.batch, max(slots - held, self.shares.idle))
        exact = min(capacity, self.executor.free, threads - held)
        return self.requests.choose(now, exact, min(self.suspects.capacity(), capacity), capacity, ends)

    def _wants_beside(self, batch: Sequence[Done], now: Instant) -> list[ClaimRequest]:
        """Return the requests to send with these outcomes. Choosing them may read the store: if that fails, the
        outcomes go back on the list, so that none is lost."""
        try:
            return self._wants(now)
        except BaseException:
            self.done.extendleft(reversed(batch))
            raise

    # -- recording and claiming ----------------------------------------------------------------------------------

    def record_and_claim(self) -> bool:
        """Record what finished and claim what is due, in one transaction. Return whether to call it again."""
        return self._exchange(None)

    def claim(self) -> bool:
        """Claim what is due, while another thread may call `record`. Return whether to call this again."""
        with self.overlap.take() as turn:
            return self._exchange(turn)

    def _exchange(self, turn: Turn | None) -> bool:
        """Claim what is due in a turn or, without one, record what finished and claim."""
        worker = self._living()
        alone = self._alone
        if alone:
            self.overlap.wait_for_commits()
        if self._doubt:
            self._reconcile()
        now = self.clock.now()
        self._check_clock(now)
        batch = self._take_finished(worker) if turn is None else []
        unrecorded = (
            () if turn is None else {item.claim.definition.id for item in list(self.claimed.values()) if item.over}
        )
        if self.requests.blocked and (batch or self.executor.free):
            self.notice()
        wants = self._wants_beside(batch, now)
        if not batch and not wants:
            return False
        planned = None if turn is None or alone else partial(self._pass_on, turn, wants, now)
        budget, answers = self.options.runs_per_hour, self._answers
        try:
            claims, seen, postponed = record_and_claim_in_parts(
                self.store, worker, now, batch, wants, budget, answers, unrecorded, planned
            )
        except WorkerGone:
            self._gone = worker
            if not (turn and turn.passed):
                self._living()
            return True
        except BaseException as error:
            self._doubt = True
            if planned is not None and _may_be_isolated(error):
                self._alone = True
                return True
            self.done.extendleft(reversed(batch))
            raise
        self._forget(batch)
        if wants:
            self._accept(claims, worker, turn)
            self._alone = self._alone and not alone
        if wants and not (turn and turn.passed):
            self._answers = evaluate(postponed, now, self._answers) if postponed else {}
            self.shares.saw([claim.definition.owner for claim in claims])
            self.requests.look_ahead(wants, now, seen)
        return bool(batch or seen)

    def _pass_on(self, turn: Turn, wants: Sequence[ClaimRequest], now: Instant, planned: RecordedAndClaimed) -> None:
        """Let another thread plan the next claim, if more is due and no part of this claim has to be accepted first."""
        if turn.passed or planned.postponed or len(planned.claims) < claim_overlap.LARGE:
            return
        if not self.requests.expects_more(wants, planned.seen) or any(claim.run.deaths for claim in planned.claims):
            return
        self.shares.saw([claim.definition.owner for claim in planned.claims])
        self.requests.look_ahead(wants, now, planned.seen)
        self._answers = {}
        self.overlap.pass_on(turn, planned.claims)

    def record(self) -> bool:
        """Record what finished, while another thread may call `claim`. Return whether to call this again. This never
        registers the worker again; only the thread that claims does, so that no claim is accepted for a different
        registration."""
        worker = self.id
        batch = [] if worker is None else self._take_finished(worker)
        if worker is None or not batch:
            return worker != self.id and bool(self.done)  # outcomes of a new registration are still in the list
        try:
            record_and_claim_in_parts(self.store, worker, self.clock.now(), batch, (), self.options.runs_per_hour)
        except WorkerGone:
            self._gone = worker
            raise
        except BaseException:
            self.done.extendleft(reversed(batch))
            raise
        self._forget(batch)
        if self.requests.blocked:
            self.notice()
        return True

    def _take_finished(self, worker: WorkerId) -> list[Done]:
        """Take finished runs off the list. Outcomes of an earlier registration are dropped, because nobody waits for
        them; those of a later one, which another thread has made meanwhile, stay. The ids of workers increase."""
        done = [self.done.popleft() for _ in range(min(len(self.done), 2 * self.batch))]
        self.done.extendleft(reversed([pair for pair in done if pair[0].worker > worker]))
        batch = [pair for pair in done if pair[0].worker == worker]
        with self._changing:
            released = self.suspects.ended(batch)
        if released:
            self.executor.put(released)
        return batch

    def _forget(self, batch: Sequence[Done]) -> None:
        self.pace.recorded += len(batch)
        with self._changing:
            for item, _ in batch:
                # if it was released and claimed again, it is held as another item
                if self.claimed.get(item.id) is item:
                    del self.claimed[item.id]

    def _living(self) -> WorkerId:
        if self.id is not None and self.id == self._gone:
            self.overlap.wait_for_commits()
            self.re_register(self.id)
        if self.id is None:
            self.register()
        assert self.id is not None
        return self.id

    def _accept(self, claims: Sequence[Claim], worker: WorkerId, turn: Turn | None = None) -> None:
        """Start what is due by now, and the rest at its instant; the duration of the commit is part of the wait."""
        now, since = self.clock.now(), self.clock.monotonic()
        items = [ClaimedRun(claim, worker, since) for claim in claims]
        with self._changing:
            self.claimed.update([(item.id, item) for item in items])
            if turn is not None:
                turn.claims.clear()
            items = self.suspects.admit(items)
        ready = [item for item in items if item.claim.at <= now]
        if ready:
            self.executor.put(ready)
        for item in items if len(ready) < len(items) else ():
            if item.claim.at > now:  # at most the lead, in case the clock is being set back
                self.start_later(min(item.claim.at - now, self.options.lead) / SECOND, item)

    def start_later(self, seconds: float, item: ClaimedRun) -> None:
        """Start a run at once, because without a timer nothing waits for its instant. `Engine` replaces this method."""
        self.executor.put([item])

    def _reconcile(self) -> None:
        """After a commit of unknown outcome, start the runs that the store attributes to this worker and that it does
        not hold. Runs are compared by id and fence, since the commits in doubt may have recorded a run and claimed it
        again. The held runs are listed first: otherwise, a run that is recorded before the store answers would be
        started again."""
        assert self.id is not None
        self.overlap.wait_for_commits()
        claimed = list(self.claimed.items())
        known = {(run, item.claim.run.fence) for run, item in claimed}
        lost = [claim for claim in self.store.held(self.id) if (claim.run.id, claim.run.fence) not in known]
        self._doubt = False
        self.notice()
        self._accept(lost, self.id)

    def _check_clock(self, now: Instant) -> None:
        """Rewind schedules at the start and whenever the clock goes back, because a clock that was ahead claimed into
        the future."""
        back = self._last_now == 0 or now < self._last_now - SECOND
        self._last_now = now
        if back:
            count_from(self.store, self.clock, self.batch)

    # -- executing ----------------------------------------------------------------------------------------------

    def execute(self, item: ClaimedRun) -> None:
        """Execute one run. With an expired lease, a worker starts nothing, because the run may belong to another
        worker."""
        if self.draining or self.lease.expired() or item.stop.is_set():
            self._give_back([item])
            return
        begun = self.clock.monotonic()
        finished = execute_run(item, self.kinds, self.clock, self.lease)
        took = self.clock.monotonic() - begun
        self.pace.took(took)
        if not self.shares.threads.alone:
            self.shares.took(item.claim.definition.owner, took)
        item.over = True
        self.done.append((item, finished))

    def execution_failed(self, item: ClaimedRun, error: BaseException) -> None:
        """Record a run whose execution raised as failed, unless its outcome is already known."""
        if not item.over:
            item.over = True
            self.done.append((item, execution_failed(item, error, self.clock)))

    def leave_to_others(self, stalled: float) -> None:
        """Release runs that have waited long while every thread is busy, because other workers may have idle
        threads. At the pace of earlier runs, all would be claimed again at once, so runs count as slow until they
        prove faster."""
        with self._changing:
            parked = self.suspects.take_back(stalled)
        self._give_back(parked)
        if self.executor.head() is None or (self.executor.free and not self.shares.threads.divided):
            return
        items = self.executor.take_back(self.clock.monotonic() - stalled)
        self._give_back(items)
        self.shares.stalled(items)
        if items and self.executor.head() is None:
            self.pace.presume_slow()

    def give_back_unstarted(self, timed: Sequence[ClaimedRun] = ()) -> None:
        """Release runs that were claimed and have not started; `timed` are those that wait for their instant."""
        self._give_back([*timed, *self.executor.take_back(), *self.suspects.take_back()])

    def _give_back(self, items: Sequence[ClaimedRun]) -> None:
        for item in items:
            item.over = True
            self.done.append((item, give_back(item, self.clock)))

    def tick(self) -> bool:
        """Run all steps once in the calling thread, for simulations and for callers with their own loop."""
        if self.id is None:
            self.register()
        try:
            self.beat()
            rescued = self.rescue()
        except WorkerGone:
            rescued = 0  # the exchange below registers again
        self.notice()
        return self.record_and_claim() or bool(rescued)


def _may_be_isolated(error: BaseException) -> bool:
    """Return whether to repeat a failed exchange in parts, to find what cannot be stored or claimed."""
    return isinstance(error, Exception) and not isinstance(error, (StoreUnusable, *TRANSIENT))
