"""Commands of `duetime request`, which schedules HTTP calls. Programs create them through the HTTP and QStash APIs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from duetime.engine.clock import DAY, SECOND
from duetime.engine.errors import InvalidInput
from duetime.kinds.requests.wire import KIND, METHODS
from duetime.terminal.completion import one_of
from duetime.terminal.context import Db, Json, given_text, opened
from duetime.terminal.errors import name_fields
from duetime.terminal.schedules.commands import Id, kind_commands
from duetime.terminal.schedules.kind_view import Facts, KindView, Payload, filled, headline
from duetime.terminal.schedules.options import EditCommandOptions, Key, Name, PolicyCommandOptions, TriggerOptions
from duetime.terminal.typer_ext import PlainCommand, argument, bundled, option

if TYPE_CHECKING:
    from duetime.service.vocabulary import Definition


def _facts(_: Definition, payload: Payload) -> Facts:
    return filled(payload, "method", "url", "headers", "body")


name_fields({"url": "the URL", "headers": "--header", "body": "--body", "method": "--method"})
REQUEST = KindView(KIND, KIND, "requests", ("URL",), lambda _, payload: (payload.get("url", ""),), _facts)
commands = kind_commands(
    REQUEST, "Requests are HTTP calls on a schedule, also those that programs made through the HTTP or QStash API."
)


_ADD_EXAMPLES = """\
duetime request add https://hooks.example.org/nightly --cron "0 3 * * *"
duetime request add https://example.org/items --header "Content-Type: application/json" --body '{"n": 1}' --delay 10m
"""
Method = Annotated[str | None, option("--method NAME", "Method: GET, POST, PUT, PATCH or DELETE.", **one_of(*METHODS))]
Headers = Annotated[list[str] | None, option("--header HEADER", "Header to send, as 'Name: value'. Repeatable.")]
Body = Annotated[str | None, option("--body TEXT", "Body to send; - reads standard input.")]


@commands.command(cls=PlainCommand, epilog=_ADD_EXAMPLES)
@bundled
def add(
    url: Annotated[str, argument("URL", "Address to call.")],
    trigger: TriggerOptions,
    policy: PolicyCommandOptions,
    method: Method = None,
    header: Headers = None,
    body: Body = None,
    label: Annotated[str | None, option("--label NAME", "Name in lists; by default the address.")] = None,
    key: Key = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Schedule an HTTP request, by default a POST. Any response but 2xx is retried. Give exactly one of --at, --delay,
    --every, --cron, --rrule and --when."""
    from duetime.engine.validation import NewSchedule
    from duetime.terminal.schedules.change import add_schedule

    payload = _payload(url=url, method=method or "POST", headers=_headers(header), body=body, label=label)
    chosen, when = policy.given(), trigger.parsed()
    payload |= _attempts(chosen)
    new = NewSchedule(KIND, headline(label or url), when.type, when.config, payload, chosen, when.timezone, key)
    with opened(db, making=True) as app:
        add_schedule(app, new, json_)


def _payload(**given: Any) -> dict[str, Any]:
    found = {field: value for field, value in given.items() if value is not None}
    return found | ({"body": given_text(found["body"])} if "body" in found else {})


def _attempts(chosen: dict[str, Any]) -> dict[str, Any]:
    """Move the timeout and the backoff from the policy to the payload fields that apply to each attempt. None resets
    both places."""
    found: dict[str, Any] = {}
    for name, field, convert in (("timeout", "timeout", _whole_seconds), ("backoff", "retry_delay", _doubled)):
        if name in chosen:
            found[field] = None if chosen[name] is None else convert(chosen.pop(name))
    return found


def _whole_seconds(span: int) -> int:
    return math.ceil(span / SECOND)


def _doubled(span: int) -> str:
    """Return the formula of a delay that is doubled with every failure, in milliseconds."""
    if not 0 < span <= DAY:
        raise InvalidInput("--backoff: must be more than 0 and at most 1d, the longest delay of a request")
    return f"{math.ceil(span / SECOND * 1000)} * pow(2, retried)"


def _headers(given: Sequence[str] | None) -> dict[str, str] | None:
    pairs = [text.partition(":") for text in given or ()]
    for name, colon, _ in pairs:
        if not colon:
            raise InvalidInput(f"--header: write it as 'Name: value', not {name[:60]!r}")
    return {name.strip(): value.strip() for name, _, value in pairs} or None


@commands.command(cls=PlainCommand)
@bundled
def edit(
    id: Id,
    trigger: EditCommandOptions,
    policy: PolicyCommandOptions,
    name: Name = None,
    url: Annotated[str | None, option("--url URL", "Address to call.")] = None,
    method: Method = None,
    body: Body = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Change a request. Everything that is not given stays the same, and a run in progress keeps its values."""
    from duetime.terminal.schedules.change import edit_schedule

    chosen = policy.given()
    payload = _payload(url=url, method=method, body=body) | _attempts(chosen)
    with opened(db) as app:
        edit_schedule(app, REQUEST, id, trigger, json_, name=name, payload=payload, policy=chosen, guarded=True)
