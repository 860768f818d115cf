"""Strangers who hold connections open, send slowly, or send too much: users are served, and nothing breaks."""

from __future__ import annotations

import logging
import resource
import signal
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from duetime.app import App, build
from duetime.engine.clock import SystemClock
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.model import Progress, ScheduleId, ScheduleState
from duetime.engine.validation import NewSchedule
from duetime.http.connection_limits import ConnectionLimits, ConnectionTable
from duetime.http.server import KEEP_ALIVE, PATIENCE
from duetime.settings import Settings, load_settings
from tests.support.cli import Output, start
from tests.support.strangers import HALF_A_HEAD, Strangers, dial, is_open, received
from tests.support.web import Site, site
from tests.support.workers import eventually

CLOCK = SystemClock()
DEADLINE = 1.0
"""Seconds for the head of a request: longer than a client on a busy machine takes between connecting and sending."""


def login(length: int, body: bytes) -> bytes:
    return f"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode() + body


# -- deadlines --------------------------------------------------------------------------------------------------------


def test_a_request_whose_head_does_not_arrive_is_ended(tmp_path: Path) -> None:
    with site(tmp_path, head_timeout=DEADLINE) as served:
        idle, partial = dial(served.port), dial(served.port, data=HALF_A_HEAD)
        assert received(partial).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert received(idle) == b""


def test_a_second_request_on_the_same_connection_has_the_same_deadline(tmp_path: Path) -> None:
    with site(tmp_path, head_timeout=DEADLINE) as served:
        connection = dial(served.port, data=b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + HALF_A_HEAD)
        begun = CLOCK.monotonic()
        assert received(connection).startswith(b"HTTP/1.1 200 OK\r\n")
        assert CLOCK.monotonic() - begun < KEEP_ALIVE / 2, "the keep-alive timeout alone would take longer"


def test_an_idle_connection_of_a_user_stays_open_longer_than_clients_use_it(tmp_path: Path) -> None:
    assert KEEP_ALIVE > 60, "clients and proxies reuse connections for up to a minute"
    with site(tmp_path, head_timeout=DEADLINE) as served:
        mine, strange = (HTTPConnection("127.0.0.1", served.port, timeout=30) for _ in range(2))
        for connection, headers in ((mine, served.bearer()), (strange, {})):
            connection.request("GET", "/api/v1/schedules", headers=headers)
            connection.getresponse().read()
        mine_socket, strange_socket = mine.sock, strange.sock
        assert received(strange_socket) == b"", "nobody authenticated on it"
        assert is_open(mine_socket)
        mine.request("GET", "/api/v1/schedules", headers=served.bearer())
        assert mine.getresponse().read() and mine.sock is mine_socket
        mine_socket.sendall(HALF_A_HEAD)
        assert received(mine_socket) == b"", "the head of the next request has its deadline"
        mine.close()
        mine.request("GET", "/api/v1/schedules", headers=served.bearer())
        assert mine.getresponse().read()
        begun = CLOCK.monotonic()
    assert CLOCK.monotonic() - begun < PATIENCE, "an idle connection does not delay the end of the server"
    mine.close()


def test_a_body_that_stops_coming_is_ended(tmp_path: Path) -> None:
    with site(tmp_path, body_timeout=0.3) as served:
        answer = received(dial(served.port, data=login(1000, b"token=")))
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"send it again" in answer


def test_a_body_that_drips_is_ended_as_a_whole(tmp_path: Path) -> None:
    """Each byte is progress; without a token the whole of it has the same deadline."""
    with site(tmp_path, body_timeout=0.6) as served:
        connection = dial(served.port, data=login(1000, b"t"))
        connection.settimeout(0.2)
        begun, found = CLOCK.monotonic(), b""
        while not found:
            assert CLOCK.monotonic() - begun < 20
            connection.send(b"t")
            try:
                found = connection.recv(1000)
            except TimeoutError:
                continue
        connection.close()
        assert found.startswith(b"HTTP/1.1 408 ")


# -- bodies without a token -------------------------------------------------------------------------------------------


def test_without_a_token_only_little_is_taken(tmp_path: Path) -> None:
    with site(tmp_path, head_timeout=DEADLINE) as served:
        assert received(dial(served.port, data=login(8 * 2**20, b""))).startswith(b"HTTP/1.1 413 ")
        chunked = b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunk = b"4000\r\n" + b"a" * 0x4000 + b"\r\n"
        assert received(dial(served.port, data=chunked + chunk + chunk)).startswith(b"HTTP/1.1 413 ")
        small = b"POST /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 3\r\n\r\na=b"
        assert b" 403 " in received(dial(served.port, data=small)), "read, and found to be no form of ours"


@pytest.mark.parametrize("path", ["/login", "/mcp", "/api/v1/schedules"])
def test_a_long_body_that_was_refused_is_not_read(served_once: Site, path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {2**30}\r\n\r\n"
    connection = dial(served_once.port, data=head.encode())
    sent = 0
    try:
        while sent < 2**26:
            sent += connection.send(bytes(2**16))
    except OSError:
        pass  # closed by the server
    connection.close()
    assert sent < 2**26


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/static/x", "/calendar/x.ics", "/.well-known/x", "/login"])
@pytest.mark.parametrize("framing", ["Content-Length: 8388608", "Transfer-Encoding: chunked"])
def test_reading_without_a_token_takes_no_body(served_once: Site, path: str, framing: str) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n"
    with dial(served_once.port, data=head.encode()) as connection:
        answer = HTTPResponse(connection)
        answer.begin()
        assert (answer.status, b"takes no body" in answer.read()) == (400, True)
        answer.close()


@pytest.mark.parametrize("path", ["/login", "/mcp", "/api/v1/schedules", "/v2/batch"])
def test_a_request_with_two_lengths_is_refused(served_once: Site, path: str) -> None:
    """A proxy before the server may believe the other one, and then see two requests where the server sees one."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = received(dial(served_once.port, data=head.encode() + b"0\r\n\r\nGET /healthz HTTP/1.1\r\n"))
    assert answer.startswith(b"HTTP/1.1 400 ") and b"not both" in answer
    assert answer.count(b"HTTP/1.1 ") == 1, "what follows is not read as a request"


@pytest.fixture(scope="module")
def served_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site"), head_timeout=DEADLINE) as made:
        yield made


def test_a_client_that_leaves_amid_its_sign_in_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), site(tmp_path) as served:
        for _ in range(5):
            dial(served.port, data=login(100, b"token=")).close()
        eventually(lambda: served.ask("GET", "/healthz").status == 200, 30, "it answers")
    assert not [record for record in caplog.records if record.exc_info or "ASGI" in record.getMessage()]


# -- numbers ----------------------------------------------------------------------------------------------------------


class User:
    """A client with a token that keeps its connection."""

    def __init__(self, served: Site) -> None:
        self._http = HTTPConnection("127.0.0.1", served.port, timeout=30)
        self._headers = served.bearer()

    def asks(self) -> int:
        self._http.request("GET", "/api/v1/whoami", headers=self._headers)
        answer = self._http.getresponse()
        answer.read()
        return answer.status

    def __enter__(self) -> User:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()


def test_strangers_of_one_address_hold_only_so_many_connections(tmp_path: Path) -> None:
    with site(tmp_path, max_connections_per_address=5) as served, Strangers(served.port) as strangers:
        for _ in range(20):
            strangers.come("127.0.0.2")
        eventually(lambda: strangers.open() == 5, 30, "the oldest were closed")
        with User(served) as user:
            assert user.asks() == 200


def test_a_trusted_proxy_may_hold_more(tmp_path: Path) -> None:
    proxies = ("127.0.0.8/30",)
    with (
        site(tmp_path, max_connections_per_address=5, trusted_proxies=proxies) as served,
        Strangers(served.port) as strangers,
    ):
        for _ in range(20):
            strangers.come("127.0.0.9")
        with User(served) as user:
            assert user.asks() == 200
        assert strangers.open() == 20


def test_strangers_from_everywhere_shut_no_user_out(tmp_path: Path) -> None:
    with (
        site(tmp_path, max_connections=30, head_timeout=60.0) as served,
        Strangers(served.port) as strangers,
        User(served) as user,
        User(served) as newcomer,
    ):
        assert user.asks() == 200
        for number in range(100):
            strangers.come(f"127.0.0.{2 + number % 90}")
        begun = CLOCK.monotonic()
        assert user.asks() == 200, "on the connection that it had"
        assert newcomer.asks() == 200, "and on a new one"
        assert CLOCK.monotonic() - begun < 20, "not only when the strangers have used up their time"
        assert strangers.open() <= 29


class Played:
    """A connection of which only the table's questions are answered."""

    def __init__(self, address: str = "127.0.0.2", descriptor: int = 7) -> None:
        self.address, self.descriptor, self.owner = address, descriptor, None  # type: str, int, str | None
        self.is_answering = self.is_spare = self.dropped = False

    def drop(self) -> None:
        self.dropped = True


def test_an_owner_with_the_most_connections_makes_room_for_the_others() -> None:
    table = ConnectionTable(ConnectionLimits(total=8, per_address=100))
    played = [Played() for _ in range(8)]
    for number, each in enumerate(played):
        assert table.admit(each)
        table.authenticated(each, "mallory" if number else "alice")
    played[1].is_answering = True
    assert table.admit(Played())
    assert [each.dropped for each in played] == [False, False, True, False, False, False, False, False]


def test_among_owners_with_a_fair_share_an_idle_connection_makes_room() -> None:
    table = ConnectionTable(ConnectionLimits(total=8, per_address=100))
    played = [Played() for _ in range(8)]
    for number, each in enumerate(played):
        assert table.admit(each)
        table.authenticated(each, f"owner {number // 2}")
    assert not table.admit(Played())
    played[4].is_spare = True
    assert table.admit(Played())
    assert [number for number, each in enumerate(played) if each.dropped] == [4]


def test_descriptors_are_kept_for_the_store_and_for_children() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    table = ConnectionTable(ConnectionLimits())
    assert not table.admit(Played(descriptor=soft - 2))
    assert table.admit(Played(descriptor=20))


def test_a_proxy_that_is_no_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="trusted_proxies: 'proxy' is not an address or network"):
        load_settings({"trusted_proxies": ("proxy",)}, environment={}, folder=tmp_path)


# -- a real process that has few descriptors --------------------------------------------------------------------------


def test_a_server_without_descriptors_goes_on_and_breaks_no_schedule(tmp_path: Path) -> None:
    room = build(Settings(db=str(tmp_path / "my.db")), tasks=False)
    ids = [_every_second(room, zone) for zone in ("Asia/Tokyo", "America/Lima", "Africa/Cairo")]
    with start("serve", "--port", "0", "--db", "my.db", folder=tmp_path) as process:
        try:
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (128, 128))
            line = Output(process).until(lambda line: line.startswith("Serving MCP at "))
            port = int(line.split()[3].split(":")[2].split("/")[0])
            with Strangers(port) as strangers:
                for number in range(150):
                    strangers.come(f"127.0.0.{2 + number % 100}")
                before = [_runs(room, id) for id in ids]
                assert _is_ready(port)
                eventually(lambda: all(_runs(room, id) >= 2 + n for id, n in zip(ids, before, strict=True)), 30, "runs")
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert process.stderr is not None
            assert len(process.stderr.read()) < 20_000
        finally:
            if process.poll() is None:
                process.kill()
    assert {_progress(room, id).state for id in ids} == {ScheduleState.ACTIVE}
    room.close()


def _every_second(room: App, zone: str) -> ScheduleId:
    trigger = {"seconds": 1, "timezone": zone}
    made = room.scheduler.create(Caller("local"), NewSchedule("job", zone, "interval", trigger, {"task": "echo"}))
    return made.definition.id


def _progress(room: App, id: ScheduleId) -> Progress:
    found = room.store.get(id)
    assert found is not None
    return found.progress


def _runs(room: App, id: ScheduleId) -> int:
    return _progress(room, id).run_count


def _is_ready(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/readyz")
    try:
        return connection.getresponse().status == 200
    finally:
        connection.close()
