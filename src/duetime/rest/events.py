"""Server-sent events about the caller's schedules and runs, and events that callers send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Annotated, Any, Final

import anyio
from fastapi import Body, Header, Query
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from duetime.engine.clock import Clock
from duetime.engine.errors import DuetimeError
from duetime.engine.store import Store
from duetime.rest.dependencies import Caller, Threads, problems, router
from duetime.rest.operation_models import model_of, request_of
from duetime.rest.requests import EventsAsked, Given
from duetime.service import answers
from duetime.service.change_feed import Follower, Look, position_of
from duetime.service.operations.declaration import check_owner
from duetime.service.operations.emit import EmitEvent, emit, is_over, look_at_runs
from duetime.service.operations.history import run_views
from duetime.service.operations.waiting import await_result
from duetime.service.owner_limits import TooManyRequests
from duetime.service.warnings import warning_facts

EVERY: Final = 0.4
"""Seconds between two polls, so that changes by other processes are reported within a second."""
AT_LEAST: Final = 0.05
"""Minimum seconds between two polls, however much this process writes."""
QUIET: Final = 15.0
"""Seconds without events after which a comment keeps the stream alive."""
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


@routes.get("/events", response_class=StreamingResponse, responses={200: _DOCUMENT, **problems(429)})
async def events(
    call: Caller, threads: Threads, query: Annotated[EventsAsked, Query()], last_event_id: LastEventId = None
) -> Response:
    """Stream what happens to the caller's schedules from now on, or since the last event received."""
    with ExitStack() as place:
        place.enter_context(threads.streaming(call.caller.owner))
        call = call.in_zone(query.timezone)
        begin = partial(Follower, call, check_owner(call, query.owner), position_of(last_event_id))
        look_for = partial(threads.run, call.caller.owner)
        follower = await look_for(begin)
        stream = _stream(follower, call.scheduler.store, call.scheduler.clock, look_for)
        return _Placed(stream, place.pop_all())


EventGiven: Any = model_of("EventGiven", EmitEvent, Given)


@routes.post("/events", status_code=202, response_model=answers.EmittedEvent, responses=problems(413, 415, 429))
async def send_event(call: Caller, threads: Threads, body: Annotated[EventGiven, Body()]) -> Response:
    """Send an event: every schedule that waits for its name runs. It is stored before this answers, so that it is not
    lost. With an `idempotency_key`, it can be repeated safely."""
    in_thread = partial(threads.run, call.caller.owner)
    with threads.waiting(call.caller.owner) if body.wait_seconds else nullcontext():
        sent = await in_thread(partial(emit, call, request_of(EmitEvent, body)))
        sent = await await_result(
            sent, lambda seen: in_thread(partial(look_at_runs, call, seen)), is_over, body.wait_seconds
        )
    runs = await in_thread(partial(run_views, call, sent.value.runs)) if sent.value.runs else []
    facts = {**sent.value._asdict(), "runs": runs, "notes": list(sent.notes)}
    return JSONResponse({**facts, **warning_facts(sent.warnings)}, 202)


class _Placed(StreamingResponse):
    """Releases its slot among the open streams when the response ends, for whatever reason."""

    def __init__(self, stream: AsyncIterator[str], place: ExitStack) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(stream, media_type="text/event-stream", headers=headers)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await super().__call__(scope, receive, send)


async def _stream(follower: Follower, store: Store, clock: Clock, look_for: InThread) -> AsyncIterator[str]:
    """Yield the stream until the client leaves or the server ends it."""
    yield "retry: 2000\n\n"
    spoken = clock.monotonic()
    changed = asyncio.Event()  # set when this process has written to the store
    unsubscribe = store.on_change(partial(asyncio.get_running_loop().call_soon_threadsafe, changed.set))
    try:
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
    finally:
        unsubscribe()


async def _pieces(follower: Follower, look_for: InThread) -> list[str]:
    try:
        look: Look = await look_for(follower.look)
    except DuetimeError:  # the store is polled again later, and no event is lost
        return [": the store cannot be reached right now\n\n"]
    except TooManyRequests:
        return [": other requests of this owner come first\n\n"]
    return [
        f"id: {look.position}\nevent: {event.type}\ndata: {json.dumps(event.data, ensure_ascii=False)}\n\n"
        for event in look.events
    ]
