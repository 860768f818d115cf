"""Parsing of the headers of messages and schedules into requests and triggers for the scheduler."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from duetime.engine.clock import SECOND, Instant, datetime_of
from duetime.engine.encoding import is_text
from duetime.engine.errors import UnreadableTime
from duetime.engine.kind import Caller
from duetime.engine.scheduler import Scheduler
from duetime.engine.times import read_duration
from duetime.kinds.requests.qstash_api.call import Refused, not_offered
from duetime.kinds.requests.wire import CALLBACKS, KIND, RETRIES, callback_to

PREFIX = "upstash-"
FORWARD = "forward-"
LONGEST_DELAY = 3653 * 86_400
"""Maximum delay in seconds."""
_NOT_OFFERED = {
    "queue-name": "queues are",
    "flow-control-key": "flow control is",
    "flow-control-value": "flow control is",
}
_DIGITS = re.compile(r"[0-9]{1,12}", re.ASCII)
_ZONED = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)", re.DOTALL)

Check = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""The kind's own check, which returns a payload in its stored form or raises InvalidInput."""


class Request(NamedTuple):
    """What is to be sent, without the time."""

    payload: dict[str, Any]
    policy: dict[str, Any]

    @property
    def name(self) -> str:
        label: str = self.payload.get("label") or f"{self.payload['method']} request"
        return label


class Moment(NamedTuple):
    trigger_type: str
    trigger_config: dict[str, Any]
    timezone: str = "UTC"


def read_request(destination: str, headers: Mapping[str, str], body: bytes, check: Check, usual: Any) -> Request:
    """Read a request from headers and body. `usual` is the kind's default policy, which callbacks share."""
    own = {name.removeprefix(PREFIX): value for name, value in headers.items() if name.startswith(PREFIX)}
    for name, what in _NOT_OFFERED.items():
        if name in own:
            raise not_offered(what)
    payload = {"url": destination, **_sending(own, headers.get("content-type")), **_body(body)}
    payload |= _given("label", own.get("label")) | _given("redact", _redactions(own.get("redact-fields")))
    callbacks = []
    for field, on in CALLBACKS.items():
        name = field.replace("_", "-")
        if name in own:
            made = check(_callback(own, name, payload.get("retries", RETRIES)))
            callbacks.append(callback_to(on, made, usual))
            payload |= {field: own[name]} | _given(f"{field}_headers", made.get("headers"))
    policy = {"max_attempts": payload.get("retries", RETRIES) + 1, "callbacks": callbacks}
    return Request(dict(check(payload)), policy)


def _sending(own: Mapping[str, str], content_type: str | None) -> dict[str, Any]:
    """Return the fields that messages and their callbacks have in common."""
    headers = {} if content_type is None else {"Content-Type": content_type}
    headers |= {
        _as_written(name.removeprefix(FORWARD)): value for name, value in own.items() if name.startswith(FORWARD)
    }
    return {
        "method": own.get("method", "POST").upper(),
        **_given("headers", headers or None),
        **_given("retries", _whole_number("Upstash-Retries", own.get("retries"))),
        **_given("retry_delay", own.get("retry-delay")),
        **_given("timeout", _seconds("Upstash-Timeout", own.get("timeout"))),
    }


def _callback(own: Mapping[str, str], name: str, retries: int) -> dict[str, Any]:
    """Return a callback from its own headers; all but settings are forwarded, with the prefix Forward- or without."""
    prefix = f"{name}-"
    mine = {key.removeprefix(prefix): value for key, value in own.items() if key.startswith(prefix)}
    settings = {key: value for key, value in mine.items() if key in _SETTINGS}
    forwarded = {FORWARD + key.removeprefix(FORWARD): value for key, value in mine.items() if key not in _SETTINGS}
    delay = _seconds("Upstash-Callback-Delay", mine.get("delay"))
    return {"url": own[name], "retries": retries, **_sending(settings | forwarded, None), **_given("delay", delay)}


_SETTINGS = frozenset({"method", "retries", "retry-delay", "timeout", "delay"})


def _given(name: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {name: value}


def _as_written(name: str) -> str:
    """Return the usual spelling of a header name, which servers see in lower case."""
    return "-".join(part.capitalize() for part in name.split("-"))


def _body(body: bytes) -> dict[str, str]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = None
    if text is None or not is_text(text):
        return {"body_base64": base64.b64encode(body).decode()}
    return {"body": text} if text else {}


def _redactions(given: str | None) -> list[str] | None:
    """Return the parts to redact; `header` and `headers` mean all headers."""
    parts = [part.strip() for part in (given or "").split(",") if part.strip()]
    return ["headers" if part == "header" else part.replace("headers[", "header[") for part in parts] or None


def _whole_number(name: str, given: str | None) -> int | None:
    if given is None:
        return None
    if not _DIGITS.fullmatch(given.strip()):
        raise Refused(400, f"{name}: must be a whole number, not {given[:40]!r}")
    return int(given)


def _seconds(name: str, given: str | None) -> int | None:
    """Read a duration such as `50s` or `1d10h30m`, or plain seconds."""
    if given is None:
        return None
    text = given.strip()
    try:
        return int(text) if _DIGITS.fullmatch(text) else read_duration(text) // SECOND
    except UnreadableTime as error:
        raise Refused(400, f"{name}: {error.message}") from None


# -- when --------------------------------------------------------------------------------------------------------


def read_moment(headers: Mapping[str, str], now: Instant) -> Moment:
    """Read when to send: now, after a delay, or not before an instant; the latter wins if both are given."""
    not_before = _whole_number("Upstash-Not-Before", headers.get(f"{PREFIX}not-before"))
    if not_before is not None:
        if not_before >= 253_402_300_800:
            raise Refused(400, "Upstash-Not-Before: must be a Unix time in seconds before the year 10000")
        at = Instant(not_before * SECOND)
        return Moment("once", {"run_at": "now" if at <= now else datetime_of(at).isoformat()})
    delay = _seconds("Upstash-Delay", headers.get(f"{PREFIX}delay"))
    if delay is not None and delay > LONGEST_DELAY:
        raise Refused(400, "Upstash-Delay: must be at most ten years")
    return Moment("once", {"run_at": f"in {delay} seconds" if delay else "now"})


def read_cron(headers: Mapping[str, str]) -> tuple[str, Moment]:
    """Return the expression as given and its trigger, in UTC unless the expression begins with a time zone."""
    given = headers.get(f"{PREFIX}cron")
    if given is None or not given.strip():
        raise Refused(400, "Upstash-Cron: is missing; give an expression such as 0 9 * * 1-5")
    zoned = _ZONED.fullmatch(given.strip())
    zone, expression = (zoned[1], zoned[2]) if zoned else ("UTC", given.strip())
    return given.strip(), Moment("cron", {"expression": expression}, zone)


def delay_of_schedule(headers: Mapping[str, str]) -> int | None:
    return _seconds("Upstash-Delay", headers.get(f"{PREFIX}delay"))


# The request of a message or schedule.

_GROUP = re.compile(r"[-._A-Za-z0-9]+", re.ASCII)
"""The form of a URL group's name; QStash takes any destination of this form for one."""


def request_of(
    scheduler: Scheduler, caller: Caller, destination: str, headers: Mapping[str, str], body: bytes
) -> Request:
    limit = scheduler.limits.payload_bytes
    if len(body) > limit:
        raise Refused(413, f"the body has {len(body)} bytes, and the limit is {limit}; send a reference to it instead")
    if _GROUP.fullmatch(destination):
        raise not_offered("a destination without https:// is a URL group, and URL groups are")
    if "://" not in destination:
        raise Refused(400, "destination: must be a URL such as https://hooks.example.org/path")
    kind = scheduler.kinds[KIND]
    return read_request(
        destination, headers, body, lambda payload: kind.prepare(payload, caller).payload, kind.defaults
    )
