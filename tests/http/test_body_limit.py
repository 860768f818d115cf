"""The memory that the bodies of one owner's requests may take."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from duetime.engine.kind import LOCAL
from duetime.http.bodies import LARGE_BODY_BYTES as LARGE_BODY
from duetime.http.bodies import MOST_BYTES, MOST_IN_BATCH
from duetime.http.connection_limits import OWNER
from duetime.http.middleware import IN_MEMORY, UNAUTHENTICATED, BodyLimit

LARGE_BODY_BYTES = MOST_IN_BATCH


class Server:
    """Answers each request with 200 as soon as its body is complete."""

    def __init__(self) -> None:
        self.limit = BodyLimit(self._app)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def status(self, owner: str, body: bytes, path: str = "/v2/batch") -> int:
        async def receive() -> Message:
            return {"type": "http.request", "body": body}

        return await self._asked(owner, receive, len(body), path)

    async def _asked(self, owner: str, receive: Receive, length: int | None, path: str) -> int:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [] if length is None else [(b"content-length", str(length).encode())]
        scope: dict[str, Any] = {"type": "http", "method": "POST", "path": path, "headers": headers}
        scope |= {OWNER: owner} if owner else {}
        await self.limit(scope, receive, send)
        return int(sent[0]["status"])

    @asynccontextmanager
    async def unfinished(
        self, owner: str, *, chunked: bool, path: str = "/v2/batch", size: int = LARGE_BODY_BYTES
    ) -> AsyncIterator[None]:
        """Meanwhile a request is under way, of which all but the end has arrived."""
        waiting, first = anyio.Event(), iter([bytes(size)])

        async def receive() -> Message:
            if (piece := next(first, None)) is not None:
                return {"type": "http.request", "body": piece, "more_body": True}
            waiting.set()
            await anyio.Event().wait()
            return {"type": "http.disconnect"}

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._asked, owner, receive, None if chunked else size, path)
            await waiting.wait()
            yield
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("chunked", [False, True])
def test_unfinished_bodies_of_one_owner_take_a_share_of_memory(chunked: bool) -> None:
    async def use() -> None:
        server = Server()
        async with AsyncExitStack() as under_way:
            for _ in range(IN_MEMORY // LARGE_BODY_BYTES):
                await under_way.enter_async_context(server.unfinished("mallory", chunked=chunked))
            for path in ("/mcp", "/api/v1/schedules"):
                assert await server.status("mallory", bytes(UNAUTHENTICATED + 1), path) == 429
            assert await server.status("mallory", bytes(UNAUTHENTICATED)) == 200, "a small one is always accepted"
            assert await server.status("ada", bytes(LARGE_BODY_BYTES)) == 200, "others have their own share"
            assert await server.status(LOCAL, bytes(LARGE_BODY_BYTES)) == 200
        assert await server.status("mallory", bytes(LARGE_BODY_BYTES)) == 200, "it was given back"

    anyio.run(use)


@pytest.mark.parametrize("chunked", [False, True])
def test_strangers_at_hooks_take_a_share_of_memory(chunked: bool) -> None:
    async def use() -> None:
        server, hook = Server(), "/hooks/hook_1"
        assert await server.status("", bytes(MOST_BYTES + 1), hook) == 413
        assert await server.status("", bytes(UNAUTHENTICATED + 1), "/healthz") == 413, "elsewhere they send less"
        async with AsyncExitStack() as under_way:
            for _ in range(IN_MEMORY // MOST_BYTES):
                await under_way.enter_async_context(server.unfinished("", chunked=chunked, path=hook, size=MOST_BYTES))
            assert await server.status("", bytes(UNAUTHENTICATED + 1), hook) == 429
            assert await server.status("", bytes(UNAUTHENTICATED), hook) == 200, "a small one is always accepted"
            assert await server.status("ada", bytes(LARGE_BODY_BYTES)) == 200, "owners have their own share"
        assert await server.status("", bytes(MOST_BYTES), hook) == 200, "it was given back"

    anyio.run(use)


def test_an_owner_has_two_large_requests_at_a_time_and_few_that_wait() -> None:
    async def use() -> None:
        working, answering, most = anyio.Event(), 0, 0

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            nonlocal answering, most
            answering += 1
            most = max(most, answering)
            await working.wait()
            answering -= 1
            await send({"type": "http.response.start", "status": 200, "headers": []})

        server, statuses = Server(), list[int]()
        server.limit = BodyLimit(answer)

        async def ask(owner: str) -> None:
            statuses.append(await server.status(owner, bytes(LARGE_BODY + 1)))

        async with anyio.create_task_group() as tasks:
            for _ in range(70):
                tasks.start_soon(ask, "mallory")
            await anyio.wait_all_tasks_blocked()
            assert (answering, statuses) == (2, [429] * 4), "64 wait"
            tasks.start_soon(ask, "ada")
            await anyio.wait_all_tasks_blocked()
            assert answering == 3, "others have their own two"
            working.set()
        assert statuses.count(200) == 67 and most == 3

    anyio.run(use)
