"""The QStash account, the check of its settings, and a client with deadlines and retries."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import NamedTuple, TypeVar

import httpx
from qstash import QStash

from duetime.engine.redaction import without_secrets
from duetime.kinds.notifications.channels.ntfy import NtfyServer, problem_of
from duetime.net.client import Http
from duetime.net.messages import Answer, Call, CallFailed
from duetime.net.ssrf_guard import is_local_name, why_closed
from duetime.net.urls import BadAddress, read_url

# Errors of QStash, with messages that may be shown.

AGAIN = "try again in a moment"


class Refused(Exception):
    """Raised if QStash refused a request."""

    def __init__(self, reason: str, *, missing: bool = False, repeated: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing
        """What was requested does not exist."""
        self.repeated = repeated
        """An earlier attempt got no response, and may have succeeded."""


class Unheard(Exception):
    """Raised if it is unknown whether a request succeeded."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Declined(Exception):
    """Raised for a response that is not a success."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.status = answer.status
        self._headers = answer.headers
        self._said = _error_of(answer.body)

    @property
    def is_passing(self) -> bool:
        return self.status >= 500 or self.status == 408

    @property
    def is_missing(self) -> bool:
        """Whether QStash itself reports something missing, and not another server at a mistyped address."""
        return self._said is not None and (self.status == 404 or "not found" in self._said.lower())

    @property
    def words(self) -> str:
        if self.is_passing:
            return f"QStash answered {self.status}; {AGAIN}"
        if self.status in (401, 403):
            return f"QStash did not accept the token ({self.status}); check notifications.qstash_token"
        if self.status == 429 and "ratelimit-limit" in self._headers:
            return "QStash's messages of this day are used up (429); try again tomorrow, or with a larger plan"
        if self.status == 429:
            return f"QStash is being asked too often (429); {AGAIN}"
        if self._said is None:
            return f"QStash answered {self.status}, and not in its own words; check notifications.qstash_url"
        return f"QStash answered {self.status}: {self._said}"


def _error_of(body: bytes) -> str | None:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return None
    error = said.get("error") if isinstance(said, dict) else None
    return " ".join(error[:300].split()) if isinstance(error, str) else None


class Account(NamedTuple):
    token: str
    url: str = ""
    """Address of a server of one's own; empty means QStash's."""


def problem_with(account: Account, server: NtfyServer) -> str | None:
    if find_spec("qstash") is None:
        return "the QStash SDK is not installed; install duetime[qstash]"
    if not account.token:
        return "notifications.qstash_token is not set; copy it from QStash's console"
    if not (account.token.isascii() and account.token.isprintable()):
        return "notifications.qstash_token holds characters that no token has; copy it again"
    if (problem := _problem_of_url(account.url)) is not None:
        return problem
    if not server.url:
        return "notifications.server is not set: QStash sends to an ntfy server, such as https://ntfy.sh"
    problem = problem_of(server)
    if problem is None and not account.url and _is_near(read_url(server.url).host):
        problem = "notifications.server is a server of this network alone, which QStash cannot reach from outside"
    return problem


def _problem_of_url(url: str) -> str | None:
    try:
        if url:
            read_url(url)
    except BadAddress as error:
        return f"notifications.qstash_url: {error}"
    return None


def _is_near(host: str) -> bool:
    try:
        return why_closed(host) is not None
    except ValueError:
        return is_local_name(host)


# QStash's own SDK over HTTP calls with a deadline.

T = TypeVar("T")

log = logging.getLogger("duetime.delivery")

ATTEMPTS = 2
_SECRET = 6
"""Minimum length of secrets to redact: a shorter one may be in any text by chance."""
_OF_THE_CONNECTION = frozenset({"accept-encoding", "connection", "content-length", "host"})


class Line:
    """Client that retries when a response is lost, so that every request has to be idempotent."""

    def __init__(self, http: Http, url: str, token: str, patience: float, hidden: Sequence[str] = ()) -> None:
        self._hidden = [secret for secret in (token, *hidden) if len(secret) >= _SECRET]
        self._sdk = QStash(token, retry=False, base_url=url or None)
        # The SDK has no setting for limits: its own client waits ten minutes and reads responses of any length.
        self._sdk.http._client.close()
        self._sdk.http._client = httpx.Client(transport=_Bounded(http, patience / ATTEMPTS))

    def ask(self, question: Callable[[QStash], T]) -> T:
        """Make a request. Raise Refused or Unheard, and nothing else."""
        unheard = None
        for _ in range(ATTEMPTS):
            try:
                return question(self._sdk)
            except Declined as declined:
                words = self._shown(declined.words)
                if not declined.is_passing:
                    raise Refused(words, missing=declined.is_missing, repeated=unheard is not None) from None
                unheard = Unheard(words)
            except CallFailed as failed:
                if failed.permanent:
                    raise Refused(self._shown(f"QStash cannot be called: {failed.reason}")) from None
                unheard = Unheard(self._shown(f"{failed.reason}; {AGAIN}"))
            except Exception as error:  # the SDK fails on responses of an unexpected shape
                log.warning("QStash's SDK failed on an answer: %s", type(error).__name__)
                unheard = Unheard("QStash's answer could not be understood; check notifications.qstash_url")
        assert unheard is not None
        raise unheard

    def _shown(self, reason: str) -> str:
        for secret in self._hidden:
            reason = reason.replace(secret, "***")
        return without_secrets(reason)


class _Bounded(httpx.BaseTransport):
    """Transport with one deadline for everything, bounded responses, no redirects and no proxy of the environment."""

    def __init__(self, http: Http, patience: float) -> None:
        self._http, self._patience = http, patience

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name not in _OF_THE_CONNECTION}
        answer = self._http.send(Call(request.method, str(request.url), headers, request.read(), self._patience))
        if not 200 <= answer.status < 300:
            raise Declined(answer)
        if answer.cut:
            raise CallFailed("QStash's answer broke off, or is too long")
        return httpx.Response(answer.status, content=answer.body)
