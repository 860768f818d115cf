"""Statistics of a whole store, in SQL that both dialects understand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from duetime.engine.clock import SECOND, Instant
from duetime.engine.model import RunId, ScheduleId
from duetime.engine.store_interfaces import BOUNDS, MOST, UNKNOWN, Figures, Living, Tally, Trace
from duetime.stores.search import LIVE, marks

_LATE = "CASE WHEN attempt <= 1 THEN started - due END"
_TOOK = "finished - started"


def _position(microseconds: str) -> str:
    """Return an SQL expression for the index of the first bound that was not exceeded."""
    steps = " ".join(f"WHEN {microseconds} <= {int(bound * SECOND)} THEN {i}" for i, bound in enumerate(BOUNDS))
    return f"CASE WHEN {microseconds} IS NULL THEN {UNKNOWN} {steps} ELSE {len(BOUNDS)} END"


def _sum(microseconds: str) -> str:
    """Return an SQL sum, cast because PostgreSQL sums to a type that is not an integer in Python."""
    return f"CAST(coalesce(sum(CASE WHEN {microseconds} > 0 THEN {microseconds} ELSE 0 END), 0) AS bigint)"


_BEGUN = "CASE WHEN started IS NULL THEN 0 ELSE 1 END"
_TALLY = (
    f"SELECT kind, status, {_BEGUN}, {_position(_LATE)}, {_position(_TOOK)},"  # noqa: S608 - only constants
    f" CAST(sum(abs(number)) AS bigint), {_sum(_LATE)}, {_sum(_TOOK)}"
    " FROM runs WHERE id > ? AND id <= ?{} GROUP BY 1, 2, 3, 4, 5"
)
_LIVING = f"SELECT id, kind, status, {_BEGUN} FROM runs WHERE {LIVE} LIMIT {MOST}"  # noqa: S608 - as above
_DEPTH = f"SELECT count(*) FROM (SELECT 1 FROM due WHERE lane = ? AND at <= ? LIMIT {MOST}) AS waiting"  # noqa: S608
# The runs of one schedule in index order, so that no more rows are read than asked for.
_TRACES = (
    "SELECT * FROM (SELECT schedule, due, status, started, finished FROM runs WHERE schedule = ?"
    " ORDER BY due DESC, id DESC LIMIT ?) AS latest"
)


class FiguresMixin(Figures, ABC):
    @abstractmethod
    def _rows(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]: ...

    def public_ids(self, schedules: Sequence[ScheduleId]) -> dict[ScheduleId, str]:
        wanted = sorted(set(schedules))
        if not wanted:
            return {}
        return dict(self._rows(f"SELECT id, public_id FROM schedules WHERE id IN ({marks(wanted)})", wanted))  # noqa: S608

    def traces(self, schedules: Sequence[ScheduleId], each: int) -> list[Trace]:
        wanted = sorted(set(schedules))
        values = [value for schedule in wanted for value in (schedule, each)]
        return (
            [Trace._make(row) for row in self._rows(" UNION ALL ".join([_TRACES] * len(wanted)), values)]
            if wanted
            else []
        )

    def newest_run(self) -> RunId:
        return RunId(self._rows("SELECT coalesce(max(id), 0) FROM runs", ())[0][0])

    def tally(self, above: RunId, upto: RunId, but: Sequence[RunId] = ()) -> list[Tally]:
        statement = _TALLY.format(f" AND id NOT IN ({marks(but)})" if but else "")
        return [Tally._make(row) for row in self._rows(statement, (above, upto, *but))]

    def living(self) -> list[Living]:
        return [Living._make(row) for row in self._rows(_LIVING, ())]

    def depths(self, lanes: Sequence[str], now: Instant) -> dict[str, int]:
        return {lane: self._rows(_DEPTH, (lane, now))[0][0] for lane in lanes}
