"""API routes for the channels and for the notifications that arrived."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Query
from pydantic import Field
from starlette.responses import JSONResponse, Response

from duetime.kinds.notifications.kind import NotificationKind
from duetime.rest.dependencies import Caller, page_of, problems, router
from duetime.rest.operation_models import model_of, request_of
from duetime.rest.requests import Given, Paged
from duetime.rest.responses import ChannelsShape, ClosedModel, InboxShape
from duetime.service.operations.inbox import ListInbox, Mark, MarkMessages, mark_messages, message_views
from duetime.service.operations.inbox import inbox as read_inbox

InboxAsked: Any = model_of("InboxAsked", ListInbox, Paged, "limit", "cursor", "kind")
MarksGiven: Any = model_of("MarksGiven", MarkMessages, Given)
routes = router()


@routes.get("/channels", response_model=ChannelsShape, tags=["standing"])
def channels(call: Caller) -> Response:
    """List the channels for notifications."""
    names = call.services.kind(NotificationKind).places.described(call.caller.owner)
    return JSONResponse({"channels": names})


class MarkedShape(ClosedModel):
    marked: int = Field(description="How many messages were marked. Those of others do not count.")


@routes.get("/inbox", response_model=InboxShape, tags=["runs", "inbox"])
def inbox(call: Caller, query: Annotated[InboxAsked, Query()]) -> Response:
    """List delivered notifications, latest first, each with its channel and its mark."""
    call = call.in_zone(query.timezone)
    page = read_inbox(call, request_of(ListInbox, query)).value
    return page_of("messages", message_views(call, page.items), page)


@routes.post("/inbox/{mark}", response_model=MarkedShape, responses=problems(415), tags=["inbox"])
def mark_inbox(call: Caller, mark: Mark, body: Annotated[MarksGiven, Body()]) -> Response:
    """Mark the caller's own messages as read, dismiss them, or restore dismissed ones."""
    return JSONResponse({"marked": mark_messages(call, request_of(MarkMessages, body, mark=mark)).value})
