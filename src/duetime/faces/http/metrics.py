"""`/metrics` for Prometheus: lateness, durations, what is due and who is at work. Read from the store when asked."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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

from duetime.core.clock import SECOND, Instant
from duetime.core.errors import DuetimeError
from duetime.core.exchange_age import ExchangeAge
from duetime.core.figures import BOUNDS
from duetime.core.model import lane_of
from duetime.core.scheduler import Scheduler
from duetime.faces.http.tallying import Spread, Tallies
from duetime.faces.mcp.tool import Call
from duetime.faces.present import is_alive

ENDINGS: Final = ("completed", "failed", "missed", "skipped", "cancelled", "lost")


class StoreCollector(Collector):
    """Asks the store, at a cost that does not grow with what is stored."""

    def __init__(self, scheduler: Scheduler, age: ExchangeAge) -> None:
        self._scheduler, self._store = scheduler, scheduler.store
        self._age = age
        self._tallies = Tallies(self._store, scheduler.clock)

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: the registry would otherwise ask the store."""
        return ()

    def collect(self) -> Iterator[Metric]:
        now = self._scheduler.clock.now()
        living = self._store.living()
        sums = self._tallies.look(living)
        kinds = sorted(self._scheduler.kinds)
        yield self._lag(now)
        yield self._depth(now)
        yield self._workers(now)
        yield self._exchange()
        live = GaugeMetricFamily("duetime_live_runs", "Runs that have not ended.", labels=["kind", "status"])
        for (kind, status), number in sorted(Counter((one.kind, one.status) for one in living).items()):
            live.add_metric([kind, status], number)
        yield live
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
        yield _histogram("duetime_lateness_seconds", "From the due instant to the start.", sums.lateness())
        yield _histogram("duetime_duration_seconds", "From the start to the end.", sums.durations())

    def _lanes(self) -> list[str]:
        shapes: tuple[dict[str, bool], ...] = ({}, {"at_most_once": True}, {"suspect": True})
        return [lane_of(kind, **shape) for kind in self._scheduler.kinds for shape in shapes]

    def _lag(self, now: Instant) -> Metric:
        entry = self._store.earliest(self._lanes())
        lag = 0.0 if entry is None else max(0.0, (now - entry.at) / SECOND)
        return GaugeMetricFamily("duetime_due_lag_seconds", "How long the oldest due entry has been waiting.", lag)

    def _depth(self, now: Instant) -> Metric:
        depth = GaugeMetricFamily("duetime_queue_depth", "Due entries that nobody took yet.", labels=["lane"])
        for lane, number in self._store.depths(self._lanes(), now).items():
            depth.add_metric([lane], number)
        return depth

    def _workers(self, now: Instant) -> Metric:
        alive = [worker for worker in self._store.workers() if is_alive(worker, now)]
        workers = GaugeMetricFamily("duetime_workers", "Workers that live, by whether they stay.", labels=["session"])
        for session in (0, 1):
            workers.add_metric([str(session)], sum(worker.session == session for worker in alive))
        return workers

    def _exchange(self) -> Metric:
        age = GaugeMetricFamily("duetime_exchange_age_seconds", "Since the worker here last completed an exchange.")
        if (seconds := self._age.seconds) is not None:
            age.add_metric([], seconds)
        return age


def _histogram(name: str, words: str, spreads: dict[str, Spread]) -> Metric:
    family = HistogramMetricFamily(name, words, labels=["kind"])
    names = [*(str(bound) for bound in BOUNDS), "+Inf"]
    for kind, spread in spreads.items():
        buckets = list(zip(names, map(float, accumulate(spread.within)), strict=True))
        family.add_metric([kind], buckets, spread.total / SECOND)
    return family


class Metrics:
    """A registry of its own: what other libraries count in this process is nobody's question here."""

    def __init__(self, scheduler: Scheduler, identify: Callable[[], Call], age: ExchangeAge, *, trusting: bool) -> None:
        self._scheduler, self._identify, self._trusting = scheduler, identify, trusting
        self._age = age
        self._one_at_a_time = threading.Lock()
        self._registry: CollectorRegistry | None = None

    def route(self) -> Route:
        return Route("/metrics", self._answer)

    async def _answer(self, _request: Request) -> Response:
        if not (self._trusting or self._identify().caller.operator):
            return JSONResponse({"error": "This needs a token with the scope operator."}, 403)
        try:
            text = await anyio.to_thread.run_sync(self._text)
        except DuetimeError:
            return JSONResponse({"error": "The store cannot be reached just now."}, 503)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    def _text(self) -> bytes:
        with self._one_at_a_time:
            if self._registry is None:
                self._registry = CollectorRegistry(auto_describe=False)
                self._registry.register(StoreCollector(self._scheduler, self._age))
            return generate_latest(self._registry)
