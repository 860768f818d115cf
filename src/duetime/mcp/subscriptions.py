"""Resource subscriptions of both protocol versions. Digests are polled, so that no write has to publish changes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError

from duetime.engine.errors import DuetimeError
from duetime.engine.kind import LOCAL
from duetime.mcp.definitions import Resource
from duetime.service.owner_limits import Shares, counted
from duetime.service.services import Call

log = logging.getLogger("duetime.mcp")

EVERY = 0.4
"""Seconds between two polls, so that a change by any interface or process is reported within a second."""

MOST = 100
"""Default limit on the resources that one owner may watch, and one connection may request, at a time: each is polled in
every round, once for all connections that watch it."""
MOST_OF_LOCAL = 1000

_UNKNOWN = object()


@dataclass(eq=False, slots=True)
class Watch:
    """A subscription of one caller to one resource."""

    call: Call
    resource: Resource
    value: str
    notify: Callable[[], Awaitable[None]]
    last: object = None
    is_sending: bool = False
    """Whether a notification is being sent; the client may be slow to read it."""

    @property
    def subject(self) -> Hashable:
        """Return the key of what is polled: the same for all callers who watch the same resource with the same
        permissions."""
        caller = self.call.caller
        return caller.owner, caller.operator, caller.scopes, self.call.zone, self.resource.uri, self.value


class Watcher:
    """Polls the watched resources and notifies their subscribers; without subscriptions it does not query the store."""

    def __init__(self, resources: Sequence[Resource], shares: Shares | None = None) -> None:
        self._resources = list(resources)
        self._shares = shares or Shares(watches=MOST)
        self._watches: dict[object, Watch] = {}
        self._streams: Counter[str] = Counter()
        self._added = anyio.Event()
        self._polls, self._first_polls = anyio.CapacityLimiter(1), anyio.CapacityLimiter(4)
        """Separate threads, so that busy requests do not delay notifications."""

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
            if not self._watches:
                self._added = anyio.Event()
                await self._added.wait()
            await anyio.sleep(EVERY)
            watches = list(self._watches.items())
            watched = {watch.subject: watch for _, watch in watches}
            digests = await anyio.to_thread.run_sync(_digests, watched, limiter=self._polls)
            for key, watch in watches:
                digest = digests[watch.subject]
                is_new = digest is not _UNKNOWN and digest != watch.last
                # A client that does not read delays nobody, and is notified again once it reads.
                if is_new and not watch.is_sending and self._watches.get(key) is watch:
                    watch.last, watch.is_sending = digest, True
                    group.start_soon(_send, watch)

    async def _watch(self, key: object, call: Call, uri: str, notify: Callable[[], Awaitable[None]]) -> None:
        """Start a watch. A resource that cannot be watched or does not exist is accepted silently."""
        for resource in self._resources:
            value = resource.match(uri)
            if value is not None and resource.digest is not None:
                watch = Watch(call, resource, value, notify)
                # If the store is unavailable, the digest is unknown and the first successful poll counts as a change.
                watch.last = await anyio.to_thread.run_sync(_digest, watch, limiter=self._first_polls)
                self._watches[key] = watch
                self._added.set()
                return

    def _canonical(self, uri: str) -> str:
        """Return the canonical spelling of a resource's URI; an unknown URI is returned unchanged."""
        spelled = (each.uri_of(value) for each in self._resources if (value := each.match(uri)) is not None)
        return next(spelled, uri)

    def _check_limits(self, call: Call, names: Collection[str], number: int) -> None:
        """Check the limits of connection and owner. `number` counts all URIs of the connection, watchable or not."""
        owner = call.caller.owner
        most = max(MOST_OF_LOCAL, self._shares.watches) if owner == LOCAL else self._shares.watches
        watches = [watch for watch in self._watches.values() if watch.call.caller.owner == owner]
        own = {watch.resource.uri_of(watch.value) for watch in watches}
        if number > most or len(own.union(names)) > most:
            raise MCPError(types.INVALID_PARAMS, f"Only {most} resources can be watched at a time; give some up first.")

    # -- older protocol: one notification per connection --------------------------------------------------------------

    async def subscribe(self, session: Any, call: Call, uri: str) -> None:
        connection = _connection(session)
        watched, name = self._watched_by(connection), self._canonical(uri)
        if name in watched:
            return
        self._check_limits(call, (name,), len(watched) + 1)
        watched.add(name)
        notify = partial(connection.send_resource_updated, uri)
        await self._watch((id(connection), name), call, uri, notify)
        if name not in watched:  # unsubscribed meanwhile, or the connection ended
            self._watches.pop((id(connection), name), None)

    def unsubscribe(self, session: Any, uri: str) -> None:
        connection = _connection(session)
        name = self._canonical(uri)
        self._watched_by(connection).discard(name)
        self._watches.pop((id(connection), name), None)

    def _watched_by(self, connection: Any) -> set[str]:
        watched: set[str] | None = connection.state.get(__name__)
        if watched is None:
            watched = connection.state[__name__] = set()
            connection.exit_stack.callback(self._give_up, id(connection), watched)
        return watched

    def _give_up(self, connection: int, watched: set[str]) -> None:
        for name in watched:
            self._watches.pop((connection, name), None)

    # -- protocol 2026-07-28: the response to a listen request is the stream ------------------------------------------

    async def listen(
        self, ctx: Any, call: Call, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve a listen request. Each stream has its own bus, which receives only what this caller may see."""
        bus = InMemorySubscriptionBus()
        requested_uris = [str(uri) for uri in params.notifications.resource_subscriptions or ()]
        uris = list({self._canonical(uri): uri for uri in reversed(requested_uris)}.values())
        self._check_limits(call, {self._canonical(uri) for uri in uris}, len(set(requested_uris)))
        owner, most = call.caller.owner, self._shares.streams
        if owner != LOCAL and self._streams[owner] >= most:
            raise MCPError(types.INVALID_PARAMS, f"Only {most} streams can be open at a time; end some first.")
        with counted(self._streams, owner):
            try:
                for uri in uris:
                    await self._watch((bus, uri), call, uri, partial(bus.publish, ResourceUpdated(uri=uri)))
                return await ListenHandler(bus)(ctx, params)
            finally:
                for uri in uris:
                    self._watches.pop((bus, uri), None)


def _connection(session: Any) -> Any:
    """Return the connection, which persists and reports its end; a handler's session lives for one request."""
    return session._connection


def _digests(watched: Mapping[Hashable, Watch]) -> dict[Hashable, object]:
    return {subject: _digest(watch) for subject, watch in watched.items()}


def _digest(watch: Watch) -> object:
    assert watch.resource.digest is not None
    try:
        return watch.resource.digest(watch.call, watch.value)
    except DuetimeError:
        return _UNKNOWN
    except Exception:
        log.exception("%s cannot be watched just now", watch.resource.uri)
        return _UNKNOWN


async def _send(watch: Watch) -> None:
    try:
        await watch.notify()
    except Exception:
        log.debug("a subscriber went away", exc_info=True)
    finally:
        watch.is_sending = False
