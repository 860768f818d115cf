"""A web application that schedules its own work and never blocks its event loop: `python web_application.py 8902`

curl -X POST "http://127.0.0.1:8902/greetings?name=Ann"
curl "http://127.0.0.1:8902/greetings"
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, HTTPException

from duetime import AsyncDuetime, LimitReached, task


@task
def greet(name: str) -> str:
    """Greet someone."""
    return f"Hello {name}"


@task
def clean_up() -> None:
    """Delete expired carts."""


duetime = AsyncDuetime("web_application.db")


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with duetime:  # opens the store and starts a worker, in threads
        await duetime.schedule(clean_up, every="1h", key="clean-up")  # the key: once, however often this starts
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/greetings")
async def create_greeting(name: str) -> dict[str, str | None]:
    """Greet someone in a second."""
    try:
        job = await duetime.schedule(greet, args=[name], delay="1s", name="greeting")
    except LimitReached as error:
        raise HTTPException(429, error.message) from None
    return {"id": job.id, "next_run": None if job.next_run is None else job.next_run.isoformat()}


@app.get("/greetings")
async def greetings() -> list[str]:
    return [str(run.result) for run in await duetime.history(status="completed") if run.name == "greeting"]


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]))
