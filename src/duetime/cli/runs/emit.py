"""`duetime emit`: sends an event, which starts the schedules that wait for it."""

from __future__ import annotations

import json
from typing import Annotated, Any

from duetime.engine.errors import InvalidInput
from duetime.service.operations.emit import EmitEvent, emit
from duetime.terminal import output
from duetime.terminal.context import Db, Json, given_text, opened
from duetime.terminal.typer_ext import PlainCommand, argument, option, single

commands = single()

_EXAMPLES = """\
duetime emit deploy.done
duetime emit deploy.done --data '{"version": 5}' --key deploy-5
"""


@commands.command(name="emit", cls=PlainCommand, epilog=_EXAMPLES)
def send(
    event: Annotated[str, argument("EVENT", "Its name, such as deploy.done.")],
    data: Annotated[str | None, option("--data JSON", "What the runs get; - reads standard input.")] = None,
    key: Annotated[str | None, option("--key TEXT", "An event of the same name with this key is sent once.")] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Send an event. Every schedule that waits for its name runs, and gets the data."""
    with opened(db) as app:
        request = EmitEvent(event=event, data=None if data is None else _value(given_text(data)), idempotency_key=key)
        (number, duplicate), warnings, _ = emit(app.call, request)
    if json_:
        output.print_json({"event_id": number, "duplicate": duplicate, "warnings": [each.text for each in warnings]})
    else:
        print(f"Event {number} was sent before." if duplicate else f"Sent event {number}.")
        output.warn([each.text for each in warnings])


def _value(text: str) -> Any:
    """Return the JSON value of a text; a text that is no JSON is meant as it is."""
    try:
        return json.loads(text)
    except ValueError:
        if text.lstrip()[:1] not in ("{", "["):
            return text
        raise InvalidInput(field="data", problem="is not valid JSON; quote it for the shell") from None
