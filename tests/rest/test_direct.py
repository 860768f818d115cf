"""Requests that are answered without the framework get the same responses as from the framework."""

from __future__ import annotations

import json
import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from duetime.rest.direct import Direct
from tests.support.api import V1, serving_api

ONCE = {"type": "once", "run_at": "2100-01-01T00:00:00Z"}
NEW = {"kind": "job", "name": "one", "trigger": ONCE, "payload": {"task": "echo", "args": [], "kwargs": {}}}
JSON = {"Content-Type": "application/json"}
_ID = re.compile(r"job_[\w-]+")
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
    posted("/schedules", NEW, Content_Type="text/plain"),
    posted("/schedules", NEW | {"unknown": 1}),
    posted("/schedules", NEW | {"name": 5}),
    posted("/schedules", NEW | {"name": "a\0b"}),
    posted("/schedules", NEW | {"payload": {"task": "missing"}}),
    posted("/schedules", b""),
    posted("/schedules", b"{"),
    posted("/schedules", b"[" * 100_000),
    posted("/schedules", b"\xff"),
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


def test_the_responses_are_those_of_the_framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = answers(tmp_path / "direct")
    monkeypatch.setattr(Direct, "_find", lambda *_: (None, ""))
    framework = answers(tmp_path / "framework")
    for request, mine, theirs in zip_longest(REQUESTS, direct, framework):
        assert mine == theirs, request


def test_what_the_framework_has_to_refuse_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[str] = []
    real = FastAPI.__call__

    async def noted(self: FastAPI, scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(scope["path"])
        await real(self, scope, receive, send)

    monkeypatch.setattr(FastAPI, "__call__", noted)
    with serving_api(tmp_path) as api:
        client = api.client()
        reached.clear()
        made = client.job()["id"]
        client.get("/schedules", limit=5)
        client.post(f"/schedules/{made}/cancel")
        client.refused("GET", "/schedules/nothing", 404)
        assert reached == []
        client.refused("GET", "/schedules?limit=none", 422)
        client.refused("POST", "/schedules", 422, json={})
        assert len(reached) == 2


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
