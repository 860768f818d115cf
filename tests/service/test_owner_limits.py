"""One owner's slow requests, sessions, streams and watches leave room for everybody else's."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from duetime.engine.clock import HOUR, Instant, SystemClock
from duetime.engine.kind import Caller
from duetime.engine.model import Run
from duetime.engine.store import ClaimRequest
from duetime.engine.validation import NewSchedule
from duetime.service.owner_limits import SHARE, OwnerLimits, Shares, TooManyRequests
from duetime.service.tokens import runs_under_way
from tests.support.raw import META
from tests.support.strangers import received
from tests.support.web import ACCEPT, INITIALIZE, MODERN, Reply, Site, site
from tests.support.workers import eventually

CLOCK = SystemClock()
TOOL = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {
        "name": "list_jobs",
        "arguments": {},
        "_meta": META,
    },
}
LISTS: dict[str, tuple[str, str, Any]] = {
    "api": ("GET", "/api/v1/schedules", None),
    "page": ("GET", "/schedules", None),
    "qstash": ("GET", "/v2/schedules", None),
    "mcp": ("POST", "/mcp", TOOL),
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path) as made:
        made.tokens.is_under_way = runs_under_way(made.room.store)
        yield made


class Flood:
    """Many requests at once, each on a connection of its own, whose answers are not waited for."""

    def __init__(self, served: Site) -> None:
        self._port = served.port
        self.sent: list[socket.socket] = []

    def send(self, method: str, path: str, headers: Mapping[str, str], body: Any = None) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        fields = {"Host": "localhost", "Connection": "close", "Content-Length": str(len(data)), **headers}
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        connection = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        connection.sendall(head.encode() + b"\r\n" + data)
        self.sent.append(connection)

    def answers(self) -> list[bytes]:
        answers = [received(each) for each in self.sent]
        self.sent.clear()
        return answers

    def __enter__(self) -> Flood:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.sent:
            each.close()


class Gate:
    """Lists of one owner wait until it is opened."""

    def __init__(self, served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.waiting = threading.Event(), 0
        of, search = type(served.room.scheduler), served.room.scheduler.search

        def slow(scheduler: Any, caller: Caller, query: Any) -> Any:
            if caller.owner == "mallory":
                self.waiting += 1
                self.opened.wait(60)
            return search(caller, query)

        monkeypatch.setattr(of, "search", slow)


@pytest.mark.parametrize("way", LISTS)
def test_slow_requests_of_one_owner_leave_threads_to_the_others(
    served: Site, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, (method, path, body) = Gate(served, monkeypatch), LISTS[way]
    mallory, era = served.bearer("mallory"), {**ACCEPT, **MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "list_jobs"}
    with Flood(served) as flood:
        for _ in range(60):
            flood.send(method, path, {**mallory, **(era if way == "mcp" else {})}, body)
        eventually(lambda: gate.waiting == SHARE, 30, "as many are being answered as one owner may have")
        begun = CLOCK.monotonic()
        for _, asked, _ in LISTS.values():
            if asked != "/mcp":
                assert served.ask("GET", asked, served.bearer("alice")).status == 200
        assert CLOCK.monotonic() - begun < 20
        assert gate.waiting == SHARE
        gate.opened.set()
        assert all(answer.startswith(b"HTTP/1.1 200") for answer in flood.answers())


def test_beyond_what_may_wait_one_is_told_to_come_again(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, mallory = Gate(served, monkeypatch), served.bearer("mallory")
    with Flood(served) as flood:
        for _ in range(90):
            flood.send("GET", "/api/v1/schedules", mallory)
        eventually(lambda: gate.waiting == SHARE, 30, "as many are being answered as one owner may have")
        refused = served.ask("GET", "/api/v1/schedules", mallory)
        gate.opened.set()
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert "wait for some answers" in refused.json["detail"]
    eventually(lambda: served.ask("GET", "/api/v1/schedules", mallory).status == 200, 30, "later it is answered")


def test_an_owner_without_requests_leaves_nothing_behind() -> None:
    async def scene() -> None:
        limits = OwnerLimits(Shares(requests=1), most_waiting=1)
        begun, end = anyio.Event(), anyio.Event()

        async def hold() -> None:
            async with limits.slot("ada"):
                begun.set()
                await end.wait()

        async with anyio.create_task_group() as group:
            group.start_soon(hold)
            await begun.wait()
            group.start_soon(hold)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(TooManyRequests):
                await limits.run("ada", int)
            assert await limits.run("bob", int) == 0
            end.set()
        assert not limits._slots

    anyio.run(scene)


# -- waiting for what was not handed over ------------------------------------------------------------------------------


def running(served: Site) -> Run:
    """A prompt that a worker has in hand."""
    room = served.room
    now = room.clock.now()
    prompt = NewSchedule("prompt", "x", "once", {"run_at": "now"}, {"prompt": "x"})
    room.scheduler.create(Caller("mallory"), prompt)
    worker = room.store.register("test", ["prompt"], False, now)
    [claim] = room.store.record_and_claim(worker, now, [], [ClaimRequest("prompt", 1, Instant(now + HOUR))]).claims
    return claim.run


@pytest.mark.parametrize("way", ["api", "mcp"])
def test_waiting_for_a_handover_keeps_no_thread(served: Site, way: str) -> None:
    run = running(served)
    token = served.tokens.for_run("mallory", run.id, run.fence, 1, HOUR, "UTC")
    finish = {**TOOL, "params": {**TOOL["params"], "name": "finish_prompt"}}  # type: ignore[dict-item]
    finish["params"]["arguments"] = {"run_id": run.id, "result": "done"}  # type: ignore[index]
    era = {**ACCEPT, **MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "finish_prompt"}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with Flood(served) as flood:
        for _ in range(60):
            if way == "api":
                flood.send("POST", f"/api/v1/runs/{run.id}/finish", headers, {"text": "done"})
            else:
                flood.send("POST", "/mcp", {**headers, **era}, finish)
        begun = CLOCK.monotonic()
        for _ in range(3):
            assert served.ask("GET", "/api/v1/schedules", served.bearer("alice")).status == 200
        assert served.ask("GET", "/api/v1/schedules", served.bearer("mallory")).status == 200, "nor of its own owner"
        assert CLOCK.monotonic() - begun < 3


# -- sessions and streams of MCP ---------------------------------------------------------------------------------------


def opened(served: Site, headers: Mapping[str, str]) -> str:
    reply = served.post(INITIALIZE, headers)
    assert reply.status == 200
    return reply.headers["mcp-session-id"]


def uses(served: Site, headers: Mapping[str, str], session: str) -> Reply:
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    return served.post(ping, {**headers, "Mcp-Session-Id": session})


def test_a_session_beyond_the_limit_ends_the_one_unused_for_longest(served: Site) -> None:
    mallory, alice = served.bearer("mallory"), served.bearer("alice")
    of_alice = opened(served, alice)
    first, second = opened(served, mallory), opened(served, mallory)
    for _ in range(Shares().sessions - 2):
        opened(served, mallory)
    assert uses(served, mallory, first).status == 200
    opened(served, mallory)
    ended = uses(served, mallory, second)
    assert ended.status == 404
    assert "initialize a new one" in ended.json["error"]["message"]
    assert uses(served, mallory, first).status == 200, "it was used later"
    assert uses(served, alice, of_alice).status == 200
    assert uses(served, alice, second).json["error"]["message"] == "Session not found", "nobody else's affair"


def test_sessions_of_all_owners_together_keep_nobody_out(served: Site) -> None:
    for number in range(3):
        mallory = served.bearer("mallory")
        for _ in range(Shares().sessions // 2):
            opened(served, mallory)
        assert opened(served, served.bearer(f"alice-{number}"))
    manager = served.app.routes[-1].app._app.routes[0].app.session_manager  # type: ignore[attr-defined]
    assert len(manager._server_instances) == Shares().sessions + 3


def test_streams_of_one_owner_have_a_limit(tmp_path: Path) -> None:
    with site(tmp_path, max_streams=2) as served:
        _streams_are_limited_to_two(served)


def _streams_are_limited_to_two(served: Site) -> None:
    mallory, alice = served.bearer("mallory"), served.bearer("alice")
    sessions = [opened(served, mallory) for _ in range(3)]
    with Flood(served) as flood:
        for session in sessions:
            flood.send("GET", "/mcp", {**mallory, "Accept": "text/event-stream", "Mcp-Session-Id": session})
        heads = [each.recv(4096) for each in flood.sent]
        assert sorted(head.split()[1] for head in heads) == [b"200", b"200", b"429"]
        [refused] = [each for each, head in zip(flood.sent, heads, strict=True) if b" 429 " in head]
        assert b"close some first" in b"".join(heads) + received(refused)
        flood.send("GET", "/mcp", {**alice, "Accept": "text/event-stream", "Mcp-Session-Id": opened(served, alice)})
        assert flood.sent[-1].recv(4096).startswith(b"HTTP/1.1 200")
