"""The QStash API on a settable clock, with a simulated receiver; time passes only when a test says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, cast

import httpx2
from starlette.applications import Starlette
from starlette.testclient import TestClient

from duetime.engine.clock import SECOND
from duetime.engine.kind import Caller
from duetime.engine.outcome import Completed, Outcome, Retry
from duetime.kinds.requests.kind import RequestKind
from duetime.kinds.requests.qstash_api.routes import routes
from duetime.kinds.requests.signing_keys import SigningKeys
from duetime.kinds.requests.wire import KIND, Outgoing
from duetime.service.services import Call
from duetime.testing import Simulation
from tests.support.tokens import SECRET

HOOK = "https://a.example/hook"
CRON: dict[str, Any] = {"Upstash_Cron": "* * * * *"}
START = datetime(2026, 3, 1, tzinfo=UTC)
TAKEN = Completed(json.dumps({"status": 200, "header": {"x": ["y"]}, "body": "b2s=", "cut": False}))


def turned_down(outgoing: Outgoing) -> Outcome:
    answer = {"status": 503, "header": {}, "body": "bm8=", "cut": False}
    return Retry("host answered 503", after=outgoing.again, result=json.dumps(answer))


class PlayedRequester:
    """Sends nothing; keeps the requests, and answers as configured."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []
        self.answer: Callable[[Outgoing], Outcome] = lambda outgoing: TAKEN

    def send(self, outgoing: Outgoing) -> Outcome:
        self.sent.append(outgoing)
        return self.answer(outgoing)

    def close(self) -> None: ...


class QStashHarness:
    """A client of the QStash API."""

    def __init__(self, simulation: Simulation, requester: PlayedRequester) -> None:
        self.simulation, self.requester = simulation, requester
        self.owner, self.depth = "ada", 0
        app, self.clock = simulation.duetime.app, simulation.clock
        self.keys = SigningKeys(lambda: SECRET, app.store, self.clock)
        cast(dict[str, Any], app.kinds)[KIND] = RequestKind(requester, self.clock, self.keys)

        def identify() -> Call:
            return Call(app.services, Caller(self.owner, operator=True, depth=self.depth), "UTC")

        self._client = TestClient(Starlette(routes=routes(app.services, identify)))

    @property
    def sent(self) -> list[Outgoing]:
        return self.requester.sent

    def ask(self, method: str, path: str, *, status: int = 200, body: Any = b"", **headers: Any) -> Any:
        """Make a request, with headers as names with underscores; return the JSON of the answer."""
        reply = self.raw(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        assert reply.status_code == status, (reply.status_code, reply.text)
        return reply.json() if reply.content else None

    def raw(self, method: str, path: str, body: Any = b"", headers: Mapping[str, str] | None = None) -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        encoded = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        return self._client.request(method, path, content=content, headers=encoded)

    def schedules(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.ask("GET", "/v2/schedules")
        return listed

    def publish(self, url: str = HOOK, **more: Any) -> str:
        return str(self.ask("POST", f"/v2/publish/{url}", **more)["messageId"])

    def milliseconds(self) -> int:
        return self.simulation.clock.now() // (SECOND // 1000)


@contextmanager
def counter(url: str = ":memory:") -> Iterator[QStashHarness]:
    with Simulation(START, url=url) as simulation:
        yield QStashHarness(simulation, PlayedRequester())
