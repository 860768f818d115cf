"""Routes read requests as FastAPI, which describes them, would read them itself."""

from __future__ import annotations

import json
import re
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.requests import Request as WebRequest
from starlette.types import Receive, Scope, Send

from duetime.kinds import load_specs
from duetime.rest.api_route import ApiRoute
from duetime.rest.application import describe
from duetime.rest.errors import response_to
from tests.support.api import V1, serving_api
from tests.support.wordings import BODY_MISSING

ONCE = {"type": "once", "run_at": "2100-01-01T00:00:00Z"}
NEW = {"kind": "job", "name": "one", "trigger": ONCE, "payload": {"task": "echo", "args": [], "kwargs": {}}}
JSON = {"Content-Type": "application/json"}
_ID = re.compile(r"job_[\w-]+")
TOO_MANY_VALUES = (
    "The body has more than 50,000 values; send fewer, or store the data elsewhere and send a reference to it."
)
Request = tuple[str, str, dict[str, str], bytes]


def posted(path: str, body: Any, **headers: str) -> Request:
    given = body if isinstance(body, bytes) else json.dumps(body).encode()
    return "POST", path, {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}, given


def asked(path: str) -> Request:
    return "GET", path, {}, b""


REQUESTS = [
    posted("/schedules", NEW | {"idempotency_key": "a"}),
    posted("/schedules", NEW | {"idempotency_key": "a"}),
    posted("/schedules", NEW | {"idempotency_key": "a", "name": "other"}),
    posted("/schedules", NEW, Idempotency_Key="a"),
    posted("/schedules", NEW | {"idempotency_key": "b"}, Idempotency_Key="a"),
    posted("/schedules", NEW, Idempotency_Key="k" * 201),
    posted("/schedules", NEW | {"idempotency_key": "c"}, Content_Type="application/json; charset=utf-8"),
    posted("/schedules", NEW | {"unknown": 1}),
    posted("/schedules", NEW | {"name": 5}),
    posted("/schedules", NEW | {"name": "a\0b"}),
    posted("/schedules", NEW | {"payload": {"task": "missing"}}),
    posted("/schedules", b""),
    posted("/schedules", b"{"),
    posted("/schedules", {**NEW, "payload": {"task": "echo", "args": ["x" * 70_000]}, "idempotency_key": "d"}),
    asked("/schedules"),
    asked("/schedules?limit=1"),
    asked("/schedules?limit=0"),
    asked("/schedules?limit=1&limit=2"),
    asked("/schedules?limit=%31&text="),
    asked("/schedules?text=on+e&order=oldest"),
    asked("/schedules?text=%ff%00"),
    asked("/schedules?unknown=1"),
    asked("/schedules?unknown"),
    asked("/schedules?cursor=nonsense"),
    asked("/schedules?owner=somebody"),
    asked("/schedules?timezone=Europe/Nowhere"),
    asked("/schedules?timezone=Europe/Warsaw&status=pending"),
    asked("/schedules/nothing"),
    asked("/schedules/{id}"),
    asked("/schedules/" + "x" * 201),
    asked("/schedules/a%2Fb"),
    asked("/schedules/a%0A"),
    asked("/schedules/"),
    asked("/schedules//runs"),
    asked("/runs"),
    asked("/runs?from=yesterday"),
    asked("/runs?from_=yesterday"),
    asked("/runs/0"),
    asked("/runs/1"),
    asked("/runs/x"),
    asked("/runs/99999999999999999999"),
    asked("/whoami"),
    asked("/workers"),
    asked("/upcoming?count=3"),
    posted("/preview", {"trigger": ONCE}),
    posted("/schedules/nothing/cancel", b""),
    posted("/schedules/nothing/cancel", {"a": 1}),
    ("PATCH", "/schedules/nothing", JSON, b'{"name":"x"}'),
    ("PATCH", "/schedules/nothing", JSON | {"If-Match": "W/x"}, b"{}"),
    ("DELETE", "/schedules/nothing", {}, b""),
    ("PUT", "/schedules", JSON, b"{}"),
    ("HEAD", "/schedules", {}, b""),
    ("OPTIONS", "/schedules", {}, b""),
]


def answers(folder: Path) -> list[tuple[int, list[tuple[str, str]], str]]:
    """Send all requests to a server with a store of its own, then a few with the id of what they made."""
    found = []
    with serving_api(folder) as api:
        client = api.client()
        made = client.job(name="first")["id"]
        of_one = [asked(f"/schedules/{made}{what}") for what in ("", "?timezone=Asia/Tokyo", "/next?count=2", "/runs")]
        changes = [posted(f"/schedules/{made}/{what}", b"") for what in ("pause", "resume", "run", "cancel", "cancel")]
        edit = "PATCH", f"/schedules/{made}", JSON | {"If-Match": '"99"'}, b'{"name":"x"}'
        rest = [*of_one, edit, *changes, posted("/runs/1/cancel", b""), ("DELETE", f"/schedules/{made}", {}, b"")]
        for method, path, headers, content in [*REQUESTS, *rest]:
            sent = {**client.headers, **headers}
            reply = client.http.request(method, V1 + path, headers=sent, content=content or None)
            body = _ID.sub("ID", reply.text)
            kept = [(name, _ID.sub("ID", value)) for name, value in reply.headers.items() if name != "content-length"]
            found.append((reply.status_code, sorted(kept), body))
    return found


async def by_framework(route: ApiRoute, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request by FastAPI's own code for the same declaration."""
    request = WebRequest(scope, receive)
    try:
        async with AsyncExitStack() as stack:
            for name in ("middleware", "inner", "function"):
                scope[f"fastapi_{name}_astack"] = stack
            response = await APIRoute.get_route_handler(route)(request)
    except Exception as error:
        response = response_to(request, error)
    await response(scope, receive, send)


def test_the_responses_are_those_of_the_framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = answers(tmp_path / "mine")
    routes = [route for route in describe(load_specs().values(), "0").routes if isinstance(route, ApiRoute)]
    assert len(routes) > 30
    for route in routes:
        monkeypatch.setattr(route, "app", partial(by_framework, route))
    framework = answers(tmp_path / "framework")
    assert len(mine) == len(framework) > len(REQUESTS)
    for number, (one, other) in enumerate(zip(mine, framework, strict=True)):
        assert one == other, REQUESTS[number : number + 1]


@pytest.mark.parametrize(
    ("content_type", "body", "status", "detail"),
    [
        ("text/plain", b"{}", 415, "the body must be JSON: send the header Content-Type: application/json"),
        ("", b"{}", 415, "the body must be JSON: send the header Content-Type: application/json"),
        ("application/json", b"\xff", 400, "The body is not valid JSON; check its quotes, commas and brackets."),
        ("application/json", b"[" * 3000, 400, "The body is not valid JSON; check its quotes, commas and brackets."),
        ("application/json", b"[" * 100_000, 413, TOO_MANY_VALUES),
        ("application/json", b"", 422, BODY_MISSING),
    ],
)
def test_a_body_that_cannot_be_read(tmp_path: Path, content_type: str, body: bytes, status: int, detail: str) -> None:
    with serving_api(tmp_path) as api:
        client = api.client()
        headers = {**client.headers, "Content-Type": content_type}
        for method, path in (("POST", "/schedules"), ("PATCH", "/schedules/nothing"), ("POST", "/runs/1/finish")):
            reply = client.http.request(method, V1 + path, headers=headers, content=body)
            assert (reply.status_code, reply.json()["detail"]) == (status, detail)


def test_every_route_has_what_the_class_of_routes_reads() -> None:
    """One model of the query, one of the body, and dependencies that are functions of the request alone."""
    for route in describe(load_specs().values(), "0").routes:
        if isinstance(route, ApiRoute):
            needs = route.dependant
            assert len(needs.query_params) <= 1 and len(needs.body_params) <= 1 and not needs.cookie_params
            assert not any(each.field_info.is_required() for each in needs.header_params)
            assert all(each.name and not each.dependencies for each in needs.dependencies)
            assert needs.request_param_name is None and needs.response_param_name is None


def test_an_unexpected_error_is_logged_once_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving_api(tmp_path) as api:
        client = api.client()

        def broken(*_: object) -> None:
            raise RuntimeError("a secret")

        monkeypatch.setattr(api.room.scheduler, "search", broken)
        problem = client.refused("GET", "/schedules", 500)
    assert "secret" not in str(problem)
    assert [record.message for record in caplog.records].count("GET /api/v1/schedules failed") == 1
