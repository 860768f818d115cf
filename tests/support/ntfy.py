"""An ntfy server as its publishers see it: takes JSON at its root, checks it as ntfy does, and answers with an id.

    with NtfyReceiver(token="tk_1") as ntfy:
        ...
        [publication] = ntfy.wait_for_publications(1)
        publication["message"], publication.key                 # the JSON it was sent, and its Idempotency-Key

`ntfy.misbehave = lambda request: Behaviour(500) if ... else None` does something else to a request: it has arrived all
the same, as behind an answer that gets lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.receiver import Behaviour, Receiver, Request

TOPIC = re.compile(r"[-_A-Za-z0-9]{1,64}")
REFUSED = Behaviour(400, {}, b'{"code":40024,"http":400,"error":"invalid request"}')
UNAUTHORIZED = Behaviour(401, {}, b'{"code":40101,"http":401,"error":"unauthorized"}')
TOO_LARGE = Behaviour(413, {}, b'{"code":41301,"http":413,"error":"entity too large"}')


@dataclass(frozen=True)
class Publication:
    key: str
    """Its Idempotency-Key."""
    fields: dict[str, Any]
    request: Request

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


class NtfyReceiver(Receiver):
    def __init__(self, *, token: str = "") -> None:
        super().__init__(self._publish)
        self.misbehave: Callable[[Request], Behaviour | None] = lambda request: None
        self.token = token

    def _publish(self, request: Request) -> Behaviour:
        return self.misbehave(request) or self._judge(request)

    def _judge(self, request: Request) -> Behaviour:
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return UNAUTHORIZED
        if len(request.body) > 8192:
            return TOO_LARGE
        try:
            fields = json.loads(request.body)
        except ValueError:
            return REFUSED
        if (request.method, request.path) != ("POST", "/") or not TOPIC.fullmatch(fields.get("topic", "")):
            return REFUSED
        if not TOPIC.fullmatch(fields.get("sequence_id", "-")):
            return REFUSED
        if len(fields["message"].encode()) > 4096:
            return TOO_LARGE
        answer = {"id": f"own-{len(self.requests)}", "event": "message", "topic": fields["topic"]}
        return Behaviour(200, {"Content-Type": "application/json"}, json.dumps(answer).encode())

    @property
    def publications(self) -> list[Publication]:
        """Everything that arrived, acknowledged or not, oldest first."""
        return [self._read(request) for request in list(self.requests)]

    def wait_for_publications(self, count: int, timeout: float = 10.0) -> list[Publication]:
        return [self._read(request) for request in self.wait_for(count, timeout)]

    def _read(self, request: Request) -> Publication:
        return Publication(request.headers["idempotency-key"], json.loads(request.body), request)
