"""What programs are answered is stored nowhere, taken for nothing else, and embedded in no other site."""

from __future__ import annotations

import pytest

from tests.support.web import INITIALIZE, Reply, Site

ASKED = {
    "api": ("GET", "/api/v1/schedules", 200),
    "api, not found": ("GET", "/api/v1/schedules/none", 404),
    "api, no such method": ("PUT", "/api/v1/schedules", 405),
    "api, nowhere": ("GET", "/api/none", 404),
    "qstash": ("GET", "/v2/schedules", 200),
    "qstash, not found": ("GET", "/v2/messages/none", 404),
    "metrics": ("GET", "/metrics", 200),
    "mcp, no such session": ("DELETE", "/mcp", 400),
}


def check(reply: Reply) -> None:
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("named", ASKED)
def test_answers_to_programs_are_kept_private(served: Site, named: str) -> None:
    method, path, status = ASKED[named]
    reply = served.ask(method, path, served.bearer("root", scopes=["operator"]))
    assert reply.status == status
    check(reply)
    check(served.ask(method, path))  # without a token: refused, in the same manner


def test_mcp_answers_are_kept_private(served: Site) -> None:
    reply = served.post(INITIALIZE, served.bearer())
    assert reply.status == 200
    check(reply)
