"""One dead host delays no other: how many attempts a host may have in flight, and when it is not tried at all."""

from __future__ import annotations

import random
import threading
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from duetime.core.clock import SECOND, Clock, Instant, datetime_of
from duetime.core.outcome import Outcome, Retry, Returned

_FAILURES = 5
"""In a row; then the host is left alone."""
_SHORTEST, _LONGEST = 30.0, 300.0
"""Seconds that it is left alone, doubled each time that it still does not answer."""
_LIVELY = 1.0
"""Seconds after an answer in which waiting for a slot is worth a thread: one will be free soon."""
_FORGOTTEN = 3600.0
_MOST_KNOWN = 10_000
_BACK_AT_LEAST, _BACK_AT_MOST, _BACK_LONGEST = SECOND // 5, SECOND, 10 * SECOND
_BACKS_A_SECOND = 50
"""The more a silent host has waiting for it, the more seldom each of them asks: their asking costs all others."""


class Sign(Enum):
    """What an attempt showed of the host, which its outcome alone does not tell: 429 and 503 are both a Retry."""

    ANSWERED = "answered"
    """It lives, even if it refused: anything but 5xx."""
    FAILED = "failed"
    """No connection, no answer in time, or 5xx."""
    NONE = "none"
    """Nothing was learnt: the call was refused before it left."""


class Tried(NamedTuple):
    outcome: Outcome
    sign: Sign


class Hosts:
    """`threads` is the number of threads that attempts run in. A host that answers may hold half of them, one that does
    not next to none; more wait for it only while it answers and a slot is about to be free."""

    def __init__(self, clock: Clock, threads: int) -> None:
        self._clock = clock
        self._unproven = 2 if threads >= 8 else 1
        self._proven = max(1, threads // 2)
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Host] = OrderedDict()

    def pass_(self, host: str, attempt: Callable[[], Tried]) -> Outcome:
        """Runs the attempt in this thread, or answers in its place: `Returned` where the host has enough in flight,
        `Retry` where it has not answered for a while. That one counts as an attempt, so that everything ends some day.
        """
        with self._lock:
            known = self._recalled(host)
            instead = self._admit(host, known)
            if instead is not None:
                return instead
            known.in_flight += 1
        sign = Sign.NONE
        try:
            outcome, sign = attempt()
            return outcome
        finally:
            with self._lock:
                self._learn(known, sign)

    def _admit(self, host: str, known: _Host) -> Outcome | None:
        """None to go ahead."""
        if self._is_full(known):
            patience = known.answered_at + _LIVELY - self._clock.monotonic() if known.proven else 0.0
            known.waiting += 1
            try:
                free = patience > 0 and known.freed.wait_for(lambda: not self._is_full(known), patience)
            finally:
                known.waiting -= 1
            if not free:
                known.sent_back += 1
                longest = min(max(_BACK_AT_MOST, known.sent_back * SECOND // _BACKS_A_SECOND), _BACK_LONGEST)
                after = random.randint(_BACK_AT_LEAST, longest)
                return Returned(f"earlier calls to {host} are still under way", after=after)
        left = known.closed_until - self._clock.monotonic()
        return self._not_now(host, left) if left > 0 else None

    def _not_now(self, host: str, left: float) -> Retry:
        after = round(left * SECOND)
        again = datetime_of(Instant(self._clock.now() + after))
        return Retry(f"{host} is not answering; it is tried again at {again:%H:%M:%S} UTC", after=after)

    def _is_full(self, known: _Host) -> bool:
        if self._clock.monotonic() < known.closed_until:
            return False  # nobody queues for a host that is left alone
        if known.failures >= _FAILURES:
            return known.in_flight >= 1  # one at a time finds out whether it is back
        return known.in_flight >= (self._proven if known.proven else self._unproven)

    def _learn(self, known: _Host, sign: Sign) -> None:
        known.in_flight -= 1
        now = known.used_at = self._clock.monotonic()
        steady = known.proven and sign is not Sign.FAILED
        match sign:
            case Sign.ANSWERED:
                known.proven, known.answered_at = True, now
                known.failures, known.closings, known.closed_until, known.sent_back = 0, 0, 0.0, 0
            case Sign.FAILED:
                known.proven = False
                known.failures += 1
                # Those that were in flight when it was closed only confirm it.
                if known.failures >= _FAILURES and now >= known.closed_until:
                    known.closed_until = now + min(_SHORTEST * 2**known.closings, _LONGEST)
                    known.closings += 1
            case Sign.NONE:
                pass
        # One slot is for one of them; what changes for all concerns all.
        known.freed.notify(1 if steady else known.waiting)

    def _recalled(self, host: str) -> _Host:
        now = self._clock.monotonic()
        known = self._known.get(host)
        if known is None:
            self._forget(now)
            known = self._known[host] = _Host(self._lock)
        self._known.move_to_end(host)
        known.used_at = now
        return known

    def _forget(self, now: float) -> None:
        """Those that were not used for long, and the oldest where there are too many. Only as far as the first that is
        in use: what is behind it was used later."""
        while self._known:
            host, oldest = next(iter(self._known.items()))
            stale = now - oldest.used_at > _FORGOTTEN or len(self._known) >= _MOST_KNOWN
            if oldest.in_flight or oldest.waiting or not stale:
                return
            del self._known[host]


class _Host:
    """What is known of one host, under the lock of all."""

    def __init__(self, lock: threading.Lock) -> None:
        self.freed = threading.Condition(lock)
        self.in_flight = 0
        self.waiting = 0
        self.proven = False
        """Its latest attempt was answered."""
        self.answered_at = 0.0
        self.failures = 0
        """In a row."""
        self.closings = 0
        self.closed_until = 0.0
        self.sent_back = 0
        """Since its latest answer."""
        self.used_at = 0.0
