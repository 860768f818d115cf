"""Subscriptions in both protocol eras. What changed is found by digests, so that no write has to tell anybody."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError

from duetime.core.errors import DuetimeError
from duetime.faces.mcp.resource import Resource
from duetime.faces.mcp.tool import Call

log = logging.getLogger("duetime.mcp")

EVERY = 0.4
"""Seconds between two looks: a change by any face or process is heard of within a second."""

MOST = 1000
"""Resources that one owner may watch at a time: every one is looked at in every round."""

_UNKNOWN = object()


@dataclass(eq=False, slots=True)
class Watch:
    """One caller's interest in one resource."""

    call: Call
    resource: Resource
    hole: str
    notify: Callable[[], Any]
    last: object = None
    asynchronous: bool = True
    telling: bool = False
    """Its client is being told, and may take its time to listen."""


class Watcher:
    """Looks at what is watched, and only at that; nobody watching costs nothing."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._resources = list(resources)
        self._watches: dict[object, Watch] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(self._loop, group)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def _loop(self, group: TaskGroup) -> None:
        while True:
            await anyio.sleep(EVERY)
            watches = list(self._watches.items())
            if not watches:
                continue
            digests = await anyio.to_thread.run_sync(partial(_digests, [watch for _, watch in watches]))
            for (key, watch), digest in zip(watches, digests, strict=True):
                if digest is not _UNKNOWN and digest != watch.last and self._watches.get(key) is watch:
                    self._tell(watch, digest, group)

    def _tell(self, watch: Watch, digest: object, group: TaskGroup) -> None:
        """A client that does not read keeps nobody else waiting; once it reads again, it hears the latest."""
        if watch.telling:
            return
        watch.last = digest
        if watch.asynchronous:
            watch.telling = True
            group.start_soon(_told, watch)
        else:
            watch.notify()

    async def _watch(self, key: object, call: Call, uri: str, notify: Callable[[], Any], *, asynchronous: bool) -> None:
        """What cannot be watched is honoured in silence, as what does not exist."""
        for resource in self._resources:
            hole = resource.match(uri)
            if hole is not None and resource.digest is not None:
                watch = Watch(call, resource, hole, notify, asynchronous=asynchronous)
                # While the store is away nothing is known: the first look afterwards is then news.
                [watch.last] = await anyio.to_thread.run_sync(partial(_digests, [watch]))
                self._watches[key] = watch
                return

    def _check_room(self, call: Call, asked: int) -> None:
        """`asked` counts what this client asks for in all, watchable or not; others may share its owner."""
        own = sum(watch.call.caller.owner == call.caller.owner for watch in self._watches.values())
        if max(own + 1, asked) > MOST:
            raise MCPError(types.INVALID_PARAMS, f"Only {MOST} resources can be watched at a time; give some up first.")

    # -- the older era: one notification per connection ---------------------------------------------------------------

    async def subscribe(self, session: Any, call: Call, uri: str) -> None:
        connection = _connection(session)
        watched = self._watched_by(connection)
        if uri in watched:
            return
        self._check_room(call, len(watched) + 1)
        watched.add(uri)
        tell = partial(connection.send_resource_updated, uri)
        await self._watch((id(connection), uri), call, uri, tell, asynchronous=True)
        if uri not in watched:  # given up meanwhile, or the connection ended
            self._watches.pop((id(connection), uri), None)

    def unsubscribe(self, session: Any, uri: str) -> None:
        connection = _connection(session)
        self._watched_by(connection).discard(uri)
        self._watches.pop((id(connection), uri), None)

    def _watched_by(self, connection: Any) -> set[str]:
        watched: set[str] | None = connection.state.get(__name__)
        if watched is None:
            watched = connection.state[__name__] = set()
            connection.exit_stack.callback(self._give_up, id(connection), watched)
        return watched

    def _give_up(self, connection: int, watched: set[str]) -> None:
        for uri in watched:
            self._watches.pop((connection, uri), None)

    # -- 2026-07-28: the response of a listen request is the stream ---------------------------------------------------

    async def listen(
        self, ctx: Any, call: Call, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """A bus per stream: what reaches it was looked up with this caller's eyes."""
        bus = _Bus()
        uris = dict.fromkeys(str(uri) for uri in params.notifications.resource_subscriptions or ())
        self._check_room(call, len(uris))
        try:
            for uri in uris:
                event = ResourceUpdated(uri=uri)
                await self._watch((bus, uri), call, uri, partial(bus.send, event), asynchronous=False)
            return await ListenHandler(bus)(ctx, params)
        finally:
            for uri in uris:
                self._watches.pop((bus, uri), None)


def _connection(session: Any) -> Any:
    """The session that a handler is given lives for one request; what lasts, and knows its end, stands behind it."""
    return session._connection


def _digests(watches: Sequence[Watch]) -> list[object]:
    return [_digest(watch) for watch in watches]


def _digest(watch: Watch) -> object:
    assert watch.resource.digest is not None
    try:
        return watch.resource.digest(watch.call, watch.hole)
    except DuetimeError:
        return _UNKNOWN
    except Exception:
        log.exception("%s cannot be watched just now", watch.resource.uri)
        return _UNKNOWN


async def _told(watch: Watch) -> None:
    try:
        await watch.notify()
    except Exception:
        log.debug("a subscriber went away", exc_info=True)
    finally:
        watch.telling = False


class _Bus:
    """The SDK's seam between whoever publishes and one listen stream."""

    def __init__(self) -> None:
        self._listener: Callable[[ServerEvent], None] | None = None

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        self._listener = listener
        return lambda: setattr(self, "_listener", None)

    def send(self, event: ServerEvent) -> None:
        if self._listener is not None:
            self._listener(event)

    async def publish(self, event: ServerEvent) -> None:
        self.send(event)
