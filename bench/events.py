"""`python -m bench.events`: events over HTTP at a fixed rate, each of which starts a run of one of many schedules.

A server with its worker runs on a SQLite file. Another process sends, on connections that are kept open, and measures
how long each answer takes; how late each run started is read from the history. With `--schedules 1000000`, as many
schedules that do not listen are stored beside them, which must change nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.serve import Client
from duetime.app import open_store
from duetime.engine.clock import HOUR, SECOND, SystemClock
from duetime.engine.store import RunQuery
from scorecard.serving import serving

OWNER = "sender"
CLIENTS = 20
LISTENERS = 100
PER_MINUTE = 10_000
MAX_ANSWER_SECONDS = 0.25
MAX_START_SECONDS = 2.0
"""Bounds of the 99th percentiles."""
PATIENCE = 60.0


class Load(NamedTuple):
    """The number of events and of their runs, and the 99th percentiles in seconds."""

    sent: int
    runs: int
    answer: float
    start: float
    rate: float
    """Events a second that were really sent."""

    @property
    def is_within_bounds(self) -> bool:
        return self.runs == self.sent and self.answer < MAX_ANSWER_SECONDS and self.start < MAX_START_SECONDS


def percentile(values: Sequence[float]) -> float:
    return sorted(values)[max(0, len(values) * 99 // 100 - 1)]


def measure_events(seconds: float, per_minute: int = PER_MINUTE, schedules: int = 0) -> Load:
    """Send events for some seconds, wait until all have run, and return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'bench.db'}"
        if schedules:
            _fill(url, schedules)
        limits = f"max_schedules = {schedules + LISTENERS}\nmax_stored_bytes = {1 << 40}\n"
        with serving(limits, "--db", url) as server:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                answers, took = pool.apply(_send_for, (server.port, server.token(OWNER), seconds, per_minute))
            starts = _starts(url, len(answers))
            assert server.alive, server.log
    return Load(len(answers), len(starts), percentile(answers), percentile(starts or [PATIENCE]), len(answers) / took)


def _fill(url: str, number: int) -> None:
    from tests.support.drafts import every

    store = open_store(url)
    store.migrate()
    now = SystemClock().now()
    for begin in range(0, number, 10_000):
        store.create([every(HOUR, now, owner=OWNER) for _ in range(min(10_000, number - begin))])
    store.close()


def _starts(url: str, number: int) -> list[float]:
    """Return how many seconds after its event each run started, once all have ended."""
    store = open_store(url)
    deadline = time.monotonic() + PATIENCE
    query = RunQuery(owner=OWNER, status="completed", limit=1, count_to=10 * number)
    while store.runs(query).total < number and time.monotonic() < deadline:
        time.sleep(0.1)
    runs, cursor = [], None
    while True:
        page = store.runs(RunQuery(owner=OWNER, status="completed", limit=1000, count_to=0, cursor=cursor))
        runs += page.items
        cursor = page.cursor
        if cursor is None:
            break
    store.close()
    causes = {(run.schedule, run.cause) for run in runs if run.cause.startswith("event:")}
    assert len(causes) == len(runs), "two runs of one schedule for one event"
    return [((run.started or run.due) - run.due) / SECOND for run in runs]


def _send_for(port: int, token: str, seconds: float, per_minute: int) -> tuple[list[float], float]:
    return asyncio.run(_send_all(port, token, seconds, per_minute))


async def _send_all(port: int, token: str, seconds: float, per_minute: int) -> tuple[list[float], float]:
    clients = [await Client.connect(port, token) for _ in range(CLIENTS)]
    for number in range(LISTENERS):
        job = {"kind": "job", "name": f"listener {number}", "when": f"on load.test where n = {number}"}
        await clients[0].ask(
            "POST", "/schedules", {**job, "payload": {"task": "echo"}, "policy": {"queue_limit": 10_000}}
        )
    answers: list[float] = []
    began = time.monotonic()
    total, pause = int(per_minute * seconds / 60), CLIENTS * 60 / per_minute

    async def work(client: Client, first: int) -> None:
        """Send every so many of the events, each at its time."""
        for turn, number in enumerate(range(first, total, CLIENTS)):
            due = began + turn * pause + first * pause / CLIENTS
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            event = {"event": "load.test", "data": {"n": number % LISTENERS}, "idempotency_key": f"event {number}"}
            sent = time.monotonic()
            json.loads(await client.ask("POST", "/events", event))
            answers.append(time.monotonic() - sent)

    await asyncio.gather(*(work(client, place) for place, client in enumerate(clients)))
    took = time.monotonic() - began
    for client in clients:
        client.close()
    return answers, took


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.events", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--per-minute", type=int, default=PER_MINUTE)
    parser.add_argument("--schedules", type=int, default=0, help="schedules that do not listen")
    options = parser.parse_args(arguments)
    load = measure_events(options.seconds, options.per_minute, options.schedules)
    print(f"events sent         {load.sent:>10,}   {load.rate:.0f} a second")
    print(f"runs                {load.runs:>10,}   {load.sent - load.runs} lost")
    print(f"answer, p99         {load.answer * 1000:>10.1f} ms, below {MAX_ANSWER_SECONDS * 1000:g}")
    print(f"start, p99          {load.start * 1000:>10.1f} ms, below {MAX_START_SECONDS * 1000:g}")
    return 0 if load.is_within_bounds else 1


if __name__ == "__main__":
    sys.exit(main())
