"""The steps of a worker: register, beat, rescue, claim, execute and record."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from duetime.engine.clock import SECOND, Clock, Instant
from duetime.engine.errors import TRANSIENT, StoreUnavailable, StoreUnusable, WorkerGone
from duetime.engine.kind import Kind, StopReason, lane_names
from duetime.engine.model import Cause, RunId, WorkerId
from duetime.engine.outcome import Returned
from duetime.engine.policy.catch_up import LEAD, Answers, evaluate
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.fair_share import Budget
from duetime.engine.policy.options import NO_OPTIONS, is_gated, policy_for_ending
from duetime.engine.policy.record import Finished
from duetime.engine.policy.rows import RunEvent
from duetime.engine.store import ClaimRequest, RecordedAndClaimed, Store
from duetime.engine.value_class import dataclass
from duetime.engine.worker import claim_overlap
from duetime.engine.worker.capture import CURRENT
from duetime.engine.worker.claim_overlap import ClaimOverlap, ClaimTurn
from duetime.engine.worker.claim_requests import LONGEST_SLEEP, ClaimRequests, Pace
from duetime.engine.worker.gate import check_gate
from duetime.engine.worker.held_runs import HeldRuns
from duetime.engine.worker.lease import FailureDetector, Lease
from duetime.engine.worker.poison import Done, count_from, record_and_claim_in_parts
from duetime.engine.worker.run_logs import LOG_BYTES, RunLogs
from duetime.engine.worker.runner import (
    ClaimedRun,
    InlineExecutor,
    RunExecutor,
    end_without_start,
    execute_run,
    failure_of,
    load_event,
)
from duetime.engine.worker.shares import ClaimShares

log = logging.getLogger("duetime.worker")
_BY_TIME = frozenset({Cause.TRIGGER.value, Cause.MANUAL.value})
"""The causes of runs that no event started."""


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
    log_bytes: int = LOG_BYTES
    """Bytes that are kept of what one attempt of a run writes; 0 keeps nothing."""
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
        self.id: WorkerId | None = None
        self.lease = Lease(clock, options.lease)
        self.failure_detector = FailureDetector(clock, options.lease, self.watch_interval, store.probe)
        self.held = HeldRuns(clock)
        self.overlap = ClaimOverlap(self.held.changing)
        self.logs = RunLogs(options.log_bytes, clock)
        self._written = self.logs.open
        # Across a network, every transaction has a fixed cost. A thread that only claims never waits for a record, so
        # it stays ahead with fewer batches.
        self.batch = options.batch or (500 if store.writes_overlap else 250)
        most_ahead = (3 if store.writes_overlap else 4) * self.batch
        self.pace = Pace(clock, options.ahead, most_ahead)
        self.shares = ClaimShares(options.ahead, most_ahead)
        self.requests = ClaimRequests(store, lane_names(kinds), clock, self.shares, options.lead)
        self.claiming = True
        self.draining = False
        """True: no further run is started, and runs that have not started are released."""
        self.executor: RunExecutor = InlineExecutor(self.execute)
        self.is_alone = False
        """True if no other worker was registered at the last read."""
        self._gone: WorkerId | None = None
        """The registration that others have declared dead. The heartbeat and the exchange may both report the same
        death: the second report does not end the new registration, whose id is another one."""
        self._doubt = False
        """True: nobody knows whether the last commit was written, so the store may attribute more runs to this
        worker than it holds."""
        self._isolating = False
        """True: the turn of the next claim is not passed on, because the last claim failed and its cause has to be
        isolated."""
        self._last_now = Instant(0)
        self._answers: Answers = {}
        """Answers to the questions that the last claim postponed."""

    @property
    def claimed(self) -> dict[RunId, ClaimedRun]:
        return self.held.claimed

    @property
    def lanes(self) -> list[str]:
        return self.requests.lanes

    @property
    def watch_interval(self) -> float:
        return min(0.5, self.options.lease / 20)

    # -- liveness -----------------------------------------------------------------------------------------------

    def register(self) -> None:
        begun = self.clock.boottime()
        self.id = self.store.register(
            self.options.name,
            [*self.lanes, *self.options.published],
            self.options.session,
            self.clock.now(),
            int(self.options.lease * SECOND),
        )
        self.lease.renew(begun)
        self.notice()

    def beat(self) -> None:
        """Send a heartbeat with progress reports, and stop the runs that were asked to stop."""
        worker = self.id
        if worker is None:
            return
        if self.lease.expired():  # a heartbeat after a long pause may come before the timer that checks the lease
            self.stop_all(StopReason.LEASE)
        items = list(self.held.claimed.values())
        reports = {item.id: item.report for item in items if not item.reported and item.report is not None}
        not_begun = [item.id for item in items if not item.begun]
        begun = self.clock.boottime()
        try:
            answer = self.store.beat(worker, self.clock.now(), reports, not_begun)
        except WorkerGone:
            self._gone = worker
            raise
        self.lease.renew(begun)
        for item in items:
            item.reported = item.reported or item.report == reports.get(item.id)
        if answer.floor > self.options.known_schema:
            self.claiming = False
            text = "the store was upgraded and this worker is too old to write to it; install a newer Duetime"
            raise StoreUnusable(text)  # a worker that kept sending heartbeats would keep others from taking over
        for run in answer.stop:
            if (held := self.held.claimed.get(run)) is not None:
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
        self.held.suspects.look_at(row.id for row in workers)
        self.is_alone = all(row.id == self.id for row in workers)
        given_back = 0
        if dead_workers:
            self.beat()
        for dead in dead_workers:
            count = self.store.rescue(dead.id, dead.beat, self.clock.now())
            if count is not None:
                given_back += count
                self.held.suspects.start_small()
                log.warning("worker %s (%s) is dead; %s of its runs were given back", dead.id, dead.name, count)
        return given_back

    def stop_all(self, reason: StopReason) -> None:
        """Tell every claimed run to stop."""
        for item in list(self.held.claimed.values()):
            item.stop.set(reason)

    def re_register(self) -> None:
        """Register again after others declared this worker dead: its runs are theirs, and its outcomes match no row."""
        lost = "worker %s was declared dead by another worker; it drops %s runs and registers again"
        log.warning(lost, self.id, len(self.held.claimed))
        self.stop_all(StopReason.LEASE)
        self.executor.take_back()
        self.held.drop()
        self.id = None
        self.register()

    # -- choosing what to claim ---------------------------------------------------------------------------------

    def notice(self) -> None:
        """Check the queue at once, because something may be due earlier than was known."""
        self.requests.notice()

    def seconds_to_look(self, *, latest: bool = False) -> float:
        """Return for how many seconds nothing can become claimable, as far as is known; with `latest`, for how many to
        wait if no other exchange comes first, because that one claims as well."""
        if not self.claiming or self.lease.expired():
            return LONGEST_SLEEP
        return self.requests.seconds_to_look(latest=latest)

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
            with self.held.changing:
                claimed = list(self.held.claimed.values())
                committing, ends = self.overlap.committing(), self.overlap.ends()
            holding = [item for item in claimed if not item.over]
            held = len(holding) + committing.total()
            self.requests.count(holding, committing)
        else:
            holding, ends = [item for item in list(self.held.claimed.values()) if not item.over], {}
            held = len(holding)
            self.requests.count(holding)
        threads = self.executor.size - self.held.count_strays()
        # Hold one run per thread plus what will end in a moment; leave long work to other workers.
        slots = threads + self.pace.runs_ahead(threads, held)
        capacity = min(self.batch, max(slots - held, self.shares.idle))
        exact = min(capacity, self.executor.free, threads - held)
        return self.requests.choose(now, exact, min(self.held.suspects.capacity(), capacity), capacity, ends)

    # -- recording and claiming ----------------------------------------------------------------------------------
    #
    # `record_and_claim` does both in one transaction, in a single thread. `claim` and `record` do one each, in threads
    # of their own.

    def record_and_claim(self) -> bool:
        """Record what finished and claim what is due, in one transaction. Return whether to call it again."""
        worker = self._ensure_registered()
        now = self._now_without_doubt()
        batch = self._take_finished(worker)
        if self.requests.blocked and (batch or self.executor.free):
            self.notice()
        try:
            wants = self._wants(now)  # this may read the store
        except BaseException:
            self.held.put_back(batch)
            raise
        if not batch and not wants:
            return self.requests.stuck and self._expand_if_stuck(now)
        budget, answers = self.options.runs_per_hour, self._answers
        try:
            claims, seen, postponed = record_and_claim_in_parts(self.store, worker, now, batch, wants, budget, answers)
        except WorkerGone:
            self._gone = worker
            self._ensure_registered()
            return True
        except BaseException:
            self._doubt = True
            self.held.put_back(batch)
            raise
        self._forget(batch)
        if wants:
            self._accept(claims, worker)
            self._answers = evaluate(postponed, now, answers) if postponed else {}
            self._look_ahead(wants, now, claims, seen)
        if self.store.events_wait:
            return self._expand(now)
        return bool(batch or seen)

    def claim(self) -> bool:
        """Claim what is due, while another thread may call `record`. Return whether to call this again."""
        with self.overlap.take() as turn:
            return self._claim_in(turn)

    def _claim_in(self, turn: ClaimTurn) -> bool:
        worker = self._ensure_registered()
        isolating = self._isolating
        if isolating:
            self.overlap.wait_for_commits()
        now = self._now_without_doubt()
        unrecorded = {item.claim.definition.id for item in list(self.held.claimed.values()) if item.over}
        if self.requests.blocked and self.executor.free:
            self.notice()
        wants = self._wants(now)
        if not wants:
            return self.requests.stuck and self._expand_if_stuck(now)
        budget, answers = self.options.runs_per_hour, self._answers
        planned = None if isolating else partial(self._pass_on, turn, wants, now)
        try:
            claims, seen, postponed = record_and_claim_in_parts(
                self.store, worker, now, (), wants, budget, answers, unrecorded, planned
            )
        except WorkerGone:
            self._gone = worker
            if not turn.passed:  # otherwise, the thread that has the turn registers again
                self._ensure_registered()
            return True
        except BaseException as error:
            self._doubt = True
            if isolating or not isinstance(error, Exception) or isinstance(error, (StoreUnusable, *TRANSIENT)):
                raise
            self._isolating = True  # the exchange is repeated in parts, to find what cannot be claimed
            return True
        self._accept(claims, worker, turn)
        if isolating:
            self._isolating = False
        if not turn.passed:
            self._answers = evaluate(postponed, now, answers) if postponed else {}
            self._look_ahead(wants, now, claims, seen)
        if self.store.events_wait:
            return self._expand(now)
        return bool(seen)

    def _expand(self, now: Instant) -> bool:
        """Turn events that wait into runs, and return whether to claim now. What cannot be written is tried again with
        every look at the queue: it must not end the worker."""
        self.store.events_wait = False
        try:
            is_done = self.store.expand_events(now)
        except (StoreUnusable, *TRANSIENT):
            raise
        except Exception:
            log.exception("events could not be turned into runs")
            return False
        if is_done:
            self.notice()
        return is_done

    def _expand_if_stuck(self, now: Instant) -> bool:
        """Turn events into runs while all threads are busy, which keeps the worker from asking for work."""
        return self.requests.is_noticed() and self.store.has_open_events() and self._expand(now)

    def _pass_on(
        self, turn: ClaimTurn, wants: Sequence[ClaimRequest], now: Instant, planned: RecordedAndClaimed
    ) -> None:
        """Let another thread plan the next claim, if more is due and no part of this claim has to be accepted first."""
        if turn.passed or planned.postponed or len(planned.claims) < claim_overlap.MIN_OVERLAPPED_CLAIMS:
            return
        if not self.requests.expects_more(wants, planned.seen) or any(claim.run.deaths for claim in planned.claims):
            return
        self._answers = {}
        self._look_ahead(wants, now, planned.claims, planned.seen)
        self.overlap.pass_on(turn, planned.claims)

    def _look_ahead(self, wants: Sequence[ClaimRequest], now: Instant, claims: Sequence[Claim], seen: int) -> None:
        """Decide when to claim next, and for whom, after a claim."""
        self.shares.saw([claim.definition.owner for claim in claims])
        self.requests.look_ahead(wants, now, seen)

    def record(self) -> bool:
        """Record what finished, while another thread may call `claim`. Return whether to call this again. This never
        registers the worker again; only the thread that claims does, so that no claim is accepted for a different
        registration."""
        worker = self.id
        batch = [] if worker is None else self._take_finished(worker)
        if worker is None or not batch:
            return worker != self.id and bool(self.held.done)  # outcomes of a new registration are still in the list
        try:
            record_and_claim_in_parts(self.store, worker, self.clock.now(), batch, (), self.options.runs_per_hour)
        except WorkerGone:
            self._gone = worker
            raise
        except BaseException:
            self.held.put_back(batch)
            raise
        self._forget(batch)
        if self.requests.blocked:
            self.notice()
        return True

    def _take_finished(self, worker: WorkerId) -> list[Done]:
        batch, released = self.held.take_finished(worker, 2 * self.batch)
        if released:
            self.executor.put(released)
        if self._written and batch:
            self.logs.store_ended(self.store, [item for item, _ in batch])
        return batch

    def _forget(self, batch: Sequence[Done]) -> None:
        self.pace.recorded += len(batch)
        self.held.remove(batch)

    def _ensure_registered(self) -> WorkerId:
        """Return the id of this worker, which registers first if it is new or was declared dead."""
        if self.id is not None and self.id == self._gone:
            self.overlap.wait_for_commits()
            self.re_register()
        if self.id is None:
            self.register()
        assert self.id is not None
        return self.id

    def _now_without_doubt(self) -> Instant:
        """Return the time of an exchange, after removing doubts about what the worker holds and about the clock:
        schedules are rewound at the start and whenever the clock goes back, because a clock that was ahead claimed into
        the future."""
        if self._doubt:
            self._reconcile()
        now, last = self.clock.now(), self._last_now
        self._last_now = now
        if last == 0 or now < last - SECOND:
            count_from(self.store, self.clock, self.batch)
        return now

    def _accept(self, claims: Sequence[Claim], worker: WorkerId, turn: ClaimTurn | None = None) -> None:
        """Start what is due by now, and the rest at its instant; the duration of the commit is part of the wait."""
        now, since = self.clock.now(), self.clock.monotonic()
        items = self.held.add([ClaimedRun(claim, worker, since) for claim in claims], turn)
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
        claimed = list(self.held.claimed.items())
        known = {(run, item.claim.run.fence) for run, item in claimed}
        lost = [claim for claim in self.store.held(self.id) if (claim.run.id, claim.run.fence) not in known]
        self._doubt = False
        self.notice()
        self._accept(lost, self.id)

    # -- executing ----------------------------------------------------------------------------------------------

    def execute(self, item: ClaimedRun) -> None:
        """Execute one run. With an expired lease, a worker starts nothing, because the run may belong to another
        worker."""
        if self.draining or self.lease.expired() or item.stop.is_set():
            self._give_back([item])
            return
        begun = self.clock.monotonic()
        CURRENT.set((self.logs, item))
        if item.claim.definition.policy != NO_OPTIONS or item.claim.run.cause not in _BY_TIME:
            finished = self._execute_with_options(item, item.claim.definition.policy)
        else:
            finished = execute_run(item, self.kinds, self.clock, self.lease)
        took = self.clock.monotonic() - begun
        self.pace.took(took)
        if not self.shares.threads.alone:
            self.shares.took(item.claim.definition.owner, took)
        if self._written:
            self.logs.finish(item)
        item.over = True
        self.held.done.append((item, finished))

    def _execute_with_options(self, item: ClaimedRun, policy: str) -> Finished:
        event = load_event(item, self.store, self.clock)
        if isinstance(event, Finished):
            return event
        gift = check_gate(item, self.kinds, self.store, self.clock, self.lease, event) if is_gated(policy) else None
        if isinstance(gift, Finished):
            return gift
        if policy_for_ending(policy).is_observed:
            self.store.tell_observer([RunEvent(item.claim.definition, item.claim.run)])
        return execute_run(item, self.kinds, self.clock, self.lease, event, gift)

    def execution_failed(self, item: ClaimedRun, error: BaseException) -> None:
        """Record a run whose execution raised outside its kind as failed, unless its outcome is already known: it must
        not stay running forever."""
        if not item.over:
            item.over = True
            self.held.done.append((item, end_without_start(item, failure_of(item, error), self.clock)))

    def leave_to_others(self, stalled: float) -> bool:
        """Release runs that have waited long while every thread is busy, because other workers may have idle
        threads. At the pace of earlier runs, all would be claimed again at once, so runs count as slow until they
        prove faster. Return whether there were any."""
        with self.held.changing:
            parked = self.held.suspects.take_back(stalled)
        self._give_back(parked)
        if self.executor.head() is None or (self.executor.free and not self.shares.threads.divided):
            return bool(parked)
        items = self.executor.take_back(self.clock.monotonic() - stalled)
        self._give_back(items)
        self.shares.stalled(items)
        if items and self.executor.head() is None:
            self.pace.presume_slow()
        return bool(parked or items)

    def give_back_unstarted(self, timed: Sequence[ClaimedRun] = ()) -> None:
        """Release runs that were claimed and have not started; `timed` are those that wait for their instant."""
        self._give_back([*timed, *self.executor.take_back(), *self.held.suspects.take_back()])

    def _give_back(self, items: Sequence[ClaimedRun]) -> None:
        for item in items:
            item.over = True
            self.held.done.append((item, end_without_start(item, Returned(), self.clock)))

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
