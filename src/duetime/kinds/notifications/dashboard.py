"""The dashboard's part for notifications: the fields of the form, and the inbox page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, get_args
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.kind_forms import KindForm
from duetime.dashboard.lists import PARTICIPLES, ListFilter
from duetime.dashboard.navigation import NavigationItem
from duetime.dashboard.request import Form, KindPage, PageRequest
from duetime.dashboard.waiting_runs import waiting_rows
from duetime.kinds.notifications.payload import PushMessage
from duetime.kinds.notifications.service import KIND
from duetime.service.errors import refuse
from duetime.service.masking import masked
from duetime.service.operations.inbox import (
    ListInbox,
    Mark,
    MarkMessages,
    Show,
    inbox,
    mark_messages,
    message_views,
    unread_count,
    waiting_count,
)
from duetime.service.services import Call
from duetime.service.text import COUNTED, Count, whole_number
from duetime.service.vocabulary import Run


class NotificationForm(KindForm):
    model = PushMessage
    fields = ("message", "topic", "title", "priority", "tags", "click")
    template = "notification/form.html"
    named_by = ("title", "message")
    text_field = "message"
    samples: Mapping[str, Any] = MappingProxyType({"message": "sample", "topic": "sample"})


FORM = NotificationForm()


# The inbox page of the dashboard: notifications that arrived, and runs that wait for an agent.

PAGE: Final = 100

EMOJI: Final = {
    "+1": "👍", "-1": "👎", "alarm_clock": "⏰", "bell": "🔔", "birthday": "🎂", "bug": "🐛", "bulb": "💡",
    "calendar": "📆", "coffee": "☕", "computer": "💻", "droplet": "💧", "email": "📧", "eyes": "👀", "fire": "🔥",
    "heart": "❤️", "heavy_check_mark": "✔️", "hourglass": "⌛", "house": "🏠", "key": "🔑", "lock": "🔒",
    "loudspeaker": "📢", "memo": "📝", "moneybag": "💰", "no_entry": "⛔", "package": "📦", "partying_face": "🥳",
    "phone": "☎️", "pill": "💊", "robot": "🤖", "rocket": "🚀", "rotating_light": "🚨", "seedling": "🌱",
    "skull": "💀", "star": "⭐", "sunny": "☀️", "tada": "🎉", "triangular_flag_on_post": "🚩", "warning": "⚠️",
    "white_check_mark": "✅", "x": "❌", "zap": "⚡",
}  # fmt: skip
"""The most common tags that ntfy shows as emoji, so that a message looks alike here and on a phone."""
_RUN: Final = re.compile("run-([0-9]{1,18})")
"""The tag of the run that a message is about."""


class InboxFilter(ListFilter):
    path = "/inbox"
    names = ("topic", "show")


class MessageGroup(NamedTuple):
    """Messages on the page with the same owner, topic and title, latest first."""

    latest: dict[str, Any]
    earlier: list[dict[str, Any]]
    unread: int


def inbox_page(request: PageRequest) -> Response:
    """Render the notifications that arrived, latest first, and the runs that wait for an agent."""
    chosen = InboxFilter(request)
    topic = chosen.parameters["topic"]
    show: Show = next((each for each in get_args(Show) if each == chosen.parameters["show"]), "kept")
    services, number = request.call.services, unread_count(request.call)
    query = ListInbox(topic=topic or None, show=show, limit=PAGE, cursor=chosen.cursor, count_to=0)
    page = inbox(request.call, query).value
    waiting, more_waiting = waiting_rows(request, request.parameter("waiting") or None)
    return request.render(
        "notification/inbox.html",
        groups=_grouped(_messages(request, page.items)),
        message_kind=KIND,
        emoji=EMOJI,
        waiting=waiting,
        more_waiting=None if more_waiting is None else "?" + urlencode({"waiting": more_waiting}),
        topic=topic,
        show=show,
        only_unread=show == "unread",
        unread=Count(min(number, COUNTED), exact=number <= COUNTED) if number else "",
        next_page=None if page.cursor is None else chosen.address(cursor=page.cursor),
        back=urlencode(chosen.back),
        has_agent=any(services.hooks(kind).wakeable(request.caller.owner) for kind in services.kinds),
    )


def _messages(request: PageRequest, runs: Sequence[Run]) -> list[dict[str, Any]]:
    latest_first = sorted(runs, key=lambda run: (run.finished or run.due, run.id), reverse=True)
    views = message_views(request.reader, latest_first)
    return [view | _for_page(run, view, request.caller.owner) for run, view in zip(latest_first, views, strict=True)]


def _for_page(run: Run, view: Mapping[str, Any], viewer: str) -> dict[str, Any]:
    """Return what the page shows beyond the other interfaces: the schedule's name, and the run that it is about."""
    tags, name = [str(tag) for tag in view["tags"] or ()], masked(run.name)
    is_repeated = name == view["title"] or str(view["message"]).startswith(name)  # it was named after its text
    return {
        "owner": run.owner,
        "name": "Schedule" if is_repeated else name,
        "unread": view["mark"] == "unread" and run.owner == viewer,
        "tags": [tag for tag in tags if not _RUN.fullmatch(tag)],
        "about": next((match[1] for tag in tags if (match := _RUN.fullmatch(tag))), None),
    }


def _grouped(messages: Sequence[dict[str, Any]]) -> list[MessageGroup]:
    groups: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for message in messages:
        alike = (message["owner"], message["topic"], message["title"] or message["message"])
        groups.setdefault(alike, []).append(message)
    return [MessageGroup(each[0], each[1:], sum(one["unread"] for one in each)) for each in groups.values()]


def change_inbox(request: PageRequest, form: Form) -> Response:
    """Mark messages as read, resolve or reopen them: those of one row, or those that were selected. `all` marks
    everything as read."""
    back = InboxFilter(request, form).back
    if form.get("all"):
        number = mark_messages(request.call, MarkMessages(everything=True)).value
        return request.redirect("/inbox", **back, did="read", number=number)
    action, _, key = form.get("do").partition(":")
    mark: Mark | None = next((each for each in get_args(Mark) if each == action), None)
    if mark is None:
        raise refuse("invalid", "choose what to do: mark as read, resolve or reopen")
    texts = (key or ",".join(form.all("id"))).split(",")
    ids = [id for text in texts if (id := whole_number(text, 18)) is not None]
    if not ids:
        return request.redirect("/inbox", **back, did="nothing")
    number = mark_messages(request.call, MarkMessages(ids=ids, mark=mark)).value
    return request.redirect("/inbox", **back, did=PARTICIPLES[mark], number=number)


def _new(call: Call) -> Count:
    """Count what is new in the inbox: unread messages, and prompts that nobody has taken."""
    number = unread_count(call) + waiting_count(call)
    return Count(min(number, COUNTED), exact=number <= COUNTED)


PAGES: Final = (
    KindPage(
        NavigationItem("/inbox", "Inbox", "inbox", "i", _new, "unread messages and waiting prompts"),
        inbox_page,
        change_inbox,
    ),
)
