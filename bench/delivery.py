"""`python -m bench.delivery`: notifications through the whole engine beside a bare client, and beside a dead host.

Everything is measured in one run against receivers in a process of their own: throughput in turns, lateness at the
same time, so that whatever else the machine does meets all sides. Fails where less than half of what a bare client
posts goes through, or where one dead host among ten makes the others later than the bound.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import httpx2

from bench.receivers import Receivers, refusing_url
from duetime.app import App, build
from duetime.engine.clock import SECOND, Instant, SystemClock, datetime_of
from duetime.engine.kind import Caller
from duetime.engine.store import RunQuery
from duetime.engine.validation import NewSchedule
from duetime.settings import ChannelSettings, NotificationSettings, Settings

LEAST_THROUGHPUT = 0.5
"""Minimum throughput, as a share of what a bare client loop sends."""
MOST_LATENESS = 1.2
"""Maximum lateness, as a multiple of the lateness when every host answers."""
HOSTS = 10
LAST = f"host-{HOSTS - 1}"
"""The host that does not answer in some of the measurements, and is counted in none."""
CALLER = Caller("bench")
FIELDS = {"title": "Bench", "priority": 3, "tags": ["tada"]}
TEXT = "a message of usual length, as people get them"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-delivery ARGS=...", description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000, help="due in the same second")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3, help="of both sides")
    parser.add_argument("--rate", type=int, default=100, help="messages a second to ten hosts")
    parser.add_argument("--seconds", type=int, default=30, help="of that rate, in each world")
    options = parser.parse_args()
    logging.getLogger("duetime").setLevel(logging.CRITICAL)  # that a dead host is dead, and its runs left behind
    with Receivers(HOSTS, silent=1) as receivers:
        fast = _throughput(receivers.urls[0], options.messages, options.threads, options.rounds)
        punctual = _beside_the_dead(receivers.urls, options.rate, options.seconds, options.threads)
    return 0 if fast and punctual else 1


def _verdict(held: bool) -> str:
    return "held" if held else "BROKEN"


# -- throughput ----------------------------------------------------------------------------------------------------


def _throughput(url: str, messages: int, threads: int, rounds: int) -> bool:
    print(f"{messages:,} notifications due in one second, {threads} threads, SQLite with fsync; all were delivered")
    pairs = []
    for _ in range(rounds):
        pairs.append((measure_bare(url, messages, threads), measure_engine(url, messages, threads)))
        print("  a bare client loop posts {:,.0f}/s, the engine delivers {:,.0f}/s".format(*pairs[-1]), flush=True)
    bare, ours = (median(column) for column in zip(*pairs, strict=True))
    held = bool(ours / bare >= LEAST_THROUGHPUT)
    print(f"medians {ours:,.0f}/s and {bare:,.0f}/s: {ours / bare:.2f}x, bound {LEAST_THROUGHPUT}x: {_verdict(held)}")
    return held


def measure_bare(url: str, messages: int, threads: int) -> float:
    """Return the posts a second. All threads share one client, as its documentation advises."""
    body = json.dumps({"topic": "bench", "message": TEXT, **FIELDS}).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": "bare"}
    numbers, drawing = iter(range(messages)), threading.Lock()
    limits = httpx2.Limits(max_connections=threads, max_keepalive_connections=threads)
    with httpx2.Client(limits=limits) as client:

        def loop() -> None:
            while True:
                with drawing:
                    if next(numbers, None) is None:
                        return
                client.post(url, content=body, headers=headers).raise_for_status()

        workers = [threading.Thread(target=loop) for _ in range(threads)]
        began = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return messages / (time.perf_counter() - began)


def measure_engine(url: str, messages: int, threads: int) -> float:
    """Return the deliveries a second, from the instant at which all are due to the record of the last."""
    with _scene(Settings(threads=threads, notifications=NotificationSettings(server=url))) as app:
        due = Instant(app.clock.now() + 2 * SECOND + messages * 1000)
        _create(app, ["bench"] * messages, [due] * messages)
        engine = app.engine()
        engine.start()
        assert app.clock.now() < due, "creating them took too long"
        while app.clock.now() < due:
            time.sleep(0.001)
        while app.store.earliest(engine.worker.lanes) is not None or engine.worker.claimed:
            assert engine.failure is None, engine.failure
            time.sleep(0.005)
        took = (app.clock.now() - due) / SECOND
        assert engine.stop() == 0
        done = app.store.runs(RunQuery(status="completed", limit=1)).total
        assert done == messages, f"{done} of {messages} were delivered"
        return messages / took


# -- one dead host -------------------------------------------------------------------------------------------------


def _beside_the_dead(urls: Sequence[str], rate: int, seconds: int, threads: int) -> bool:
    print(
        f"\n{rate}/s to {HOSTS} hosts for {seconds} s, from the instant to the record of arrival at {HOSTS - 1} of them"
    )
    worlds = {"all answer": urls[HOSTS - 1], "one is silent": urls[HOSTS], "one refuses": refusing_url()}
    begin = Instant(SystemClock().now() + 10 * SECOND + rate * seconds * 1000)
    with ProcessPoolExecutor(len(worlds), get_context("spawn")) as processes:
        measured = {
            world: processes.submit(measure_lateness, [*urls[: HOSTS - 1], last], rate, seconds, threads, begin)
            for world, last in worlds.items()
        }
        late = {world: sorted(each.result()) for world, each in measured.items()}
    p50, p99 = ({world: found[len(found) * share // 100] for world, found in late.items()} for share in (50, 99))
    held = True
    for world in worlds:
        ratio = p99[world] / p99["all answer"]
        held &= ratio <= MOST_LATENESS
        print(f"{world:>14}: p50 {p50[world]:.1f} ms, p99 {p99[world]:.1f} ms: {ratio:.2f}x")
    print(f"bound {MOST_LATENESS}x: {_verdict(held)}")
    return held


def measure_lateness(hosts: Sequence[str], rate: int, seconds: int, threads: int, begin: Instant) -> list[float]:
    """Return the lateness of each run in milliseconds, without those of the last host."""
    logging.getLogger("duetime").setLevel(logging.CRITICAL)
    channels = {f"host-{number}": ChannelSettings(url) for number, url in enumerate(hosts)}
    count = rate * seconds
    topics = [f"host-{number % len(hosts)}" for number in range(count)]
    with _scene(Settings(threads=threads, channels=channels)) as app:
        _create(app, topics, [Instant(begin + number * SECOND // rate) for number in range(count)])
        engine = app.engine()
        engine.start()
        assert app.clock.now() < begin, "creating them took too long"
        while app.clock.now() < begin + seconds * SECOND:
            time.sleep(0.1)
        while len(late := _arrived(app)) < sum(topic != LAST for topic in topics):
            assert engine.failure is None, engine.failure
            time.sleep(0.1)
        engine.stop(0)
        return late


def _arrived(app: App) -> list[float]:
    late: list[float] = []
    cursor = None
    while True:
        page = app.store.runs(RunQuery(status="completed", limit=1000, cursor=cursor))
        to_others = [run for run in page.items if json.loads(run.result or "{}").get("channel") != LAST]
        late += [((run.finished or 0) - run.due) / 1000 for run in to_others]
        if (cursor := page.cursor) is None:
            return late


# -- the scene -----------------------------------------------------------------------------------------------------


@contextmanager
def _scene(settings: Settings) -> Iterator[App]:
    with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder:
        own = {"db": str(Path(folder) / "bench.db"), "timezone": "UTC", "max_schedules": 1_000_000}
        app = build(replace(settings, **own), tasks=False)  # type: ignore[arg-type]
        try:
            yield app
        finally:
            app.close()


def _create(app: App, topics: Sequence[str], dues: Sequence[Instant]) -> None:
    news = [_new(topic, due) for topic, due in zip(topics, dues, strict=True)]
    for begin in range(0, len(news), 1000):
        app.scheduler.create_many(CALLER, news[begin : begin + 1000])


def _new(topic: str, due: Instant) -> NewSchedule:
    payload: Mapping[str, object] = {"message": TEXT, "topic": topic, **FIELDS}
    return NewSchedule("notification", "bench", "once", {"run_at": datetime_of(due).isoformat()}, payload)


if __name__ == "__main__":
    sys.exit(main())
