"""Server-sent events about the caller's schedules and runs, and events that callers send."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Annotated, Any, Final

import anyio
import anyio.to_thread
from fastapi import Body, Depends, Header, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from duetime.engine.clock import Clock
from duetime.engine.errors import DuetimeError
from duetime.engine.store import Store
from duetime.rest.dependencies import Caller, Threads, problems, router
from duetime.rest.errors import PARTS
from duetime.rest.operation_models import model_of, request_of
from duetime.rest.requests import EventsAsked, Given
from duetime.rest.responses import SentEventShape
from duetime.service.change_feed import Event, Follower, Look, Position, position_of
from duetime.service.errors import refuse
from duetime.service.operations.declaration import check_owner
from duetime.service.operations.emit import EmitEvent, emit, is_over, look_at_runs
from duetime.service.operations.history import run_views
from duetime.service.operations.waiting import await_result
from duetime.service.owner_limits import TooManyRequests, counted
from duetime.service.warnings import warning_facts

EVERY: Final = 0.4
"""Seconds between two polls, so that changes by other processes are reported within a second."""
AT_LEAST: Final = 0.05
"""Minimum seconds between two polls, however much this process writes."""
QUIET: Final = 15.0
"""Seconds without events after which a comment keeps the stream alive."""
MOST: Final = 256
MOST_OF_ONE: Final = 16
"""Maximum open streams, in total and of one owner: each of them polls several times a second."""

InThread = Callable[..., Awaitable[Any]]

routes = router("events")
LastEventId = Annotated[
    str | None, Header(description="The id of the last event received; the stream continues after it.")
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
    """Counts the open streams per owner."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()

    @contextmanager
    def one(self, owner: str) -> Iterator[None]:
        """Count one stream from the start of its request, so that concurrent requests cannot exceed the limit."""
        if self._of.total() >= MOST or self._of[owner] >= MOST_OF_ONE:
            raise refuse("too_many_streams", "too many streams are open; close some first")
        with counted(self._of, owner):
            yield


@contextmanager
def changes_of(store: Store) -> Iterator[asyncio.Event]:
    """Yield an event of the server's event loop that is set when this process has written to the store."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(changed.set)

    unsubscribe = store.on_change(wake)
    try:
        yield changed
    finally:
        unsubscribe()


def _streams_of(request: Request) -> Streams:
    streams: Streams = request.scope[PARTS].streams
    return streams


@routes.get("/events", response_class=StreamingResponse, responses={200: _DOCUMENT, **problems(429)})
async def events(
    streams: Annotated[Streams, Depends(_streams_of)],
    call: Caller,
    threads: Threads,
    query: Annotated[EventsAsked, Query()],
    last_event_id: LastEventId = None,
) -> Response:
    """Stream what happens to the caller's schedules from now on, or since the last event received."""
    with ExitStack() as place:
        place.enter_context(streams.one(call.caller.owner))
        call = call.in_zone(query.timezone)
        begin = partial(Follower, call, check_owner(call, query.owner), position_of(last_event_id))
        look_for = partial(threads.run, call.caller.owner)
        follower = await look_for(begin)
        stream = _stream(follower, call.scheduler.store, call.scheduler.clock, look_for)
        return _Placed(stream, place.pop_all())


EventGiven: Any = model_of("EventGiven", EmitEvent, Given)


@routes.post("/events", status_code=202, response_model=SentEventShape, responses=problems(413, 415, 429))
async def send_event(call: Caller, threads: Threads, body: Annotated[EventGiven, Body()]) -> Response:
    """Send an event: every schedule that waits for its name runs. It is stored before this answers, so that it is not
    lost. With an `idempotency_key`, it can be repeated safely."""
    in_thread = partial(threads.run, call.caller.owner)
    with threads.waiting(call.caller.owner) if body.wait_seconds else nullcontext():
        sent = await in_thread(partial(emit, call, request_of(EmitEvent, body)))
        look = lambda seen: in_thread(partial(look_at_runs, call, seen))  # noqa: E731
        sent = await await_result(sent, look, is_over, body.wait_seconds)
    runs = await in_thread(partial(run_views, call, sent.value.runs)) if sent.value.runs else []
    facts = {**sent.value._asdict(), "runs": runs, "notes": list(sent.notes)}
    return JSONResponse({**facts, **warning_facts(sent.warnings)}, 202)


class _Placed(StreamingResponse):
    """Releases its slot in `Streams` when the response ends, for whatever reason."""

    def __init__(self, stream: AsyncIterator[str], place: ExitStack) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(stream, media_type="text/event-stream", headers=headers)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await super().__call__(scope, receive, send)


async def _stream(
    follower: Follower, store: Store, clock: Clock, look_for: InThread = anyio.to_thread.run_sync
) -> AsyncIterator[str]:
    """Yield the stream until the client leaves or the server ends it."""
    yield "retry: 2000\n\n"
    spoken = clock.monotonic()
    with changes_of(store) as changed:
        while True:
            pieces = await _pieces(follower, look_for)
            if not pieces and clock.monotonic() - spoken >= QUIET:
                pieces = [": still here\n\n"]
            for piece in pieces:
                yield piece
                spoken = clock.monotonic()
            with anyio.move_on_after(EVERY):
                await anyio.sleep(AT_LEAST)
                await changed.wait()
            changed.clear()


async def _pieces(follower: Follower, look_for: InThread) -> list[str]:
    try:
        look: Look = await look_for(follower.look)
    except DuetimeError:  # the store is polled again later, and no event is lost
        return [": the store cannot be reached right now\n\n"]
    except TooManyRequests:
        return [": other requests of this owner come first\n\n"]
    return [_piece(event, look.position) for event in look.events]


def _piece(event: Event, position: Position) -> str:
    return f"id: {position}\nevent: {event.type}\ndata: {json.dumps(event.data, ensure_ascii=False)}\n\n"
