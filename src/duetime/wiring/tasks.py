"""Tasks of our own that need more than their arguments: the network, by the guarded way."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

from duetime.core.clock import Clock
from duetime.core.errors import DuetimeError
from duetime.kinds.page_text import page_text
from duetime.kinds.registry import Task
from duetime.settings import Settings

if TYPE_CHECKING:
    from duetime.delivery.http import Http

LARGEST = 1024 * 1024
PATIENCE = 20.0


class NotFetched(DuetimeError):
    """The page could not be fetched."""

    code = "not_fetched"


class Fetching:
    """Opened by the first use: it is slow to load, and most processes fetch nothing."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._opening = threading.Lock()
        self._http: Http | None = None

    def task(self) -> Task:
        def fetch(url: Annotated[str, "an http or https address that anybody can reach"]) -> str:
            """Fetches a page and returns its text; of HTML, what a reader sees. Private addresses are refused."""
            return self._text(url)

        return Task(fetch)

    def close(self) -> None:
        with self._opening:
            if self._http is not None:
                self._http.close()

    def _text(self, url: str) -> str:
        from duetime.delivery.http import Call, CallFailed

        try:
            answer = self._open().send(Call("GET", url, {"Accept": "text/*, application/json"}, b"", PATIENCE))
        except CallFailed as failed:
            raise NotFetched(failed.reason) from None
        if not 200 <= answer.status < 300:
            raise NotFetched(f"the page was answered with status {answer.status}; redirects are not followed")
        text = answer.body.decode(_charset(answer.headers.get("content-type", "")), errors="replace")
        return page_text(text) if "html" in answer.headers.get("content-type", "") else text

    def _open(self) -> Http:
        from duetime.delivery.guard import Guard
        from duetime.delivery.http import Http

        with self._opening:
            if self._http is None:
                guard = Guard(self._settings.allowed_hosts)
                self._http = Http(self._clock, guard, connections=self._settings.threads, largest=LARGEST)
            return self._http


def _charset(content_type: str) -> str:
    """As the answer names it; one that nobody knows is read as UTF-8."""
    from email.message import Message

    header = Message()
    header["content-type"] = content_type
    named = header.get_content_charset("utf-8")
    try:
        "".encode(named)
    except LookupError:
        return "utf-8"
    return named
