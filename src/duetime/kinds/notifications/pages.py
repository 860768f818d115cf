"""The inbox page of the dashboard: notifications that arrived, and runs that wait for an agent."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.request import KindPage, PageRequest
from duetime.engine.model import RunStatus
from duetime.engine.store import RunQuery
from duetime.kinds.notifications.service import KIND
from duetime.service.errors import unwrap
from duetime.service.presenters import message_shape, run_shapes

PAGE: Final = 40


def inbox_page(request: PageRequest) -> Response:
    """Render the notifications that arrived, latest first, and the runs that wait for an agent."""
    topic = request.parameter("topic")
    query = RunQuery(
        kind=KIND,
        status=RunStatus.COMPLETED,
        subject=topic or None,
        limit=PAGE,
        cursor=request.parameter("cursor") or None,
        count_to=0,
    )
    page = unwrap(request.scheduler.runs(request.caller, query))
    ids = request.scheduler.store.public_ids([run.schedule for run in page.items])
    messages = [
        message_shape(run, request.zone) | {"schedule": ids.get(run.schedule), "owner": run.owner, "name": run.name}
        for run in page.items
    ]
    waiting = RunQuery(status=RunStatus.WAITING, limit=PAGE, count_to=0)
    return request.render(
        "notification/inbox.html",
        messages=messages,
        message_kind=KIND,
        waiting=run_shapes(
            request.scheduler, unwrap(request.scheduler.runs(request.caller, waiting)).items, request.zone
        ),
        topic=topic,
        next_page=None if page.cursor is None else "?" + urlencode({"topic": topic, "cursor": page.cursor}),
    )


PAGES: Final = (KindPage("/inbox", "Inbox", inbox_page),)
