"""`/metrics` for Prometheus: lateness, durations, queue depth and workers, read from the store at each scrape."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Final

import anyio.to_thread
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from duetime.engine.clock import SECOND, Clock
from duetime.engine.errors import DuetimeError
from duetime.engine.model import LIVE, RunId, first_start, lane_of
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import RunQuery, Store
from duetime.engine.store_interfaces import BOUNDS, UNKNOWN, Living, Tally, tally_of
from duetime.engine.worker.lease import ExchangeAge
from duetime.http.auth import WebContext
from duetime.service.workers import is_alive

# -- statistics of runs, summed up from the store, whichever process executed them -----------------------------------

SLACK: Final = 5.0
"""Seconds that a commit may take: on some stores, a late one has ids below those already seen."""
_CHUNK: Final = 1000


LATENESS: Final = "duetime_lateness_seconds"
DURATION: Final = "duetime_duration_seconds"


@dataclass
class Sums:
    """Ended runs by kind and status, started runs by kind, and histograms of lateness and duration."""

    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    begun: Counter[str] = field(default_factory=Counter)
    buckets: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """The runs in each bucket of a histogram, by its name and the kind."""
    totals: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The sums of the histograms in microseconds."""

    def add(self, tally: Tally, *, begun_before: bool = False) -> None:
        if tally.begun and not begun_before:
            self.begun[tally.kind] += tally.number
        if tally.status in LIVE:
            return
        self.ended[tally.kind, tally.status] += tally.number
        for name, bucket, total in ((LATENESS, tally.late, tally.late_for), (DURATION, tally.took, tally.took_for)):
            if bucket != UNKNOWN:
                self.buckets[name, tally.kind, bucket] += tally.number
                self.totals[name, tally.kind] += total

    def with_(self, tallies: Iterable[Tally]) -> Sums:
        both = deepcopy(self)
        for tally in tallies:
            both.add(tally)
        return both


class Tallies:
    """Running totals since this object was created. Use it from one thread at a time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._settled = store.newest_run()
        self._mark = (clock.monotonic(), self._settled)
        self._sums = Sums()
        self._alive = {one.id: bool(one.begun) for one in store.living()}
        """Live runs up to the settled id, and whether their start is already counted."""

    def look(self, living: Sequence[Living]) -> Sums:
        """Return the current sums. The runs in `living`, just read from the store, are excluded from the settled sums
        and followed."""
        newest, now = self._store.newest_run(), self._clock.monotonic()
        if now - self._mark[0] >= SLACK:
            self._settle(self._mark[1], living)
            self._mark = (now, newest)
        self._follow({one.id for one in living})
        return self._sums.with_(self._store.tally(self._settled, newest))

    def _settle(self, upto: RunId, living: Sequence[Living]) -> None:
        followed = [one for one in living if self._settled < one.id <= upto]
        for tally in self._store.tally(self._settled, upto, [one.id for one in followed]):
            self._sums.add(tally)
        for one in followed:
            self._alive[one.id] = bool(one.begun)
            self._sums.begun[one.kind] += one.begun
        self._settled = upto

    def _follow(self, alive: set[RunId]) -> None:
        """Count followed runs that have ended. A run missing from `alive` has ended, unless the store returned only a
        part."""
        gone = sorted(self._alive.keys() - alive)
        for begin in range(0, len(gone), _CHUNK):
            ids = gone[begin : begin + _CHUNK]
            runs = self._store.runs(RunQuery(ids=tuple(ids), limit=_CHUNK, count_to=0)).items
            for merged in set(ids) - {run.id for run in runs}:  # a skip whose row was added to the one before it
                del self._alive[merged]
            for run in runs:
                if run.status not in LIVE:
                    first = first_start(run, self._store.attempts(run.id) if run.attempt > 1 else [])
                    self._sums.add(tally_of(run, first), begun_before=self._alive.pop(run.id))


ENDINGS: Final = ("completed", "failed", "missed", "skipped", "cancelled", "lost")


class StoreCollector(Collector):
    """Reads the metrics from the store, at a cost that does not grow with its size."""

    def __init__(self, scheduler: Scheduler, age: ExchangeAge) -> None:
        self._scheduler, self._store = scheduler, scheduler.store
        self._age = age
        self._tallies = Tallies(self._store, scheduler.clock)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, because registration would otherwise query the store."""
        return ()

    def collect(self) -> Iterator[Metric]:
        now, kinds = self._scheduler.clock.now(), sorted(self._scheduler.kinds)
        living = self._store.living()
        sums = self._tallies.look(living)
        shapes: tuple[dict[str, bool], ...] = ({}, {"at_most_once": True}, {"suspect": True})
        usual = [lane_of(kind, **shape) for kind in self._scheduler.kinds for shape in shapes]
        lanes = list(dict.fromkeys([*usual, *self._store.lanes()]))
        entry = self._store.earliest(lanes)
        lag = 0.0 if entry is None else max(0.0, (now - entry.at) / SECOND)
        yield GaugeMetricFamily("duetime_due_lag_seconds", "How long the oldest due entry has been waiting.", lag)
        depths = [([lane], number) for lane, number in self._store.depths(lanes, now).items()]
        yield _gauge("duetime_queue_depth", "Due entries that no worker has taken yet.", ["lane"], depths)
        alive = Counter(worker.session for worker in self._store.workers() if is_alive(worker, now))
        workers = [([str(session)], alive[session]) for session in (0, 1)]
        yield _gauge("duetime_workers", "Workers that live, by whether they stay.", ["session"], workers)
        age: list[tuple[list[str], float]] = [] if self._age.seconds is None else [([], self._age.seconds)]
        yield _gauge("duetime_exchange_age_seconds", "Since the worker here last completed an exchange.", [], age)
        live = sorted(Counter((one.kind, one.status) for one in living).items())
        yield _gauge("duetime_live_runs", "Runs that have not ended.", ["kind", "status"], live)
        claimed = CounterMetricFamily("duetime_runs_claimed", "Runs that began, by kind.", labels=["kind"])
        ended = CounterMetricFamily(
            "duetime_runs_ended", "Occurrences that ended, by kind and how.", labels=["kind", "status"]
        )
        for kind in kinds:
            claimed.add_metric([kind], sums.begun[kind])
            for status in ENDINGS:
                ended.add_metric([kind, status], sums.ended[kind, status])
        yield claimed
        yield ended
        yield _histogram(LATENESS, "From the due instant to the start.", sums)
        yield _histogram(DURATION, "From the start to the end.", sums)


def _gauge(name: str, words: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=labels)
    for named, value in values:
        family.add_metric(named, value)
    return family


def _histogram(name: str, words: str, sums: Sums) -> Metric:
    family = HistogramMetricFamily(name, words, labels=["kind"])
    bounds = [*(str(bound) for bound in BOUNDS), "+Inf"]
    for kind in sorted(kind for histogram, kind in sums.totals if histogram == name):
        counts = accumulate(sums.buckets[name, kind, bucket] for bucket in range(len(bounds)))
        family.add_metric([kind], list(zip(bounds, map(float, counts), strict=True)), sums.totals[name, kind] / SECOND)
    return family


def metrics(context: WebContext, age: ExchangeAge) -> Route:
    """Return the route `/metrics`, with a registry of its own that excludes metrics of other libraries."""
    one_at_a_time = threading.Lock()

    @cache
    def registry() -> CollectorRegistry:
        collectors = CollectorRegistry(auto_describe=False)
        collectors.register(StoreCollector(context.services.scheduler, age))
        return collectors

    def text() -> bytes:
        with one_at_a_time:
            return generate_latest(registry())

    async def answer(_request: Request) -> Response:
        if not context.may_operate(context.identify("rest")):
            return JSONResponse({"error": "This needs a token with the scope operator."}, 403)
        try:
            return Response(await anyio.to_thread.run_sync(text), media_type=CONTENT_TYPE_LATEST)
        except DuetimeError:
            return JSONResponse({"error": "The store cannot be reached right now."}, 503)

    return Route("/metrics", answer)


# `/readyz`: whether new schedules would fire. It says what is wrong and reveals nothing else.

OK = "ok"


def readiness(scheduler: Scheduler, age: ExchangeAge) -> Route:
    async def answer(_request: Request) -> Response:
        checks = await anyio.to_thread.run_sync(check_readiness, scheduler, age)
        ready = all(result == OK for result in checks.values())
        return JSONResponse({"status": "ready" if ready else "not ready", "checks": checks}, 200 if ready else 503)

    return Route("/readyz", answer)


def check_readiness(scheduler: Scheduler, age: ExchangeAge) -> dict[str, str]:
    """Check readiness: cheap enough to poll every second, and without naming files or addresses."""
    store = scheduler.store
    try:
        schema, workers = store.schema(), store.workers()
        fits = store.fits(schema)
    except DuetimeError:
        unknown = "not known while the store cannot be reached"
        return {"store": "cannot be reached", "schema": unknown, "worker": unknown, "exchange": _exchange(age)}
    known, now = store.known_schema, scheduler.clock.now()
    other = f"the store has schema {schema}, and this program knows {known}: use the same version everywhere"
    lives = any(is_alive(worker, now) for worker in workers)
    return {
        "store": OK,
        "schema": OK if fits else other,
        "worker": OK if lives else "no worker is running: start `duetime serve` or `duetime worker`",
        "exchange": _exchange(age),
    }


def _exchange(age: ExchangeAge) -> str:
    """Check whether the worker of this process, if there is one, makes progress."""
    if not age.too_old:
        return OK
    return f"the worker here has completed no exchange with the store for {age.seconds:.0f} s: the log says why"
