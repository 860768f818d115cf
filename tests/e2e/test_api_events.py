"""Server-sent events of a real `duetime serve`: what its own worker and other processes do is heard of."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from queue import Empty, Queue
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from duetime.app import build, open_store
from duetime.engine.clock import DAY, Instant, SystemClock
from duetime.engine.kind import Caller
from duetime.engine.store_interfaces import Revocation
from duetime.service.owner_limits import MAX_STREAMS_OF_ONE
from duetime.settings import Settings
from tests.support.agents import serving
from tests.support.mcp import World, world
from tests.support.workers import eventually, quickest

CLOCK = SystemClock()
SECONDS = 30.0


class Event(NamedTuple):
    id: str
    type: str
    data: Any


class Ear:
    """Reads a stream in a thread, since it never ends by itself."""

    def __init__(self, answer: HTTPResponse) -> None:
        self._answer = answer
        self._events: Queue[Event] = Queue()
        self.comments: list[str] = []
        self.ended = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        fields: dict[str, str] = {}
        try:
            for raw in self._answer:
                line = raw.decode().rstrip("\n")
                if line.startswith(":"):
                    self.comments.append(line)
                elif line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "event" in fields:
                    self._events.put(Event(fields["id"], fields["event"], json.loads(fields["data"])))
                    fields = {}
        except (OSError, HTTPException):
            pass  # cut off in the middle
        self.ended.set()

    def next(self, type: str, of: str | None = None) -> Event:
        """The next one of its type, about that schedule."""
        deadline = CLOCK.monotonic() + SECONDS
        seen: list[str] = []
        while True:
            try:
                event = self._events.get(timeout=max(0.01, deadline - CLOCK.monotonic()))
            except Empty:
                raise AssertionError(f"no {type} within {SECONDS:g} s, but {seen}") from None
            seen.append(f"{event.type} {event.data.get('id') or event.data.get('schedule')}")
            about = event.data.get("schedule") if event.type.startswith("run.") else event.data.get("id")
            if event.type == type and of in (None, about):
                return event

    def first(self) -> Event:
        """The very next one: nothing that was not meant for this listener came before it."""
        try:
            return self._events.get(timeout=SECONDS)
        except Empty:
            raise AssertionError(f"nothing within {SECONDS:g} s") from None


def hang_up(connection: HTTPConnection) -> None:
    """Whoever reads just now hears it too; a mere close would wait until something comes."""
    assert connection.sock is not None
    try:
        connection.sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the server was faster


class Listener:
    def __init__(self, url: str, token: str) -> None:
        self._address = urlsplit(url).netloc
        self.headers = {"Authorization": f"Bearer {token}"}

    @contextmanager
    def connection(self) -> Iterator[HTTPConnection]:
        connection = HTTPConnection(self._address, timeout=2 * SECONDS)
        try:
            yield connection
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        with self.connection() as connection:
            headers = {**self.headers, **({} if body is None else {"Content-Type": "application/json"})}
            connection.request(method, f"/api/v1{path}", None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status < 300, text
            return json.loads(text) if text else None

    @contextmanager
    def listening(self, query: str = "", headers: Mapping[str, str] | None = None) -> Iterator[Ear]:
        with self.connection() as connection:
            connection.request("GET", f"/api/v1/events{query}", headers={**self.headers, **(headers or {})})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            assert answer.headers["content-type"].startswith("text/event-stream")
            ear = Ear(answer)
            try:
                yield ear
            finally:
                hang_up(connection)
                ear.ended.wait(SECONDS)

    def job(self, **changes: Any) -> str:
        given = {
            "kind": "job",
            "name": "heard of",
            "trigger": {"type": "interval", "hours": 1},
            "payload": {"task": "echo", "args": ["x"]},
        }
        return str(self.ask("POST", "/schedules", {**given, **changes})["id"])


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("events")) as made:
        yield made


def listener(there: World, owner: str, *scopes: str) -> Listener:
    return Listener(there.served.url, there.token(owner, *scopes))


def test_what_happens_to_a_schedule_is_heard_in_order(one: World) -> None:
    ada = listener(one, "ada")
    with ada.listening() as ear:
        id = ada.job()
        created = ear.next("schedule.created", id)
        assert (created.data["name"], created.data["owner"]) == ("heard of", "ada")
        ada.ask("POST", f"/schedules/{id}/pause")
        assert ear.next("schedule.changed", id).data["status"] == "paused"
        ada.ask("POST", f"/schedules/{id}/resume")
        assert ear.next("schedule.changed", id).data["status"] == "pending"
        ada.ask("PATCH", f"/schedules/{id}", {"name": "renamed"})
        assert ear.next("schedule.changed", id).data["name"] == "renamed"
        run = ada.ask("POST", f"/schedules/{id}/run")["run_id"]
        assert ear.next("run.fired", id).data["run_id"] == run
        ended = ear.next("run.ended", id)
        assert (ended.data["run_id"], ended.data["status"]) == (run, "completed")
        assert "result" not in ended.data
        ada.ask("DELETE", f"/schedules/{id}")
        assert ear.next("schedule.deleted", id).data == {"id": id, "kind": "job"}


def test_a_one_off_is_over_with_its_run(one: World) -> None:
    ada = listener(one, "one-off")
    with ada.listening() as ear:
        id = ada.job(trigger={"type": "once", "run_at": "now"})
        ear.next("schedule.created", id)
        ear.next("run.fired", id)
        assert ear.next("run.ended", id).data["schedule_status"] == "completed"
        following = ada.job()
        assert ear.first().data["id"] == following


def test_what_another_process_does_is_heard_within_a_second(one: World) -> None:
    ada = listener(one, "elsewhere")
    room = build(Settings(db=one.db, timezone="UTC"))
    try:
        id = ada.job()
        with ada.listening() as ear:

            def pause_is_heard() -> float:
                began = CLOCK.monotonic()
                room.scheduler.pause(Caller("elsewhere"), id)
                assert ear.next("schedule.changed", id).data["status"] == "paused"
                took = CLOCK.monotonic() - began
                room.scheduler.resume(Caller("elsewhere"), id)
                ear.next("schedule.changed", id)
                return took

            assert quickest(pause_is_heard, 1.5) < 1.5
            room.scheduler.run_now(Caller("elsewhere"), id)
            ear.next("run.fired", id)
            ear.next("run.ended", id)
    finally:
        room.close()


def test_a_retry_by_hand_is_heard_though_it_ends_at_once(one: World) -> None:
    ada = listener(one, "again")
    body = {"kind": "request", "payload": {"url": "http://127.0.0.1:9/"}, "policy": {"max_attempts": 1}}
    with ada.listening() as ear:
        id = ada.job(**body, trigger={"type": "once", "run_at": "now"})
        failed = ear.next("run.ended", id)
        assert failed.data["status"] == "failed"
        for _ in range(3):
            ada.ask("POST", f"/dead/{failed.data['run_id']}/retry")
            again = ear.next("run.ended", id)
            assert (again.data["run_id"], again.data["status"]) == (failed.data["run_id"], "failed")
            assert again.data["finished"] > failed.data["finished"]


def test_others_hear_nothing(one: World) -> None:
    ada, bob, root = listener(one, "ada-2"), listener(one, "bob-2"), listener(one, "root-2", "operator")
    with bob.listening() as deaf, root.listening("?owner=ada-2") as all_of_ada:
        id = ada.job(trigger={"type": "once", "run_at": "now"})
        all_of_ada.next("run.ended", id)
        own = bob.job()
        assert deaf.first().data["id"] == own


def test_a_listener_goes_on_where_it_was(one: World) -> None:
    ada = listener(one, "back")
    with ada.listening() as ear:
        slow = ada.job()
        last = ear.next("schedule.created", slow)
    missed = ada.job(trigger={"type": "once", "run_at": "now"})
    eventually(lambda: ada.ask("GET", f"/schedules/{missed}")["status"] == "completed", SECONDS, "it ran")
    with ada.listening(headers={"Last-Event-ID": last.id}) as ear:
        ear.next("schedule.created", missed)
        ear.next("run.fired", missed)
        ear.next("run.ended", missed)
    with ada.listening(headers={"Last-Event-ID": "nonsense"}) as ear:
        following = ada.job()
        assert ear.first().data["id"] == following, "it begins with now"


def test_too_many_streams_are_refused_and_closed_ones_make_room(one: World) -> None:
    ada = listener(one, "greedy")
    with ada.listening() as ear:
        others = [ada.listening() for _ in range(MAX_STREAMS_OF_ONE - 1)]
        for other in others:
            other.__enter__()
        ear.next("schedule.created", ada.job())
        with ada.connection() as connection:
            connection.request("GET", "/api/v1/events", headers=ada.headers)
            answer = connection.getresponse()
            assert (answer.status, answer.headers["content-type"]) == (429, "application/problem+json")
        for other in others:
            other.__exit__(None, None, None)
        eventually(lambda: _opens(ada), SECONDS, "there is room again")


def _opens(somebody: Listener) -> bool:
    with somebody.connection() as connection:
        connection.request("GET", "/api/v1/events", headers=somebody.headers)
        return connection.getresponse().status == 200


def test_a_revoked_token_hears_no_more(one: World) -> None:
    ada = listener(one, "revoked")
    with ada.listening() as ear, closing(open_store(one.db)) as store:
        id, now = one.tokens.verify(ada.headers["Authorization"].split()[1]).id, SystemClock().now()
        assert store.revoke([Revocation(id, now, Instant(now + DAY))], now) == [id]
        assert ear.ended.wait(SECONDS)


def test_a_server_stops_though_somebody_listens(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-link") as served:
        ada = Listener(served.url, served.token)
        with ada.listening() as ear:
            served.process.terminate()
            assert ear.ended.wait(SECONDS)
            assert served.process.wait(SECONDS) == 0
