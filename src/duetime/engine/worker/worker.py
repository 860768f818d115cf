"""A worker's steps: rescue, claim, execute, record. Each is small and says whether there is more to do."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from duetime.engine.clock import SECOND, Clock, Instant
from duetime.engine.errors import StoreUnavailable, WorkerGone
from duetime.engine.kind import LOCAL, Kind, StopReason
from duetime.engine.model import DueEntry, RunId, WorkerId, lane_of
from duetime.engine.policy.claim import LEAD, Claim
from duetime.engine.policy.evaluation import Answers, Question, evaluate
from duetime.engine.policy.rate_limit import Budget
from duetime.engine.store import ClaimRequest, Store
from duetime.engine.worker.claim_shares import ClaimShares, numbers
from duetime.engine.worker.lease import FailureDetector, Lease
from duetime.engine.worker.poison import Done, count_from, exchange
from duetime.engine.worker.runner import Carrier, ClaimedRun, InlineCarrier, carry_out, give_back
from duetime.engine.worker.store_clock import is_real
from duetime.engine.worker.suspects import Suspects

log = logging.getLogger("duetime.worker")

LONGEST_SLEEP = 1.0
"""Seconds: where another process may write, a wake-up that got lost costs no more than this."""

CONTENDED = Instant(SECOND // 100)
"""Another worker is just claiming what is due: how long to wait instead of asking again and again."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    threads: int = 16
    batch: int = 250
    """The most runs that one transaction claims or records."""
    ahead: float = 0.05
    """Seconds of work that may be claimed beyond what the threads are busy with."""
    lease: float = 10.0
    session: bool = False
    """True for a worker that lives only as long as some client is open."""
    name: str = ""
    known_schema: int = 2**31
    runs_per_hour: Budget | int | None = None
    """Of one owner."""
    retention: float | None = None
    """Seconds after which history is deleted; None keeps it for ever."""
    lead: int = LEAD
    """Microseconds that a run may be claimed ahead of its instant."""


class Worker:
    """Holds runs; knows nothing of threads. One thread at a time calls its steps."""

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
        self.judge = FailureDetector(clock, options.lease, self.watch_interval, store.probe)
        self.hands: dict[RunId, ClaimedRun] = {}
        self.shares = ClaimShares(options.ahead, 4 * options.batch)
        self.done: deque[Done] = deque()
        self.claiming = True
        self.draining = False
        """True: nothing is begun any more; what was not started is given back."""
        self.suspects = Suspects(clock)
        self.carrier: Carrier = InlineCarrier(self.execute)
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

    # -- life ---------------------------------------------------------------------------------------------------

    def register(self) -> None:
        asked = self.clock.boottime()
        self.id = self.store.register(
            self.name, self.lanes, self.options.session, self.clock.now(), int(self.options.lease * SECOND)
        )
        self.lease.renew(asked)
        self.notice()

    def beat(self) -> None:
        """Shows that this worker lives, and hears which of its runs are asked to stop."""
        worker = self.id
        if worker is None:
            return
        if self.lease.expired():  # a beat after a long stop may come before the timer that minds the lease
            self.let_go(StopReason.LEASE)
        items = list(self.hands.values())
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
            if (held := self.hands.get(run)) is not None:
                held.stop.set(StopReason.CANCELLED)

    def rescue(self) -> int:
        """Gives back what dead workers held. Whoever's own lease is over judges nobody: what kept it from beating may
        keep the others from it too."""
        if self.lease.expired():
            self.judge.forget()
            return 0
        try:
            workers = self.store.workers()
            dead_workers = self.judge.observe(workers, self.id)
        except StoreUnavailable:
            self.judge.forget()
            raise
        self.suspects.look_at(row.id for row in workers)
        given_back = 0
        for dead in dead_workers:
            count = self.store.rescue(dead.id, dead.beat, self.clock.now())
            if count is not None:
                given_back += count
                self.suspects.start_small()
                log.warning("worker %s (%s) is dead; %s of its runs were given back", dead.id, dead.name, count)
        return given_back

    def let_go(self, reason: StopReason) -> None:
        """Tells every run in hand to stop."""
        for item in list(self.hands.values()):
            item.stop.set(reason)

    def re_register(self, gone: WorkerId) -> None:
        """Others took this worker for dead: what it holds is theirs, and its outcomes would match no row.

        Beat and exchange may both hear of one death; the second one must not end the new life.
        """
        if self.id != gone:
            return
        log.warning("worker %s was taken for dead; it drops %s runs and registers anew", gone, len(self.hands))
        self.let_go(StopReason.LEASE)
        self.carrier.take_back()
        self._strays += [item for item in self.hands.values() if item.begun]
        self.hands.clear()
        self.suspects.forget()
        self.id = None
        self.register()

    # -- looking ------------------------------------------------------------------------------------------------

    def notice(self) -> None:
        """Something may be due earlier than was known."""
        self._notices += 1
        self._look_at = Instant(0)

    def seconds_to_look(self) -> float:
        """How long nothing can become claimable, as far as is known."""
        if self._look_at is None or self._stuck or not self.claiming or self.lease.expired():
            return LONGEST_SLEEP
        return min(LONGEST_SLEEP, max(0.0, (self._look_at - self.clock.now()) / SECOND))

    def _wants(self, now: Instant, ending: Set[RunId]) -> list[ClaimRequest]:
        """What there is room for. The runs that are `ending` free their slots in the transaction that claims."""
        self._stuck = False
        if not self.claiming or self.lease.expired():
            return []
        stale = self.clock.monotonic() - self._looked >= LONGEST_SLEEP
        if not stale and (self._look_at is None or self._look_at > now):
            return []
        held = len(self.hands) - len(ending)
        room = min(self.options.batch, self._slots() - held)
        exact = min(room, self.carrier.free, self._threads() - held)
        solo = min(self.suspects.room(), room)
        self._look_for_others()
        self.shares.count(numbers(item for run, item in self.hands.items() if run not in ending))
        wants = self._wants_of(now, exact, solo, room)
        # Whatever was not asked for may be due: it is looked for again as soon as something ends.
        self._blocked = len(wants) < len(self.lanes) or bool(self.shares.full(wants))
        self._stuck = not wants
        return wants

    def _look_for_others(self) -> None:
        """While nobody but `local` has anything in the queue, there is nothing to share."""
        now = self.clock.monotonic()
        if now - self._asked_for_others >= LONGEST_SLEEP:
            self._asked_for_others = now
            self.shares.threads.alone = not self.store.has_other_owners(LOCAL, self.lanes)

    def _wants_of(self, now: Instant, exact: int, solo: int, room: int) -> list[ClaimRequest]:
        """First what needs an idle thread, then suspects, then the rest; each sort shares its limit among all kinds."""
        lead, kinds = self.options.lead, self.shares.order(self.kinds)
        soon = Instant(now + lead)
        alone = [self._want(kind, lane_of(kind, at_most_once=True), exact, exact, now, "room:exact") for kind in kinds]
        self._giving_way -= {self.shares.group(kind) for kind, want in zip(kinds, alone, strict=True) if want.limit > 0}
        suspects = [self._want(kind, lane_of(kind, suspect=True), solo, room, now, "room:solo") for kind in kinds]
        others = [kind for kind in kinds if self.shares.group(kind) not in self._giving_way]
        rest = [self._want(kind, lane_of(kind), room, room, soon, "room")._replace(lead=lead) for kind in others]
        bound = self._server_bound
        return [want._replace(server_bound=bound) for want in (*alone, *suspects, *rest) if want.limit > 0]

    def _want(self, kind: str, lane: str, limit: int, room: int, until: Instant, share: str) -> ClaimRequest:
        turns = self.shares.turns(kind, lane, at_once=share == "room:exact")
        return ClaimRequest(lane, self.shares.limit(kind, limit, room), until, share, turns)

    def _threads(self) -> int:
        """Those that are ours to fill: a run that was dropped keeps its thread until it returns."""
        if self._strays:
            self._strays = [item for item in self._strays if not item.over]
        return self.carrier.size - len(self._strays)

    def _slots(self) -> int:
        """As many as there are threads, and what the threads get through in a moment: long work is left to others."""
        size = self._threads()
        return size + min(4 * self.options.batch, int(size * self.options.ahead / max(self._pace, 1e-6)))

    def _look_ahead(self, wants: Sequence[ClaimRequest], now: Instant, seen: int) -> None:
        """When to look next: at once while something is due, else when the first entry becomes claimable."""
        self._looked = self.clock.monotonic()
        before = self._notices
        if seen and seen >= max(want.limit for want in wants) - self.shares.threads.reserve:
            self._look_at = Instant(0)  # there is more, most likely: no need to ask
        else:
            self._look_at = self._next_look(wants, now, seen)
        if self._notices != before:  # in this order: a notice between the two must not be overwritten
            self._look_at = Instant(0)
        self._giving_way = self._should_give_way(wants, now)

    def _next_look(self, wants: Sequence[ClaimRequest], now: Instant, seen: int) -> Instant | None:
        entry = self.store.earliest([want.lane for want in wants], self.shares.full(wants))
        if entry is None:
            return None
        look_at = self._claimable_at(entry)
        if seen or look_at > now:
            return look_at
        if entry.at <= now:
            return Instant(self.clock.now() + CONTENDED)
        return self._decided_at(entry, wants, now)

    def _decided_at(self, entry: DueEntry, wants: Sequence[ClaimRequest], now: Instant) -> Instant:
        """When to look where the first entry could be claimed ahead and was not: its schedule is busy, so that it is
        decided at its instant, or another worker is just claiming it. What comes behind it may be claimable before."""
        lanes, ahead = [want.lane for want in wants], Instant(now + self.options.lead)
        behind = self.store.earliest(lanes, self.shares.full(wants), ahead)
        return entry.at if behind is None else min(entry.at, self._claimable_at(behind))

    def _should_give_way(self, wants: Sequence[ClaimRequest], now: Instant) -> frozenset[str]:
        """Work that needs an idle thread would wait for ever beside a line that is always filled up again. Returns the
        groups of kinds that have such work."""
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
        """Only the plain lane of a kind may be claimed ahead of the instant."""
        return entry.at if ":" in entry.lane else Instant(entry.at - self.options.lead)

    # -- exchanging ---------------------------------------------------------------------------------------------

    def exchange(self) -> bool:
        """Records what finished and claims what is due, in one transaction. True when it should be called again."""
        worker = self._living()
        if self._doubt:
            self._reconcile()
        now = self.clock.now()
        self._mind_the_clock(now)
        batch = self._next_batch(worker)
        if released := self.suspects.ended(batch):
            self.carrier.put(released)
        if self._blocked and (batch or self.carrier.free):
            self.notice()
        wants = self._wants(now, {item.id for item, _ in batch})
        if not batch and not wants:
            return False
        try:
            claims, seen, postponed = self._store(worker, now, batch, wants)
        except WorkerGone:
            self.re_register(worker)
            return True
        except BaseException:
            self._doubt = True
            self.done.extendleft(reversed(batch))
            raise
        self.shares.saw([claim.definition.owner for claim in claims])
        self._accept(claims)
        if wants:
            self._answers = evaluate(postponed, now) if postponed else {}
            self._look_ahead(wants, now, seen)
        return bool(batch or seen)

    def _living(self) -> WorkerId:
        if self.id is not None and self.id == self._gone:
            self.re_register(self.id)
        if self.id is None:
            self.register()
        assert self.id is not None
        return self.id

    def _next_batch(self, worker: WorkerId) -> list[Done]:
        """What finished, without what belonged to an earlier life: nobody waits for that."""
        batch = [self.done.popleft() for _ in range(min(len(self.done), 2 * self.options.batch))]
        return [pair for pair in batch if pair[0].worker == worker]

    def _store(
        self, worker: WorkerId, now: Instant, batch: Sequence[Done], wants: Sequence[ClaimRequest]
    ) -> tuple[list[Claim], int, Sequence[Question]]:
        stored = exchange(self.store, worker, now, batch, wants, self.options.runs_per_hour, self._answers)
        for item, _ in batch:
            if self.hands.get(item.id) is item:  # given back and claimed again, it is in hand as another item
                del self.hands[item.id]
        return stored

    def _accept(self, claims: Sequence[Claim]) -> None:
        """Start what is due by now, and the rest at its instant: how long the commit took is part of the wait."""
        assert self.id is not None
        now, since = self.clock.now(), self.clock.monotonic()
        items = [ClaimedRun(claim, self.id, since) for claim in claims]
        self.hands.update([(item.id, item) for item in items])
        items = self.suspects.admit(items)
        ready = [item for item in items if item.claim.at <= now]
        if ready:
            self.carrier.put(ready)
        for item in items if len(ready) < len(items) else ():
            if item.claim.at > now:  # no longer than the lead, should the clock be set back just now
                self.start_later(min(item.claim.at - now, self.options.lead) / SECOND, item)

    def start_later(self, seconds: float, item: ClaimedRun) -> None:
        """Without a timer there is nobody to wait for the instant: it has come."""
        self.carrier.put([item])

    def _reconcile(self) -> None:
        """After a commit of unknown outcome: start what the store says is ours and we do not have."""
        assert self.id is not None
        lost = [claim for claim in self.store.held(self.id) if not self._has(claim)]
        self._doubt = False
        self.notice()
        self._accept(lost)

    def _has(self, claim: Claim) -> bool:
        """By its fence: a run may have been recorded, and claimed once more, by the commits that were in doubt."""
        item = self.hands.get(claim.run.id)
        return item is not None and item.claim.run.fence == claim.run.fence

    def _mind_the_clock(self, now: Instant) -> None:
        """A clock that was ahead has claimed into the future: those schedules count from now again."""
        back = self._last_now == 0 or now < self._last_now - SECOND
        self._last_now = now
        if back:
            count_from(self.store, now, self.options.batch)

    # -- executing ----------------------------------------------------------------------------------------------

    def execute(self, item: ClaimedRun) -> None:
        """Carries one run out. Past its own deadline a worker begins nothing: the run may be somebody else's."""
        if self.draining or self.lease.expired() or item.stop.is_set():
            self.done.append((item, give_back(item, self.clock)))
            return
        begun = self.clock.monotonic()
        finished = carry_out(item, self.kinds, self.clock, self.lease)
        took = self.clock.monotonic() - begun
        self._pace += (min(1.0, took) - self._pace) * 0.05
        if not self.shares.threads.alone:
            self.shares.took(item.claim.definition.owner, took)
        item.over = True
        self.done.append((item, finished))

    def leave_to_others(self, stalled: float) -> None:
        """What has stood in line for long while every thread is busy: others may have idle ones.

        The pace of what ran before would invite all of it back at once: it counts as slow until it proves faster.
        """
        self._give_back(self.suspects.take_back(stalled))
        if self.carrier.head() is None or (self.carrier.free and not self.shares.threads.divided):
            return
        items = self.carrier.take_stalled(self.clock.monotonic() - stalled)
        self._give_back(items)
        self.shares.stalled(items)
        if items and self.carrier.head() is None:
            self._pace = 1.0

    def give_back_unstarted(self) -> int:
        return self._give_back([*self.carrier.take_back(), *self.suspects.take_back()])

    def _give_back(self, items: Sequence[ClaimedRun]) -> int:
        self.done.extend((item, give_back(item, self.clock)) for item in items)
        return len(items)

    def tick(self) -> bool:
        """All steps once, in the calling thread: for simulations and for whoever brings their own loop."""
        if self.id is None:
            self.register()
        try:
            self.beat()
        except WorkerGone:
            pass  # the exchange below starts anew
        rescued = self.rescue()
        self.notice()
        return self.exchange() or bool(rescued)
