"""`/readyz`: whether new schedules would fire. It says what is wrong and reveals nothing else."""

from __future__ import annotations

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from duetime.engine.errors import DuetimeError
from duetime.engine.scheduler import Scheduler
from duetime.engine.worker.lease import ExchangeAge
from duetime.service.presenters import is_alive

OK = "ok"


def readiness(scheduler: Scheduler, age: ExchangeAge) -> Route:
    async def answer(_request: Request) -> Response:
        checks = await anyio.to_thread.run_sync(checked, scheduler, age)
        ready = all(said == OK for said in checks.values())
        return JSONResponse({"status": "ready" if ready else "not ready", "checks": checks}, 200 if ready else 503)

    return Route("/readyz", answer)


def checked(scheduler: Scheduler, age: ExchangeAge) -> dict[str, str]:
    """Check readiness: cheap enough to poll every second, and without naming files or addresses."""
    store = scheduler.store
    try:
        schema, workers = store.schema(), store.workers()
    except DuetimeError:
        unknown = "not known while the store cannot be reached"
        return {"store": "cannot be reached", "schema": unknown, "worker": unknown, "exchange": _exchange(age)}
    known, now = store.known_schema, scheduler.clock.now()
    other = f"the store has schema {schema}, and this program knows {known}: use the same version everywhere"
    lives = any(is_alive(worker, now) for worker in workers)
    return {
        "store": OK,
        "schema": OK if schema == known else other,
        "worker": OK if lives else "no worker is running: start `duetime serve` or `duetime worker`",
        "exchange": _exchange(age),
    }


def _exchange(age: ExchangeAge) -> str:
    """Check whether the worker of this process, if there is one, makes progress."""
    if not age.too_old:
        return OK
    return f"the worker here has completed no exchange with the store for {age.seconds:.0f} s: the log says why"
