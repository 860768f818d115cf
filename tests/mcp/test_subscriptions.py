"""Subscriptions without a transport: clients that do not read, stores that are away, connections that end."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.shared.exceptions import MCPError

from duetime.app import build
from duetime.engine.errors import StoreUnavailable
from duetime.engine.kind import Caller
from duetime.mcp import subscriptions
from duetime.mcp.definitions import Resource
from duetime.mcp.subscriptions import Watcher
from duetime.service.services import Call
from duetime.settings import Settings


class Connection:
    """As the SDK's: it lasts longer than the session of one request."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.exit_stack = AsyncExitStack()
        self.heard: list[str] = []
        self.news = anyio.Event()
        self.reads = anyio.Event()
        self.reads.set()

    @property
    def session(self) -> Any:
        connection = self

        class Session:
            _connection = connection

        return Session()

    async def send_resource_updated(self, uri: str) -> None:
        await self.reads.wait()
        self.heard.append(uri)
        self.news.set()
        self.news = anyio.Event()


class Content:
    """A resource whose content is a number, or cannot be known just now."""

    def __init__(self) -> None:
        self.value = 0
        self.problem: Exception | None = None
        self.met = threading.Event()
        self.looks = 0

    def digest(self, call: Call, hole: str) -> object:
        self.looks += 1
        if self.problem is not None:
            self.met.set()
            raise self.problem
        return self.value

    @property
    def resource(self) -> Resource:
        return Resource("numbers://{name}", "Numbers", "Numbers", lambda call, hole: {}, self.digest)


@pytest.fixture
def caller(tmp_path: Path) -> Any:
    app = build(Settings(db=str(tmp_path / "my.db"), timezone="UTC"), tasks=False)
    yield Call(app.services, Caller("ada"), "UTC")
    app.close()


def played(scene: Callable[[Watcher, Content], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "EVERY", 0.01)

    async def whole() -> None:
        content = Content()
        watcher = Watcher([content.resource])
        with anyio.fail_after(10):
            async with watcher.running():
                await scene(watcher, content)

    anyio.run(whole)


async def heard(connection: Connection, count: int) -> None:
    while len(connection.heard) < count:
        await connection.news.wait()


def test_what_a_token_with_scopes_watches_is_read_with_its_own_scopes(
    caller: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(watcher: Watcher, content: Content) -> None:
        seen = {(): 0, ("kind:job",): 0}
        monkeypatch.setattr(content, "digest", lambda call, hole: seen[call.caller.scopes])
        watcher = Watcher([content.resource])
        narrow, wide = Connection(), Connection()
        limited = caller._replace(caller=caller.caller._replace(scopes=("kind:job",)))
        async with watcher.running():
            await watcher.subscribe(wide.session, caller, "numbers://a")
            await watcher.subscribe(narrow.session, limited, "numbers://a")
            for number in (1, 2):
                seen[()] = number
                await heard(wide, number)
            assert narrow.heard == []

    played(scene, monkeypatch)


def test_a_client_that_does_not_read_keeps_nobody_waiting(caller: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(watcher: Watcher, content: Content) -> None:
        slow, quick = Connection(), Connection()
        slow.reads = anyio.Event()
        for connection in (slow, quick):
            await watcher.subscribe(connection.session, caller, "numbers://a")
        for number in range(1, 4):
            content.value = number
            await heard(quick, number)
        assert slow.heard == []
        slow.reads.set()
        await heard(slow, 2)  # the change that it was being told of, and the latest

    played(scene, monkeypatch)


def test_each_request_of_a_connection_is_of_the_same_client(caller: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK makes a session per request: subscribing twice is one watch, and unsubscribing ends it."""

    async def scene(watcher: Watcher, content: Content) -> None:
        once, other = Connection(), Connection()
        for _ in range(2):
            await watcher.subscribe(once.session, caller, "numbers://a")
        await watcher.subscribe(other.session, caller, "numbers://a")
        content.value = 1
        await heard(once, 1)
        await heard(other, 1)
        watcher.unsubscribe(once.session, "numbers://a")
        content.value = 2
        await heard(other, 2)
        assert once.heard == ["numbers://a"]

    played(scene, monkeypatch)


def test_what_a_connection_watched_ends_with_it(caller: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(watcher: Watcher, content: Content) -> None:
        connection, other = Connection(), Connection()
        await watcher.subscribe(connection.session, caller, "numbers://a")
        await watcher.subscribe(other.session, caller, "numbers://a")
        await connection.exit_stack.aclose()
        content.value = 1
        await heard(other, 1)
        assert connection.heard == []

    played(scene, monkeypatch)


@pytest.mark.parametrize("problem", [StoreUnavailable("away"), ValueError("a bug")])
def test_while_nothing_can_be_known_nothing_is_said(
    caller: Call, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    async def scene(watcher: Watcher, content: Content) -> None:
        connection = Connection()
        await watcher.subscribe(connection.session, caller, "numbers://a")
        content.problem = problem
        await anyio.to_thread.run_sync(content.met.wait, abandon_on_cancel=True)
        assert connection.heard == []
        content.value, content.problem = 1, None
        await heard(connection, 1)

    played(scene, monkeypatch)


def test_one_owner_cannot_have_everything_looked_at(caller: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MOST", 2)

    async def scene(watcher: Watcher, content: Content) -> None:
        connection, other = Connection(), Connection()
        for name in "ab":
            await watcher.subscribe(connection.session, caller, f"numbers://{name}")
        for refused in (connection, other):
            with pytest.raises(MCPError, match="Only 2 resources"):
                await watcher.subscribe(refused.session, caller, "numbers://c")
        watcher.unsubscribe(connection.session, "numbers://a")
        await watcher.subscribe(other.session, caller, "numbers://c")
        stranger = caller._replace(caller=Caller("bob"))
        await watcher.subscribe(Connection().session, stranger, "numbers://a")

    played(scene, monkeypatch)


def test_what_cannot_be_watched_has_the_same_limit(caller: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MOST", 2)

    async def scene(watcher: Watcher, content: Content) -> None:
        connection = Connection()
        for name in "ab":
            await watcher.subscribe(connection.session, caller, f"nothing://{name}")
        with pytest.raises(MCPError, match="Only 2 resources"):
            await watcher.subscribe(connection.session, caller, "nothing://c")

    played(scene, monkeypatch)


def test_all_spellings_of_a_resource_are_one_watch(caller: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MOST", 2)

    async def scene(watcher: Watcher, content: Content) -> None:
        connection = Connection()
        for name in ("abc", "%61bc", "a%62c", "%61%62%63"):
            await watcher.subscribe(connection.session, caller, f"numbers://{name}")
        content.value = 1
        await heard(connection, 1)
        watcher.unsubscribe(connection.session, "numbers://ab%63")
        await watcher.subscribe(connection.session, caller, "numbers://b")
        content.value = 2
        await heard(connection, 2)
        assert connection.heard == ["numbers://abc", "numbers://b"]

    played(scene, monkeypatch)


def test_what_many_connections_watch_is_looked_at_once(caller: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(watcher: Watcher, content: Content) -> None:
        connections = [Connection() for _ in range(20)]
        for connection in connections:
            await watcher.subscribe(connection.session, caller, "numbers://a")
        stranger = caller._replace(caller=Caller("bob"))
        await watcher.subscribe(connections[0].session, stranger, "numbers://b")
        content.value, before = 1, content.looks
        for connection in connections:
            await heard(connection, 1)
        assert content.looks - before <= 3 * 2, "one look for each owner and round"

    played(scene, monkeypatch)


def test_the_local_owner_may_watch_more(caller: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MOST", 1)
    local = caller._replace(caller=Caller("local"))

    async def scene(watcher: Watcher, content: Content) -> None:
        connection = Connection()
        for name in "abc":
            await watcher.subscribe(connection.session, local, f"numbers://{name}")
        content.value = 1
        await heard(connection, 3)

    played(scene, monkeypatch)
