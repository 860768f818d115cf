"""The steps of a worker: register, beat, rescue, claim, execute and record."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from duetime.engine.clock import SECOND, Clock, Instant, is_real
from duetime.engine.errors import StoreUnavailable, WorkerGone
from duetime.engine.kind import LOCAL, Kind, StopReason
from duetime.engine.model import DueEntry, RunId, WorkerId, lane_of
from duetime.engine.policy.claim import LEAD, Answers, Claim, evaluate
from duetime.engine.policy.fair_share import Budget
from duetime.engine.store import ClaimRequest, Store
from duetime.engine.worker.lease import FailureDetector, Lease
from duetime.engine.worker.poison import Done, Suspects, count_from, record_and_claim_in_parts
from duetime.engine.worker.runner import ClaimedRun, InlineExecutor, RunExecutor, execute_run, give_back
from duetime.engine.worker.shares import ClaimShares, kind_and_owner

log = logging.getLogger("duetime.worker")

LONGEST_SLEEP = 1.0
"""Seconds. If a wake-up for a write by another process is lost, the delay is no longer than this."""

CONTENDED = Instant(SECOND // 100)
"""How long to wait, instead of asking repeatedly, while another worker is claiming what is due."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    threads: int = 16
    batch: int = 250
    """The most runs that one transaction claims; it records up to twice as many."""
    ahead: float = 0.05
    """Seconds of work that may be claimed beyond what the threads are busy with."""
    lease: float = 10.0
    session: bool = False
    """True for a worker that lives only as long as some client is open."""
    name: str = ""
    known_schema: int = 2**31
    runs_per_hour: Budget | int | None = None
    """The most runs of one owner in an hour."""
    retention: float | None = None
    """Seconds after which history is deleted; None keeps it for ever."""
    lead: int = LEAD
    """Microseconds that a run may be claimed ahead of its instant."""


class Worker:
    """Holds claimed runs and starts no threads. One thread at a time calls each step, except `execute`.

    Where the store lets two transactions write at the same time, one thread calls `claim` and another one `record`;
    elsewhere, a single thread calls `record_and_claim`.
    """

    def __init__(self, store: Store, kinds: Mapping[str, Kind], clock: Clock, options: WorkerOptions) -> None:
        self.store, self.kinds, self.clock, self.options = store, kinds, clock, options
        self.name = options.name
        self.lanes = [
            lane
            for kind in sorted(kinds)
            for lane in (lane_of(kind), lane_of(kind, at_most_once=True), lane_of(kind, suspect=True))
        ]
        self.id: WorkerId | None = None
        self.lease = Lease(clock, options.lease)
        self.failure_detector = FailureDetector(clock, options.lease, self.watch_interval, store.probe)
        self.claimed: dict[RunId, ClaimedRun] = {}
        self._changing = threading.Lock()
        """Held while claimed runs and suspects are changed, by the thread that claims or by the one that records."""
        # A thread that only claims never waits for a record: it is ahead with fewer runs.
        self._most_ahead = (2 if store.writes_overlap else 4) * options.batch
        self.shares = ClaimShares(options.ahead, self._most_ahead)
        self.done: deque[Done] = deque()
        self.claiming = True
        self.draining = False
        """True: no further run is started; runs that were not started are released."""
        self.suspects = Suspects(clock)
        self.executor: RunExecutor = InlineExecutor(self.execute)
        self._server_bound = is_real(clock)
        self._gone: WorkerId | None = None
        self._strays: list[ClaimedRun] = []
        self._doubt = False
        self._pace = 1.0
        self._look_at: Instant | None = Instant(0)
        self._looked = self._looked_aside = 0.0
        self._notices = 0
        self._blocked = False
        self._stuck = False
        self._giving_way: frozenset[str] = frozenset()
        self._asked_for_others = -LONGEST_SLEEP
        self._last_now = Instant(0)
        self._answers: Answers = {}

    @property
    def watch_interval(self) -> float:
        return min(0.5, self.options.lease / 20)

    # -- liveness -----------------------------------------------------------------------------------------------

    def register(self) -> None:
        asked = self.clock.boottime()
        self.id = self.store.register(
            self.name, self.lanes, self.options.session, self.clock.now(), int(self.options.lease * SECOND)
        )
        self.lease.renew(asked)
        self.notice()

    def beat(self) -> None:
        """Send a heartbeat with progress reports, and stop the runs that somebody asked to stop."""
        worker = self.id
        if worker is None:
            return
        if self.lease.expired():  # a beat after a long pause may precede the timer that checks the lease
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
            log.error("the store was upgraded and this worker is too old to write to it; install a newer Duetime")
        for run in answer.stop:
            if (held := self.claimed.get(run)) is not None:
                held.stop.set(StopReason.CANCELLED)

    def rescue(self) -> int:
        """Release the runs of dead workers and return their number. A worker that cannot beat itself declares nobody
        dead: what kept it from beating may keep the others from beating too."""
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

        Beat and exchange may both report the same death; the second report must not end the new registration.
        """
        if self.id != gone:
            return
        log.warning("worker %s was taken for dead; it drops %s runs and registers anew", gone, len(self.claimed))
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
        self._notices += 1
        self._look_at = Instant(0)

    def seconds_to_look(self) -> float:
        """Return for how many seconds nothing can become claimable, as far as is known."""
        if self._look_at is None or self._stuck or not self.claiming or self.lease.expired():
            return LONGEST_SLEEP
        return min(LONGEST_SLEEP, max(0.0, (self._look_at - self.clock.now()) / SECOND))

    @property
    def needs_room(self) -> bool:
        """Return whether something may be due that was not requested because the threads were busy."""
        return self._blocked or self._stuck

    def _wants(self, now: Instant) -> list[ClaimRequest]:
        """Return what there is room to claim. Runs that are over need no room, though they may not be recorded yet."""
        self._stuck = False
        if not self.claiming or self.lease.expired():
            return []
        monotonic = self.clock.monotonic()
        stale = monotonic - self._looked >= LONGEST_SLEEP
        if not stale and (self._look_at is None or self._look_at > now):
            return []
        holding = [item for item in list(self.claimed.values()) if not item.over]
        held = len(holding)
        if monotonic - self._asked_for_others >= LONGEST_SLEEP:  # without another owner, there is nothing to share
            self._asked_for_others = monotonic
            self.shares.threads.alone = not self.store.has_other_owners(LOCAL, self.lanes)
        self.shares.count(Counter(map(kind_and_owner, holding)))
        # A run that was dropped keeps its thread until it returns.
        self._strays = [item for item in self._strays if not item.over]
        threads = self.executor.size - len(self._strays)
        # Hold one run per thread and what ends in a moment; long work is left to others.
        slots = threads + min(self._most_ahead, int(threads * self.options.ahead / max(self._pace, 1e-6)))
        capacity = min(self.options.batch, max(slots - held, self.shares.idle))
        exact = min(capacity, self.executor.free, threads - held)
        solo = min(self.suspects.capacity(), capacity)
        wants = self._wants_of(now, exact, solo, capacity)
        # What was not requested may be due, so it is requested again as soon as a run ends.
        self._blocked = len(wants) < len(self.lanes) or bool(self.shares.full(wants))
        self._stuck = not wants
        return wants

    def _wants_of(self, now: Instant, exact: int, solo: int, capacity: int) -> list[ClaimRequest]:
        """Request what needs an idle thread, then suspects, then the rest; all kinds share the limit of each group."""
        lead, kinds = self.options.lead, self.shares.order(self.kinds)
        soon = Instant(now + lead)
        alone = [self._want(kind, lane_of(kind, at_most_once=True), exact, exact, now, "slots:exact") for kind in kinds]
        self._giving_way -= {self.shares.group(kind) for kind, want in zip(kinds, alone, strict=True) if want.limit > 0}
        suspects = [self._want(kind, lane_of(kind, suspect=True), solo, capacity, now, "slots:solo") for kind in kinds]
        others = [kind for kind in kinds if self.shares.group(kind) not in self._giving_way]
        rest = [
            self._want(kind, lane_of(kind), capacity, capacity, soon, "slots")._replace(lead=lead) for kind in others
        ]
        bound = self._server_bound
        return [want._replace(server_bound=bound) for want in (*alone, *suspects, *rest) if want.limit > 0]

    def _want(self, kind: str, lane: str, limit: int, capacity: int, until: Instant, share: str) -> ClaimRequest:
        turns = self.shares.turns(kind, lane, at_once=share == "slots:exact")
        return ClaimRequest(lane, self.shares.limit(kind, limit, capacity), until, share, turns)

    def _look_ahead(self, wants: Sequence[ClaimRequest], now: Instant, seen: int) -> None:
        """Set when to look next: at once while something is due, else when the first entry becomes claimable."""
        self._looked = self.clock.monotonic()
        before = self._notices
        if seen and seen >= max(want.limit for want in wants) - self.shares.threads.reserve:
            self._look_at = Instant(0)  # most likely there is more: no query is needed
        else:
            self._look_at = self._next_look(wants, now, seen)
        if self._notices != before:  # checked last: a notice that came meanwhile must not be overwritten
            self._look_at = Instant(0)
        self._giving_way = self._should_give_way(wants, now)

    def _next_look(self, wants: Sequence[ClaimRequest], now: Instant, seen: int) -> Instant | None:
        lanes, full = [want.lane for want in wants], self.shares.full(wants)
        entry = self.store.earliest(lanes, full)
        if entry is None:
            return None
        look_at = self._claimable_at(entry)
        if seen or look_at > now:
            return look_at
        if entry.at <= now:
            return Instant(self.clock.now() + CONTENDED)
        # It could be claimed ahead and was not: its schedule is busy, so it is decided at its instant, or another
        # worker is claiming it. Later entries may be claimable before that.
        behind = self.store.earliest(lanes, full, Instant(now + self.options.lead))
        return entry.at if behind is None else min(entry.at, self._claimable_at(behind))

    def _should_give_way(self, wants: Sequence[ClaimRequest], now: Instant) -> frozenset[str]:
        """Return the groups of kinds with due work that needs an idle thread. Other work gives way to it, because it
        would wait forever beside a queue that is always refilled."""
        asked = {want.lane for want in wants}
        left = {kind: lane for kind in self.kinds if (lane := lane_of(kind, at_most_once=True)) not in asked}
        if not left:
            return frozenset()
        if self._looked - self._looked_aside < 0.05:
            return self._giving_way
        self._looked_aside = self._looked
        return frozenset(group for group in set(map(self.shares.group, left)) if self._has_due(group, left, now))

    def _has_due(self, group: str, lanes: Mapping[str, str], now: Instant) -> bool:
        of_group = [(lane, kind) for kind, lane in lanes.items() if self.shares.group(kind) == group]
        entry = self.store.earliest([lane for lane, _ in of_group], self.shares.blocked(of_group))
        return entry is not None and entry.at <= now

    def _claimable_at(self, entry: DueEntry) -> Instant:
        """Return when an entry can be claimed; only the plain lane of a kind may be claimed ahead of the instant."""
        return entry.at if ":" in entry.lane else Instant(entry.at - self.options.lead)

    # -- recording and claiming ----------------------------------------------------------------------------------

    def record_and_claim(self) -> bool:
        """Record what finished and claim what is due, in one transaction. Return whether to call it again."""
        return self._exchange(recording=True)

    def claim(self) -> bool:
        """Claim what is due, while another thread may call `record`. Return whether to call it again."""
        return self._exchange(recording=False)

    def _exchange(self, *, recording: bool) -> bool:
        worker = self._living()
        if self._doubt:
            self._reconcile()
        now = self.clock.now()
        self._mind_the_clock(now)
        batch = self._take_finished(worker) if recording else []
        unrecorded = (
            () if recording else {item.claim.definition.id for item in list(self.claimed.values()) if item.over}
        )
        if self._blocked and (batch or self.executor.free):
            self.notice()
        wants = self._wants(now)
        if not batch and not wants:
            return False
        try:
            claims, seen, postponed = record_and_claim_in_parts(
                self.store, worker, now, batch, wants, self.options.runs_per_hour, self._answers, unrecorded
            )
        except WorkerGone:
            self.re_register(worker)
            return True
        except BaseException:
            self._doubt = True
            self.done.extendleft(reversed(batch))
            raise
        self._forget(batch)
        if wants:
            self.shares.saw([claim.definition.owner for claim in claims])
            self._accept(claims)
            self._answers = evaluate(postponed, now) if postponed else {}
            self._look_ahead(wants, now, seen)
        return bool(batch or seen)

    def record(self) -> bool:
        """Record what finished, while another thread may call `claim`. Return whether to call it again.

        It never registers anew: only the thread that claims does, so that no claim is accepted for another worker.
        """
        worker = self.id
        batch = [] if worker is None else self._take_finished(worker)
        if worker is None or not batch:
            return False
        try:
            record_and_claim_in_parts(self.store, worker, self.clock.now(), batch, (), self.options.runs_per_hour)
        except WorkerGone:
            self._gone = worker
            raise
        except BaseException:
            self.done.extendleft(reversed(batch))
            raise
        self._forget(batch)
        if self._blocked:
            self.notice()
        return True

    def _take_finished(self, worker: WorkerId) -> list[Done]:
        """Take what finished off the list. Outcomes of an earlier registration are dropped: nobody waits for them."""
        done = [self.done.popleft() for _ in range(min(len(self.done), 2 * self.options.batch))]
        batch = [pair for pair in done if pair[0].worker == worker]
        with self._changing:
            released = self.suspects.ended(batch)
        if released:
            self.executor.put(released)
        return batch

    def _forget(self, batch: Sequence[Done]) -> None:
        with self._changing:
            for item, _ in batch:
                if self.claimed.get(item.id) is item:  # if released and claimed again, it is held as another item
                    del self.claimed[item.id]

    def _living(self) -> WorkerId:
        if self.id is not None and self.id == self._gone:
            self.re_register(self.id)
        if self.id is None:
            self.register()
        assert self.id is not None
        return self.id

    def _accept(self, claims: Sequence[Claim]) -> None:
        """Start what is due by now, and the rest at its instant; the time that the commit took is part of the wait."""
        assert self.id is not None
        now, since = self.clock.now(), self.clock.monotonic()
        items = [ClaimedRun(claim, self.id, since) for claim in claims]
        with self._changing:
            self.claimed.update([(item.id, item) for item in items])
            items = self.suspects.admit(items)
        ready = [item for item in items if item.claim.at <= now]
        if ready:
            self.executor.put(ready)
        for item in items if len(ready) < len(items) else ():
            if item.claim.at > now:  # at most the lead, in case the clock is set back just now
                self.start_later(min(item.claim.at - now, self.options.lead) / SECOND, item)

    def start_later(self, seconds: float, item: ClaimedRun) -> None:
        """Start a run at once, because without a timer nothing waits for its instant. `Engine` replaces this."""
        self.executor.put([item])

    def _reconcile(self) -> None:
        """Start the runs that, after a commit of unknown outcome, the store says are ours and we do not have: by run
        and fence, since commits in doubt may have recorded a run and claimed it again. Ours are listed first: else one
        that is recorded before the store answers would be started once more."""
        assert self.id is not None
        claimed = list(self.claimed.items())
        known = {(run, item.claim.run.fence) for run, item in claimed}
        lost = [claim for claim in self.store.held(self.id) if (claim.run.id, claim.run.fence) not in known]
        self._doubt = False
        self.notice()
        self._accept(lost)

    def _mind_the_clock(self, now: Instant) -> None:
        """Rewind schedules at first and when the clock goes back: a clock that was ahead claimed into the future."""
        back = self._last_now == 0 or now < self._last_now - SECOND
        self._last_now = now
        if back:
            count_from(self.store, now, self.options.batch)

    # -- executing ----------------------------------------------------------------------------------------------

    def execute(self, item: ClaimedRun) -> None:
        """Execute one run. With an expired lease a worker starts nothing: the run may belong to another worker."""
        if self.draining or self.lease.expired() or item.stop.is_set():
            self._give_back([item])
            return
        begun = self.clock.monotonic()
        finished = execute_run(item, self.kinds, self.clock, self.lease)
        took = self.clock.monotonic() - begun
        self._pace += (min(1.0, took) - self._pace) * 0.05
        if not self.shares.threads.alone:
            self.shares.took(item.claim.definition.owner, took)
        item.over = True
        self.done.append((item, finished))

    def leave_to_others(self, stalled: float) -> None:
        """Release runs that have waited for long while every thread is busy: other workers may have idle threads.

        By the pace of earlier runs, all would be claimed again at once: they count as slow until they prove faster.
        """
        with self._changing:
            parked = self.suspects.take_back(stalled)
        self._give_back(parked)
        if self.executor.head() is None or (self.executor.free and not self.shares.threads.divided):
            return
        items = self.executor.take_back(self.clock.monotonic() - stalled)
        self._give_back(items)
        self.shares.stalled(items)
        if items and self.executor.head() is None:
            self._pace = 1.0

    def give_back_unstarted(self) -> None:
        self._give_back([*self.executor.take_back(), *self.suspects.take_back()])

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
