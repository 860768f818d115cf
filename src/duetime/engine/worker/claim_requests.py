"""A worker's requests to the due queue: how much it claims ahead of its threads, and when it checks the queue next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from duetime.engine.clock import SECOND, Clock, Instant, is_real
from duetime.engine.kind import LOCAL
from duetime.engine.model import DueEntry, kind_and_label, lane_of
from duetime.engine.policy.catch_up import LEAD
from duetime.engine.store import ClaimRequest, QueuePosition, Store
from duetime.engine.worker.runner import ClaimedRun
from duetime.engine.worker.shares import SLOW_SECONDS, ClaimShares, kind_and_owner

SUSTAINED_SECONDS = 0.5
"""Seconds of work that may be claimed ahead, at the rate at which runs are recorded; far less than a run may wait for a
thread before it is released."""

LEAST_AHEAD = 64
"""Number of runs that may always be claimed ahead, whatever the rate."""


class Pace:
    """The average duration of recent runs, and the rate at which outcomes are recorded."""

    def __init__(self, clock: Clock, ahead: float, most_ahead: int) -> None:
        """`ahead`: seconds of work that may be claimed beyond what the threads are busy with, at most `most_ahead`
        runs."""
        self._clock, self._ahead, self._most_ahead = clock, ahead, most_ahead
        self.seconds = SLOW_SECONDS
        """The average duration of a run, weighting the latest one with a twentieth."""
        self.recorded = 0
        """Outcomes that were recorded since the start."""
        self._counted = (clock.monotonic(), 0)
        self._sustained = most_ahead

    def took(self, seconds: float) -> None:
        self.seconds += (min(SLOW_SECONDS, seconds) - self.seconds) * 0.05

    def presume_slow(self) -> None:
        """Count runs as slow until they prove faster."""
        self.seconds = SLOW_SECONDS

    def runs_ahead(self, threads: int, held: int) -> int:
        """Return how many runs may be claimed beyond one per thread, while `held` runs are claimed and not finished."""
        ending_soon = int(threads * self._ahead / max(self.seconds, 1e-6))
        return min(self._most_ahead, ending_soon, self._recorded_in_time(held))

    def _recorded_in_time(self, held: int) -> int:
        """Return how many runs are recorded within `SUSTAINED_SECONDS` at the current rate, or the maximum if
        nothing is held and the rate is therefore unknown. On an overloaded machine, runs end quickly and yet wait long
        for a thread."""
        now, (since, before) = self._clock.monotonic(), self._counted
        if not held:
            self._sustained = self._most_ahead
        elif now - since < SUSTAINED_SECONDS / 2:
            return self._sustained
        else:
            self._sustained = max(LEAST_AHEAD, int((self.recorded - before) / (now - since) * SUSTAINED_SECONDS))
        self._counted = now, self.recorded
        return self._sustained


LONGEST_SLEEP = 1.0
"""Seconds. If a wake-up for a write by another process is lost, this is the longest resulting delay."""

CONTENTION_PAUSE = Instant(SECOND // 100)
"""How long to wait, instead of asking repeatedly, while another worker claims what is due."""

PUT_OFF = Instant(LEAD * 3 // 8)
"""How long a claim ahead of its instant may wait for the next exchange, such as one that records a run. It is no whole
number of milliseconds, because work is often due at those, and a claim at the same moment would delay its start."""

RESTART_SECONDS = 0.25
"""Seconds after which a claim starts from the beginning of the queue, even though another thread is claiming there."""


class ClaimRequests:
    """Chooses requests that fit the threads, the suspects and the owners' shares. Only one thread at a time calls
    it."""

    def __init__(self, store: Store, names: Iterable[str], clock: Clock, shares: ClaimShares, lead: int) -> None:
        """`names`: those with which the lanes begin, which are kinds, and kinds with a label; see `lane_names`."""
        self._store, self._names, self._clock, self._shares, self._lead = store, sorted(names), clock, shares, lead
        self._exact = {name: lane_of(name, at_most_once=True) for name in self._names}
        self._solo = {name: lane_of(name, suspect=True) for name in self._names}
        self.lanes = [lane for name in self._names for lane in (name, self._exact[name], self._solo[name])]
        self._is_labelled = any(kind_and_label(name)[1] for name in self._names)
        self.blocked = False
        """True if something may be due that was not requested because there was no capacity for it."""
        self.stuck = False
        """True if nothing was requested because there was no capacity."""
        self._server_bound = is_real(clock)
        self._look_at: Instant | None = Instant(0)
        self._is_ahead = False
        """True if what can be claimed at that instant is due only later, by the lead."""
        self._looked = self._looked_aside = 0.0
        self._notices = self._notices_seen = 0
        self._giving_way: frozenset[str] = frozenset()
        self._asked_for_others = -LONGEST_SLEEP
        self._from_beginning = 0.0

    def notice(self) -> None:
        """Check the queue at once, because something may be due earlier than was known."""
        self._notices += 1
        self._look_at = Instant(0)

    def is_noticed(self) -> bool:
        """Return whether something was noticed since the last call."""
        seen, self._notices_seen = self._notices_seen, self._notices
        return seen != self._notices

    def seconds_to_look(self, *, latest: bool = False) -> float:
        """Return for how many seconds nothing can become claimable, as far as is known; with `latest`, for how many to
        wait if no other exchange comes first, because that one claims as well."""
        if self._look_at is None or self.stuck:
            return LONGEST_SLEEP
        look_at = self._look_at + (min(PUT_OFF, self._lead) if latest and self._is_ahead else 0)
        return min(LONGEST_SLEEP, max(0.0, (look_at - self._clock.now()) / SECOND))

    def is_time_to_look(self, now: Instant) -> bool:
        """Return whether something may be claimable. The queue is checked at least every second, in case a wake-up was
        lost."""
        if self._look_at is not None and self._look_at <= now:
            return True
        monotonic = self._clock.monotonic()
        if monotonic - self._looked < LONGEST_SLEEP:
            return False
        before = self._notices
        entry, has_events = self._store.look_ahead(self.lanes)
        if self._notices != before or (entry is not None and self._claimable_at(entry) <= now):
            return True
        if has_events:  # of which nobody was told, or which a process that ended has left
            return True
        self._looked = monotonic
        self._look_at = None if entry is None else self._claimable_at(entry)
        self._is_ahead = entry is not None and self._look_at != entry.at
        return False

    def count(self, holding: Sequence[ClaimedRun], committing: Mapping[tuple[str, str], int] = {}) -> None:
        """Count the runs that are held or being committed, by kind and owner; the shares depend on these counts."""
        monotonic = self._clock.monotonic()
        if monotonic - self._asked_for_others >= LONGEST_SLEEP:  # without another owner, there is nothing to share
            self._asked_for_others = monotonic
            self._shares.threads.alone = not self._store.has_other_owners(LOCAL, self.lanes)
        held = Counter(map(kind_and_owner, holding))
        held.update(committing)
        self._shares.count(held)

    def choose(
        self, now: Instant, exact: int, solo: int, capacity: int, ends: Mapping[str, QueuePosition] = {}
    ) -> list[ClaimRequest]:
        """Request work that needs an idle thread (at most `exact`), then suspects (`solo`), then the rest (`capacity`).

        `ends` says, by lane, how far another thread is currently claiming the rest: skipping what it has locked costs
        as much as claiming it. Entries that were added before that position are found by an occasional request from the
        beginning.
        """
        wants = self._wants_of(now, exact, solo, capacity)
        monotonic = self._clock.monotonic()
        if not ends or monotonic - self._from_beginning > RESTART_SECONDS:
            self._from_beginning = monotonic
        else:
            wants = [want._replace(after=ends.get(want.lane)) for want in wants]
        # Work that was not requested may be due, so it is requested again as soon as a run ends.
        self.blocked = len(wants) < len(self.lanes) or bool(self._shares.full(wants))
        self.stuck = not wants
        return wants

    def _wants_of(self, now: Instant, exact: int, solo: int, capacity: int) -> list[ClaimRequest]:
        """Return the requests of all kinds; the kinds of a group share its limit."""
        if self._is_labelled:
            self._names.reverse()  # so that neither work with a label nor work without one always comes first
        lead, kinds = self._lead, self._shares.order(self._names)
        soon = Instant(now + lead)
        alone = [self._want(kind, self._exact[kind], exact, exact, now, "slots:exact") for kind in kinds]
        self._giving_way -= {
            self._shares.group(kind) for kind, want in zip(kinds, alone, strict=True) if want.limit > 0
        }
        suspects = [self._want(kind, self._solo[kind], solo, capacity, now, "slots:solo") for kind in kinds]
        others = [kind for kind in kinds if self._shares.group(kind) not in self._giving_way]
        rest = [self._want(kind, kind, capacity, capacity, soon, "slots")._replace(lead=lead) for kind in others]
        bound = self._server_bound
        return [want._replace(server_bound=bound) for want in (*alone, *suspects, *rest) if want.limit > 0]

    def _want(self, kind: str, lane: str, limit: int, capacity: int, until: Instant, share: str) -> ClaimRequest:
        turns = self._shares.turns(kind, lane, at_once=share == "slots:exact")
        return ClaimRequest(lane, self._shares.limit(kind, limit, capacity), until, share, turns)

    def expects_more(self, wants: Sequence[ClaimRequest], seen: int) -> bool:
        """Return whether more is probably due than the claim, which was limited, has seen."""
        return bool(seen) and seen >= max(want.limit for want in wants) - self._shares.threads.reserve

    def look_ahead(self, wants: Sequence[ClaimRequest], now: Instant, seen: int) -> None:
        """Set when to check next: at once while something is due, otherwise when the first entry becomes claimable."""
        self._looked = self._clock.monotonic()
        before = self._notices
        if self.expects_more(wants, seen):
            self._look_at = Instant(0)  # no query is needed
        else:
            self._look_at = self._next_look(wants, now, seen)
        if self._notices != before:  # checked last, so that a notice that arrived meanwhile is not overwritten
            self._look_at = Instant(0)
        self._giving_way = self._should_give_way(wants, now)

    def _next_look(self, wants: Sequence[ClaimRequest], now: Instant, seen: int) -> Instant | None:
        lanes, full = [want.lane for want in wants], self._shares.full(wants)
        entry = self._store.earliest(lanes, full)
        self._is_ahead = False
        if entry is None:
            return None
        look_at = self._claimable_at(entry)
        if seen or look_at > now:
            self._is_ahead = look_at != entry.at
            return look_at
        if entry.at <= now:
            return Instant(self._clock.now() + CONTENTION_PAUSE)
        # It could be claimed ahead and was not: its schedule is busy, so it is decided at its instant, or another
        # worker is claiming it. Later entries may become claimable before that.
        behind = self._store.earliest(lanes, full, Instant(now + self._lead))
        return entry.at if behind is None else min(entry.at, self._claimable_at(behind))

    def _should_give_way(self, wants: Sequence[ClaimRequest], now: Instant) -> frozenset[str]:
        """Return the groups of kinds with due work that needs an idle thread. Other work gives way to it, because
        otherwise it would wait forever beside a queue that is always refilled."""
        lanes = {want.lane for want in wants}
        left = {kind: lane for kind, lane in self._exact.items() if lane not in lanes}
        if not left:
            return frozenset()
        if self._looked - self._looked_aside < 0.05:
            return self._giving_way
        self._looked_aside = self._looked
        return frozenset(group for group in set(map(self._shares.group, left)) if self._has_due(group, left, now))

    def _has_due(self, group: str, lanes: Mapping[str, str], now: Instant) -> bool:
        of_group = [(lane, kind) for kind, lane in lanes.items() if self._shares.group(kind) == group]
        entry = self._store.earliest([lane for lane, _ in of_group], self._shares.blocked(of_group))
        return entry is not None and entry.at <= now

    def _claimable_at(self, entry: DueEntry) -> Instant:
        """Return when an entry can be claimed; only the plain lane of a kind may be claimed ahead of the instant."""
        return entry.at if ":" in entry.lane else Instant(entry.at - self._lead)
