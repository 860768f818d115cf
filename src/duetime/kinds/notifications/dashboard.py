"""The dashboard's part for notifications: the fields of the form, and the inbox page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.kind_forms import KindForm, Values, number_of
from duetime.dashboard.request import Form, KindPage, PageRequest
from duetime.dashboard.waiting import waiting_rows
from duetime.engine.model import DISMISSED, READ, Run, RunStatus
from duetime.engine.store import RunQuery
from duetime.kinds.notifications.service import KIND
from duetime.service.counts import MOST as COUNTED
from duetime.service.counts import Count
from duetime.service.errors import refuse, unwrap
from duetime.service.inbox import LATELY, mark_all_read, mark_messages, unread_count, waiting_count
from duetime.service.presenters import message_shape
from duetime.service.services import Call
from duetime.service.text import whole_number


class NotificationForm(KindForm):
    fields = ("message", "topic", "title", "priority", "tags", "click")
    template = "notification/form.html"
    named_by = ("title", "message")
    text_field = "message"
    samples: Mapping[str, Any] = MappingProxyType({"message": "sample", "topic": "sample"})

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

PAGE: Final = 100
PLACE: Final = ("topic", "cursor", "show")
UNREAD: Final = "unread"


class MessageGroup(NamedTuple):
    """Messages with the same topic and title that arrived among each other, the latest first."""

    latest: dict[str, Any]
    earlier: list[dict[str, Any]]
    unread: int


def inbox_page(request: PageRequest) -> Response:
    """Render the notifications that arrived, latest first, and the runs that wait for an agent."""
    topic, only_unread = request.parameter("topic"), request.parameter("show") == UNREAD
    services, number = request.call.services, unread_count(request.call.services, request.caller)
    query = RunQuery(
        kind=KIND,
        status=RunStatus.COMPLETED,
        subject=topic or None,
        mark_below=READ if only_unread else DISMISSED,
        owner=request.caller.owner if only_unread else None,
        limit=PAGE,
        cursor=request.parameter("cursor") or None,
        count_to=0,
    )
    page = unwrap(request.scheduler.runs(request.caller, query))
    following = {"topic": topic, "show": UNREAD if only_unread else "", "cursor": page.cursor}
    waiting, more_waiting = waiting_rows(request, request.parameter("waiting") or None)
    return request.render(
        "notification/inbox.html",
        groups=_grouped(_messages(request, page.items)),
        message_kind=KIND,
        waiting=waiting,
        more_waiting=None if more_waiting is None else "?" + urlencode({"waiting": more_waiting}),
        topic=topic,
        only_unread=only_unread,
        unread=Count(min(number, COUNTED), exact=number <= COUNTED) if number else "",
        next_page=None if page.cursor is None else "?" + urlencode({k: v for k, v in following.items() if v}),
        back=request.encode_parameters(*PLACE),
        has_agent=any(services.hooks(kind).wakeable(request.caller.owner) for kind in services.kinds),
    )


def _messages(request: PageRequest, runs: Sequence[Run]) -> list[dict[str, Any]]:
    ids = request.scheduler.store.public_ids([run.schedule for run in runs])
    lately = request.scheduler.store.newest_run() - LATELY
    return [
        message_shape(run, request.zone, request.caller.depth)
        | {
            "run_id": run.id,
            "schedule": ids.get(run.schedule),
            "owner": run.owner,
            "unread": not run.stop and run.id > lately and run.owner == request.caller.owner,
        }
        for run in sorted(runs, key=lambda run: (run.finished or run.due, run.id), reverse=True)
    ]


def _grouped(messages: Sequence[dict[str, Any]]) -> list[MessageGroup]:
    groups: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for message in messages:
        alike = (message["owner"], message["topic"], message["title"] or message["message"])
        groups.setdefault(alike, []).append(message)
    return [MessageGroup(each[0], each[1:], sum(one["unread"] for one in each)) for each in groups.values()]


def change_inbox(request: PageRequest, form: Form) -> Response:
    """Mark messages as read or dismiss them; `all` marks everything as read."""
    services, back = request.call.services, form.back(*PLACE)
    if form.get("all"):
        number = mark_all_read(services, request.caller)
        return request.redirect("/inbox", **back, did="read", number=number)
    action, _, key = form.get("do").partition(":")
    if action not in ("read", "dismiss"):
        raise refuse("invalid", "choose what to do: mark as read or dismiss")
    ids = [id for text in key.split(",") if (id := whole_number(text, 18)) is not None]
    number = mark_messages(services, request.caller, ids, dismiss=action == "dismiss")
    return request.redirect("/inbox", **back, did="read" if action == "read" else "dismissed", number=number)


def _new(call: Call) -> Count:
    """Count what is new in the inbox: unread messages, and prompts that nobody has taken."""
    number = unread_count(call.services, call.caller) + waiting_count(call.services, call.caller)
    return Count(min(number, COUNTED), exact=number <= COUNTED)


PAGES: Final = (
    KindPage("/inbox", "Inbox", inbox_page, "inbox", "i", _new, "unread messages and waiting prompts", change_inbox),
)
