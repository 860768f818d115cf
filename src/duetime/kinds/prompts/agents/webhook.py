"""An agent behind a URL of the operator, which receives the prompt and answers at once or later."""

from __future__ import annotations

import hashlib
import hmac
import json
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from duetime.engine.clock import SECOND, Clock, Instant, datetime_of
from duetime.engine.errors import InvalidInput
from duetime.engine.outcome import Outcome, Retry
from duetime.kinds.prompts.agent import AgentReply, AgentRequest
from duetime.kinds.prompts.agents.transcript import Transcript, answer_problem, read_answer, to_reply
from duetime.net.calls import PAGES, media_type_of, retry_after, status_name
from duetime.net.client import CallFailed, Http, HttpAnswer, HttpCall
from duetime.security.redaction import Secrets

SIGNATURE = "Duetime-Signature"
AT_ONCE = 60.0
"""Seconds for the response to the request itself; an agent that takes longer responds with 202 and answers later."""
_TRY_AGAIN = frozenset({408, 425, 429})
_SHOWN = 200
"""Characters of a refusal that an error message shows."""


class WebhookAgent:
    def __init__(self, name: str, url: str, secret: str, http: Http, clock: Clock) -> None:
        """Raises InvalidInput, naming the field."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise InvalidInput(f"agents.{name}: a webhook needs an address that begins with https://", field="url")
        if not secret:
            raise InvalidInput(
                f"agents.{name}: a webhook needs a secret, so that it can verify Duetime's requests; choose one",
                field="secret",
            )
        self._name, self._url, self._secret = name, url, secret
        self._http, self._clock = http, clock

    def wake(self, request: AgentRequest) -> AgentReply | Outcome:
        secrets = Secrets(request.access.token, {"secret": self._secret})
        body = json.dumps(self._message(request)).encode()
        headers = {
            "Content-Type": "application/json",
            # the same on every attempt, so that a receiver can recognize a repetition
            "Idempotency-Key": str(request.run),
            SIGNATURE: signature(self._secret, self._clock.now() // SECOND, body),
        }
        try:
            patience = min(request.patience, AT_ONCE)
            answered = self._http.send(HttpCall("POST", self._url, headers, body, patience, request.once))
        except CallFailed as failed:
            reason = secrets.in_short(failed.reason)
            return AgentReply(error=reason, permanent=True) if failed.permanent else Retry(reason)
        if answered.status == HTTPStatus.ACCEPTED and request.access.url is None:
            words = "wants to answer later, but there is no server for it to call; start `duetime serve`"
            return AgentReply(error=f"the webhook of agents.{self._name} {words}")
        if answered.status == HTTPStatus.ACCEPTED:
            return AgentReply(waiting_until=self._deadline(request))
        if 200 <= answered.status < 300:
            return self._answer(answered, secrets)
        return self._refused(answered, secrets)

    def missing(self) -> str | None:
        """Return None, because whether it answers is only known when it is called."""
        return None

    def close(self) -> None:
        self._http.close()

    def _message(self, request: AgentRequest) -> dict[str, Any]:
        access = request.access
        # How to answer later with the run's token: with the tool, or by sending to the API of the same server what
        # could have been answered at once.
        callback: dict[str, Any] = {"tool": "finish_prompt", "run_id": request.run}
        if access.url is not None and access.url.endswith("/mcp"):
            callback["url"] = f"{access.url.removesuffix('/mcp')}/api/v1/runs/{request.run}/finish"
        return {
            "run": request.run,
            "task": request.task,
            "owner": request.owner,
            "prompt": request.prompt,
            "text": request.text,
            "author": request.author,
            "stored": _iso(request.stored),
            "due": _iso(request.due),
            "expires": _iso(self._deadline(request)),
            "access": None if access.url is None else {"url": access.url, "token": access.token},
            "callback": callback,
        }

    def _deadline(self, request: AgentRequest) -> Instant:
        return Instant(self._clock.now() + int(request.patience * SECOND))

    def _answer(self, answered: HttpAnswer, secrets: Secrets) -> AgentReply:
        media_type = media_type_of(answered.headers)
        if media_type in PAGES:
            words = "answered with a page for people; check that its address is right and asks for no login"
            return AgentReply(error=f"the webhook of agents.{self._name} {words}")
        transcript = Transcript()
        as_json = media_type == "application/json" or media_type.endswith("+json")
        read_answer(transcript, answered.body.decode("utf-8", "replace"), as_json=as_json)
        return to_reply(
            transcript, transcript.error or answer_problem(f"the webhook of agents.{self._name}", transcript), secrets
        )

    def _refused(self, answered: HttpAnswer, secrets: Secrets) -> AgentReply | Outcome:
        status = answered.status
        beginning = answered.body[: 4 * _SHOWN].decode("utf-8", "replace").strip()
        reason = f"the webhook of agents.{self._name} answered {status_name(status)}"
        because = f": {secrets.without(beginning)[:_SHOWN]}" if beginning else ""
        if status in _TRY_AGAIN or status >= 500:
            return Retry(secrets.in_short(reason + because), retry_after(answered.headers))
        if 300 <= status < 400:
            reason += "; redirects are not followed, so set the address that it leads to"
        return AgentReply(error=secrets.in_short(reason + because), permanent=True)


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return `t=…,v1=…`: HMAC-SHA256 over the timestamp, a dot and the body."""
    signed = b"%d.%s" % (timestamp, body)
    return f"t={timestamp},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def _iso(instant: Instant) -> str:
    return datetime_of(instant).isoformat()
