"""A stand-in for QStash that keeps what it is asked to keep and misbehaves as told.

    with StandIn() as there:
        there.answers = [LOST, Behaviour(500)]     # to the next requests, which are carried out all the same
        there.refuses = [Behaviour(500)]           # to the next requests, which are not carried out
        ...
        there.schedules, there.messages            # what it has, by id: the headers and the body that it was given

For how QStash behaves there is our own `/v2`, which its SDK is tested against.
"""

from __future__ import annotations

import json
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import unquote

from tests.support.receiver import Behaviour, Fault, Receiver, Request

TOKEN = "qstash-token-1c9fa7"
LOST = Behaviour(fault=Fault.CLOSE)


class Kept(NamedTuple):
    destination: str
    headers: dict[str, str]
    body: Any


class StandIn(Receiver):
    def __init__(self) -> None:
        super().__init__(self._answer)
        self.schedules: dict[str, Kept] = {}
        self.paused: set[str] = set()
        self.messages: dict[str, Kept] = {}
        self.answers: list[Behaviour] = []
        self.refuses: list[Behaviour] = []
        self._numbers = count(1)
        self._known: dict[str, str] = {}

    def forget_duplicates(self, forget: bool = True) -> None:
        """Forget deduplication ids, as QStash does after ten minutes."""
        if forget:
            self._known.clear()

    def row(self, id: str) -> dict[str, Any]:
        """Return a schedule as it is listed."""
        destination, headers, _ = self.schedules[id]
        cron, paused = headers["upstash-cron"], id in self.paused
        row = {"scheduleId": id, "destination": destination, "cron": cron, "isPaused": paused}
        return {**row, "createdAt": 1, "method": "POST", "retries": 3}

    def _answer(self, request: Request) -> Behaviour:
        if self.refuses:
            return self.refuses.pop(0)
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return _json({"error": "unauthorized"}, 401)
        answer = self._carry_out(request)
        return self.answers.pop(0) if self.answers else answer

    def _carry_out(self, request: Request) -> Behaviour:
        what, _, asked = request.target.removeprefix("/v2/").partition("/")
        match request.method, what, asked:
            case "GET", "schedules", "":
                return _json([self.row(id) for id in self.schedules])
            case "GET", what, "" if what.startswith("events?"):
                return _json({"events": self._events(request.query["label"])})
            case "POST", "schedules", _:
                return self._keep_schedule(_kept(request, asked))
            case "POST", "publish", _:
                return self._keep_message(_kept(request, asked))
            case _:
                return self._change(request.method, what, asked)

    def _keep_schedule(self, kept: Kept) -> Behaviour:
        id = kept.headers["upstash-schedule-id"]
        self.schedules[id] = kept
        return _json({"scheduleId": id})

    def _keep_message(self, kept: Kept) -> Behaviour:
        given = kept.headers["upstash-deduplication-id"]
        if given in self._known:
            return _json({"messageId": self._known[given], "deduplicated": True}, 202)
        id = self._known[given] = f"msg/{next(self._numbers)}?.."  # nothing promises that an id is fit for a path
        self.messages[id] = kept
        return _json({"messageId": id}, 201)

    def _events(self, label: str) -> list[dict[str, Any]]:
        kept = {id: message.headers["upstash-label"] for id, message in self.messages.items()}
        return [{"messageId": id, "label": given, "state": "CREATED"} for id, given in kept.items() if given == label]

    def _change(self, method: str, what: str, asked: str) -> Behaviour:
        quoted, _, change = asked.partition("/")
        id = unquote(quoted)
        kept = self.schedules if what == "schedules" else self.messages
        if id not in kept:
            return _json({"error": f"{what} {id} not found"}, 404)
        if method == "GET":
            return _json(self.row(id) if what == "schedules" else _message(id))
        if method == "DELETE":
            del kept[id]
        elif change == "pause":
            self.paused.add(id)
        else:
            self.paused.discard(id)
        return Behaviour()


def _kept(request: Request, destination: str) -> Kept:
    return Kept(destination, request.headers, json.loads(request.body))


def _message(id: str) -> dict[str, Any]:
    times = {"notBefore": 1, "createdAt": 1}
    return {"messageId": id, "url": "https://example.org", "method": "POST", "maxRetries": 3, **times}


def _json(value: Any, status: int = 200) -> Behaviour:
    return Behaviour(status, {"Content-Type": "application/json"}, json.dumps(value).encode())
