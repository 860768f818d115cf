"""The QStash account, the check of its settings, a client with deadlines and retries, and the requests it makes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

from duetime.engine.clock import SECOND, Instant
from duetime.engine.encoding import json_object
from duetime.engine.queries import could_be_an_id
from duetime.engine.redaction import MIN_SECRET_LENGTH, without_secrets, without_values
from duetime.engine.store_interfaces import Remote, RemoteKind
from duetime.engine.urls import BadAddress, read_url
from duetime.kinds.notifications.channels.ntfy import NtfyServer, problem_of, publish_call
from duetime.kinds.notifications.delivery import OutgoingMessage
from duetime.kinds.notifications.qstash.records import cron_of, fields_of
from duetime.net.client import CallFailed, Http, HttpAnswer, HttpCall
from duetime.net.ssrf_guard import is_local_name, why_closed

if TYPE_CHECKING:  # the SDK may not be installed, which `problem_with` reports
    import httpx
    from qstash import QStash

# Errors of QStash, with messages that may be shown.

AGAIN = "try again in a moment"


class QStashError(Exception):
    """Raised if QStash refused a request, or if it is unknown whether a request succeeded."""

    def __init__(self, reason: str, *, unheard: bool = False, missing: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.unheard = unheard
        """There was no usable response, so the request may have succeeded."""
        self.missing = missing
        """The requested object does not exist."""
        self.repeated = False
        """An earlier attempt got no response, and may have succeeded."""


def _error_of(answer: HttpAnswer) -> QStashError:
    """Return the error of a response that is not a success."""
    status = answer.status
    if status >= 500 or status == 408:
        return QStashError(f"QStash answered {status}; {AGAIN}", unheard=True)
    error = (json_object(answer.body) or {}).get("error")
    text = " ".join(error[:300].split()) if isinstance(error, str) else None
    if status in (401, 403):
        reason = f"QStash did not accept the token ({status}); check notifications.qstash_token"
    elif status == 429 and "ratelimit-limit" in answer.headers:
        reason = "QStash's messages of this day are used up (429); try again tomorrow, or with a larger plan"
    elif status == 429:
        reason = f"QStash is being asked too often (429); {AGAIN}"
    elif text is None:
        reason = f"QStash answered {status}, and not in its own words; check notifications.qstash_url"
    else:
        reason = f"QStash answered {status}: {text}"
    # Without an error in QStash's format, another server at a mistyped address may have answered.
    missing = text is not None and (status == 404 or "not found" in text.lower())
    return QStashError(reason, missing=missing)


class Account(NamedTuple):
    token: str
    url: str = ""
    """Address of a self-hosted server; empty means QStash's own."""


def problem_with(account: Account, server: NtfyServer) -> str | None:
    if find_spec("qstash") is None:
        return "the QStash SDK is not installed; install duetime[qstash]"
    if not account.token:
        return "notifications.qstash_token is not set; copy it from QStash's console"
    if not (account.token.isascii() and account.token.isprintable()):
        return "notifications.qstash_token holds characters that no token has; copy it again"
    try:
        if account.url:
            read_url(account.url)
    except BadAddress as error:
        return f"notifications.qstash_url: {error}"
    if not server.url:
        return "notifications.server is not set: QStash sends to an ntfy server, such as https://ntfy.sh"
    problem = problem_of(server)
    if problem is None and not account.url and _is_near(read_url(server.url).host):
        problem = "notifications.server is a server of this network alone, which QStash cannot reach from outside"
    return problem


def _is_near(host: str) -> bool:
    try:
        return why_closed(host) is not None
    except ValueError:
        return is_local_name(host)


# QStash's own SDK over HTTP calls with a deadline.

T = TypeVar("T")

log = logging.getLogger("duetime.delivery")

ATTEMPTS = 2
_OF_THE_CONNECTION = frozenset({"accept-encoding", "connection", "content-length", "host"})


class QStashClient:
    """A client that retries when a response is lost, so every request has to be idempotent."""

    def __init__(self, http: Http, url: str, token: str, patience: float, hidden: Sequence[str] = ()) -> None:
        import httpx
        from qstash import QStash

        self._hidden = [secret for secret in (token, *hidden) if len(secret) >= MIN_SECRET_LENGTH]
        self._http, self._patience = http, patience / ATTEMPTS
        self._sdk = QStash(token, retry=False, base_url=url or None)
        # The SDK has no setting for limits: its own client waits ten minutes and reads responses of any length.
        self._sdk.http._client.close()
        self._sdk.http._client = httpx.Client(transport=httpx.MockTransport(self._send))

    def ask(self, question: Callable[[QStash], T]) -> T:
        """Make a request. Raise only QStashError."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return question(self._sdk)
            except QStashError as error:
                failure = error
            except Exception as error:  # the SDK fails on responses of an unexpected shape
                log.warning("QStash's SDK failed on an answer: %s", type(error).__name__)
                reason = "QStash's answer could not be understood; check notifications.qstash_url"
                failure = QStashError(reason, unheard=True)
            failure.reason = without_secrets(without_values(failure.reason, self._hidden))
            failure.repeated = attempt > 1
            if not failure.unheard or attempt == ATTEMPTS:
                raise failure

    def _send(self, request: httpx.Request) -> httpx.Response:
        """Send with one deadline for everything, bounded responses, no redirects and no proxy of the environment."""
        import httpx

        headers = {name: value for name, value in request.headers.items() if name not in _OF_THE_CONNECTION}
        try:
            answer = self._http.send(
                HttpCall(request.method, str(request.url), headers, request.read(), self._patience)
            )
        except CallFailed as failed:
            if failed.permanent:
                raise QStashError(f"QStash cannot be called: {failed.reason}") from None
            raise QStashError(f"{failed.reason}; {AGAIN}", unheard=True) from None
        if not 200 <= answer.status < 300:
            raise _error_of(answer)
        if answer.cut:
            raise QStashError(f"QStash's answer broke off, or is too long; {AGAIN}", unheard=True)
        return httpx.Response(answer.status, content=answer.body)


# Requests to QStash through its SDK. Each can be repeated safely.


class Accepted(NamedTuple):
    name: str
    """QStash's own id."""
    at: Instant | None
    """When a one-off is sent; None means at once."""


Request: TypeAlias = "Callable[[QStash], Accepted]"


def publishing(
    remote: Remote, not_before: Instant | None, server: NtfyServer, policy: Mapping[str, Any], *, again: bool
) -> Request:
    """Return a request to publish a message. With `again`, an earlier one got no response and may be older than the
    minutes for which QStash remembers deduplication ids, so the logs are searched first."""
    url, shared = _message(remote, server, policy, repeat_id=remote.id)
    shared["label"] = remote.id  # to find it in the logs
    seconds = None if not_before is None else -(-not_before // SECOND)  # never early

    def question(sdk: QStash) -> Accepted:
        if again and (name := logged(remote, sdk)) is not None:
            return Accepted(name, remote.at)
        taken: Any = sdk.message.publish(url=url, deduplication_id=remote.id, not_before=seconds, **shared)
        return Accepted(_checked(taken.message_id), remote.at if taken.deduplicated else not_before)

    return question


def scheduling(remote: Remote, server: NtfyServer, policy: Mapping[str, Any]) -> Request:
    # A phone shows only the latest of several messages with one id, so each occurrence is a new message.
    url, shared = _message(remote, server, policy, repeat_id="")
    shared["label"] = fields_of(remote).get("label")
    cron = cron_of(remote)

    def question(sdk: QStash) -> Accepted:
        name = sdk.schedule.create(destination=url, cron=cron, schedule_id=remote.id, **shared)
        return Accepted(_checked(name), None)

    return question


def _message(
    remote: Remote, server: NtfyServer, policy: Mapping[str, Any], repeat_id: str
) -> tuple[str, dict[str, Any]]:
    """Return the URL, and the arguments that publishing and scheduling have in common."""
    call, _ = publish_call(server, OutgoingMessage(repeat_id, remote.topic, fields_of(remote), 0.0, remote.owner))
    forwarded = {**call.headers}
    attempts, timeout = policy.get("max_attempts"), policy.get("timeout")
    shared = {
        "body": call.body,
        "content_type": forwarded.pop("Content-Type"),
        "headers": forwarded,
        "redact": {"header": ["Authorization"]} if server.token else None,
        # Only the requested options: QStash has its own defaults, which depend on the account's plan.
        "retries": None if attempts is None else attempts - 1,
        "timeout": None if timeout is None else -(-timeout // SECOND),
    }
    return call.url, shared


def logged(remote: Remote, sdk: QStash) -> str | None:
    """Return QStash's id of a message whose response was lost, or None if QStash has no such message."""
    # The SDK's own method for it prints the response, and standard output may carry a protocol.
    answer = sdk.http.request(path="/v2/events", method="GET", params={"label": remote.id, "count": "100"})
    names = [event["messageId"] for event in answer["events"] if event.get("label") == remote.id]
    return _checked(names[0]) if names else None


def changing(remote: Remote, change: str) -> Callable[[QStash], None]:
    """Return a request to pause, resume or delete. The object is looked up first, because a change alone may succeed on
    an object that does not exist."""
    # The SDK inserts the id into the URL unchanged; `..` would lead to another path.
    name = quote(remote.remote or remote.id, safe="").replace(".", "%2E")

    def question(sdk: QStash) -> None:
        if remote.kind == RemoteKind.MESSAGE:
            sdk.message.get(name)
            sdk.message.cancel(name)
            return
        schedules = sdk.schedule
        schedules.get(name)
        {"pause": schedules.pause, "resume": schedules.resume, "delete": schedules.delete}[change](name)

    return question


def _checked(name: object) -> str:
    if not isinstance(name, str) or not name or not could_be_an_id(name):
        raise ValueError("QStash names things by texts")
    return name
