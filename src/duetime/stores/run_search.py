"""Searches for runs as SQL that both dialects understand; `?` marks a parameter."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from duetime.engine import model
from duetime.engine.store import RunQuery
from duetime.stores.search import LIVE, Where, bounded_count, marks, part_of, read_cursor, tagged_schedules, whole_rows

# Written exactly as in the partial indexes of such runs, like `LIVE`; otherwise, the planner cannot use them.
UNWELL = " AND ".join(f"status <> '{status}'" for status in ("completed", "running", "pending", "queued", "waiting"))
OUTGOING = "kind IN ('notification', 'request')"
_RARE = model.UNWELL - {model.RunStatus.FAILED}
_ELSEWHERE = (
    "status = 'waiting' AND substr(COALESCE(holder, ''), 1, 3) = 'on:'"
    " AND substr(COALESCE(error, ''), 1, 6) <> 'held: '"
)
"""Runs that were handed to an executor count as running there, as people see them."""
_AMONG_LIVE = f"id IN (SELECT id FROM runs WHERE {LIVE})"  # noqa: S608 - only constants


def _run_status(where: Where, query: RunQuery, kinds: Collection[str]) -> None:
    statuses = {*query.statuses} if query.status is None else {query.status}
    if query.status == "live":
        where.add(_AMONG_LIVE)
    elif query.status == "dead":
        where.add("status IN ('failed', 'lost') AND stop = 0")
        where.add(OUTGOING if kinds and {*kinds} <= {"notification", "request"} else UNWELL)
    elif statuses:  # written out so that the partial indexes apply
        names = ", ".join(f"'{model.RunStatus(each)}'" for each in sorted(statuses))
        listed = f"status IN ({names})"
        if "running" in statuses and "waiting" not in statuses:
            listed = f"({listed} OR ({_ELSEWHERE}))"
        elif "waiting" in statuses and "running" not in statuses:
            listed = f"({listed} AND NOT ({_ELSEWHERE}))"
        if statuses != model.UNWELL:  # which are all that the condition of the indexes lets through
            where.add(listed)
        if statuses <= model.UNWELL:
            where.add(UNWELL)
        elif statuses <= model.LIVE:
            where.add(_AMONG_LIVE)


def _run_kinds(where: Where, kinds: Collection[str]) -> None:
    if kinds:
        where.add(f"kind IN ({marks(kinds)})" if len(kinds) > 1 else "kind = ?", *kinds)
        if "job" not in kinds:
            where.add("kind <> 'job'")  # as in the partial index of the other kinds


def _run_waiting(where: Where, query: RunQuery) -> None:
    if (query.free_at is not None or query.holder is not None) and query.kind is None and not query.kinds:
        where.add("kind >= ''")  # always true: makes SQLite use the index of waiting runs by owner and kind
    if query.free_at is not None:
        where.add("status = 'waiting'")  # written out so that the partial index of waiting runs applies
        where.add("(holder IS NULL OR expires <= ?)", query.free_at)
        where.add("EXISTS (SELECT 1 FROM progress p WHERE p.schedule = r.schedule AND p.state = 'active')")
    if query.holder is not None:
        where.add("status = 'waiting'")  # as above
        where.equal("holder", query.holder)


_OF_SUBJECT: Final = "EXISTS (SELECT 1 FROM schedules s WHERE s.id = r.schedule AND s.subject = ?)"


def _run_marks(where: Where, query: RunQuery) -> None:
    where.optional("stop < ?", query.mark_below)
    where.optional("stop >= ?", query.mark_from)
    if query.text:
        part = part_of(query.text)
        where.add("(lower(name) LIKE ? ESCAPE '!' OR lower(error) LIKE ? ESCAPE '!')", part, part)
    if query.error:
        where.add("lower(error) LIKE ? ESCAPE '!'", part_of(query.error))
    if query.in_result:  # LIKE would ignore the case on SQLite
        where.add("replace(result, ?, '') <> result", query.in_result)


def run_filter(query: RunQuery, *, in_order: bool = False) -> Where:
    where = Where()
    # Within one schedule its own index is used, even if a planner without statistics would prefer the owner's.
    if not in_order:
        where.equal("owner" if query.schedule is None else "owner || ''", query.owner)
    kinds = query.kinds if query.kind is None else (query.kind,)
    _run_kinds(where, kinds)
    where.equal("schedule", query.schedule)
    if query.schedules:
        where.add(f"schedule IN ({marks(query.schedules)})", *query.schedules)
    _run_status(where, query, kinds)
    where.equal("worker", query.worker)
    where.optional("id > ?", query.above)
    _run_marks(where, query)
    if query.ids is not None:
        where.add(f"id IN ({marks(query.ids)})" if query.ids else "1 = 0", *query.ids)
    if query.subject is not None:
        own = "" if query.free_at is None else "r.payload IS NOT NULL OR "
        where.add(f"({own}{_OF_SUBJECT})", query.subject)
    if query.tagged is not None:
        tagged = tagged_schedules(query.owner, query.tagged)
        where.add(f"schedule IN (SELECT s.id FROM schedules s{tagged.sql()})", *tagged.values)  # noqa: S608
    where.optional("EXISTS (SELECT 1 FROM schedules s WHERE s.id = r.schedule AND s.depth < ?)", query.depth_below)
    _run_waiting(where, query)
    _run_instants(where, query)
    if in_order:  # last, as it is true of most runs
        where.equal("owner || ''", query.owner)
    return where


def _run_instants(where: Where, query: RunQuery) -> None:
    where.optional("id < ?", query.below)
    if query.overlapping is not None:
        start, end = query.overlapping
        where.add(f"last IS NOT NULL AND last >= ? AND due < ? AND {UNWELL}", start, end)
    if query.longer_than is not None:
        where.add("(finished - started >= ? OR (status = 'running' AND started <= ?))", *query.longer_than)
    where.optional("finished - started <= ?", query.shorter_than)
    where.optional("due >= ?", query.due_from)
    where.optional("due <= ?", query.due_to)


def runs_by_due(query: RunQuery) -> bool:
    return query.oldest_first or query.schedule is not None


def run_page(query: RunQuery) -> tuple[str, list[Any]]:
    """Return a page. Latest first: by id across schedules, by due instant within one. Oldest first: by due instant."""
    statuses = {*query.statuses} if query.status is None else {query.status}
    # An index by owner has only runs of other kinds, or with other statuses than `completed`, so that few are passed.
    is_indexed = query.kind not in (None, "job") or (statuses and model.RunStatus.COMPLETED not in statuses)
    where = run_filter(query, in_order=query.has_most_runs and not is_indexed)
    by_due = runs_by_due(query)
    direction, beyond = ("ASC", ">") if query.oldest_first or query.ascending else ("DESC", "<")
    columns = ("due", "id") if by_due else ("id",)
    order = ", ".join(f"{column} {direction}" for column in columns)
    if query.cursor is not None:
        position = read_cursor(query.cursor, len(columns))
        where.add(f"({', '.join(columns)}) {beyond} ({marks(columns)})", *position)
    statement = f"SELECT r.* FROM runs r{where.sql()} ORDER BY {order} LIMIT ?"  # noqa: S608
    if statuses and statuses <= _RARE and not by_due:
        # Their ids are read from an index that has the statuses; for all owners, they are sorted instead of reading all
        # runs in order.
        few = statement.replace("r.*", "r.id", 1)
        few = few if query.owner else few.replace(order, f"r.id + 0 {direction}")
        statement = f"SELECT r.* FROM runs r WHERE r.id IN ({few}) ORDER BY {order}"  # noqa: S608
    return whole_rows(statement), [*where.values, query.limit + 1]


def run_counts(query: RunQuery) -> tuple[str, list[Any]]:
    """Count the runs by status, as many as `count_to` in all."""
    where = run_filter(query)
    # Runs that have ended run nowhere, and the columns that would tell are not in their index.
    ended = UNWELL in where.sql()
    status = "r.status" if ended else f"CASE WHEN {_ELSEWHERE} THEN 'running' ELSE r.status END AS status"
    inner = f"SELECT {status} FROM runs r{where.sql()} LIMIT ?"  # noqa: S608 - only columns and marks
    statement = f"SELECT status, count(*) FROM ({inner}) AS counted GROUP BY status ORDER BY status"  # noqa: S608
    return statement, [*where.values, query.count_to]


def run_count(query: RunQuery) -> tuple[str, list[Any]]:
    where = run_filter(query)
    # In order, so that PostgreSQL reads the index of owners: of a large table, it keeps nothing that it reads whole.
    order = " ORDER BY id DESC" if where.parts == ["owner = ?"] else ""
    return bounded_count(f"SELECT 1 FROM runs r{where.sql()}{order}", where, query.count_to)  # noqa: S608
