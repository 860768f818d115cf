"""`duetime notify`: messages to a person, at once or scheduled."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from duetime.engine.errors import InvalidInput
from duetime.engine.redaction import without_secrets
from duetime.kinds.notifications import cli_remote
from duetime.kinds.notifications.kind import NotificationKind
from duetime.kinds.notifications.service import NewNotification, Sent
from duetime.service.calls import LOCAL, taken
from duetime.terminal import output
from duetime.terminal.context import Db, Json, given_text, opened, worker_warnings
from duetime.terminal.errors import FAILED
from duetime.terminal.output import clean
from duetime.terminal.schedules.change import add_change_commands
from duetime.terminal.schedules.create import add_schedule, edit_schedule
from duetime.terminal.schedules.kind_view import NOTIFICATION
from duetime.terminal.schedules.options import Key, Rules, When
from duetime.terminal.schedules.read import Id, add_read_commands
from duetime.terminal.typer_ext import PlainCommand, bundled, group

Text = Annotated[str, typer.Argument(metavar="MESSAGE", help="What it says; - reads standard input.")]
Topic = Annotated[
    str, typer.Option("--topic", metavar="TOPIC", help="Where it goes: a channel, or what a phone subscribed to.")
]

app = group("Notifications: messages to a person, at once or scheduled.")


@dataclass(frozen=True, slots=True)
class Looks:
    """Options of a notification besides its text."""

    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Above the message.")] = None
    priority: Annotated[
        int | None, typer.Option("--priority", metavar="N", help="1 (lowest) to 5 (highest); 3 is usual.")
    ] = None
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="A word, or the name of an emoji. Repeatable.")
    ] = None
    markdown: Annotated[bool, typer.Option("--markdown", help="The message is Markdown.")] = False
    click: Annotated[str | None, typer.Option("--click", metavar="URL", help="Opened by a tap on it.")] = None
    action: Annotated[
        list[str] | None,
        typer.Option(
            "--action",
            metavar="JSON",
            help='A button, at most 3: {"action": "view", "label": "Open", "url": "https://example.org"}.',
        ),
    ] = None
    icon: Annotated[str | None, typer.Option("--icon", metavar="URL", help="A small picture beside it.")] = None
    attach: Annotated[str | None, typer.Option("--attach", metavar="URL", help="A file that is shown with it.")] = None
    filename: Annotated[str | None, typer.Option("--filename", metavar="NAME", help="Of what is attached.")] = None
    label: Annotated[
        str | None, typer.Option("--label", metavar="NAME", help="What people call it in lists: weekly-report.")
    ] = None

    def fields(self) -> dict[str, Any]:
        given = {
            "title": self.title,
            "priority": self.priority,
            "tags": list(self.tag) if self.tag else None,
            "markdown": self.markdown or None,
            "click": self.click,
            "actions": [_action(text) for text in self.action] if self.action else None,
            "icon": self.icon,
            "attach": self.attach,
            "filename": self.filename,
            "label": self.label,
        }
        return {name: value for name, value in given.items() if value is not None}


def _action(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput(f"--action: {text[:60]!r} is not JSON") from None


@app.command(cls=PlainCommand)
@bundled
def send(message: Text, topic: Topic, looks: Looks, db: Db = None, json_: Json = False) -> None:
    """Send a notification at once, and say whether it arrived. Exit code 1 when it did not."""
    new = NewNotification(given_text(message), topic, looks.fields())
    with opened(db, making=True) as room:
        service = room.services.kind(NotificationKind).service
        sent = taken(service.send(LOCAL, new))
        arrived = sent.channel is not None
        warnings = [each.text for each in service.warnings(topic)]
        if not arrived and service.fires_here:
            warnings = [*warnings, *worker_warnings(room, db, kind="notification")]
    _tell(sent, warnings, json_)
    if not arrived:
        raise typer.Exit(FAILED)


def _tell(sent: Sent, warnings: Sequence[str], json_: bool) -> None:
    error = None if sent.error is None else without_secrets(sent.error)
    notes = [sent.note] if sent.note else []
    if json_:
        view = {"id": sent.message_id, "topic": sent.topic, "arrived": sent.channel is not None}
        how = {"channel": sent.channel, "error": error, "retried": sent.retried}
        output.print_json(view | how | {"warnings": [*notes, *warnings]})
        return
    if sent.channel is not None:
        print(f"Sent to {clean(sent.topic)} through {clean(sent.channel)}.")
    elif sent.retried:
        print(f"Not delivered yet: {clean(error)}. It is tried again by itself; its id is {sent.message_id}.")
    else:
        print(f"Not delivered: {clean(error)}. It is not tried again; its id is {sent.message_id}.")
    output.warn([*notes, *warnings])


@app.command(cls=PlainCommand)
@bundled
def add(
    message: Text,
    topic: Topic,
    when: When,
    looks: Looks,
    rules: Rules,
    key: Key = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Schedule a notification. It takes exactly one of --at, --delay, --every, --cron and --rrule."""
    asked = NewNotification(given_text(message), topic, looks.fields(), rules.policy(), key)
    type_, config = when.trigger()
    with opened(db, making=True) as room:
        if room.remote is not None:
            cli_remote.add(room, room.remote, asked, when, json_)
            return
        new = asked.as_schedule(type_, config, when.tz or room.scheduler.zone)
        told = room.services.kind(NotificationKind).delivery_warnings(topic, LOCAL.owner)
        warnings = [*(each.text for each in told), *worker_warnings(room, db, kind="notification")]
        add_schedule(room, new, [*when.notes(room), *warnings], json_)


@app.command(cls=PlainCommand)
@bundled
def edit(
    id: Id,
    when: When,
    looks: Looks,
    rules: Rules,
    message: Annotated[str | None, typer.Option("--message", metavar="TEXT", help="Another text.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Another topic.")] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Change a notification. What is not given stays as it is; one that is on its way cannot be changed."""
    given = looks.fields()
    given |= {} if message is None else {"message": given_text(message)}
    given |= {} if topic is None else {"topic": topic}
    with opened(db) as room:
        policy = rules.policy()
        edit_schedule(room, NOTIFICATION, id, when, json_, name=None, payload=given, policy=policy)


add_read_commands(app, NOTIFICATION)
add_change_commands(app, NOTIFICATION)
