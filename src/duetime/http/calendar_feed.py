"""`/calendar/TOKEN.ics`: upcoming runs for calendar programs. They cannot send headers, so the token is in the URL.

Such a token is valid only for this feed and can be revoked. The server writes no access log, so that the URL is never
logged.
"""

from __future__ import annotations

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from duetime.engine.errors import DuetimeError
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.scheduler import Scheduler
from duetime.security.claims import InvalidToken
from duetime.security.tokens import Tokens
from duetime.service.calendar import calendar_of

MOST = 2000
"""Maximum number of schedules in one feed, soonest first: calendar programs download all of it repeatedly."""
CUT = f"The {MOST:,} schedules that fire next. There are more, which this calendar leaves out."
_HEADERS = {"Cache-Control": "private, no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}


def calendar_feed(scheduler: Scheduler, tokens: Tokens | None) -> Route:
    """Return the route of the feed. Without `tokens`, every caller is the local owner."""

    async def feed(request: Request) -> Response:
        token = request.path_params["token"]
        try:
            grant = None if tokens is None else await anyio.to_thread.run_sync(tokens.verify, token)
            made = await anyio.to_thread.run_sync(_calendar, scheduler, LOCAL if grant is None else grant.owner)
        except InvalidToken:  # the same as a missing feed, so that guessing reveals nothing
            return PlainTextResponse("There is no such calendar.\n", 404, _HEADERS)
        except DuetimeError:
            return PlainTextResponse("The store cannot be reached just now; try again.\n", 503, _HEADERS)
        return Response(made, media_type="text/calendar; charset=utf-8", headers=_HEADERS)

    return Route("/calendar/{token}.ics", feed, methods=["GET"])


def _calendar(scheduler: Scheduler, owner: str) -> bytes:
    found = scheduler.coming(Caller(owner), None, MOST + 1)
    about = CUT if len(found) > MOST else None
    return calendar_of(found[:MOST], scheduler.clock.now(), name=f"Duetime: {owner}", about=about)
