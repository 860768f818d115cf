"""Sends requests to the URLs that clients gave: guards and signs them, and turns answers into outcomes."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress

from duetime.engine.clock import DAY, MINUTE, SECOND, Clock
from duetime.engine.errors import StoreUnavailable, UnreadableTime
from duetime.engine.outcome import Completed, Failed, Outcome, Retry
from duetime.engine.times import read_duration
from duetime.engine.urls import BadAddress, UrlParts, read_url
from duetime.engine.worker.capture import write_log
from duetime.kinds.requests.wire import Outgoing
from duetime.net.calls import retry_after, status_name
from duetime.net.client import CallFailed, Http, HttpAnswer, HttpCall
from duetime.net.host_limits import Hosts, Sign, Tried
from duetime.net.outcomes import outcome_of_failure, sign_of_failure

SIGNATURE = "Upstash-Signature"
SIGNATURE_LIFE = 5 * MINUTE
GIVEN_UP, GIVES_UP = 489, "upstash-nonretryable-error"
"""The status and the header with which a receiver says that retrying is useless."""
_LARGEST_HEADERS = 8 * 1024
"""Maximum characters of an answer's headers that are kept."""
_LOGGED = 4 * 1024
"""Bytes of an answer's body that are in the log of the run."""
_WAITS = ("retry-after", "x-ratelimit-reset", "x-ratelimit-reset-requests", "x-ratelimit-reset-tokens")


class Requests:
    def __init__(self, clock: Clock, http: Http, hosts: Hosts, key_of: Callable[[str], str]) -> None:
        """`key_of` returns an owner's signing key; it is called for each request, because keys are rotated."""
        self._clock, self._http, self._hosts, self._key_of = clock, http, hosts, key_of

    def send(self, outgoing: Outgoing) -> Outcome:
        try:
            target = read_url(outgoing.url)
        except BadAddress as error:
            return Failed(str(error), permanent=True)
        return self._hosts.pass_(target.origin, lambda: self._attempt(outgoing, target), outgoing.owner)

    def close(self) -> None:
        self._http.close()

    def _attempt(self, outgoing: Outgoing, target: UrlParts) -> Tried:
        headers = {name: value for name, value in outgoing.headers.items() if name.lower() != SIGNATURE.lower()}
        try:
            headers[SIGNATURE] = self._signature(outgoing)
        except StoreUnavailable:  # the store knows the current key
            reason = "the store could not be reached, so that it could not be signed"
            return Tried(Retry(reason, after=outgoing.again), Sign.NONE)
        method, url, body = outgoing.method, outgoing.url, outgoing.body
        call = HttpCall(method, url, headers, body, outgoing.patience, outgoing.once, outgoing.owner)
        try:
            answer = self._http.send(call)
        except CallFailed as failed:
            return Tried(outcome_of_failure(failed, outgoing.again), sign_of_failure(failed))
        # A 5xx says nothing about the host: one broken path must not block other owners' paths.
        sign = Sign.NONE if answer.status >= 500 else Sign.ANSWERED
        return Tried(_judged(answer, outgoing, target.authority), sign)

    def _signature(self, outgoing: Outgoing) -> str:
        """Return a JWT with which a receiver verifies the sender, the URL and the body, and that the request is
        recent."""
        import jwt

        now = self._clock.now() // SECOND
        claims = {
            "iss": "Upstash",
            "sub": outgoing.url,
            "iat": now,
            "nbf": now,
            "exp": now + SIGNATURE_LIFE // SECOND,
            "jti": f"jwt_{secrets.token_hex(12)}",
            "body": base64.urlsafe_b64encode(hashlib.sha256(outgoing.body).digest()).decode(),
        }
        return jwt.encode(claims, self._key_of(outgoing.owner), "HS256")


def _judged(answer: HttpAnswer, outgoing: Outgoing, host: str) -> Outcome:
    _log_answer(answer)
    result = json.dumps(
        {
            "status": answer.status,
            "header": _bounded_headers(answer.headers),
            "body": base64.b64encode(answer.body[: outgoing.max_kept]).decode(),
            "cut": answer.cut or len(answer.body) > outgoing.max_kept,
        }
    )
    if 200 <= answer.status < 300:
        return Completed(result)
    reason = f"{host} answered {status_name(answer.status)}"
    if answer.status == GIVEN_UP and answer.headers.get(GIVES_UP, "").strip().lower() == "true":
        return Failed(f"{reason}: trying again is in vain", permanent=True, result=result)
    delay = _asked_to_wait(answer.headers)
    return Retry(reason, after=outgoing.again if delay is None else delay, result=result)


def _log_answer(answer: HttpAnswer) -> None:
    """Write the status and the beginning of the body to the log of the run."""
    size, cut = len(answer.body), answer.body[:_LOGGED]
    more = f"\n[{size - _LOGGED:,} more bytes]" if size > _LOGGED else ""
    write_log(f"{status_name(answer.status)}\n{cut.decode('utf-8', 'replace')}{more}\n")


def _bounded_headers(headers: Mapping[str, str]) -> dict[str, list[str]]:
    headers_by_name: dict[str, list[str]] = {}
    room = _LARGEST_HEADERS
    for name, value in headers.items():
        room -= len(name) + len(value)
        if room >= 0:
            headers_by_name[name] = [value]
    return headers_by_name


def _asked_to_wait(headers: Mapping[str, str]) -> int | None:
    """Return the delay in microseconds from the first header that has one: seconds, a date or a duration (6m5s)."""
    for name in _WAITS:
        value = headers.get(name, "").strip()
        if value == "0":
            return 0
        delay = retry_after({**headers, "retry-after": value})
        with suppress(UnreadableTime):
            delay = delay or (min(read_duration(value), DAY) if value else 0)
        if delay:
            return delay
    return None
