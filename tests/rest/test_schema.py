"""Schemathesis against the API's own description: valid and invalid requests, none of which may surprise.

`make test` sends the simplest ones, `make e2e` a few hundred; DUETIME_FULL=1 sends more than ten thousand. Whatever
comes back has to be a documented status with a documented body, invalid requests have to be refused, and nothing is
ever a server error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation, BaseSchema
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.support.api import Api, serving_api
from tests.support.size import FULL

pytestmark = pytest.mark.slow

EXAMPLES = 65 if FULL else 4
"""Of each mode, for each operation, and once more for each that has an id. The first stage tries only the simplest."""
PARTS, ROUNDS = (24, 4) if FULL else (1, 1)
"""So many that no single test takes long; a further round tries other requests."""
SOON = {"type": "once", "run_at": "in 5 minutes"}
STREAM = "/v1/events"
"""Its answers do not end; it has tests of its own."""
NAMES = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
)


class Unbegun:
    """The application as it stands: Schemathesis would begin and end it with every request, and MCP begins once."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._app(scope, receive, send)
            return
        for word in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{word}.complete"})


class World(NamedTuple):
    api: Api
    schema: BaseSchema
    headers: dict[str, str]
    schedule: str
    run: int
    sent: Counter[int]

    def operations(self) -> Iterator[APIOperation[Any, Any, Any, Any]]:
        for found in self.schema.get_all_operations():
            assert isinstance(found, Ok), found
            if found.ok().path != STREAM:
                yield found.ok()

    def real_ids(self, operation: APIOperation[Any, Any, Any, Any]) -> dict[str, Any] | None:
        """Of things that exist, where the operation takes an id: most texts name nothing."""
        if "{id}" not in operation.path:
            return None
        return {"id": self.run if operation.path.startswith(("/v1/runs", "/v1/dead")) else self.schedule}


@pytest.fixture(scope="module", params=["sqlite", "postgres"] if FULL else ["sqlite"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("schema")
    url = str(folder / "my.db")
    if request.param == "postgres":
        from tests.support.postgres import empty_database

        server = request.getfixturevalue("postgres_server_url")
        database = empty_database(server)
        url = database.__enter__()
        request.addfinalizer(lambda: database.__exit__(None, None, None))
    with serving_api(folder, url=url, hosts=("testserver",), max_schedules=1_000_000) as api:
        client = api.client("ada")
        failing = client.job(
            kind="request", payload={"url": "http://127.0.0.1:9/"}, trigger=SOON, policy={"max_attempts": 1}
        )
        api.pass_time(hours=1)
        run = client.get(f"/schedules/{failing['id']}/runs")["runs"][0]["run_id"]
        headers = api.bearer("ada")
        schema = schemathesis.openapi.from_dict(api.described.document)
        schema.app = Unbegun(api.http.app)
        schema.config.generation.update(with_security_parameters=False)
        rejection = schema.config.checks.negative_data_rejection
        rejection.expected_statuses = [*rejection.expected_statuses, "413"]  # of a list that is too long
        yield World(api, schema, headers, client.job()["id"], run, Counter())


def checks() -> list[Any]:
    load_all_checks()
    return [CHECKS.get_one(name) for name in NAMES]


def fuzz(
    world: World, operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode, examples: int, **fixed: Any
) -> None:
    chosen = checks()

    @given(case=operation.as_strategy(generation_mode=mode, **fixed))
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=not FULL,
        suppress_health_check=list(HealthCheck),
    )
    def send(case: Case[Any]) -> None:
        world.sent[examples] += 1
        response = case.call(headers=world.headers)
        case.validate_response(response, checks=chosen)

    send()


def send_all(world: World, mode: GenerationMode, examples: int, part: int = 0, parts: int = 1) -> None:
    for operation in [*world.operations()][part::parts]:
        more = bool(operation.query or operation.body)
        if mode is GenerationMode.POSITIVE or more or operation.path_parameters:  # else nothing can be wrong with it
            fuzz(world, operation, mode, examples)
        if (real := world.real_ids(operation)) is not None and (mode is GenerationMode.POSITIVE or more):
            fuzz(world, operation, mode, examples, path_parameters=real)


MODES = pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)


@MODES
def test_no_simple_request_surprises(world: World, mode: GenerationMode) -> None:
    send_all(world, mode, 1)


def test_every_operation_was_tried(world: World) -> None:
    """In both modes, unless nothing can be wrong with it."""
    assert world.sent[1] > 1.5 * len([*world.operations()])


@MODES
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.later
def test_no_request_surprises(world: World, mode: GenerationMode, part: int, round_: int) -> None:
    send_all(world, mode, EXAMPLES, part, PARTS)


@pytest.mark.later
def test_enough_was_sent(world: World) -> None:
    assert world.sent[EXAMPLES] >= (10_000 if FULL else 200), world.sent


def test_every_operation_is_there_to_be_tried(world: World) -> None:
    """None is left out because the tool could not read it."""
    paths = world.api.described.document["paths"]
    documented = {f"{verb.upper()} {path}" for path, verbs in paths.items() for verb in verbs if path != STREAM}
    assert "POST /v1/runs/{id}/finish" in documented
    assert {operation.label for operation in world.operations()} == documented
