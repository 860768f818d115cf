"""API routes for the channels and for the notifications that arrived."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.responses import JSONResponse, Response

from duetime.engine.store import RunQuery
from duetime.kinds.notifications.kind import NotificationKind
from duetime.rest.dependencies import Caller, page_of, router
from duetime.rest.requests import Name, Owned, owner_of, zone_of
from duetime.rest.responses import ChannelsShape, InboxShape
from duetime.service.errors import unwrap
from duetime.service.presenters import message_shape

routes = router()


@routes.get("/channels", response_model=ChannelsShape, tags=["standing"])
def channels(call: Caller) -> Response:
    """List the channels for notifications."""
    found = call.services.kind(NotificationKind).places.described(call.caller.owner)
    return JSONResponse({"channels": found})


class InboxAsked(Owned):
    topic: Name | None = Field(default=None, description="What was sent to this topic alone.")


@routes.get("/inbox", response_model=InboxShape, tags=["runs", "inbox"])
def inbox(call: Caller, asked: Annotated[InboxAsked, Query()]) -> Response:
    """List delivered notifications, latest first, each with its channel."""
    query = RunQuery(
        owner=owner_of(call, asked.owner),
        kind=NotificationKind.name,
        status="completed",
        subject=asked.topic,
        limit=asked.limit,
        cursor=asked.cursor,
    )
    zone = zone_of(call, asked.timezone)
    page = unwrap(call.scheduler.runs(call.caller, query))
    ids = call.scheduler.store.public_ids([run.schedule for run in page.items])
    messages: list[dict[str, Any]] = [
        {"run_id": run.id, "schedule": ids.get(run.schedule), **message_shape(run, zone, call.caller.depth)}
        for run in page.items
    ]
    return page_of("messages", messages, page)
