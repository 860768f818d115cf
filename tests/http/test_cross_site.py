"""Without tokens: no page of another site, and none of another port of this machine, reaches anything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest

from tests.support.web import ACCEPT, INITIALIZE, Reply, Site, site

PATHS = {
    "page": ("GET", "/"),
    "static": ("GET", "/static/style.css"),
    "api": ("GET", "/api/v1/schedules"),
    "api change": ("POST", "/api/v1/schedules"),
    "publish": ("POST", "/v2/publish/https://example.org/hook"),
    "publish by GET": ("GET", "/v2/publish/https://example.org/hook"),
    "logs": ("GET", "/v2/logs"),
    "mcp": ("POST", "/mcp"),
    "mcp stream": ("GET", "/mcp"),
    "metrics": ("GET", "/metrics"),
}


@pytest.fixture(scope="module")
def open_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site"), auth=False) as made:
        yield made


def foreign(port: int) -> dict[str, dict[str, str]]:
    return {
        "image of another site": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"},
        "another port": {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:3000"},
        "another port, older browser": {"Origin": "http://127.0.0.1:3000"},
        "another name of this machine": {"Origin": f"http://localhost:{port}"},
        "no port": {"Origin": "http://127.0.0.1"},
    }


def ask(served: Site, named: str, headers: Mapping[str, str]) -> Reply:
    method, path = PATHS[named]
    body = json.dumps(INITIALIZE).encode() if method == "POST" else None
    return served.ask(method, path, {**ACCEPT, **headers}, body)


@pytest.mark.parametrize("named", PATHS)
@pytest.mark.parametrize("kind", foreign(0))
def test_nothing_is_answered_to_another_site(open_site: Site, named: str, kind: str) -> None:
    reply = ask(open_site, named, foreign(open_site.port)[kind])
    assert reply.status == 403
    assert open_site.room.store.health(open_site.room.clock.now()).schedules == 0


def test_a_program_and_our_own_page_are_answered(open_site: Site) -> None:
    own = {"Sec-Fetch-Site": "same-origin", "Origin": f"http://127.0.0.1:{open_site.port}"}
    for headers in ({}, own, {"Sec-Fetch-Site": "none"}):
        for named in ("page", "api", "logs", "mcp", "metrics"):
            assert ask(open_site, named, headers).status == 200, (named, headers)


def test_a_plain_get_publishes_only_with_a_bearer_token(open_site: Site) -> None:
    reply = ask(open_site, "publish by GET", {})
    assert reply.status == 403
    assert "POST" in reply.json["error"]
    assert ask(open_site, "publish by GET", {"Authorization": "Bearer any"}).status != 403


def test_another_name_for_this_machine_is_no_way_in(open_site: Site) -> None:
    assert open_site.ask("GET", "/v2/logs", {"Host": "evil.example"}).status == 421
