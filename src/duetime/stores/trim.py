"""Deletes the oldest history of owners that store more than their limit, so that no owner's runs fill the disk.

Every run is added once to the approximate total of its owner, which takes constant time whatever the size of the
history. Only a total above the limit is counted exactly, so the limit also bounds what has to be counted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Final, TypeVar

from duetime.engine.clock import HOUR, Instant
from duetime.engine.model import LOCAL
from duetime.stores.byte_limits import MAX_TOTAL_AGE_WHEN_FULL, NeedsCount
from duetime.stores.records import RecordsMixin
from duetime.stores.transaction import Transaction

WEIGHED_AT_ONCE: Final = 2_000
"""Maximum number of runs that one call adds to the totals."""
RECENT: Final = HOUR
"""Runs that ended within this time are kept, whatever their size, because somebody may be waiting for their results."""
BYTES_PER_EVENT: Final = 200
"""Approximate bytes of an event besides its data."""
T = TypeVar("T")


def delete_oldest_events(tx: Transaction, owner: str, number: int) -> tuple[int, int]:
    """Delete the oldest events of an owner, except those that a run still needs; return their number and bytes."""
    rows = tx.rows("delete_oldest_events", owner, number)
    tx.send("add_to_events", -len(rows), owner)
    return len(rows), sum(size + BYTES_PER_EVENT for (size,) in rows)


class TrimMixin(RecordsMixin):
    _trimmed: list[str]
    """Owners that exceed their limit according to an exact count, until their history is short enough."""

    @abstractmethod
    def _delete_oldest(self, tx: Transaction, owner: str, before: Instant, limit: int, size: int) -> tuple[int, int]:
        """Delete the oldest runs of an owner that ended before an instant: at most `limit`, and no more than it takes
        to free `size` bytes. Return their number and bytes."""

    def trim(self, most: int, now: Instant, limit: int) -> int:
        if not self._trimmed:
            if self._weigh(now) == WEIGHED_AT_ONCE:
                return WEIGHED_AT_ONCE
            owners = [owner for (owner,) in self._named("owners_above", most, LOCAL)]
            self._trimmed = [owner for owner in owners if self._count_bytes(owner, now) > most]
        while self._trimmed:
            deleted = self._trim_one(self._trimmed[-1], most - most // 10, Instant(now - RECENT), limit)
            if deleted:
                return deleted
            self._trimmed.pop()
        return 0

    def _weigh(self, now: Instant) -> int:
        """Add the runs that are new since the last call to the totals of their owners; return their number. A count may
        have included some of them already, so a create that the total would refuse counts again."""
        doubted = now - MAX_TOTAL_AGE_WHEN_FULL - 1
        with self._write() as tx:
            weighed = int(tx.rows("weighed")[0][0])  # locked, so that only one process at a time continues from here
            rows = tx.rows("weigh_runs", weighed, WEIGHED_AT_ONCE)
            for owner, _, _, size in sorted(rows):
                tx.rows("add_stored_bytes", owner, int(size))
                tx.send("doubt_stored_bytes", doubted, owner, doubted)
            if rows:
                tx.send("set_weighed", max(last for _, last, _, _ in rows))
        return sum(number for _, _, number, _ in rows)

    def _counting(self, now: Instant, transaction: Callable[[], T]) -> T:
        """Run a transaction; if it needs a recount, add up what the owner stores without a lock, and retry."""
        while True:
            try:
                return transaction()
            except NeedsCount as stale:
                self._count_bytes(stale.owner, now)

    def _count_bytes(self, owner: str, now: Instant) -> int:
        """Sum up what an owner stores, without a lock, and store the total: without what others deleted meanwhile, or
        else it would be deleted once more. If another process has counted meanwhile, its total stays."""
        [(before, counted)] = self._named("stored_bytes", owner) or [(0, 0)]
        total = int(self._named("count_stored_bytes", owner, owner, owner)[0][0])
        with self._write() as tx:
            [(current, counted_last)] = tx.rows("add_stored_bytes", owner, 0)  # locked
            if counted_last > counted:
                return int(current)
            total += min(0, int(current) - int(before))
            tx.rows("set_stored_bytes", owner, total, now)
        return total

    def _trim_one(self, owner: str, most: int, before: Instant, limit: int) -> int:
        with self._write() as tx:
            # locked and read again, because other processes trim too
            [(total, _)] = tx.rows("add_stored_bytes", owner, 0)
            if total <= most:
                return 0
            deleted, size = self._delete_oldest(tx, owner, before, limit, total - most)
            if not deleted:
                deleted, size = delete_oldest_events(tx, owner, limit)
            if not deleted:
                deleted = len(tx.rows("forget_attempts", owner)) + len(tx.rows("forget_logs", owner))
            tx.rows("add_stored_bytes", owner, -size)
        return deleted
