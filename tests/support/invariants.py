"""Invariants that hold in every store after every transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from duetime.engine.model import ACTIVE, LIVE, NO_RUN, RunStatus, ScheduleState
from duetime.stores.base import BaseStore
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.sqlite.store import SqliteStore

Rows = Callable[..., list[tuple[Any, ...]]]
"""Returns the rows of a statement with its values."""


@contextmanager
def checked_store(url: str) -> Iterator[PostgresStore]:
    """Open a PostgreSQL store for a test, and check at its end what must always hold."""
    store = PostgresStore(url)
    store.migrate()
    yield store
    invariants(store)
    store.close()


def invariants(store: BaseStore) -> None:
    """Raise AssertionError with every violated invariant."""
    with _snapshot(store) as rows:
        wrong = _counters(rows) + _trigger_entries(rows) + _run_entries(rows) + _ranges(rows) + _tombstones(rows)
    assert not wrong, "\n".join(wrong)


@contextmanager
def _snapshot(store: BaseStore) -> Iterator[Rows]:
    """Yield what reads from one snapshot: workers may be writing between two statements."""
    if isinstance(store, PostgresStore):
        with store._readers.lend() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield lambda statement, *values: connection.execute(statement.replace("?", "%s"), values).fetchall()
        return
    assert isinstance(store, SqliteStore)
    with store._fixed_snapshot() as source:
        yield lambda statement, *values: source.execute(statement, values).fetchall()


def _counters(rows: Rows) -> list[str]:
    counted: dict[tuple[int, str], int] = {}
    for schedule, status, number in rows("SELECT schedule, status, count(*) FROM runs GROUP BY schedule, status"):
        counted[schedule, status] = number
    wrong = []
    unheld: dict[int, int] = dict(
        rows("SELECT schedule, count(*) FROM runs WHERE status = 'waiting' AND holder IS NULL GROUP BY schedule")
    )
    for schedule, active, queued, untaken in rows("SELECT schedule, active, queued, untaken FROM progress"):
        really_active = sum(counted.get((schedule, status), 0) for status in ACTIVE)
        really_queued = counted.get((schedule, RunStatus.QUEUED), 0)
        if active != really_active:
            wrong.append(f"schedule {schedule}: active is {active}, but {really_active} runs are")
        if untaken != unheld.get(schedule, 0):
            wrong.append(f"schedule {schedule}: untaken is {untaken}, but {unheld.get(schedule, 0)} runs are")
        if queued != really_queued:
            wrong.append(f"schedule {schedule}: queued is {queued}, but {really_queued} runs are")
    return wrong


def _trigger_entries(rows: Rows) -> list[str]:
    """Check for one chain of entries per schedule that continues or whose pause has an end, and none for any other."""
    entries = {row[0] for row in rows("SELECT schedule FROM due WHERE run = ?", NO_RUN)}
    wrong = []
    for schedule, state, following, active, queued, resume_at in rows(
        "SELECT p.schedule, p.state, p.next, p.active, p.queued, s.resume_at"
        " FROM progress p JOIN schedules s ON s.id = p.schedule",
    ):
        goes_on = state == ScheduleState.ACTIVE and following is not None
        goes_on = goes_on or (state == ScheduleState.PAUSED and resume_at is not None)
        if resume_at is not None and state not in (ScheduleState.PAUSED, ScheduleState.BROKEN):
            wrong.append(f"schedule {schedule} is {state}, but its pause ends at {resume_at}")
        if goes_on != (schedule in entries):
            wrong.append(f"schedule {schedule} is {state}, next {following}, in the queue: {schedule in entries}")
        if state == ScheduleState.ACTIVE and following is None and not active and not queued:
            wrong.append(f"schedule {schedule} is active with nothing left to do")
        if state == ScheduleState.ACTIVE and queued and not active:
            wrong.append(f"schedule {schedule}: {queued} runs stand in line behind nothing")
        entries.discard(schedule)
    return wrong + [f"schedule {schedule} is in the queue and nowhere else" for schedule in sorted(entries)]


def _run_entries(rows: Rows) -> list[str]:
    entries = {row[0]: row[1] for row in rows("SELECT run, schedule FROM due WHERE run <> ?", NO_RUN)}
    wrong = []
    for run, schedule, status, until, expires, state in rows(
        "SELECT r.id, r.schedule, r.status, r.until, r.expires, p.state"
        " FROM runs r JOIN progress p ON p.schedule = r.schedule",
    ):
        queued_for = entries.pop(run, None)
        waits_for_time = status == RunStatus.WAITING and (until or expires) is not None
        if state == ScheduleState.ACTIVE and (status == RunStatus.PENDING or waits_for_time) and queued_for is None:
            wrong.append(f"run {run} of schedule {schedule} is {status}, but nothing will wake it")
        if queued_for is not None and status not in (RunStatus.PENDING, RunStatus.WAITING):
            wrong.append(f"run {run} is {status}, but stands in the queue")
        if queued_for not in (None, schedule):
            wrong.append(f"run {run} of schedule {schedule} stands in the queue for {queued_for}")
    return wrong + [f"run {run} is in the queue and nowhere else" for run in sorted(entries)]


def _ranges(rows: Rows) -> list[str]:
    """Check that ended runs have an end, that live ones have none, and that every hold has a holder."""
    wrong = []
    for run, status, finished, worker, attempt in rows("SELECT id, status, finished, worker, attempt FROM runs"):
        if (status in LIVE) != (finished is None):
            wrong.append(f"run {run} is {status} and finished at {finished}")
        if status == RunStatus.RUNNING and worker is None:
            wrong.append(f"run {run} is running in nobody's hands")
        if attempt < 0:
            wrong.append(f"run {run} is at attempt {attempt}")
    return wrong


def _tombstones(rows: Rows) -> list[str]:
    """Check that only deleted schedules have a tombstone, and that nobody is told of a resolved incident."""
    tombstones = rows(
        "SELECT t.schedule, p.state, s.key FROM tombstones t JOIN progress p ON p.schedule = t.schedule"
        " JOIN schedules s ON s.id = t.schedule",
    )
    wrong = [f"schedule {id} is {state}, but has a tombstone" for id, state, _ in tombstones if state != "deleted"]
    keys = [(id, key) for id, _, key in tombstones if not key.startswith("~gone-")]
    wrong += [f"schedule {id} is deleted, but has the key {key}" for id, key in keys]
    endless = rows("SELECT id FROM incidents WHERE recovered IS NULL AND resolved IS NOT NULL AND due IS NOT NULL")
    return wrong + [f"incident {id} is resolved, but will be told" for (id,) in endless]


def check_skipped_ranges(store: BaseStore) -> None:
    """Check that no run's occurrence also lies in a range of occurrences that did not run. This holds unless the clock
    was set back."""
    with _snapshot(store) as rows:
        covered = rows(
            "SELECT r.id, s.id FROM runs s JOIN runs r ON r.schedule = s.schedule AND r.due BETWEEN s.due AND s.last"
            " WHERE s.last IS NOT NULL AND r.last IS NULL AND r.cause = 'trigger' AND s.cause = 'trigger'"
        )
    assert not covered, "a row of skipped occurrences covers one that ran"
