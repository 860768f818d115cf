"""The part of every store besides schedules and runs: remote notifications, revocations, and statistics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import pairwise

from duetime.engine.clock import HOUR, SECOND, Instant
from duetime.engine.model import ExecutorRow, Run, RunId, ScheduleId
from duetime.engine.policy.rows import quota_reached
from duetime.engine.store_interfaces import (
    BOUNDS,
    MAX_COUNTED_ROWS,
    UNKNOWN,
    Figures,
    Living,
    PeriodCount,
    Publication,
    Remote,
    RemoteMark,
    Remotes,
    Revocation,
    Revocations,
    Tally,
    Timing,
    Trace,
)
from duetime.stores.reads import NamedQueries
from duetime.stores.search import LANES, LIVE, NOT_DELETED, Where, marks, whole_rows
from duetime.stores.transaction import Transaction, first_of, value_of

MAX_FORGOTTEN = 500
"""Maximum number of expired records that one call of `revoke` deletes."""

# The first start of a run that is tried again is in its attempts, and until it ends, it counts as before the retry.
_FIRST = (
    "CASE WHEN attempt > 1 OR (attempt = 1 AND started IS NULL)"
    " THEN coalesce((SELECT min(a.started) FROM attempts a WHERE a.run = runs.id), started) ELSE started END"
)
_STATUS = (
    f"CASE WHEN attempt > 0 AND {LIVE} THEN coalesce((SELECT a.status FROM attempts a WHERE a.run = runs.id"  # noqa: S608
    " AND a.retried IS NOT NULL ORDER BY a.number DESC LIMIT 1), status) ELSE status END"
)
_LATE = f"({_FIRST} - due)"
_TOOK = "finished - started"


def _position(microseconds: str) -> str:
    """Return an SQL expression for the index of the first bound that was not exceeded."""
    steps = " ".join(f"WHEN {microseconds} <= {int(bound * SECOND)} THEN {i}" for i, bound in enumerate(BOUNDS))
    return f"CASE WHEN {microseconds} IS NULL THEN {UNKNOWN} {steps} ELSE {len(BOUNDS)} END"


def _sum(microseconds: str) -> str:
    """Return an SQL sum with a cast, because PostgreSQL's sum has a type that is not an integer in Python."""
    return f"CAST(coalesce(sum(CASE WHEN {microseconds} > 0 THEN {microseconds} ELSE 0 END), 0) AS bigint)"


_BEGUN = "CASE WHEN started IS NULL THEN 0 ELSE 1 END"
_RUN_FROM = "SELECT id, coalesce(last, due) FROM runs WHERE id >= ? ORDER BY id LIMIT 1"
_TALLY = (
    f"SELECT kind, status, {_BEGUN}, {_position(_LATE)}, {_position(_TOOK)},"  # noqa: S608 - only constants
    f" CAST(sum(abs(number)) AS bigint), {_sum(_LATE)}, {_sum(_TOOK)}"
    " FROM runs WHERE id > ? AND id <= ?{} GROUP BY 1, 2, 3, 4, 5"
)
_LIVING = f"SELECT id, kind, status, {_BEGUN} FROM runs WHERE {LIVE} LIMIT {MAX_COUNTED_ROWS}"  # noqa: S608 - as above
_DEPTH = f"SELECT count(*) FROM (SELECT 1 FROM due WHERE lane = ? AND at <= ? LIMIT {MAX_COUNTED_ROWS}) AS waiting"  # noqa: S608
# The runs of one schedule in index order, so that no more rows are read than asked for.
_TRACES = (
    f"SELECT * FROM (SELECT schedule, due, {_STATUS}, started, finished FROM runs WHERE schedule = ?"  # noqa: S608
    " ORDER BY due DESC, id DESC LIMIT ?) AS latest"
)
_LATEST_FAILURE = (
    "SELECT * FROM (SELECT r.* FROM runs r WHERE schedule = ? AND status IN ('failed', 'lost')"
    " ORDER BY due DESC, id DESC LIMIT 1) AS latest"
)
# Uses the index of all kinds other than jobs, without reading the runs.
_LATEST_BUT = (
    "SELECT id FROM runs WHERE owner = ? AND kind = ? AND kind <> 'job' ORDER BY owner DESC, kind DESC, id DESC"
    " LIMIT 1 OFFSET ?"
)
_NEWEST_BUT = "SELECT id FROM runs{} ORDER BY id DESC LIMIT 1 OFFSET ?"
# Of one schedule, by the index of its occurrences; each period reads a bounded number of rows.
_TIMING = f"SELECT id, due, {_STATUS}, cause, started, finished, {_FIRST} FROM runs"  # noqa: S608
_TIMINGS = f"{_TIMING} WHERE schedule = ? ORDER BY due DESC, id DESC LIMIT ?"
_PERIOD = (
    "SELECT * FROM (SELECT {} AS period, status, count(*), CAST(sum(abs(number)) AS bigint), max(last)"  # noqa: S608
    " FROM ("
    f"SELECT {_STATUS} AS status, number, last FROM runs"
    " WHERE schedule = ? AND due >= ? AND due < ? ORDER BY due DESC LIMIT ?"
    ") AS latest GROUP BY status) AS counted"
)


class RecordsMixin(NamedQueries, Remotes, Revocations, Publication, Figures):
    @abstractmethod
    def _write(self) -> AbstractContextManager[Transaction]: ...

    def keep_remote(self, remote: Remote, limit: int) -> Remote:
        with self._write() as tx:
            tx.lock_owner(remote.owner)
            known = tx.rows("remote_by_key", remote.owner, remote.key)
            if known:
                return Remote._make(known[0])
            here = tx.count_living(remote.owner, limit)
            if here + int(tx.rows("count_remotes", remote.owner, remote.created, limit)[0][0]) >= limit:
                raise quota_reached(limit)
            tx.rows("insert_remote", *remote)
        return remote

    def repeat_remote(self, owner: str, fingerprint: str, since: Instant, now: Instant) -> Remote | None:
        with self._write() as tx:
            taken = tx.rows("repeat_remote", now, owner, fingerprint, since)
            return first_of(tx.rows("remote_by_id", taken[0][0]), Remote._make) if taken else None

    def update_remote(self, remote: Remote) -> None:
        with self._write() as tx:
            tx.rows("update_remote", remote.at, remote.remote, remote.state, remote.updated, remote.id)

    def forget_remote(self, id: str) -> None:
        with self._write() as tx:
            tx.rows("delete_remote", id)

    def remote(self, id: str) -> Remote | None:
        return first_of(self._named("remote_by_id", id), Remote._make)

    def remote_by_key(self, owner: str, key: str) -> Remote | None:
        return first_of(self._named("remote_by_key", owner, key), Remote._make)

    def remotes(self, owner: str, now: Instant, topic: str | None = None) -> list[Remote]:
        rows = self._named("remotes_of", owner, now) if topic is None else self._named("remotes_on", owner, topic, now)
        return [Remote._make(row) for row in rows]

    def remote_marks(self, owner: str, topic: str, now: Instant) -> list[RemoteMark]:
        return [RemoteMark._make(row) for row in self._named("remote_marks", owner, topic, now)]

    def revoke(self, revocations: Sequence[Revocation], now: Instant) -> list[str]:
        """Return the ids that were not revoked before, neither here nor by another transaction that was faster."""
        with self._write() as tx:
            tx.rows("forget_revocations", now, MAX_FORGOTTEN)
            return [each.id for each in sorted(revocations) if tx.rows("insert_revocation", *each)]

    def revoked(self, first: str, second: str) -> list[str]:
        return [row[0] for row in self._named("revoked", first, second)]

    def signing_generation(self, owner: str) -> int:
        return value_of(self._named("rotations", owner)) or 0

    def rotate_signing_key(self, owner: str, now: Instant, limit: int) -> int | None:
        with self._write() as tx:
            tx.lock_owner(owner)
            rows = tx.rows("rotations", owner)
            generation, since, recent = rows[0] if rows else (0, 0, 0)  # recent: the rotations in the hour from since
            if not since <= now < since + HOUR:
                since, recent = now, 0
            if recent >= limit:
                return None
            tx.rows("keep_rotations", owner, generation + 1, since, recent + 1)
        return int(generation) + 1

    def publish(self, settings: str) -> None:
        with self._write() as tx:
            tx.rows("publish", settings)

    def published(self) -> str | None:
        return value_of(self._named("published"))

    def store_id(self) -> str:
        return f"{self._named('store_id')[0][0] % 2**64:016x}"

    def note_executor(self, row: ExecutorRow) -> None:
        with self._write() as tx:
            tx.rows("note_executor", *row)

    def executors(self) -> list[ExecutorRow]:
        return [ExecutorRow._make(row) for row in self._named("executors")]

    def public_ids(self, schedules: Sequence[ScheduleId], *, deleted: bool = True) -> dict[ScheduleId, str]:
        ids = sorted(set(schedules))
        if not ids:
            return {}
        where = f"s.id IN ({marks(ids)})" if deleted else f"s.id IN ({marks(ids)}) AND {NOT_DELETED}"
        return dict(self._rows(f"SELECT s.id, s.public_id FROM schedules s WHERE {where}", ids))  # noqa: S608

    def latest_failures(self, schedules: Sequence[ScheduleId]) -> list[Run]:
        statement = " UNION ALL ".join([whole_rows(_LATEST_FAILURE)] * len(schedules))
        return [Run._make(row) for row in self._rows(statement, schedules)] if schedules else []

    def traces(self, schedules: Sequence[ScheduleId], each: int) -> list[Trace]:
        ids = sorted(set(schedules))
        if not ids:
            return []
        values = [value for schedule in ids for value in (schedule, each)]
        return [Trace._make(row) for row in self._rows(" UNION ALL ".join([_TRACES] * len(ids)), values)]

    def timings(self, schedule: ScheduleId, limit: int) -> list[Timing]:
        return [Timing._make(row) for row in self._rows(_TIMINGS, (schedule, limit))]

    def period_counts(self, schedule: ScheduleId, bounds: Sequence[Instant], each: int) -> list[PeriodCount]:
        periods = list(pairwise(bounds))
        statement = " UNION ALL ".join(_PERIOD.format(number) for number in range(len(periods)))
        values = [value for begin, end in periods for value in (schedule, begin, end, each)]
        return [PeriodCount._make(row) for row in self._rows(statement, values)] if periods else []

    def endings(self, owner: str | None, limit: int) -> list[Timing]:
        of, values = ("", (limit,)) if owner is None else (" WHERE owner = ?", (owner, limit))
        statement = f"{_TIMING}{of} ORDER BY id DESC LIMIT ?"
        return [Timing._make(row) for row in self._rows(statement, values)]

    def first_run_due(self, instant: Instant) -> RunId:
        low, high = 1, self.newest_run() + 1
        while low < high:
            middle = (low + high) // 2
            rows = self._rows(_RUN_FROM, (middle,))
            if not rows or rows[0][1] >= instant:
                high = middle
            else:
                low = rows[0][0] + 1
        return RunId(low)

    def newest_run(self) -> RunId:
        return RunId(self._rows("SELECT coalesce(max(id), 0) FROM runs", ())[0][0])

    def newest_but(self, owner: str | None, number: int, below: RunId | None = None) -> RunId:
        where = Where()
        where.equal("owner", owner)
        where.optional("id < ?", below)
        return value_of(self._rows(_NEWEST_BUT.format(where.sql()), (*where.values, number))) or RunId(0)

    def latest_but(self, owner: str, kind: str, number: int) -> RunId:
        return value_of(self._rows(_LATEST_BUT, (owner, kind, number))) or RunId(0)

    def tally(self, above: RunId, upto: RunId, but: Sequence[RunId] = ()) -> list[Tally]:
        statement = _TALLY.format(f" AND id NOT IN ({marks(but)})" if but else "")
        return [Tally._make(row) for row in self._rows(statement, (above, upto, *but))]

    def living(self) -> list[Living]:
        return [Living._make(row) for row in self._rows(_LIVING, ())]

    def lanes(self) -> list[str]:
        return [lane for (lane,) in self._rows(LANES, ())]

    def depths(self, lanes: Sequence[str], now: Instant) -> dict[str, int]:
        return {lane: self._rows(_DEPTH, (lane, now))[0][0] for lane in lanes}
