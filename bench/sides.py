"""Measures several sides in alternating rounds, and searches for the fastest settings of each peer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.environments import Peer, load_peers, python_of
from bench.lines import Figure
from bench.processes import ROOT, NotMeasured, busy_percent, fsync_milliseconds, run_duetime, say
from bench.stores import Stores

ROUND_SECONDS = 20
"""The longest that one round of a peer should take."""
MINIMUM = 500
AGAIN = 3
"""How many of the best settings are tried a second time."""
Measure = Callable[[], dict[str, Any]]


@dataclass(slots=True)
class Side:
    """A program that a workload compares with others. `results` contains one result per round."""

    name: str
    measure: Measure
    settings: str = ""
    program: str = "Duetime"
    results: list[dict[str, Any]] = field(default_factory=list)
    reason: str = ""
    fsyncs: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)

    def figure(self, key: str = "rate") -> Figure:
        samples = tuple(float(result[key]) for result in self.results)
        fsync = median(self.fsyncs) if self.fsyncs else None
        busy = median(self.busy) if self.busy else None
        durability = self.results[0].get("durability", "") if self.results else ""
        return Figure(self.name, samples, self.settings, durability, self.program, self.reason, fsync, busy)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each workload does."""

    jobs: int = 20_000
    waits: int = 2_000
    filled: int = 1_000_000
    others: int = 100_000
    rate: int = 200
    seconds: int = 10
    creates: int = 2_000
    present: tuple[int, ...] = (1_000, 10_000, 100_000)
    bulk: int = 100_000
    wake_ups: int = 200
    idle_seconds: int = 10
    cron_steps: int = 1_000
    calls: int = 500
    starts: int = 5
    serve_seconds: int = 10


SMALL = Sizes(
    jobs=1_000, waits=200, filled=2_000, others=1_000, rate=100, seconds=1, creates=100, present=(100, 1_000),
    bulk=2_000, wake_ups=5, idle_seconds=1, cron_steps=50, calls=20, starts=1, serve_seconds=1,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bench:
    """The context of a workload: stores, sizes, and how sides are measured."""

    stores: Stores
    sizes: Sizes
    rounds: int
    with_peers: bool
    search_seconds: float
    other: Path | None = None
    judged: bool = True
    """Whether figures are compared with goals, which are for the full sizes."""

    def measure(self, what: str, sides: Sequence[Side]) -> None:
        """Measure all sides in turn, in every other round in the reverse order."""
        for number in range(self.rounds):
            for side in sides if number % 2 == 0 else reversed(sides):
                if side.reason:
                    continue
                say(f"{what}: {side.name}, round {number + 1} of {self.rounds}")
                side.busy.append(busy_percent())
                side.fsyncs.append(fsync_milliseconds())
                try:
                    side.results.append(side.measure())
                except NotMeasured as error:
                    side.reason = str(error)
                    say(f"{what}: {side.name} not measured: {error}")

    def duetime(self, measurement: str, store: str | None, *, name: str = "Duetime", **request: Any) -> Side:
        """Return the side of this checkout, with a new store for each round unless the request names one."""
        return Side(name, lambda: self.run_duetime(measurement, store, ROOT, **request))

    def run_duetime(self, measurement: str, store: str | None, checkout: Path, **request: Any) -> dict[str, Any]:
        with ExitStack() as stack:
            if store is not None and "url" not in request:
                request = {"url": stack.enter_context(self.stores.fresh(store)), **request}
            return run_duetime(measurement, checkout, **request)

    def peers(
        self, names: Sequence[str], measurement: str, store: str | None, small: dict[str, Any], **request: Any
    ) -> list[Side]:
        """Return the sides of peers with their fastest settings; `small` replaces fields of the request meanwhile."""
        if not self.with_peers:
            return []
        return [self._peer(load_peers()[name], measurement, store, {**request, **small}, request) for name in names]

    def _peer(
        self, peer: Peer, measurement: str, store: str | None, small: dict[str, Any], request: dict[str, Any]
    ) -> Side:
        def run(asked: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
            with ExitStack() as stack:
                own = {} if store is None else {"url": stack.enter_context(self.stores.fresh(store))}
                return peer.measure(measurement, **own, **asked, **settings)

        side = Side(peer.title, dict, program=peer.title)
        try:
            python_of(peer)
            best = self._best(peer, measurement, lambda settings: run(small, settings))
        except NotMeasured as error:
            side.reason = str(error)
            say(f"{measurement}: {peer.title} not measured: {error}")
            return side
        fitting = _fitting(request, best.rate)
        shown = {**best.settings, **{name: value for name, value in fitting.items() if value != request[name]}}
        chosen = ", ".join(f"{name}={value}" for name, value in shown.items())
        side.settings = f"{chosen} ({best.searched})" if best.searched else chosen
        side.measure = lambda: run(fitting, best.settings)
        return side

    def _best(self, peer: Peer, measurement: str, run: Callable[[dict[str, Any]], dict[str, Any]]) -> Best:
        """Return the fastest of the candidates that were tried in time. Fail only if all of them fail.

        The best ones are tried a second time, because a single try depends on what else the machine did.
        """
        candidates = peer.candidates[measurement]
        if len(candidates) == 1:
            return Best(0.0, candidates[0], "")
        scores: dict[int, float] = {}
        failure = NotMeasured("no settings were tried")
        deadline = time.monotonic() + self.search_seconds
        tried = 0
        for number in range(len(candidates)):
            if number and time.monotonic() > deadline:
                break
            tried += 1
            try:
                scores[number] = _score(peer, measurement, candidates[number], run)
            except NotMeasured as error:
                say(f"{measurement}: {peer.title}, {candidates[number]}: {error}")
                failure = error
        if not scores:
            raise failure
        for number in sorted(scores, key=lambda each: scores[each])[-AGAIN:]:
            try:
                scores[number] = max(scores[number], _score(peer, measurement, candidates[number], run))
            except NotMeasured as error:
                say(f"{measurement}: {peer.title}, {candidates[number]}: {error}")
        best = max(scores, key=lambda each: scores[each])
        return Best(max(scores[best], 0.0), candidates[best], f"fastest of {tried} of {len(candidates)} settings")


class Best(NamedTuple):
    """The fastest settings. The rate is 0 where there is no choice, or where lateness is measured."""

    rate: float
    settings: dict[str, Any]
    searched: str


def _score(
    peer: Peer, measurement: str, settings: dict[str, Any], run: Callable[[dict[str, Any]], dict[str, Any]]
) -> float:
    """Return the rate or, for lateness, the negative p50: more is better."""
    result = run(settings)
    score = float(result["rate"] if "rate" in result else -result["p50"])
    say(f"{measurement}: {peer.title}, {settings}: {abs(score):,.2f}")
    return score


def _fitting(request: dict[str, Any], rate: float) -> dict[str, Any]:
    """Return the request with fewer jobs or calls where a slow peer would need too long for all of them."""
    most = max(MINIMUM, int(rate * ROUND_SECONDS)) if rate else None
    return {
        name: min(value, most) if most is not None and name in ("jobs", "calls") else value
        for name, value in request.items()
    }
