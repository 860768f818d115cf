"""Limits on attempts in flight, and a circuit breaker per host, so that a dead host does not delay other hosts, and all
dead hosts together delay nothing else."""

from __future__ import annotations

import random
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from enum import Enum
from math import inf
from typing import NamedTuple

from duetime.engine.clock import DAY, SECOND, Clock
from duetime.engine.kind import LOCAL
from duetime.engine.outcome import Outcome, Returned

_FAILURES = 5
"""Consecutive failures after which a host is closed, which means that it is not tried for a while."""
_SHORTEST, _LONGEST = 30.0, 300.0
"""Seconds that a host stays closed, doubled each time that it still does not answer."""
_PATIENCE = DAY
"""How long waiting for a closed host does not count as an attempt, because nothing was tried."""
_LIVELY = 1.0
"""Seconds after `moved_at` during which waiting for a slot is worth a thread, because one will be free soon."""
_FORGET_AFTER = 3600.0
_MOST_STEPS = 100
"""Number of hosts that are examined when another becomes known, because many of them may be in use."""
_MOST_KNOWN = 10_000
_BACK_AT_LEAST, _BACK_AT_MOST, _BACK_LONGEST = SECOND // 5, SECOND, 10 * SECOND
_MIN_SHARED_SLOTS = 4
"""With fewer slots than this, owners do not get shares."""
_BACKS_A_SECOND = 50
"""The more runs wait for a silent host, the less often each of them asks again, because asking costs all others."""


class Sign(Enum):
    """What an attempt shows about the host. The outcome alone does not tell: 429 and 503 are both a Retry."""

    ANSWERED = "answered"
    """The host is up, even if it refused."""
    FAILED = "failed"
    """No connection, a lost connection, or an answer that counts as none."""
    SILENT = "silent"
    """No answer in time. This counts against the host for this owner only, who chose the path and the timeout."""
    NONE = "none"
    """Nothing was learned: the call was refused before it was sent, or the failure may concern one path of many."""


class Tried(NamedTuple):
    outcome: Outcome
    sign: Sign


class Hosts:
    """Limits attempts per host. `threads` is the number of threads that attempts share with work of other kinds.

    A host that answers may use half of the threads. A host that does not may use one or two, or a quarter for several
    owners; all hosts that do not answer may use half together, and all hosts three quarters. Each owner gets a share of
    every limit. An attempt waits for a slot only while one is likely to be free soon.
    """

    def __init__(self, clock: Clock, threads: int) -> None:
        self._clock = clock
        self._unproven = 2 if threads >= 8 else 1
        self._proven = max(1, threads // 2)
        self._lock = threading.Lock()
        self._to_unproven = _Limit(self._lock, max(1, threads // 2))
        self._all = _Limit(self._lock, max(1, threads * 3 // 4))
        self._known: OrderedDict[str, _Host] = OrderedDict()
        self._shared_until = -inf

    def pass_(self, host: str, attempt: Callable[[], Tried], owner: str = LOCAL) -> Outcome:
        """Run the attempt in this thread, or return `Returned` instead: if enough attempts are in flight, of all owners
        or of this one, or if the host has not answered for a while."""
        with self._lock:
            if owner != LOCAL:
                self._shared_until = self._clock.monotonic() + _FORGET_AFTER
            known = self._recall(host)
            limits = self._admit(host, known, owner)
            if isinstance(limits, Returned):
                return limits
            for limit in limits:
                limit.begin(self._clock.monotonic())
                limit.owners[owner] += 1
        sign = Sign.NONE
        try:
            outcome, sign = attempt()
            return outcome
        finally:
            with self._lock:
                self._end(known, limits, sign, owner)

    def _shares(self, owner: str) -> bool:
        """Return whether the owner has to share; `local` need not while nobody else sends anything."""
        return owner != LOCAL or self._clock.monotonic() < self._shared_until

    def _admit(self, host: str, known: _Host, owner: str) -> tuple[_Limit, ...] | Returned:
        """Return the limits in which the attempt gets a slot, or the outcome to return instead of running it."""
        until: float | None = None
        while True:
            now, silence = self._clock.monotonic(), known.silences.get(owner, _NO_FAILURES)
            closed_until = max(known.record.closed_until, silence.closed_until)
            if now < closed_until:
                after = round((closed_until - now) * SECOND) + known.send_back()
                return Returned(f"{host} is not answering, so it is left alone for a while", after, patience=_PATIENCE)
            limits = (known, self._all) if known.proven else (known, self._to_unproven, self._all)
            shared = self._shares(owner)
            full = next((limit for limit in limits if limit.is_full(owner, shared=shared)), None)
            if silence.failures >= _FAILURES and known.owners[owner]:
                full = known  # a single attempt at a time finds out whether the host answers this owner again
            if full is None:
                return limits
            until = full.moved_at + _LIVELY if until is None else until
            if until <= now or not known.wait_for(full, until - now):
                whose = host if full is known else "other hosts"
                return Returned(f"earlier calls to {whose} are still under way", full.send_back())

    def _end(self, known: _Host, limits: tuple[_Limit, ...], sign: Sign, owner: str) -> None:
        now = known.used_at = self._clock.monotonic()
        steady = known.proven and sign not in (Sign.FAILED, Sign.SILENT)
        for limit in limits:
            limit.in_flight -= 1
            limit.owners[owner] -= 1
            limit.owners += Counter()  # drops owners at zero
            if sign is Sign.ANSWERED:
                limit.moved_at, limit.sent_back = now, 0
        self._learn(known, sign, now, owner)
        # A free slot of a steady host wakes one waiting thread. Otherwise all are woken: the limits may have changed,
        # and a thread that waits for a slot shared by many hosts may find that its own host is full.
        for limit in limits:
            limit.freed.notify(1 if limit is known and steady and len(limit.owners) < 2 else limit.waiting)

    def _learn(self, known: _Host, sign: Sign, now: float, owner: str) -> None:
        match sign:
            case Sign.ANSWERED:
                known.proven = True
                known.record = _NO_FAILURES
                known.silences.clear()
            case Sign.FAILED:
                known.proven, known.moved_at = False, -inf
                known.record = known.record.extend(now)
            case Sign.SILENT:
                known.proven, known.moved_at = False, -inf
                known.silences[owner] = known.silences.get(owner, _NO_FAILURES).extend(now)
            case Sign.NONE:
                pass
        if known.record.failures >= _FAILURES:
            known.slots = 1  # a single attempt at a time finds out whether the host is back
        else:
            known.slots = self._proven if known.proven else self._unproven

    def _recall(self, host: str) -> _Host:
        now = self._clock.monotonic()
        known = self._known.get(host)
        if known is None:
            self._forget(now)
            known = self._known[host] = _Host(self._lock, self._unproven, self._to_unproven.slots // 2)
        self._known.move_to_end(host)
        known.used_at = now
        return known

    def _forget(self, now: float) -> None:
        """Forget hosts that have not been used for long, and the oldest if there are too many. Hosts in use are
        skipped."""
        for _ in range(min(len(self._known), _MOST_STEPS)):
            host, oldest = next(iter(self._known.items()))
            if now - oldest.used_at <= _FORGET_AFTER and len(self._known) < _MOST_KNOWN:
                return
            if oldest.in_flight or oldest.asking:
                self._known.move_to_end(host)
            else:
                del self._known[host]


class _Record(NamedTuple):
    """Consecutive failures, and until when the host is closed because of them."""

    failures: int = 0
    closings: int = 0
    closed_until: float = 0.0

    def extend(self, now: float) -> _Record:
        """Return the record with one more failure. Failures of attempts that were in flight when the host was closed do
        not extend it."""
        failures = self.failures + 1
        if failures < _FAILURES or now < self.closed_until:
            return self._replace(failures=failures)
        return _Record(failures, self.closings + 1, now + min(_SHORTEST * 2**self.closings, _LONGEST))


_NO_FAILURES = _Record()


class _Limit:
    """Slots that attempts share, under one lock for all limits: attempts to one host, to all hosts that have not
    answered, or to any host."""

    def __init__(self, lock: threading.Lock, slots: int) -> None:
        self.freed = threading.Condition(lock)
        self.slots = slots
        self.in_flight = 0
        self.owners: Counter[str] = Counter()
        self.waiting = 0
        self.moved_at = -inf
        """When something last suggested that a slot will be free soon: an answer, or a recent start of attempts to many
        hosts."""
        self.sent_back = 0
        """Number of attempts returned since the latest answer."""

    def begin(self, now: float) -> None:
        self.in_flight += 1
        if self.in_flight == self.slots:
            self.moved_at = now

    def is_full(self, owner: str, *, shared: bool) -> bool:
        """Return whether no slot is left, or none for this owner, who never uses more than twice as many as it leaves
        free, so that unanswered calls of one owner do not keep those of others waiting."""
        free, held = self.slots - self.in_flight, self.owners[owner]
        if free <= 0 or not shared or held == 0 or self.slots < _MIN_SHARED_SLOTS:
            return free <= 0
        return held + 1 > 2 * (free - 1)

    def send_back(self) -> int:
        """Return after how many microseconds to ask again; random, so that not all attempts return together."""
        self.sent_back += 1
        longest = min(max(_BACK_AT_MOST, self.sent_back * SECOND // _BACKS_A_SECOND), _BACK_LONGEST)
        return random.randint(_BACK_AT_LEAST, longest)


class _Host(_Limit):
    """The state of one host."""

    def __init__(self, lock: threading.Lock, slots: int, most: int) -> None:
        super().__init__(lock, slots)
        self.most = most
        """Number of attempts in flight up to which an owner that has none gets a slot, even if all slots are taken."""
        self.asking = 0
        """Number of threads that wait for this host, in any limit."""
        self.proven = False
        """True if its latest conclusive attempt was answered."""
        self.record = _NO_FAILURES
        self.silences: dict[str, _Record] = {}
        """Attempts of each owner that were not answered in time."""
        self.used_at = 0.0

    def begin(self, now: float) -> None:
        """Leave `moved_at` unchanged, because a single host with all slots taken may just be slow to answer."""
        self.in_flight += 1

    def is_full(self, owner: str, *, shared: bool) -> bool:
        """Leave a slot to each owner that holds none, so that slow calls of one owner do not keep the others waiting
        for the same host; but only up to `most`, so that the calls of many owners do not block other hosts."""
        return super().is_full(owner, shared=shared) and (self.owners[owner] > 0 or self.in_flight >= self.most)

    def wait_for(self, limit: _Limit, patience: float) -> bool:
        """Wait for a change in a limit; return False after the timeout."""
        self.asking += 1
        limit.waiting += 1
        try:
            return limit.freed.wait(patience)
        finally:
            limit.waiting -= 1
            self.asking -= 1
