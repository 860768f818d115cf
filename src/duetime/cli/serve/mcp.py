"""`duetime mcp`: MCP over stdin and stdout, for clients that start their servers themselves."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from duetime.service.errors import OK
from duetime.terminal.context import Db, Tasks, Tools, settings_for
from duetime.terminal.declarations import single

if TYPE_CHECKING:
    from duetime.app import App
    from duetime.engine.worker.standby import Standby
    from duetime.mcp.stdio import Wire
    from duetime.service.services import Call, Services

PATIENCE = 0.1
"""Seconds that running work has to finish after the client disconnects."""

DEADLINE = 0.7
"""Seconds after which the process exits even if something hangs, because a client that waits too long kills it."""

LOOK_AGAIN = 3.0
"""Seconds between two checks of the settings that the server publishes."""

commands = single()


@commands.command(reads=True)
def mcp(db: Db = None, tasks: Tasks = None, tools: Tools = None) -> None:
    """Serve one agent over standard input and output. Schedules are kept; `duetime service install` makes them fire
    even while no agent is running."""
    if sys.stdin.isatty():
        print(
            "This speaks MCP over stdin and stdout, for a client that starts it; people want `duetime serve`.",
            file=sys.stderr,
        )
    gc.disable()  # garbage collection would take a fifth of the time until the first answer, and collect nothing
    from duetime.mcp.stdio import claim

    wire = claim()
    exit_ = QuickExit()
    _serve({"db": db, "tasks": tasks, "tools": tools}, wire, exit_)
    exit_.now()


def _serve(flags: dict[str, Any], wire: Wire, exit_: QuickExit) -> None:
    """Serve until the input ends. Imports are here, after the signal handlers, because the SDK takes a second to
    import."""
    from functools import partial

    from duetime.app import build, catalog_for, mcp_server
    from duetime.cli.serve.shutdown import log_to
    from duetime.engine.worker.standby import Standby
    from duetime.mcp.stdio import serve_stdio
    from duetime.settings.own_commands import RUN_FOLDER, RUN_TOKEN
    from duetime.settings.working_folder import leave_folder

    log_to(None, verbose=True)
    if RUN_FOLDER in os.environ:  # where the run's worker found its task modules
        os.chdir(os.environ[RUN_FOLDER])
    settings = settings_for(flags)
    if RUN_FOLDER not in os.environ:  # a client repeats --tasks in whatever folder is open, so it is no consent
        settings = leave_folder(settings)
    app = build(settings, use_published=True)
    for _, text in app.scheduler.notices:
        logging.getLogger("duetime.mcp").warning("%s", text)
    standby = Standby(app.store, app.clock, settings.lease, partial(app.engine, session=True), settings.drain)
    exit_.parts = (app, standby)
    followed = FollowedServices(app)
    server = mcp_server(settings.tools, _identify(followed, standby), services=app.services)
    followed.on_change = lambda services: server.offer(catalog_for(settings.tools, services))
    gc.freeze()
    gc.enable()
    if settings.origin.changed and settings.origin.refusal:  # the store in use may not be the one that is meant
        server.refusal = settings.origin.refusal
        standby.decided.set()
    elif RUN_TOKEN not in os.environ:  # a server for one agent run ends with it, so it claims no work
        standby.start()
    serve_stdio(server, wire)


class FollowedServices:
    """The services of an app, with the settings that a server publishes while this process runs: a restarted server may
    have another zone, other agents or another default topic."""

    def __init__(self, app: App) -> None:
        self.app, self._looked = app, app.clock.monotonic()
        self.on_change: Callable[[Services], None] = lambda services: None

    def now(self) -> Services:
        """Return the services; published settings are read again after a few seconds at the earliest."""
        app, time = self.app, self.app.clock.monotonic()
        if time - self._looked >= LOOK_AGAIN:
            self._looked = time
            self._follow(app)
        return self.app.services

    def _follow(self, app: App) -> None:
        from duetime.app import with_published
        from duetime.engine.errors import DuetimeError

        try:
            published = app.store.published()
            if published != app.published:
                self.app = with_published(app, published)
                self.on_change(self.app.services)
        except DuetimeError as error:  # the call itself then reports that the store is unavailable
            logging.getLogger("duetime.mcp").warning("the server's settings could not be read: %s", error.message)


def _identify(followed: FollowedServices, standby: Standby) -> Callable[[], Call]:
    from duetime.service.services import local_call
    from duetime.settings.own_commands import RUN_TOKEN

    token = os.environ.get(RUN_TOKEN)
    if token is not None:
        return _identify_run(followed.app, token)

    def identify() -> Call:
        # Whether anything would fire is only known once this process has checked for other workers.
        standby.decided.wait(1.0)
        return local_call(followed.now(), "mcp")

    return identify


def _identify_run(app: App, token: str) -> Callable[[], Call]:
    """Identify the agent that a prompt started, with its owner and depth, as long as its run is in progress."""
    import mcp_types as types
    from mcp.shared.exceptions import MCPError

    from duetime.app import tokens_of
    from duetime.http.auth import call_of
    from duetime.security.claims import InvalidToken

    tokens = tokens_of(app.settings, app.clock, app.store)

    def identify() -> Call:
        try:
            return call_of(app.services, tokens.verify(token), "mcp")
        except InvalidToken as problem:
            raise MCPError(types.INVALID_REQUEST, f"Nothing was done: {problem.message}.") from None

    return identify


class QuickExit:
    """Ends the process once and quickly, on a signal or at the end of the input. It waits neither for the thread that
    reads the input, which cannot be interrupted, nor for a task that hangs."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self.parts: tuple[App, Standby] | None = None
        """What to stop and close, once it exists."""
        threading.Thread(target=self._wait, name="duetime-exit", daemon=True).start()
        for number in (signal.SIGINT, signal.SIGTERM):  # clients send both, and the second one has no effect
            signal.signal(number, lambda *_: self._asked.set())

    def now(self) -> None:
        self._asked.set()
        threading.Event().wait()  # until the other thread ends the process

    def _wait(self) -> None:
        self._asked.wait()
        closing = threading.Thread(target=self._close, name="duetime-closing", daemon=True)
        closing.start()
        closing.join(DEADLINE)
        os._exit(OK)

    def _close(self) -> None:
        if self.parts is not None:
            app, standby = self.parts
            standby.stop(PATIENCE)
            app.close()
