"""Notifications kept here or at QStash, on a settable clock: the agents' calls, and the messages that arrive."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from duetime.app import App, build, web
from duetime.engine.clock import DAY
from duetime.engine.kind import Caller
from duetime.http.server import HttpServer, listen, url_of
from duetime.settings import NotificationSettings, Settings
from duetime.testing import Simulation
from tests.support.notifying import START, Agent
from tests.support.receiver import Receiver
from tests.support.tokens import tokens_with


class Backend:
    def __init__(self, app: App, firing: Simulation, ntfy: Receiver) -> None:
        """`app` serves the agents' calls, `firing` sends."""
        self.app, self.firing, self._ntfy = app, firing, ntfy

    def agent(self, owner: str) -> Agent:
        return Agent(self.app, Caller(owner), patience=0.05)

    def pass_(self, **time: float) -> None:
        self.firing.advance(timedelta(**time))

    @property
    def arrived(self) -> list[tuple[str, str]]:
        """Return the topic and the message of everything that the ntfy server received."""
        bodies: list[dict[str, Any]] = [json.loads(request.body) for request in self._ntfy.requests]
        return [(body["topic"], body["message"]) for body in bodies]


@contextmanager
def kept_here(url: str) -> Iterator[Backend]:
    with Receiver() as ntfy:
        notifications = NotificationSettings(server=ntfy.url, prefix="x-")
        settings = Settings(db=url, timezone="Europe/Berlin", notifications=notifications)
        with Simulation(START, settings=settings) as simulation:
            yield Backend(simulation.duetime.app, simulation, ntfy)


@contextmanager
def kept_at_qstash(folder: Path) -> Iterator[Backend]:
    """Keep notifications at QStash. The caller sets `XDG_DATA_HOME`, where the server keeps its keys."""
    far = Settings(db=str(folder / "there.db"), timezone="UTC", allowed_hosts=("127.0.0.1",))
    with Receiver() as ntfy, Simulation(START, settings=far) as there:
        tokens = tokens_with(there.duetime.app.store, folder / "auth", there.clock)
        bound = listen("127.0.0.1", 0)
        server = HttpServer(web(there.duetime.app, tokens), bound)
        server.start()
        try:
            notifications = NotificationSettings(
                backend="qstash",
                server=ntfy.url,
                prefix="x-",
                qstash_url=url_of(bound),
                qstash_token=tokens.issue("an-account", 300 * DAY),
            )
            settings = Settings(db=str(folder / "here.db"), timezone="Europe/Berlin", notifications=notifications)
            app = build(settings, clock=there.clock, tasks=False)
            try:
                yield Backend(app, there, ntfy)
            finally:
                app.close()
        finally:
            server.stop()
            bound.close()
