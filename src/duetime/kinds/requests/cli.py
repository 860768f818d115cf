"""Commands of `duetime request`. Programs create requests through QStash's API; here people see and change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from duetime.kinds.requests.wire import KIND
from duetime.terminal.context import Db, Json, opened
from duetime.terminal.schedules.commands import (
    Facts,
    Id,
    KindView,
    Payload,
    add_change_commands,
    add_read_commands,
    filled,
)
from duetime.terminal.schedules.options import EditOptions, Name, PolicyOptions
from duetime.terminal.typer_ext import PlainCommand, bundled, group, option

if TYPE_CHECKING:
    from duetime.engine.model import Definition


def _facts(_: Definition, payload: Payload) -> Facts:
    return filled(payload, "method", "url", "headers", "body")


REQUEST = KindView(KIND, KIND, "requests", ("URL",), lambda _, payload: (payload.get("url", ""),), _facts)
commands = group("Requests are HTTP calls that programs scheduled, from Python or through the HTTP or QStash API.")


@commands.command(cls=PlainCommand)
@bundled
def edit(
    id: Id,
    trigger: EditOptions,
    policy: PolicyOptions,
    name: Name = None,
    url: Annotated[str | None, option("--url URL", "Address to call.")] = None,
    method: Annotated[str | None, option("--method NAME", "Method: GET, POST, PUT, PATCH or DELETE.")] = None,
    body: Annotated[str | None, option("--body TEXT", "Body to send.")] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Change a request. Everything that is not given stays the same, and a run in progress keeps its values."""
    from duetime.terminal.schedules.change import edit_schedule

    given: dict[str, Any] = {"url": url, "method": method, "body": body}
    payload = {field: value for field, value in given.items() if value is not None}
    with opened(db) as app:
        edit_schedule(app, REQUEST, id, trigger, json_, name=name, payload=payload, policy=policy.given(), guarded=True)


add_read_commands(commands, REQUEST)
add_change_commands(commands, REQUEST)
