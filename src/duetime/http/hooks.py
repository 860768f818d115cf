"""The addresses at which other services report events: `POST /hooks/{id}`. A signature by the secret of the hook takes
the place of a token, and the answer comes after the commit."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections import defaultdict
from contextlib import suppress
from functools import partial
from typing import Final
from urllib.parse import parse_qsl

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from duetime.engine.clock import Instant, SystemClock
from duetime.engine.errors import DuetimeError
from duetime.http.bodies import parse_json
from duetime.http.connection_limits import mark_authenticated
from duetime.http.problems import refusal
from duetime.security.webhook_signatures import WrongSignature, verify
from duetime.service.errors import STORE_ERRORS, STORE_MESSAGE, error_class, refuse
from duetime.service.operations.hooks import accept, add_delivery, event_name, note_deliveries
from duetime.service.owner_limits import NOBODY, OwnerLimits, TooManyRequests
from duetime.service.presenters import View
from duetime.service.services import Services
from duetime.service.vocabulary import HookRow

KNOWN_FOR: Final = 1.0
"""Seconds for which a hook is not read again, so a new secret takes effect within that time."""
MOST_KNOWN: Final = 1000
COLLECTED_FOR: Final = 0.5
"""Seconds for which deliveries are collected, so that many of them are noted in one write."""
_ID: Final = re.compile(r"hook_[0-9a-f]{32}")
_GONE: Final = "There is no such hook."


class Receiver:
    """Receives deliveries. Use it only in the thread of the server's event loop."""

    def __init__(self, services: Services, limits: OwnerLimits) -> None:
        self._services, self._limits = services, limits
        self._monotonic = SystemClock().monotonic  # a settable clock must not hide what others change
        self._known: dict[str, tuple[HookRow, float]] = {}
        self._notes: dict[str, list[View]] = defaultdict(list)
        self._writing: asyncio.Task[None] | None = None

    def routes(self) -> list[Route]:
        return [Route(path, self.receive, methods=["POST"]) for path in ("/hooks/{id}", "/hooks/{id}/{secret}")]

    async def receive(self, request: Request) -> Response:
        now, hook = self._services.scheduler.clock.now(), None
        try:
            hook = await self._find(request.path_params["id"])
            return JSONResponse(await self._store_event(request, hook, now), 202)
        except WrongSignature as error:
            status, code, words = 401, "invalid_signature", str(error)
        except TooManyRequests as error:
            status, code, words = 429, "too_many_requests", str(error)
        except DuetimeError as error:
            status, code = error_class(error.code).status, error.code
            words = STORE_MESSAGE if code in STORE_ERRORS else error.message
        if hook is not None and status not in (404, 503):  # who does not know the secret address fills no list
            self._note(hook, {"at": now, "status": status, "error": words})
        headers = {"Retry-After": "1"} if status in (429, 503) else None
        return refusal(request.scope, status, code, f"{words[:1].upper()}{words[1:]}", headers=headers)

    async def _find(self, id: str) -> HookRow:
        """Return a hook. One that was known keeps its owner's slots, however many requests guess ids."""
        hook, read = self._known.get(id, (None, 0.0))
        if hook is None or self._monotonic() - read >= KNOWN_FOR:
            owner, look = NOBODY if hook is None else hook.owner, partial(self._services.scheduler.store.hook, id)
            read, hook = self._monotonic(), await self._limits.run(owner, look) if _ID.fullmatch(id) else None
            if hook is None:
                self._known.pop(id, None)
                raise refuse("not_found", _GONE)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[id] = hook, read
        return hook

    async def _store_event(self, request: Request, hook: HookRow, now: Instant) -> View:
        secret, own = request.path_params.get("secret", ""), hook.secret if hook.scheme == "url" else ""
        if hook.secret and not hmac.compare_digest(secret.encode(), own.encode()):
            raise refuse("not_found", _GONE)
        headers, body = dict(request.headers), await request.body()
        key = verify(hook.scheme, hook.secret, headers, body, now)
        mark_authenticated(request.scope, hook.owner)

        def store_event() -> View:
            data = data_of(headers.get("content-type", ""), body)
            return accept(self._services, hook, key, event_name(hook, headers, data), data)

        note = await self._limits.run(hook.owner, store_event)
        self._note(hook, {"at": now, **note})
        return {"event_id": note["event_id"], "duplicate": note["duplicate"]}

    def _note(self, hook: HookRow, note: View) -> None:
        add_delivery(self._notes[hook.id], note)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        await asyncio.sleep(COLLECTED_FOR)
        notes, self._writing = dict(self._notes), None
        self._notes.clear()
        for hook, rows in notes.items():
            with suppress(DuetimeError):  # the events are stored; this is only a list to look at
                await anyio.to_thread.run_sync(note_deliveries, self._services, hook, rows[::-1])


def data_of(content_type: str, body: bytes) -> View:
    """Return the data of an event: an object as it is, a form as an object, and any other body as `value` or `text`. A
    form with a `payload` has JSON in it, as GitHub sends it."""
    text = body.decode("utf-8", "replace")
    try:
        if content_type.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded":
            fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=1000))
            if "payload" not in fields:
                return dict(fields)
            body = fields["payload"].encode()
        value = parse_json(body) if body.strip() else {}
    except ValueError:
        return {"text": text}
    return value if isinstance(value, dict) else {"value": value}
