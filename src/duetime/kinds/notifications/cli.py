"""`duetime notify`: messages to a person, at once or scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, get_args

from duetime.engine.errors import InvalidInput, unknown
from duetime.kinds.notifications import SPEC
from duetime.kinds.notifications.kind import NotificationKind
from duetime.kinds.notifications.payload import PushMessage
from duetime.kinds.notifications.qstash import PLACE
from duetime.kinds.notifications.result import unwrap
from duetime.kinds.notifications.service import (
    AT_ONCE,
    KIND,
    NotificationService,
    Sent,
    arrival_warnings,
    new_notification,
)
from duetime.service.errors import FAILED, REFUSED
from duetime.service.masking import without_secrets
from duetime.service.operations.create import CreateSchedule
from duetime.service.operations.inbox import (
    REOPENING,
    ListInbox,
    Mark,
    MarkMessages,
    Show,
    mark_messages,
    message_views,
)
from duetime.service.operations.inbox import inbox as read_inbox
from duetime.service.presenters import instant_view
from duetime.service.services import OPERATOR
from duetime.service.text import whole_number
from duetime.service.vocabulary import clock_local, known_zone
from duetime.service.warnings import ScheduleWarning, time_warnings
from duetime.service.when import read_policy, read_times
from duetime.settings.sections import INBOX
from duetime.terminal import output
from duetime.terminal.completion import TOPICS, one_of
from duetime.terminal.context import Application, Db, Json, Limit, opened, print_done
from duetime.terminal.declarations import Exit, argument, option, single
from duetime.terminal.output import clean, coming, plural
from duetime.terminal.schedules.display import short_of
from duetime.terminal.schedules.standard import PayloadOptions, payload_argument, payload_options, standard_commands


class NotificationOptions(PayloadOptions):
    """Options of a notification besides its text."""

    def add(self, app: Application, request: CreateSchedule, json_: bool) -> None:
        _check_topic(app, request.payload.get("topic"))
        service = app.services.kind(NotificationKind).service
        if service.fires_here:
            super().add(app, request, json_)
        else:
            _add_elsewhere(app, service, request, json_)


def _check_topic(app: Application, topic: str | None) -> None:
    if topic is None and not app.services.kind(NotificationKind).places.default_topic(OPERATOR.owner):
        how = "`duetime config set notifications.topic TOPIC` sets a default"
        raise InvalidInput(f"Missing option '--topic'; give one, or {how}")


_ADD_EXAMPLES = """\
duetime notify add "Water the plants" --topic reminders --when "every friday at 9"
duetime notify add "Call Ada" --topic reminders --at "tomorrow 3pm"
"""
_EXAMPLES = """\
duetime notify send "It works" --topic reminders
duetime notify add "Call Ada" --topic reminders --at "tomorrow 3pm"
"""
_OPTIONS = payload_options(PushMessage, NotificationOptions, topic=TOPICS)
commands = standard_commands(
    SPEC,
    _OPTIONS,
    summary="Notifications are messages to people, sent at once or on a schedule.",
    edit_help="Change a notification. Everything that is not given stays the same. One that is being sent cannot be "
    "changed.",
    examples=(_EXAMPLES.rstrip(), _ADD_EXAMPLES),
)

_SEND_EXAMPLES = """\
duetime notify send "It works" --topic reminders
duetime notify send "Disk is full" --topic alerts --title Server --priority 5 --tag warning
"""


def send(message: str, options: PayloadOptions, db: Db = None, json_: Json = False) -> None:
    """Send a notification now, and say whether it arrived. The exit code is 1 if it did not."""
    payload = options.fields(message, {})
    with opened(db, making=True) as app:
        _check_topic(app, payload.get("topic"))
        service = app.services.kind(NotificationKind).service
        sent = unwrap(service.send(OPERATOR, new_notification(payload, AT_ONCE, {})))
        arrived = sent.channel is not None
        warnings = arrival_warnings(service, sent, OPERATOR.owner)
        if not arrived and service.fires_here:
            warnings += app.services.worker_warnings(KIND)
        _print_sent(app, sent, warnings, json_)
    if not arrived:
        raise Exit(FAILED)


send.__annotations__ |= {"message": payload_argument(PushMessage), "options": _OPTIONS}
commands.command(epilog=_SEND_EXAMPLES)(send)


def _print_sent(app: Application, sent: Sent, warnings: Sequence[ScheduleWarning], json_: bool) -> None:
    error, id = None if sent.error is None else without_secrets(sent.error), short_of(app, sent.message_id)
    if sent.reached == INBOX:
        text = f"Kept for {clean(sent.topic)} in the built-in inbox only."
    elif sent.channel is not None:
        text = f"Sent to {clean(sent.topic)} through {clean(sent.channel)}."
    elif sent.retried:
        text = f"Not delivered yet: {clean(error)}. It will be retried automatically; its id is {id}."
    else:
        its_id = "Its id" if "it will not be retried" in (error or "") else "It will not be retried; its id"
        text = f"Not delivered: {clean(error)}. {its_id} is {id}."
    view = {"id": sent.message_id, "topic": sent.topic, "arrived": sent.channel is not None, "reached": sent.reached}
    how = {"channel": sent.channel, "error": error, "retried": sent.retried}
    print_done(app, json_, view | how, text, warnings)


def _add_elsewhere(app: Application, service: NotificationService, request: CreateSchedule, json_: bool) -> None:
    """Add a notification at the service that keeps them."""
    when = read_times(request.times)
    if when.type not in ("once", "cron") or len(when.config) > 1:
        raise InvalidInput(f"{PLACE} keeps notifications here, and takes --at, --delay or --cron alone")
    if request.name is not None:
        raise InvalidInput(f"{PLACE} keeps notifications here, which has no names for them; leave --name out")
    zone = known_zone(when.timezone or app.scheduler.zone).key
    new = new_notification(request.payload, when._replace(timezone=zone), read_policy(request.policy), request.key)
    item = unwrap(service.create(OPERATOR, new))
    warnings = [*item.warnings, *time_warnings(when.notes(zone, app.clock.now()))]
    view = {"id": item.id, "topic": item.topic, "next_run": instant_view(item.next, zone), "kept_at": PLACE}
    text = f"Added {item.id} at {PLACE}, which sends it to {clean(item.topic)}"
    text += f"\nnext   {coming(item.next, zone, app.clock.now())}"
    print_done(app, json_, view, text, warnings)


# `duetime inbox`: show notifications that arrived, in the built-in inbox or elsewhere, and mark them.

inbox_commands = single()
_MARKED = {"read": "marked as read", "resolve": "resolved", "reopen": "reopened"}
_FORMER = {"dismiss": "dismissed", "restore": "restored"}

_INBOX_EXAMPLES = """\
duetime inbox --unread
duetime inbox read --all
duetime inbox resolve 412 413
"""


@inbox_commands.command(reads_if={"action": "list"}, former={"--dismissed": "--resolved"}, epilog=_INBOX_EXAMPLES)
def inbox(
    action: Annotated[str, argument("[ACTION]", "list, read, resolve or reopen.", **one_of("list", *_MARKED))] = "list",
    message: Annotated[list[str] | None, argument("[MESSAGE]...", "Numbers of messages to mark.")] = None,
    topic: Annotated[str | None, option("--topic TOPIC", "Only messages of this topic.", **TOPICS)] = None,
    unread: Annotated[bool, option("--unread", "Only unread messages.")] = False,
    resolved: Annotated[bool, option("--resolved", "Only resolved messages.")] = False,
    everything: Annotated[bool, option("--all", "With read: all unread messages.")] = False,
    limit: Limit = 20,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Show the notifications that were delivered, newest first, or mark them. Unread ones have an asterisk. Resolved
    ones leave the inbox but stay in the history."""
    show: Show = "unread" if unread else "dismissed" if resolved else "kept"
    with opened(db) as app:
        if action != "list":
            _mark(app, action, message or [], everything, json_)
            return
        if message or everything:
            raise InvalidInput("say what to do with the messages: read, resolve or reopen")
        runs, zone = read_inbox(app.call, ListInbox(topic=topic, show=show, limit=limit)).value.items, app.call.zone
        views = message_views(app.call, runs)
    if json_:
        output.print_json({"messages": views, "count": len(views)})
        return
    if not views:
        print("Nothing has arrived yet." if show == "kept" and topic is None else "There are no such messages.")
    for run, each in zip(runs, views, strict=True):
        where = each["topic"] if each["channel"] == INBOX else f"{each['topic']} via {each['channel']}"
        where = f"{where}, {each['schedule_short_id']}"
        title = f"{clean(str(each['title']))}: " if each["title"] else ""
        arrived = clock_local(run.finished or run.due, zone)
        number = f"{run.id}{'*' if each['mark'] == 'unread' else ' '}"
        body = "\n       ".join(output.lines_of(str(each["message"])))
        output.say(f"{number:<5}  {arrived}  [{clean(str(where))}]  {title}{body}")


def _mark(app: Application, action: str, numbers: Sequence[str], everything: bool, json_: bool) -> None:
    mark: Mark | None = next((each for each in get_args(Mark) if each == action), None)
    if mark is None:
        raise InvalidInput(unknown("action", action, ("list", *_MARKED)))
    shows = "`duetime inbox --resolved`" if mark in REOPENING else "`duetime inbox`"
    if everything and mark != "read":
        raise InvalidInput(
            f"--all works only with read; give the numbers of the messages to {mark}, as {shows} shows them"
        )
    if bool(numbers) == everything:
        raise InvalidInput(f"give either the numbers of messages, as {shows} shows them, or --all with read")
    ids = [id for text in numbers if (id := whole_number(text, 18)) is not None]
    if len(ids) < len(numbers):
        raise InvalidInput("MESSAGE: give numbers, as `duetime inbox` shows them")
    request = MarkMessages(ids=None if everything else ids, everything=everything, mark=mark)
    number = mark_messages(app.call, request).value
    left = plural(len(set(ids)) - number, "message") if number < len(set(ids)) else None
    output.print_result(json_, {"marked": number}, f"{plural(number, 'message')} {(_MARKED | _FORMER)[mark]}.")
    if left is not None:
        output.warn([f"not {_MARKED[mark]}: {left}; you have no such message"])
        raise Exit(REFUSED)
