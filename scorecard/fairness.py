"""Fairness: one owner has a backlog or long work, and another has a job and a reminder each second."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.scene import noop_registry
from duetime.app import build
from duetime.engine.clock import SECOND, Instant, datetime_of
from duetime.engine.kind import Caller
from duetime.engine.validation import NewSchedule
from duetime.settings import Settings
from scorecard.allowance import allowance
from scorecard.line import Result, Scale, Tell
from scorecard.neighbour import Neighbour, Seen
from scorecard.serving import Server, serving

LATEST = 1.0
"""Seconds: the bound for the neighbour's p99."""
LONG_JOBS = 64
LONG_SECONDS = 30.0
SMALL_BACKLOG = 500
SMALL_SECONDS = 2.0
CHUNK = 1000
CREATED_A_SECOND = 2500
"""A rate slower than any machine stores them: the instant must not come before the last one is stored."""
SETTINGS = "max_schedules = 1000000\nmax_runs_per_hour = 0\ndrain = 0.1\n"


def measure(scale: Scale, tell: Tell) -> Result:
    if scale is Scale.SMALL:
        return _small(tell)
    backlog = {Scale.FULL: 50_000, Scale.TENTH: 10_000}[scale]
    seconds = {Scale.FULL: 60, Scale.TENTH: 20}[scale]
    after, _ = _situation(lambda server: _flood(server, backlog), seconds, tell)
    beside, _ = _situation(_occupy, seconds, tell)
    failures = [*_judged(f"beside {backlog:,} due", after), *_judged(f"beside {LONG_JOBS} long jobs", beside)]
    measured = (
        f"p99 {after.p99 * 1000:,.0f} ms beside the backlog ({after.ran} runs), "
        f"{beside.p99 * 1000:,.0f} ms beside long jobs ({beside.ran} runs)"
    )
    return Result({"due at once": backlog, "long jobs": LONG_JOBS}, measured, tuple(failures))


def _small(tell: Tell) -> Result:
    """Let both happen at once and for a short time. A busy machine may pass over an occurrence, and says so."""

    def burden(server: Server) -> None:
        _occupy(server)
        _flood(server, SMALL_BACKLOG)

    seen, slower = _situation(burden, SMALL_SECONDS, tell, Scale.SMALL)
    counts = {"due at once": SMALL_BACKLOG, "long jobs": LONG_JOBS}
    failures = _judged("beside both", seen._replace(not_run=seen.broken), LATEST * slower)
    return Result(counts, f"p99 {seen.p99 * 1000:,.0f} ms beside both ({seen.ran} runs)", tuple(failures))


def _situation(
    burden: Callable[[Server], None], seconds: float, tell: Tell, scale: Scale = Scale.FULL
) -> tuple[Seen, float]:
    """Return what became of the neighbour's work, and how far its bound is stretched."""
    with serving(SETTINGS) as server:
        slower = allowance(scale, server)
        neighbour = Neighbour(server)
        neighbour.begin()
        burden(server)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            tell(f"{deadline - time.monotonic():.0f} s left")
            time.sleep(0.25)
        neighbour.end()
        return neighbour.seen(), slower


def _flood(server: Server, count: int) -> None:
    """Create schedules that are all due at one instant, after the last one is stored."""
    settings = Settings(db=server.store, timezone="UTC", max_schedules=2 * count)
    app = build(settings, registry=noop_registry(), tasks=False)
    try:
        due = datetime_of(Instant(app.clock.now() + (1 + count // CREATED_A_SECOND) * SECOND)).isoformat()
        new = NewSchedule("job", "flood", "once", {"run_at": due}, {"task": "noop"})
        for begin in range(0, count, CHUNK):
            app.scheduler.create_many(Caller("mallory"), [new] * min(CHUNK, count - begin))
    finally:
        app.close()


def _occupy(server: Server) -> None:
    mallory = server.client("mallory")
    for number in range(LONG_JOBS):
        payload = {"task": "hold", "args": [LONG_SECONDS]}
        trigger = {"type": "once", "run_at": "now"}
        mallory.made("/schedules", {"kind": "job", "name": f"long {number}", "trigger": trigger, "payload": payload})


def _judged(where: str, seen: Seen, latest: float = LATEST) -> list[str]:
    failures = [f"{where}: {told}" for told in seen.not_run]
    if seen.p99 >= latest:
        failures.append(f"{where}: p99 {seen.p99:.2f} s, worst {seen.worst:.2f} s")
    if not seen.ran:
        failures.append(f"{where}: nothing of the neighbour ran")
    return failures
