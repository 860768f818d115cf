"""API routes for the channels and for the notifications that arrived."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Body, Depends, Query
from pydantic import Field
from starlette.responses import JSONResponse, Response

from duetime.engine.model import Run
from duetime.engine.store import Page
from duetime.kinds.notifications.kind import NotificationKind
from duetime.rest.dependencies import Caller, json_only, page_of, problems, router
from duetime.rest.requests import Given, Name, Number, Owned, owner_of, zone_of
from duetime.rest.responses import ChannelsShape, InboxShape, Shape
from duetime.service.errors import refuse, unwrap
from duetime.service.inbox import MOST_MARKED, Mark, Show, mark_all_read, mark_messages, message_views, messages

routes = router()
_JSON = [Depends(json_only)]


@routes.get("/channels", response_model=ChannelsShape, tags=["standing"])
def channels(call: Caller) -> Response:
    """List the channels for notifications."""
    found = call.services.kind(NotificationKind).places.described(call.caller.owner)
    return JSONResponse({"channels": found})


class InboxAsked(Owned):
    topic: Name | None = Field(default=None, description="What was sent to this topic alone.")
    show: Show = Field(default="kept", description="Those not dismissed, the caller's unread ones, or dismissed ones.")


class MarksGiven(Given):
    """Which messages: their `ids`, or `all` that are unread, to mark them as read."""

    ids: Annotated[list[Number], Field(min_length=1, max_length=MOST_MARKED, fail_fast=True)] | None = Field(
        default=None, description="The `run_id`s of messages."
    )
    all: bool = Field(default=False, description="All unread messages; only for `read`.")


class MarkedShape(Shape):
    marked: int = Field(description="How many messages were marked. Those of others do not count.")


@routes.get("/inbox", response_model=InboxShape, tags=["runs", "inbox"])
def inbox(call: Caller, asked: Annotated[InboxAsked, Query()]) -> Response:
    """List delivered notifications, latest first, each with its channel and its mark."""
    owner, zone = owner_of(call, asked.owner), zone_of(call, asked.timezone)
    query = messages(call.services, call.caller, asked.show, topic=asked.topic, owner=owner)
    page = Page[Run]([], None, 0)
    if query is not None:
        page = unwrap(call.scheduler.runs(call.caller, replace(query, limit=asked.limit, cursor=asked.cursor)))
    return page_of("messages", message_views(call.services, call.caller, page.items, zone), page)


@routes.post("/inbox/{mark}", response_model=MarkedShape, responses=problems(415), dependencies=_JSON, tags=["inbox"])
def mark_inbox(call: Caller, mark: Mark, body: Annotated[MarksGiven, Body()]) -> Response:
    """Mark the caller's own messages as read, dismiss them, or restore dismissed ones."""
    if (body.ids is None) != body.all or (body.all and mark != "read"):
        raise refuse("invalid", "ids: give the numbers of messages; `all` is for marking them as read", "ids")
    services, caller = call.services, call.caller
    number = mark_all_read(services, caller) if body.ids is None else mark_messages(services, caller, body.ids, mark)
    return JSONResponse({"marked": number})
