"""The web server, in its own thread, so that the main thread can handle signals and the worker is not slowed down."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import threading
from contextlib import suppress
from functools import partial

import uvicorn
from starlette.applications import Starlette

from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.http import url_for
from duetime.http.connection_limits import ConnectionLimits, ConnectionTable, raise_soft_limit, reserve_of
from duetime.http.probe import answers
from duetime.http.protocol import LimitedProtocol

LINGER = 0.5
"""Seconds after which a stopping server ends open responses, because streams would never end by themselves."""
PATIENCE = 5
"""Seconds after which a stopping server stops waiting."""
ACCEPTED_AT_ONCE = 16
"""Maximum number of connections that the event loop accepts before it handles any: each already has a file
descriptor."""
KEEP_ALIVE = 75
"""Seconds until an idle connection is closed. Clients stop using theirs earlier (after 5 to 60 s), so that none sends a
request on a connection that is being closed."""
WAITING = 4096
"""Backlog of connections that the kernel keeps until they are accepted."""


class CannotListen(DuetimeError):
    """The address cannot be listened on."""

    code = "cannot_listen"


class NotLoopback(InvalidInput):
    """Without tokens only a loopback address is served."""


def listen(host: str, port: int, *, only_loopback: bool = False) -> socket.socket:
    """Bind the socket before anything starts, so that an address in use is reported at once. Port 0 selects a free
    port."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = min(addresses, key=lambda each: each[0] != socket.AF_INET)
        if only_loopback and not ipaddress.ip_address(str(address[0])).is_loopback:
            raise NotLoopback(f"{host} can be reached by others, so tokens are needed; leave out --no-auth")
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(128)
        except BaseException:
            bound.close()
            raise
    except OSError as error:
        raise CannotListen(_why(error, host, port)) from error
    return bound


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        url = url_for(host, port)
        if answers(url):
            return f"Duetime is already running at {url}/; stop it, or choose another port with --port"
        return f"port {port} on {host} is in use by another program; stop it, or choose another one with --port"
    if error.errno == errno.EACCES:
        return f"port {port} may not be opened by this user; choose one above 1023 with --port"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine; choose one with --host, such as 127.0.0.1"
    return f"{host}:{port} cannot be listened on: {error.strerror or error}"


def url_of(bound: socket.socket) -> str:
    address, port = bound.getsockname()[:2]
    return url_for(address, port)


class _Server(uvicorn.Server):
    """Ends streams at shutdown, before uvicorn waits for all responses. It wakes once a second, for the date in the
    headers of responses; uvicorn's own server wakes ten times a second to check whether it should stop."""

    _loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        # in this order, because a stop may be requested at this moment
        self._asked, self._loop = asyncio.Event(), asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._asked.wait()

    def ask_to_stop(self) -> None:
        """Stop soon. Any thread may call this."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._asked.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for bound in sockets or ():  # asyncio sets both limits to one number; a full backlog costs clients a second
            bound.listen(WAITING)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().call_later(LINGER, self.end_answers)
        await super().shutdown(sockets)

    def end_answers(self) -> None:
        self.config.app.state.end_answers()  # type: ignore[union-attr]  # the application given to the constructor


class HttpServer:
    def __init__(self, app: Starlette, bound: socket.socket, limits: ConnectionLimits | None = None) -> None:
        self._bound = bound
        descriptors = raise_soft_limit()
        table = ConnectionTable(limits or ConnectionLimits())
        # No log_config: the command line configures logging. No proxy is trusted to name the client.
        self._server = _Server(
            uvicorn.Config(
                app,
                http=partial(LimitedProtocol, table),  # type: ignore[arg-type]  # it is only called
                backlog=min(ACCEPTED_AT_ONCE, reserve_of(descriptors) // 2),
                log_config=None,
                access_log=False,
                ws="none",
                lifespan="on",
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=PATIENCE,
            )
        )
        self._thread = threading.Thread(target=self._run, name="duetime-http", daemon=True)
        self._pause = threading.Event()
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Start the server and return when it accepts requests."""
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._pause.wait(0.01)
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._bound])
        except (Exception, SystemExit) as error:
            self.failure = error if isinstance(error, Exception) else CannotListen("the web server could not start")

    @property
    def serving(self) -> bool:
        return self._thread.is_alive()

    def ask_to_stop(self) -> None:
        """Stop accepting connections; open responses get a moment to end."""
        self._server.ask_to_stop()

    def stop(self) -> None:
        self.ask_to_stop()
        self._thread.join(PATIENCE + 5)
