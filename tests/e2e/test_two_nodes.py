"""Two servers with data folders of their own, one store and one secret: what ends on one of them ends on both."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.support.cli import Output, start

SECRET = "one secret for all nodes of this installation, at least 64 bytes long"
PATIENCE = 3.0


class Node(NamedTuple):
    url: str
    folder: Path
    env: dict[str, str]

    def command(self, *arguments: str) -> str:
        process = start(*arguments, folder=self.folder, env=self.env)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        return out

    def ask(self, method: str, path: str, token: str = "", **more: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx2.request(method, self.url + path, headers=headers | more.pop("headers", {}), timeout=30, **more)

    def session(self, cookie: str) -> int:
        name = f"duetime_session_{self.url.rpartition(':')[2]}"
        return self.ask("GET", "/schedules", headers={"Cookie": f"{name}={cookie}"}).status_code


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Node]]:
    shared = tmp_path_factory.mktemp("shared")
    with ExitStack() as stack:
        yield _node(stack, shared, "a"), _node(stack, shared, "b")


def _node(stack: ExitStack, shared: Path, name: str) -> Node:
    folder = shared / name
    folder.mkdir()
    env = {"DUETIME_SECRET": SECRET, "DUETIME_DB": str(shared / "my.db")}
    process = stack.enter_context(start("serve", "--port", "0", "--no-link", folder=folder, env=env))
    stack.callback(_end, process)
    line = Output(process).until(lambda line: line.startswith("Serving MCP at "))
    return Node(line.split()[3].removesuffix(",").removesuffix("/mcp"), folder, env)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(30)


def becomes(wanted: int, ask: object) -> bool:
    """Within the second for which a node remembers, and the time that a busy machine takes."""
    waiting = threading.Event()
    assert callable(ask)
    return any(ask() == wanted or waiting.wait(0.2) for _ in range(int(PATIENCE / 0.2)))


def test_a_token_that_one_node_revokes_ends_on_the_other(nodes: tuple[Node, Node]) -> None:
    here, there = nodes
    made = json.loads(here.command("token", "issue", "--email", "ada@example.org", "--json"))
    assert [node.ask("GET", "/api/v1/whoami", made["token"]).status_code for node in nodes] == [200, 200]
    here.command("token", "revoke", made["id"])
    for node in (here, there):
        assert becomes(401, lambda node=node: node.ask("GET", "/api/v1/whoami", made["token"]).status_code)
    assert "revoked" in there.ask("GET", "/api/v1/whoami", made["token"]).text


def test_a_node_revokes_what_another_one_issued(nodes: tuple[Node, Node]) -> None:
    here, there = nodes
    made = json.loads(here.command("token", "issue", "--email", "bob@example.org", "--json"))
    there.command("token", "revoke", made["id"], "--anywhere")
    assert becomes(401, lambda: here.ask("GET", "/api/v1/whoami", made["token"]).status_code)


def sign_in(node: Node) -> str:
    link = node.command("token", "link", "--port", node.url.rpartition(":")[2]).strip()
    answer = httpx2.get(link, timeout=30)
    assert answer.status_code == 303
    return next(iter(answer.cookies.values()))


def test_a_link_that_is_used_on_both_at_once_opens_one_session(nodes: tuple[Node, Node]) -> None:
    for _ in range(3):
        path = "/login" + nodes[0].command("token", "link").strip().partition("/login")[2]
        ready = threading.Barrier(4)

        def use(node: Node, path: str = path, ready: threading.Barrier = ready) -> int:
            ready.wait(30)
            return node.ask("GET", path).status_code

        with ThreadPoolExecutor(4) as threads:
            assert sorted(threads.map(use, nodes * 2)) == [303, 401, 401, 401]


def test_signing_out_on_one_node_ends_the_session_on_the_other(nodes: tuple[Node, Node]) -> None:
    here, there = nodes
    cookie = sign_in(here)
    assert (here.session(cookie), there.session(cookie)) == (200, 200)
    name = f"duetime_session_{here.url.rpartition(':')[2]}"
    page = here.ask("GET", "/schedules", headers={"Cookie": f"{name}={cookie}"}).text
    found = re.search(r'name="(csrf)" value="([0-9a-f]+)"', page)
    assert found is not None
    headers = {"Cookie": f"{name}={cookie}", "Origin": here.url}
    out = here.ask("POST", "/sign-out", headers=headers, data={found[1]: found[2]})
    assert out.status_code == 303
    for node in (here, there):
        assert becomes(401, lambda node=node: node.session(cookie))


def test_a_key_that_one_node_rotates_signs_on_the_other(nodes: tuple[Node, Node]) -> None:
    here, there = nodes
    token = json.loads(here.command("token", "issue", "--email", "eve@example.org", "--json"))["token"]
    before = there.ask("GET", "/v2/keys", token).json()
    rotated = here.ask("POST", "/v2/keys/rotate", token).json()
    assert rotated["current"] == before["next"]
    assert becomes(True, lambda: there.ask("GET", "/v2/keys", token).json() == rotated)


def test_the_store_holds_no_secret(nodes: tuple[Node, Node]) -> None:
    here, _ = nodes
    token = json.loads(here.command("token", "issue", "--email", "ada@example.org", "--json"))["token"]
    key = here.ask("GET", "/v2/keys", token).json()["current"]
    kept = b"".join(path.read_bytes() for path in here.folder.parent.glob("my.db*"))
    assert not [secret for secret in (SECRET, key, token) if secret.encode() in kept]
