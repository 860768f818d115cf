"""Server-sent events: what the caller's schedules do, as it happens."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Annotated, Any, Final

import anyio
import anyio.to_thread
from fastapi import Header, Query, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from duetime.engine.clock import Clock
from duetime.engine.errors import DuetimeError
from duetime.engine.store import Store
from duetime.rest.dependencies import Caller, Threads, problems, router
from duetime.rest.errors import Refused, refuse
from duetime.rest.requests import EventsAsked, owner_of, zone_of
from duetime.service.change_feed import Event, Follower, Look, Position, position_of
from duetime.service.owner_limits import TooManyRequests

EVERY: Final = 0.4
"""Seconds between two looks: what another process did is heard of within a second."""
AT_LEAST: Final = 0.05
"""Seconds between two looks, however much this process writes."""
QUIET: Final = 15.0
"""Seconds of silence after which a comment shows that the stream is alive."""
MOST: Final = 256
MOST_OF_ONE: Final = 16
"""Streams at a time, of all callers and of one owner: every one of them looks several times a second."""

InThread = Callable[..., Awaitable[Any]]

routes = router("events")
LastEventId = Annotated[
    str | None, Header(description="The id of the last event that was heard; the stream goes on there.")
]
_DOCUMENT = {
    "description": (
        "Events `schedule.created`, `schedule.changed`, `schedule.deleted` (with the schedule), `run.fired`, "
        "`run.ended` (with the run, without its result, and `schedule_status`), and `gap` where more happened than is "
        "told. After a reconnection some may come twice."
    ),
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


class Streams:
    """Who is listening just now."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()

    @contextmanager
    def one(self, owner: str) -> Iterator[None]:
        """A place among them, from the moment of asking on: of many who ask at once, not all get in."""
        if self._of.total() >= MOST or self._of[owner] >= MOST_OF_ONE:
            raise refuse("too_many_streams", "so many streams are open that no further one is; close some first")
        self._of[owner] += 1
        try:
            yield
        finally:
            self._of[owner] -= 1
            self._of = +self._of  # without those who have none any more


class Bell:
    """Rings in the server's loop when this process has written."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def wait(self) -> None:
        """Until it rings or the next look is due anyway; never without a pause."""
        with anyio.move_on_after(EVERY):
            await anyio.sleep(AT_LEAST)
            await self._rung.wait()
        self._rung.clear()


@contextmanager
def bell_of(store: Store) -> Iterator[Bell]:
    loop, bell = asyncio.get_running_loop(), Bell()

    def ring() -> None:
        loop.call_soon_threadsafe(bell.ring)

    quiet = store.on_change(ring)
    try:
        yield bell
    finally:
        quiet()


@routes.get("/events", response_class=StreamingResponse, responses={200: _DOCUMENT, **problems(429)})
async def events(
    request: Request,
    call: Caller,
    threads: Threads,
    asked: Annotated[EventsAsked, Query()],
    last_event_id: LastEventId = None,
) -> Response:
    """What happens to the caller's schedules from now on, or since the last event that was heard."""
    streams: Streams = request.app.state.streams
    with ExitStack() as place:
        place.enter_context(streams.one(call.caller.owner))
        owner, zone = owner_of(call, asked.owner), zone_of(call, asked.timezone)
        begin = partial(Follower, call.scheduler, call.caller, owner, zone, position_of(last_event_id))
        look_for = partial(threads.run, call.caller.owner)
        follower = await look_for(begin)
        told = _told(follower, call.scheduler.store, call.scheduler.clock, look_for)
        return _Placed(told, place.pop_all())


class _Placed(StreamingResponse):
    """Gives its place up when it ends, however it does."""

    def __init__(self, told: AsyncIterator[str], place: ExitStack) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(told, media_type="text/event-stream", headers=headers)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await super().__call__(scope, receive, send)


async def _told(
    follower: Follower, store: Store, clock: Clock, look_for: InThread = anyio.to_thread.run_sync
) -> AsyncIterator[str]:
    """Ends only with its reader, or when the server ends it."""
    yield "retry: 2000\n\n"
    spoken = clock.monotonic()
    with bell_of(store) as bell:
        while True:
            pieces = await _pieces(follower, look_for)
            if not pieces and clock.monotonic() - spoken >= QUIET:
                pieces = [": still here\n\n"]
            for piece in pieces:
                yield piece
                spoken = clock.monotonic()
            await bell.wait()


async def _pieces(follower: Follower, look_for: InThread) -> list[str]:
    try:
        found: Look = await look_for(follower.look)
    except (DuetimeError, Refused):  # a store that is away is asked again; nothing of what happens is lost by that
        return [": the store cannot be reached just now\n\n"]
    except TooManyRequests:
        return [": other requests of this owner come first\n\n"]
    return [_piece(event, found.position) for event in found.events]


def _piece(event: Event, position: Position) -> str:
    return f"id: {position}\nevent: {event.type}\ndata: {json.dumps(event.data, ensure_ascii=False)}\n\n"
