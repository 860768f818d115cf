"""The dashboard's part for notifications: the fields of the form, and the inbox page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.kind_forms import KindForm, Values, number_of
from duetime.dashboard.request import KindPage, PageRequest
from duetime.engine.model import RunStatus
from duetime.engine.store import RunQuery
from duetime.kinds.notifications.service import KIND
from duetime.service.errors import unwrap
from duetime.service.presenters import message_shape, run_shapes


class NotificationForm(KindForm):
    fields = ("message", "topic", "title", "priority", "tags", "click")
    template = "notification/form.html"
    named_by = ("title", "message")

    def read(self, values: Values) -> dict[str, Any]:
        tags = [tag for tag in (part.strip() for part in values["tags"].split(",")) if tag]
        return {
            "message": values["message"],
            "topic": values["topic"].strip() or None,
            "title": values["title"] or None,
            "priority": number_of(values, "priority") if values["priority"] else None,
            "tags": tags or None,
            "click": values["click"].strip() or None,
        }

    def show(self, payload: Mapping[str, Any]) -> Values:
        return super().show(payload) | {"tags": ", ".join(str(tag) for tag in payload.get("tags") or ())}


FORM = NotificationForm()


# The inbox page of the dashboard: notifications that arrived, and runs that wait for an agent.

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


PAGES: Final = (KindPage("/inbox", "Inbox", inbox_page, "inbox", "i"),)
