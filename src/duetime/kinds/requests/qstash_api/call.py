"""A parsed call of the API (caller, headers, query, path, body), its answers and its errors."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from duetime.engine.clock import SECOND, Instant, datetime_of
from duetime.engine.encoding import is_text
from duetime.engine.errors import DuetimeError, InvalidInput, UnreadableTime
from duetime.engine.kind import Caller, Kind
from duetime.engine.scheduler import Scheduler
from duetime.engine.times import read_duration
from duetime.http.bodies import parse_json
from duetime.kinds.requests.qstash_api.views import without_nulls
from duetime.kinds.requests.wire import CALLBACKS, KIND, RETRIES, callback_to
from duetime.service.errors import STORE_ERRORS, refuse, refuse_many
from duetime.service.when import When

# Errors as QStash clients expect them: a status, and a sentence under `error`.

_STATUSES = {
    **dict.fromkeys(("busy", "conflict", "not_possible", "broken"), 409),
    **dict.fromkeys(STORE_ERRORS, 503),
    **dict.fromkeys(("depth", "run_token", "scope"), 403),
    "not_found": 404,
    "not_offered": 501,
    "quota": 412,
    "too_large": 413,
    "too_many": 429,
}


class ApiResponse(NamedTuple):
    body: Any = None
    status: int = 200


def error_response(error: DuetimeError) -> ApiResponse:
    """Return an error as a response. Messages of the store contain paths, so they are for the operator only."""
    away = "the store cannot be reached right now; try again in a moment"
    return ApiResponse(
        {"error": away if error.code in STORE_ERRORS else message_for(error)}, _STATUSES.get(error.code, 400)
    )


def message_for(error: DuetimeError) -> str:
    """Return the message of an error, which names the header that it is about."""
    name = _HEADERS.get(error.field or "")
    if name is None or error.problem == error.message:
        return error.message
    return f"{PREFIX.title()}{name}: {error.problem}"


def not_found(what: str, id: str) -> DuetimeError:
    """Return the same error for an object that does not exist and for one that belongs to another owner."""
    return refuse("not_found", f"{what} {id[:200]} not found")


def not_offered(what: str) -> DuetimeError:
    offered = "it has schedules, messages, batches, a DLQ and logs"
    return refuse("not_offered", f"{what} not offered by this server; {offered}")


def is_changed(change: Callable[[], object]) -> bool:
    """Make a change; return False if it was refused."""
    try:
        change()
    except DuetimeError:
        return False
    return True


_ENCODED = re.compile(r"https?%3a", re.IGNORECASE)
_LOST_SLASH = re.compile(r"(https?):/(?!/)", re.IGNORECASE)
MOST_IDS = 1000
"""Maximum ids in one request."""


class Asking(NamedTuple):
    scheduler: Scheduler
    caller: Caller
    headers: Mapping[str, str]
    """Names in lower case."""
    query: Mapping[str, list[str]]
    path: Mapping[str, Any]
    destination: str
    """The destination URL in the raw path, with its own query; empty if the path has none."""
    body: bytes

    def json(self) -> Any:
        try:
            return parse_json(self.body)
        except ValueError:
            raise InvalidInput("the body is not valid JSON") from None

    def ids(self, name: str) -> list[str] | None:
        """Return a list of ids from the query or a JSON body; None if there is none."""
        listed: Any
        if name in self.query:
            listed = [each for value in self.query[name] for each in value.split(",") if each]
        else:
            document = self.json() if self.body else {}
            if isinstance(document, dict) and name not in document:
                return None
            listed = document[name] if isinstance(document, dict) else document
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise InvalidInput(f"{name}: must be a list of texts")
        if len(listed) > MOST_IDS:
            raise InvalidInput(f"{name}: has {len(listed)} ids, and a request takes at most {MOST_IDS}; send several")
        return listed

    def few_ids(self, name: str) -> list[str] | None:
        """Return the ids of the objects to change. An agent's run must name exactly one."""
        listed = self.ids(name)
        if listed is None or len({*listed}) > 1:
            refuse_many(self.caller, "change many messages", f"name one in {name}")
        return listed

    def filters(self, ids: str) -> dict[str, list[str]]:
        """Return the query and the fields of a JSON body other than the list of ids."""
        document = self.json() if self.body else {}
        if not isinstance(document, dict):
            return dict(self.query)
        lists = {name: value if isinstance(value, list) else [value] for name, value in document.items() if name != ids}
        texts = {name: ["" if each is None else str(each) for each in values] for name, values in lists.items()}
        return {**self.query, **texts}


def as_text(value: str) -> str:
    """Decode a header value as UTF-8 where possible, because servers read headers as Latin-1."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers by lower-case name; the values of a repeated header are joined by commas."""
    values: dict[str, str] = {}
    for raw_name, value in headers:
        name = raw_name.lower()
        values[name] = f"{values[name]}, {value}" if name in values else value
    return values


def raw_destination(raw_path: bytes, query: bytes, route: str) -> str:
    """Return the URL within the request's URL, keeping its double slash, query and percent-encoding."""
    path = raw_path.decode("latin-1").partition("?")[0]
    _, separator, destination = path.partition(route)
    if not separator:
        return ""
    if query:
        destination += "?" + query.decode("latin-1")
    if _ENCODED.match(destination):  # the client encoded the whole URL
        destination = unquote(destination)
    return _LOST_SLASH.sub(r"\1://", destination, count=1)  # a proxy may have merged the slashes


# Parsing of the headers of messages and schedules into requests and triggers for the scheduler.

PREFIX = "upstash-"
_HEADERS = {
    "method": "Method",
    "retries": "Retries",
    "retry_delay": "Retry-Delay",
    "timeout": "Timeout",
    "delay": "Delay",
    "label": "Label",
    "redact": "Redact-Fields",
    "id": "Schedule-Id",
    "cron": "Cron",
    "expression": "Cron",
}
"""The headers of fields of a request, without their prefix."""
FORWARD = "forward-"
LONGEST_DELAY = 3653 * 86_400
"""Maximum delay in seconds."""
_NOT_OFFERED = {
    "queue-name": "queues are",
    "flow-control-key": "flow control is",
    "flow-control-value": "flow control is",
}
_DIGITS = re.compile(r"[0-9]{1,15}", re.ASCII)
_ZONED = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)", re.DOTALL)

_SETTINGS = frozenset({"method", "retries", "retry-delay", "timeout", "delay"})
"""Settings of a callback; its other headers are forwarded."""
_GROUP = re.compile(r"[-._A-Za-z0-9]+", re.ASCII)
"""The pattern of a URL group's name; QStash takes any destination of this form for one."""


class Request(NamedTuple):
    """The request to send. Its time is read from the headers when it is created."""

    payload: dict[str, Any]
    policy: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def name(self) -> str:
        label: str = self.payload.get("label") or f"{self.payload['method']} request"
        return label


def read_request(asking: Asking, destination: str, headers: Mapping[str, str], body: bytes) -> Request:
    """Read the request of a message or schedule from its headers and body."""
    limit = asking.scheduler.limits.payload_bytes
    if len(body) > limit:
        message = f"the body has {len(body)} bytes, and the limit is {limit}; send a reference to it instead"
        raise refuse("too_large", message)
    if _GROUP.fullmatch(destination):
        raise not_offered("a destination without https:// is a URL group, and URL groups are")
    if "://" not in destination:
        raise InvalidInput("destination: must be a URL such as https://hooks.example.org/path")
    kind = asking.scheduler.kinds[KIND]
    own = {name.removeprefix(PREFIX): value for name, value in headers.items() if name.startswith(PREFIX)}
    for name, what in _NOT_OFFERED.items():
        if name in own:
            raise not_offered(what)
    payload = {"url": destination, **_sending(own, headers.get("content-type")), **_body(body)}
    payload |= {"label": own.get("label"), "redact": _redactions(own.get("redact-fields"))}
    callbacks = []
    for field, on in CALLBACKS.items():
        name = field.replace("_", "-")
        if name in own:
            follow_up = _prepared_callback(kind, own, name, payload.get("retries", RETRIES), asking.caller)
            callbacks.append(callback_to(on, follow_up, kind.defaults))
            payload |= {field: own[name], f"{field}_headers": follow_up.get("headers")}
    policy = {"max_attempts": payload.get("retries", RETRIES) + 1, "callbacks": callbacks}
    return Request(dict(kind.prepare(payload, asking.caller).payload), policy, headers)


def _sending(own: Mapping[str, str], content_type: str | None, prefix: str = "Upstash") -> dict[str, Any]:
    """Return the fields that messages and their callbacks have in common. Errors name headers with the prefix."""
    headers = {} if content_type is None else {"Content-Type": content_type}
    for name, value in own.items():
        if name.startswith(FORWARD):  # in its usual spelling, because servers see names in lower case
            headers["-".join(part.capitalize() for part in name.removeprefix(FORWARD).split("-"))] = value
    sending = {
        "method": own.get("method", "POST").upper(),
        "headers": headers or None,
        "retries": whole_number(f"{prefix}-Retries", own.get("retries")),
        "retry_delay": own.get("retry-delay"),
        "timeout": _seconds(f"{prefix}-Timeout", own.get("timeout")),
    }
    return without_nulls(sending)


def _callback(own: Mapping[str, str], name: str, retries: int) -> dict[str, Any]:
    """Return a callback from its own headers; all except settings are forwarded, with the prefix Forward- or
    without."""
    mine = {key.removeprefix(f"{name}-"): value for key, value in own.items() if key.startswith(f"{name}-")}
    settings = {key: value for key, value in mine.items() if key in _SETTINGS}
    forwarded = {FORWARD + key.removeprefix(FORWARD): value for key, value in mine.items() if key not in _SETTINGS}
    prefix = f"Upstash-{name.title()}"
    delay = _seconds(f"{prefix}-Delay", mine.get("delay"))
    return {"url": own[name], "retries": retries, **_sending(settings | forwarded, None, prefix), "delay": delay}


def _prepared_callback(kind: Kind, own: Mapping[str, str], name: str, retries: int, caller: Caller) -> dict[str, Any]:
    try:
        return dict(kind.prepare(_callback(own, name, retries), caller).payload)
    except InvalidInput as error:
        inherited = error.field == "retries" and f"{name}-retries" not in own
        if error.field is None or error.problem == error.message or inherited:
            raise
        header = _HEADERS.get(error.field)
        field = f"{PREFIX}{name}".title() + (f"-{header}" if header else "")
        raise InvalidInput(field=field, problem=error.problem) from None


def _body(body: bytes) -> dict[str, str]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = None
    if text is None or not is_text(text):
        return {"body_base64": base64.b64encode(body).decode()}
    return {"body": text} if text else {}


def _redactions(text: str | None) -> list[str] | None:
    """Return the parts to redact; `header` and `headers` mean all headers."""
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    return ["headers" if part == "header" else part.replace("headers[", "header[") for part in parts] or None


def whole_number(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not _DIGITS.fullmatch(text.strip()):
        raise InvalidInput(f"{name}: must be a whole number, not {text[:40]!r}")
    return int(text)


def _seconds(name: str, value: str | None) -> int | None:
    """Read a duration such as `50s` or `1d10h30m`, or plain seconds."""
    if value is None:
        return None
    text = value.strip()
    try:
        return int(text) if _DIGITS.fullmatch(text) else read_duration(text) // SECOND
    except UnreadableTime as error:
        raise InvalidInput(f"{name}: {error.message}") from None


def read_moment(headers: Mapping[str, str], now: Instant) -> When:
    """Read when to send: now, after a delay, or not before an instant, which takes precedence if both are given."""
    not_before = whole_number("Upstash-Not-Before", headers.get(f"{PREFIX}not-before"))
    if not_before is not None:
        if not_before >= 253_402_300_800:
            raise InvalidInput("Upstash-Not-Before: must be a Unix time in seconds before the year 10000")
        at = Instant(not_before * SECOND)
        return When("once", {"run_at": "now" if at <= now else datetime_of(at).isoformat()}, "UTC")
    delay = read_delay(headers)
    if delay is not None and delay > LONGEST_DELAY:
        raise InvalidInput("Upstash-Delay: must be at most ten years")
    return When("once", {"run_at": f"in {delay} seconds" if delay else "now"}, "UTC")


def read_cron(headers: Mapping[str, str]) -> tuple[str, When]:
    """Return the expression as given and its trigger, in UTC unless the expression begins with a time zone."""
    text = headers.get(f"{PREFIX}cron")
    if text is None or not text.strip():
        raise InvalidInput("Upstash-Cron: is missing; give an expression such as 0 9 * * 1-5")
    zoned = _ZONED.fullmatch(text.strip())
    zone, expression = (zoned[1], zoned[2]) if zoned else ("UTC", text.strip())
    return text.strip(), When("cron", {"expression": expression}, zone)


def read_delay(headers: Mapping[str, str]) -> int | None:
    return _seconds("Upstash-Delay", headers.get(f"{PREFIX}delay"))
