"""`/calendar/TOKEN.ics`: what is to come, for calendar programs. They know no headers, so the token is in the address.

Such a token opens this feed and nothing else, and can be revoked. The server writes no access log, so that the address
stands in none.
"""

from __future__ import annotations

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from duetime.core.errors import DuetimeError
from duetime.core.kind import LOCAL, Caller
from duetime.core.model import Schedule
from duetime.core.result import Err
from duetime.core.scheduler import Scheduler
from duetime.core.store import ScheduleQuery
from duetime.faces.calendar import calendar_of
from duetime.faces.http.tokens import InvalidToken, Tokens

MOST = 2000
"""Schedules of one feed, the next to fire first: a calendar program reads all of it again and again."""
_PAGE = 500
_HEADERS = {"Cache-Control": "private, no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}


def calendar_feed(scheduler: Scheduler, tokens: Tokens | None) -> Route:
    """Without tokens whoever comes is the local owner."""

    async def feed(request: Request) -> Response:
        token = request.path_params["token"]
        try:
            owner = LOCAL if tokens is None else tokens.verify(token).owner
        except InvalidToken:  # as if it were not there: whoever guesses learns nothing
            return PlainTextResponse("There is no such calendar.\n", 404, _HEADERS)
        try:
            made = await anyio.to_thread.run_sync(_calendar, scheduler, owner)
        except DuetimeError:
            return PlainTextResponse("The store cannot be reached just now; try again.\n", 503, _HEADERS)
        return Response(made, media_type="text/calendar; charset=utf-8", headers=_HEADERS)

    return Route("/calendar/{token}.ics", feed, methods=["GET"])


def _calendar(scheduler: Scheduler, owner: str) -> bytes:
    return calendar_of(_coming(scheduler, owner), scheduler.clock.now(), name=f"Duetime: {owner}")


def _coming(scheduler: Scheduler, owner: str) -> list[Schedule]:
    found: list[Schedule] = []
    cursor = None
    while len(found) < MOST:
        query = ScheduleQuery(status="living", by_time=True, limit=_PAGE, cursor=cursor)
        page = scheduler.search(Caller(owner), query)
        if isinstance(page, Err):
            raise DuetimeError(page.message)
        found += page.value.items
        cursor = page.value.cursor
        if cursor is None:
            break
    return found[:MOST]
