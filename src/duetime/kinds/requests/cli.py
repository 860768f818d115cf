"""Commands of `duetime request`, which schedules HTTP calls. Programs create them through the HTTP and QStash APIs."""

from __future__ import annotations

import math
from typing import Any

from duetime.engine.clock import DAY, SECOND
from duetime.engine.errors import InvalidInput
from duetime.kinds.requests import SPEC
from duetime.kinds.requests.payload import HttpRequest
from duetime.kinds.requests.wire import METHODS
from duetime.terminal.completion import one_of
from duetime.terminal.errors import name_fields
from duetime.terminal.schedules.standard import PayloadOptions, payload_options, standard_commands


class RequestOptions(PayloadOptions):
    """Options: what a request sends. The timeout and the backoff apply to each attempt, so they are moved from the
    policy to the payload. None resets both places."""

    def fields(self, main: str | None, policy: dict[str, Any]) -> dict[str, Any]:
        from duetime.service.when import read_seconds

        fields = super().fields(main, policy)
        for name, field, convert in (("timeout", "timeout", math.ceil), ("backoff", "retry_delay", _doubled)):
            if name in policy:
                fields[field] = None if policy[name] is None else convert(read_seconds(policy.pop(name), name))
        return fields


def _doubled(seconds: float) -> str:
    """Return the formula of a delay that is doubled with every failure, in milliseconds."""
    if not 0 < seconds <= DAY / SECOND:
        raise InvalidInput("--backoff: must be more than 0 and at most 1d, the longest delay of a request")
    return f"{math.ceil(seconds * 1000)} * pow(2, retried)"


_ADD_EXAMPLES = """\
duetime request add https://hooks.example.org/nightly --cron "0 3 * * *"
duetime request add https://example.org/items --header "Content-Type: application/json" --body '{"n": 1}' --delay 10m
"""
name_fields({"url": "the URL"})
commands = standard_commands(
    SPEC,
    payload_options(HttpRequest, RequestOptions, method=one_of(*METHODS)),
    summary="Requests are HTTP calls on a schedule, also those that programs made through the HTTP or QStash API.",
    add_help="Schedule an HTTP request, by default a POST. Any response but 2xx is retried.",
    examples=("", _ADD_EXAMPLES),
    guarded=True,
)
