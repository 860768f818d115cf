"""QStash's own SDK over calls with an end.

Imported with the first question alone: not everybody has the SDK, and it takes a while to load.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import httpx
from qstash import QStash

from duetime.core.masking import without_secrets
from duetime.delivery.calls import Call, CallFailed
from duetime.delivery.http import Http
from duetime.delivery.qstash.answers import AGAIN, Declined, Refused, Unheard

T = TypeVar("T")

log = logging.getLogger("duetime.delivery")

ATTEMPTS = 2
_SECRET = 6
"""Characters; whatever is shorter stands in any text by chance."""
_OF_THE_CONNECTION = frozenset({"accept-encoding", "connection", "content-length", "host"})


class Line:
    """Asks again when an answer is lost: whatever is asked has to be the same when it is asked twice."""

    def __init__(self, http: Http, url: str, token: str, patience: float, hidden: Sequence[str] = ()) -> None:
        self._hidden = [secret for secret in (token, *hidden) if len(secret) >= _SECRET]
        self._sdk = QStash(token, retry=False, base_url=url or None)
        # The SDK has no setting for it: its own client waits ten minutes and reads answers of any length.
        self._sdk.http._client.close()
        self._sdk.http._client = httpx.Client(transport=_Bounded(http, patience / ATTEMPTS))

    def ask(self, question: Callable[[QStash], T]) -> T:
        """Raises Refused or Unheard, and nothing else."""
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
            except Exception as error:  # the SDK trusts the shape of an answer, and trips over any other
                log.warning("QStash's SDK failed on an answer: %s", type(error).__name__)
                unheard = Unheard("QStash's answer could not be understood; check notifications.qstash_url")
        assert unheard is not None
        raise unheard

    def _shown(self, reason: str) -> str:
        for secret in self._hidden:
            reason = reason.replace(secret, "***")
        return without_secrets(reason)


class _Bounded(httpx.BaseTransport):
    """One deadline over everything, answers of bounded length, no redirects, no proxy of the environment."""

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
