"""Commands of `duetime request`, which schedules HTTP calls. Programs create them through the HTTP and QStash APIs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from duetime.engine.clock import DAY, SECOND
from duetime.engine.errors import InvalidInput
from duetime.kinds.requests.wire import KIND, METHODS
from duetime.terminal.completion import one_of
from duetime.terminal.context import given_text
from duetime.terminal.errors import name_fields
from duetime.terminal.schedules.commands import kind_commands
from duetime.terminal.schedules.kind_view import Facts, KindView, Payload, filled
from duetime.terminal.schedules.standard import ONE_WAY, Main, PayloadOptions, add_and_edit
from duetime.terminal.typer_ext import argument, option

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


@dataclass(frozen=True)
class RequestOptions(PayloadOptions):
    """Options: what a request sends."""

    method: Annotated[
        str | None, option("--method NAME", "Method: GET, POST, PUT, PATCH or DELETE.", **one_of(*METHODS))
    ] = None
    headers: Annotated[list[str] | None, option("--header HEADER", "Header to send, as 'Name: value'. Repeatable.")] = (
        None
    )
    body: Annotated[str | None, option("--body TEXT", "Body to send; - reads standard input.")] = None
    label: Annotated[str | None, option("--label NAME", "Name in lists; by default the address.")] = None

    def fields(self, main: str | None, policy: dict[str, Any]) -> dict[str, Any]:
        given = {"url": main, "headers": _headers(self.headers), "method": self.method, "label": self.label}
        given["body"] = None if self.body is None else given_text(self.body)
        return {name: value for name, value in given.items() if value is not None} | _attempts(policy)


def _attempts(chosen: dict[str, Any]) -> dict[str, Any]:
    """Move the timeout and the backoff from the policy to the payload fields that apply to each attempt. None resets
    both places."""
    from duetime.service.when import read_seconds

    found: dict[str, Any] = {}
    for name, field, convert in (("timeout", "timeout", math.ceil), ("backoff", "retry_delay", _doubled)):
        if name in chosen:
            found[field] = None if chosen[name] is None else convert(read_seconds(chosen.pop(name), name))
    return found


def _doubled(seconds: float) -> str:
    """Return the formula of a delay that is doubled with every failure, in milliseconds."""
    if not 0 < seconds <= DAY / SECOND:
        raise InvalidInput("--backoff: must be more than 0 and at most 1d, the longest delay of a request")
    return f"{math.ceil(seconds * 1000)} * pow(2, retried)"


def _headers(given: Sequence[str] | None) -> dict[str, str] | None:
    pairs = [text.partition(":") for text in given or ()]
    for name, colon, _ in pairs:
        if not colon:
            raise InvalidInput(f"--header: write it as 'Name: value', not {name[:60]!r}")
    return {name.strip(): value.strip() for name, _, value in pairs} or None


add_and_edit(
    commands,
    REQUEST,
    RequestOptions,
    Main(
        Annotated[str, argument("URL", "Address to call.")],
        Annotated[str | None, option("--url URL", "Address to call.")],
    ),
    add_help=f"Schedule an HTTP request, by default a POST. Any response but 2xx is retried. {ONE_WAY}",
    edit_help="Change a request. Everything that is not given stays the same, and a run in progress keeps its values.",
    examples=_ADD_EXAMPLES,
    guarded=True,
)
