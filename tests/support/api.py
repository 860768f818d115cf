"""The HTTP API in this process, on a settable clock; every response is checked against the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from starlette.testclient import TestClient

from duetime.app import App, web
from duetime.engine.clock import SECOND
from duetime.kinds.jobs.registry import Registry
from duetime.security.tokens import Tokens
from duetime.settings import Settings
from duetime.testing import Simulation
from tests.support.settings import for_all
from tests.support.tokens import tokens_with

START = datetime(2026, 2, 10, 14, 0, tzinfo=UTC)
V1 = "/api/v1"
PROBLEM = "application/problem+json"


class Described:
    """The OpenAPI document, against which responses are checked."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        # a literal path takes precedence
        paths = sorted(document["paths"].items(), key=lambda each: each[0].count("{"))
        self._paths = {re.compile(re.sub(r"\{\w+\}", "[^/]+", path)): item for path, item in paths}

    def check(self, method: str, path: str, reply: httpx2.Response) -> None:
        item: dict[str, Any] = next(
            (item for pattern, item in self._paths.items() if pattern.fullmatch(path.removeprefix("/api"))), {}
        )
        operation = item.get(method.lower())
        if operation is None:
            assert reply.status_code in (401, 404, 405), f"{method} {path} answers {reply.status_code}"
            return
        responses = operation["responses"]
        assert str(reply.status_code) in responses, f"{method} {path}: {reply.status_code} is not documented"
        documented = responses[str(reply.status_code)].get("content", {})
        if not documented:
            assert reply.content == b""
            return
        said = reply.headers["content-type"].partition(";")[0]
        assert said in documented, (said, list(documented))
        if said.endswith("json"):
            self._validate(documented[said]["schema"], reply.json())

    def _validate(self, schema: dict[str, Any], body: Any) -> None:
        Draft202012Validator({**schema, "components": self.document["components"]}).validate(body)


_DESCRIBED: list[Described] = []


class Client:
    """A caller of the API."""

    def __init__(self, http: TestClient, described: Described, headers: dict[str, str]) -> None:
        self.http, self._described, self.headers = http, described, headers

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        headers = {**self.headers, **more.pop("headers", {})}
        reply = self.http.request(method, V1 + path, headers=headers, **more)
        self._described.check(method, V1 + path.partition("?")[0], reply)
        return reply

    def get(self, path: str, **params: Any) -> Any:
        reply = self.ask("GET", path, params=params)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def post(self, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        reply = self.ask("POST", path, headers=named, **({} if body is None else {"json": body}))
        assert reply.status_code == status, reply.text
        return reply.json()

    def refused(self, method: str, path: str, status: int, **more: Any) -> dict[str, Any]:
        """Return the problem of a refused request, checked for its format."""
        reply = self.ask(method, path, **more)
        assert reply.status_code == status, reply.text
        assert reply.headers["content-type"] == PROBLEM
        problem: dict[str, Any] = reply.json()
        assert {"type", "title", "status", "detail"} <= problem.keys()
        assert problem["status"] == status
        assert problem["detail"]
        return problem

    # -- operations ----------------------------------------------------------------------------------------------------

    def job(self, **changes: Any) -> dict[str, Any]:
        given = {
            "kind": "job",
            "name": "water the plants",
            "trigger": {"type": "interval", "hours": 1},
            "payload": {"task": "echo", "args": ["hello"]},
        }
        made: dict[str, Any] = self.post("/schedules", {**given, **changes}, 201)
        return made

    def notification(self, **changes: Any) -> dict[str, Any]:
        payload = {"message": "hi", "topic": "alerts"}
        return self.job(**{"kind": "notification", "name": "told", "payload": payload, **changes})

    def ids(self, **params: Any) -> list[str]:
        return [each["id"] for each in self.get("/schedules", **params)["schedules"]]


class Api:
    def __init__(self, simulation: Simulation, tokens: Tokens, *, auth: bool = True) -> None:
        self.simulation, self.tokens = simulation, tokens
        self.room: App = simulation.duetime.app
        self.http = TestClient(web(self.room, tokens if auth else None), base_url="http://localhost")
        if not _DESCRIBED:  # the same for every server, and slow to build
            _DESCRIBED.append(Described(self.http.get("/api/openapi.json", headers=self.bearer("docs")).json()))
        [self.described] = _DESCRIBED

    def bearer(self, owner: str, *scopes: str, zone: str | None = None) -> dict[str, str]:
        token = self.tokens.issue(owner, 3600 * 24 * 365 * SECOND, timezone=zone, scopes=scopes)
        return {"Authorization": f"Bearer {token}"}

    def client(self, owner: str = "ada", *scopes: str, zone: str | None = None) -> Client:
        return Client(self.http, self.described, self.bearer(owner, *scopes, zone=zone))

    def nobody(self) -> Client:
        return Client(self.http, self.described, {})

    def pass_time(self, **amount: float) -> None:
        """Advance the clock and execute what is due."""
        self.simulation.advance(timedelta(**amount))


@contextmanager
def serving_api(folder: Path, *, url: str = ":memory:", auth: bool = True, **settings: Any) -> Iterator[Api]:
    registry = Registry()

    @registry.task
    def fail() -> None:
        """Always fails."""
        raise RuntimeError("as always")

    with Simulation(
        START, registry=registry, settings=Settings(db=url, timezone="UTC", **for_all(settings))
    ) as simulation:
        tokens = tokens_with(simulation.duetime.app.store, folder / "auth", simulation.clock)
        yield Api(simulation, tokens, auth=auth)
