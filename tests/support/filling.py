"""Inserts many schedules and runs at once, bypassing the scheduler, which would check each: a minute for a million."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import apsw
import psycopg

from duetime.app import open_store
from duetime.engine.clock import DAY, HOUR, SECOND, Instant
from duetime.engine.model import Definition, DueEntry, Progress, Run, RunId, ScheduleId
from duetime.engine.policy.rows import begin
from duetime.stores.sqlite.store import SQL, SqliteStore
from tests.support.drafts import every

OWNER = "ada"
CHUNK = 20_000


# Understood by both dialects. Every second a run ends, a fifth of them failed, and the last hundred have not ended.
RUNS = """
INSERT INTO runs (id, schedule, cause, due, status, attempt, deaths, fence, started, finished, result, error, stop,
  number, kind, owner, name)
WITH RECURSIVE numbers (i) AS (SELECT CAST(1 AS bigint) UNION ALL SELECT i + 1 FROM numbers WHERE i < {count})
SELECT i, i % {schedules} + 1, 'trigger', {begin} + i * 1000000,
  CASE WHEN i > {count} - 100 THEN 'running' WHEN i % 5 = 0 THEN 'failed' ELSE 'completed' END,
  1, 0, 1, {begin} + i * 1000000, CASE WHEN i > {count} - 100 THEN NULL ELSE {begin} + (i + i % 60) * 1000000 END,
  CASE WHEN i % 5 = 0 THEN NULL ELSE '"done"' END, CASE WHEN i % 5 = 0 THEN 'ConnectionError: refused' END, 0, 1, 'job',
  '{owner}', 'filled'
FROM numbers
"""


def fill_runs(url: str, count: int, now: Instant, schedules: int = 1_000) -> None:
    """Insert a thousand schedules and many runs of them into an empty store of either dialect."""
    store = open_store(url)
    try:
        store.migrate()
        begin = Instant(now - count * SECOND)
        store.create([every(HOUR, now, owner=OWNER, subject=f"task {n}", created=begin) for n in range(schedules)])
    finally:
        store.close()
    statement = RUNS.format(count=count, schedules=schedules, begin=begin, owner=OWNER)
    if url.startswith("postgresql:"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement)
            connection.execute("VACUUM ANALYZE runs")
    else:
        with closing(apsw.Connection(url)) as file:
            file.execute(statement)


class Row(NamedTuple):
    schedule: tuple[Definition, Progress, DueEntry]
    run: Run


def rows(first: int, count: int, now: Instant) -> Iterator[Row]:
    """Return hourly schedules, some of them prompts, with one run each, of which a fifth failed."""
    for number in range(first, first + count):
        kind = "prompt" if number % 10 == 0 else "job"
        anchor = now + number * SECOND % HOUR
        draft = every(HOUR, anchor, kind=kind, owner=OWNER, public_id=f"{kind}_{number}", key=f"~{number}", created=now)
        definition, progress, entry = begin(draft, ScheduleId(number))
        failed = number % 5 == 0
        status = "failed" if failed else "completed"
        run = Run(
            RunId(number), definition.id, "trigger", now, status, 1, 0, 1, None, None, now, now, None, None,
            None if failed else '"done"', "as always" if failed else None, None, 0, None, 1, kind, OWNER, "filled",
        )  # fmt: skip
        yield Row((definition, progress, entry), run)


def fill_week(store: SqliteStore, count: int, now: Instant) -> None:
    """Insert daily schedules at any minute of the day, each with a run on every day of the last week; a few failed."""
    fill(store, count, now)
    week = [Instant(now - days * DAY) for days in range(7, 0, -1)]
    number = count
    with store._write():
        for past in week:
            runs = []
            for row in rows(1, count, past):
                number += 1
                moment = Instant(past + row.run.schedule * SECOND % HOUR)
                status = "failed" if row.run.schedule % 50 == 0 else "completed"
                error = "connection refused" if status == "failed" else None
                runs.append(
                    row.run._replace(
                        id=RunId(number), due=moment, started=moment, finished=moment, status=status, error=error
                    )
                )
            store._writer.executemany(SQL["insert_run"], runs)


def fill(store: SqliteStore, count: int, now: Instant) -> None:
    for first in range(1, count + 1, CHUNK):
        batch = list(rows(first, min(CHUNK, count + 1 - first), now))
        with store._write() as tx:
            tx.insert_schedules([row.schedule for row in batch])
            store._writer.executemany(  # rows of new schedules have neither
                "UPDATE progress SET last_status = ?, last_run = ? WHERE schedule = ?",
                ((row.run.status, now, row.run.schedule) for row in batch),
            )
            store._writer.executemany(SQL["insert_run"], (row.run for row in batch))
