"""Calls to a real receiver on this machine that answers, dawdles, breaks off and lies."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from duetime.engine.clock import SECOND, SystemClock, instant_of
from duetime.engine.outcome import Completed, Failed, Outcome, Retry, Returned
from duetime.engine.urls import read_url
from duetime.net.calls import checked
from duetime.net.client import CallFailed, Http, HttpAnswer, HttpCall
from duetime.net.host_limits import Hosts, Tried
from duetime.net.outcomes import outcome_of, outcome_of_failure, sign_of, sign_of_failure
from duetime.net.ssrf_guard import Guard
from tests.support.dialling import NOBODY
from tests.support.receiver import Behaviour, Fault, Receiver, Request

CLOCK = SystemClock()
PATIENCE = 0.4
GENEROUS = 10.0
"""Seconds in which a call that may take 0.4 has ended on a machine that is busy with something else."""
SECRET = "s3cr3t"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture
def http() -> Iterator[Http]:
    calls = Http(CLOCK, None, trust=NOBODY)
    yield calls
    calls.close()


def post(receiver: Receiver, *, patience: float = 5.0, body: bytes = b"hello") -> HttpCall:
    return HttpCall("POST", f"{receiver.url}/topic?key={SECRET}", {"Authorization": f"Bearer {SECRET}"}, body, patience)


def failure(http: Http, call: HttpCall) -> CallFailed:
    with pytest.raises(CallFailed) as failed:
        http.send(call)
    assert SECRET not in "".join(traceback.format_exception(failed.value))
    return failed.value


@contextmanager
def within(least: float, most: float = GENEROUS) -> Iterator[None]:
    begun = CLOCK.monotonic()
    yield
    assert least <= CLOCK.monotonic() - begun < most


def always(behaviour: Behaviour) -> Callable[[Request], Behaviour]:
    return lambda request: behaviour


def test_a_call_arrives_as_it_was_given(receiver: Receiver, http: Http) -> None:
    receiver.behave = always(Behaviour(201, {"X-Id": "7", "Set-Cookie": "a"}, b"taken"))
    call = HttpCall("PUT", f"{receiver.url}/a%20b/ü?x=1&y=%26#part", {"Title": "Grüße", "X-Pad": " x "}, b"\x00body")
    answer = http.send(call)
    assert answer == HttpAnswer(201, answer.headers, b"taken", False)
    assert answer.headers["x-id"] == "7"
    [request] = receiver.wait_for(1)
    assert (request.method, request.target, request.body) == ("PUT", "/a%20b/%C3%BC?x=1&y=%26", b"\x00body")
    assert request.headers["title"].encode("latin-1").decode() == "Grüße"
    assert request.headers["x-pad"] == "x"
    assert request.headers["host"] == receiver.host
    assert request.headers["user-agent"] == "duetime"
    assert request.headers["content-length"] == "5"


def test_a_get_has_no_body_and_a_header_may_replace_ours(receiver: Receiver, http: Http) -> None:
    http.send(HttpCall("GET", receiver.url, {"user-agent": "mine"}))
    [request] = receiver.wait_for(1)
    assert (request.target, request.body) == ("/", b"")
    assert "content-length" not in request.headers
    assert request.headers["user-agent"] == "mine"


@pytest.mark.parametrize("status", [200, 204, 301, 400, 404, 429, 500, 503])
def test_any_status_is_an_answer_and_redirects_are_not_followed(receiver: Receiver, http: Http, status: int) -> None:
    receiver.behave = always(Behaviour(status, {"Location": "/elsewhere"}))
    assert http.send(post(receiver)).status == status
    assert len(receiver.requests) == 1


def test_an_answer_has_a_date_even_if_the_receiver_gave_none(receiver: Receiver, http: Http) -> None:
    came = instant_of(parsedate_to_datetime(http.send(post(receiver)).headers["date"]))
    assert abs(came - CLOCK.now()) < 10 * SECOND
    receiver.behave = always(Behaviour(headers={"Date": "Tue, 10 Feb 2026 12:00:00 GMT"}))
    assert http.send(post(receiver)).headers["date"] == "Tue, 10 Feb 2026 12:00:00 GMT"


def test_a_header_that_comes_twice_is_one_list(receiver: Receiver, http: Http) -> None:
    receiver.behave = always(Behaviour(raw=b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n"))
    assert http.send(post(receiver)).headers["x-a"] == "1, 2"


# ------------------------------------------------------------------------------------------------- kept connections


def test_a_connection_is_kept_for_the_next_call(receiver: Receiver, http: Http) -> None:
    for _ in range(20):
        assert http.send(post(receiver)).status == 200
    assert receiver.connections == 1
    assert [request.nth for request in receiver.requests] == list(range(1, 21))


def test_many_threads_share_the_connections(receiver: Receiver, http: Http) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: http.send(post(receiver)).status, range(400)))
    assert answers == [200] * 400
    assert receiver.connections <= 8


def test_a_connection_that_the_receiver_closed_meanwhile_is_replaced(receiver: Receiver, http: Http) -> None:
    http.send(post(receiver))
    receiver.drop_connections()
    assert http.send(post(receiver)).status == 200
    assert [(request.connection, request.nth) for request in receiver.requests] == [(1, 1), (2, 1)]


@pytest.mark.parametrize("fault", [Fault.CLOSE, Fault.RESET])
def test_a_kept_connection_that_dies_before_any_answer_is_tried_once_more(
    receiver: Receiver, http: Http, fault: Fault
) -> None:
    receiver.behave = lambda request: Behaviour(fault=fault if request.nth > 1 else None)
    http.send(post(receiver))
    assert http.send(post(receiver)).status == 200
    assert [(request.connection, request.nth) for request in receiver.requests] == [(1, 1), (1, 2), (2, 1)]


@pytest.mark.parametrize("fault", [Fault.CLOSE, Fault.RESET])
def test_it_is_tried_once_more_only(receiver: Receiver, http: Http, fault: Fault) -> None:
    http.send(post(receiver))
    receiver.behave = always(Behaviour(fault=fault))
    assert "without an answer" in failure(http, post(receiver)).reason
    assert len(receiver.requests) == 3


def test_what_may_be_sent_once_only_is_not_sent_over_a_kept_connection(receiver: Receiver, http: Http) -> None:
    """Neither is it repeated if its answer is lost, nor lost because a kept connection was dead."""
    http.send(post(receiver))
    receiver.drop_connections()
    assert http.send(post(receiver)._replace(once=True)).status == 200
    receiver.behave = always(Behaviour(fault=Fault.CLOSE))
    assert "without an answer" in failure(http, post(receiver)._replace(once=True)).reason
    assert [request.nth for request in receiver.requests] == [1, 1, 1]


@pytest.mark.parametrize("fault", [Fault.CLOSE, Fault.RESET])
def test_a_lost_receipt_on_a_new_connection_is_a_failure(receiver: Receiver, http: Http, fault: Fault) -> None:
    """It was taken and nobody said so: whoever sends it again sends the same id."""
    receiver.behave = always(Behaviour(fault=fault))
    failed = failure(http, post(receiver))
    assert failed.reason == f"{receiver.host} closed the connection without an answer"
    assert not failed.permanent
    assert len(receiver.requests) == 1


def test_a_kept_connection_that_dies_within_an_answer_is_not_tried_again(receiver: Receiver, http: Http) -> None:
    http.send(post(receiver))
    receiver.behave = always(Behaviour(raw=b"HTTP/1.1 200 OK\r\nContent-Le"))
    assert "broke off" in failure(http, post(receiver)).reason
    assert len(receiver.requests) == 2


def test_silence_on_a_kept_connection_is_not_tried_again(receiver: Receiver, http: Http) -> None:
    http.send(post(receiver))
    receiver.behave = always(Behaviour(fault=Fault.SILENCE))
    with within(PATIENCE * 0.9):
        failure(http, post(receiver, patience=PATIENCE))
    assert len(receiver.requests) == 2


# -------------------------------------------------------------------------------------------------------- deadlines


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(fault=Fault.SILENCE),
        Behaviour(delay=60),
        Behaviour(drip=0.05, drip_head=True, headers={"X-Long": "x" * 200}),
    ],
    ids=["silence", "late", "dripping headers"],
)
def test_a_receiver_that_dawdles_costs_no_more_than_the_patience(
    receiver: Receiver, http: Http, behaviour: Behaviour
) -> None:
    receiver.behave = always(behaviour)
    with within(PATIENCE * 0.9):
        failed = failure(http, post(receiver, patience=PATIENCE))
    assert failed.reason == f"{receiver.host} did not answer within 0.4 s"
    assert not failed.permanent


def test_endless_interim_answers_cost_no_more_than_the_patience(http: Http) -> None:
    def say_continue_forever(connection: socket.socket, stopped: threading.Event) -> None:
        connection.recv(65536)
        while not stopped.wait(0.02):
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    with raw_server(say_continue_forever) as port, within(PATIENCE * 0.9):
        failed = failure(http, HttpCall("POST", f"http://127.0.0.1:{port}/?{SECRET}", {}, b"x", PATIENCE))
    assert "did not answer within" in failed.reason


@pytest.mark.parametrize("slowly", [False, True], ids=["not at all", "slowly"])
def test_a_receiver_that_does_not_read_costs_no_more_than_the_patience(http: Http, slowly: bool) -> None:
    def read(connection: socket.socket, stopped: threading.Event) -> None:
        while not stopped.wait(0.01):
            if slowly:
                connection.recv(128 * 1024)

    with raw_server(read) as port, within(PATIENCE * 0.9):
        failure(http, HttpCall("POST", f"http://127.0.0.1:{port}/?{SECRET}", {}, b"x" * 60_000_000, PATIENCE))


def test_a_dripping_body_is_cut_when_time_is_over(receiver: Receiver, http: Http) -> None:
    """The status has come: the receiver took it, and sending it again would only double it."""
    receiver.behave = always(Behaviour(202, body=b"x" * 1000, drip=0.05))
    with within(0.9 * 1.5):
        answer = http.send(post(receiver, patience=1.5))  # so that its head has come by then
    assert (answer.status, answer.cut) == (202, True)
    assert 0 < len(answer.body) < 100
    receiver.behave = always(Behaviour())
    assert http.send(post(receiver)).status == 200
    assert receiver.requests[-1].connection == 2  # the other one is in the middle of something


def test_a_body_that_breaks_off_is_cut(receiver: Receiver, http: Http) -> None:
    receiver.behave = always(Behaviour(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"))
    answer = http.send(post(receiver))
    assert (answer.status, answer.body, answer.cut) == (200, b"half", True)


def test_no_time_at_all_is_no_call(receiver: Receiver, http: Http) -> None:
    failed = failure(http, post(receiver, patience=0))
    assert not failed.permanent
    assert receiver.requests == []


# ----------------------------------------------------------------------------------------------------------- bounds


def test_a_huge_body_is_cut_and_its_connection_closed(receiver: Receiver, http: Http) -> None:
    receiver.behave = always(Behaviour(body=b"x" * 20_000_000))
    answer = http.send(post(receiver))
    assert (answer.status, len(answer.body), answer.cut) == (200, 64 * 1024, True)
    http.send(post(receiver))
    assert [request.connection for request in receiver.requests] == [1, 2]


@pytest.mark.parametrize(("size", "cut"), [(99, False), (100, False), (101, True)])
def test_the_largest_body_is_kept_whole(receiver: Receiver, size: int, cut: bool) -> None:
    http = Http(CLOCK, None, largest=100)
    receiver.behave = always(Behaviour(body=b"x" * size))
    answer = http.send(post(receiver))
    assert (len(answer.body), answer.cut) == (min(size, 100), cut)
    http.close()


def test_endless_headers_are_no_answer(receiver: Receiver, http: Http) -> None:
    receiver.behave = always(Behaviour(headers={"X-Long": "x" * 1_000_000}))
    assert "not valid HTTP" in failure(http, post(receiver)).reason


@pytest.mark.parametrize("raw", [b"nonsense\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x16\x03\x01\x00\x00"])
def test_what_is_no_http_is_no_answer(receiver: Receiver, http: Http, raw: bytes) -> None:
    receiver.behave = always(Behaviour(raw=raw))
    failed = failure(http, post(receiver))
    assert "not valid HTTP" in failed.reason
    assert not failed.permanent


# --------------------------------------------------------------------------------------------------- out of reach


def test_a_port_where_nobody_listens(http: Http) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    failed = failure(http, HttpCall("POST", f"http://127.0.0.1:{port}/?{SECRET}", {}))
    assert failed.reason == f"127.0.0.1:{port} could not be reached: connection refused"
    assert not failed.permanent


def test_a_receiver_that_turns_connections_away(receiver: Receiver, http: Http) -> None:
    receiver.turn_away = True
    failed = failure(http, post(receiver))
    assert receiver.host in failed.reason
    assert not failed.permanent
    assert receiver.requests == []


def test_a_server_without_tls_is_no_https(http: Http) -> None:
    def answer(connection: socket.socket, stopped: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with raw_server(answer) as port:
        failed = failure(http, HttpCall("POST", f"https://127.0.0.1:{port}/?{SECRET}", {}))
    assert failed.reason == f"127.0.0.1:{port} could not be reached: no TLS connection could be made"


def test_a_server_that_dawdles_over_tls_costs_no_more_than_the_patience(http: Http) -> None:
    def drip(connection: socket.socket, stopped: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(b"\x16\x03\x03\x10\x00")  # a record of 4096 bytes is announced, and comes byte by byte
        while not stopped.wait(0.02):
            connection.sendall(b"\x02")

    with raw_server(drip) as port, within(PATIENCE * 0.9):
        failed = failure(http, HttpCall("POST", f"https://127.0.0.1:{port}/?{SECRET}", {}, b"", PATIENCE))
    assert "did not answer within" in failed.reason


def test_the_guard_stands_before_this_machine_too(receiver: Receiver) -> None:
    guarded, allowed = Http(CLOCK, Guard()), Http(CLOCK, Guard([f"127.0.0.1:{receiver.port}"]))
    failed = failure(guarded, post(receiver))
    assert failed.permanent
    assert "loopback" in failed.reason
    assert receiver.connections == 0
    assert allowed.send(post(receiver)).status == 200
    guarded.close()
    allowed.close()


# ---------------------------------------------------------------------------------------------------------- smuggling


@pytest.mark.parametrize(
    "headers",
    [
        {"X-A": "1\r\nX-B: 2"},
        {"X-A": "1\nX-B: 2"},
        {"X-A": "1\r"},
        {"X-A": "1\x00"},
        {"X-A": "\x1b[31m"},
        {"X-A": "\x7f"},
        {"X-A": "\ud800"},
        {"X-A\r\nX-B": "1"},
        {"X-A:": "1"},
        {"X A": "1"},
        {"": "1"},
        {"X-Ä": "1"},
        {"Host": "127.0.0.1"},
        {"host": "127.0.0.1"},
        {"Content-Length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"transfer-encoding": "chunked"},
        {"Connection": "upgrade"},
        {"Upgrade": "websocket"},
    ],
)
def test_a_header_that_would_be_more_than_a_header_is_refused(
    receiver: Receiver, http: Http, headers: Mapping[str, str]
) -> None:
    failed = failure(http, HttpCall("POST", f"{receiver.url}/?{SECRET}", {"Authorization": SECRET, **headers}))
    assert failed.permanent
    assert receiver.connections == 0


@pytest.mark.parametrize("method", ["", "get", "CONNECT", "TRACE", "GET /x HTTP/1.1\r\nX: y\r\n\r\nPOST", "FOO"])
def test_a_method_is_one_of_a_few(receiver: Receiver, http: Http, method: str) -> None:
    assert failure(http, HttpCall(method, receiver.url, {})).permanent
    assert receiver.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}@127.0.0.1/",
        f"http://127.0.0.1/ {SECRET}",
        f"http://127.0.0.1/?{SECRET}\r\nX: y",
        f"ftp://127.0.0.1/{SECRET}",
        f"{SECRET}://127.0.0.1/",
        f"http://[{SECRET}]/",
        f"http://127.0.0.1:{SECRET}/",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_being_quoted(http: Http, url: str) -> None:
    assert failure(http, HttpCall("POST", url, {})).permanent


def test_a_user_name_in_a_url_has_a_better_place(http: Http) -> None:
    assert "in a header" in failure(http, HttpCall("POST", f"https://me:{SECRET}@hooks.example.org/", {})).reason


def test_the_host_header_names_an_unusual_port_and_brackets_an_address() -> None:
    hosts = {
        "http://EXAMPLE.org": b"example.org",
        "http://example.org.:80/": b"example.org",
        "https://example.org:443": b"example.org",
        "https://example.org:80/": b"example.org:80",
        "http://[2606:4700::0001]/": b"[2606:4700::1]",
        "http://[2606:4700::1]:8080/": b"[2606:4700::1]:8080",
    }
    assert {url: dict(checked(HttpCall("GET", url, {})).headers)[b"Host"] for url in hosts} == hosts


# ---------------------------------------------------------------------------------------------- from URL to outcome


def deliver(hosts: Hosts, http: Http, call: HttpCall) -> Outcome:
    """As whoever delivers something puts the parts together."""
    host = read_url(call.url).origin

    def attempt() -> Tried:
        try:
            answer = http.send(call)
        except CallFailed as failed:
            return Tried(outcome_of_failure(failed), sign_of_failure(failed))
        return Tried(outcome_of(answer, {"topic": "ops"}, host), sign_of(answer))

    return hosts.pass_(host, attempt)


@pytest.mark.parametrize(
    ("behaviour", "after"),
    [
        (Behaviour(429, {"Retry-After": "3"}), 3 * SECOND),
        (
            Behaviour(
                503,
                {"Date": "Tue, 10 Feb 2026 12:00:00 GMT", "Retry-After": "Tue, 10 Feb 2026 12:00:30 GMT"},
            ),
            30 * SECOND,
        ),
        (Behaviour(500), 0),
    ],
)
def test_a_receiver_may_ask_for_patience(receiver: Receiver, http: Http, behaviour: Behaviour, after: int) -> None:
    receiver.behave = always(behaviour)
    outcome = deliver(Hosts(CLOCK, 4), http, post(receiver))
    assert isinstance(outcome, Retry)
    assert outcome.after == after


def test_a_delivery_ends_as_what_became_of_it(receiver: Receiver, http: Http) -> None:
    hosts = Hosts(CLOCK, 4)
    assert deliver(hosts, http, post(receiver)) == Completed('{"topic": "ops", "status": 200}')
    receiver.behave = always(Behaviour(404))
    gone = deliver(hosts, http, post(receiver))
    assert isinstance(gone, Failed)
    assert gone.permanent


def test_a_dead_receiver_is_soon_left_alone_and_429_keeps_it_alive(receiver: Receiver, http: Http) -> None:
    hosts = Hosts(CLOCK, 4)
    receiver.behave = always(Behaviour(429))
    for _ in range(10):
        deliver(hosts, http, post(receiver))
    receiver.behave = always(Behaviour(500))
    outcomes = [deliver(hosts, http, post(receiver)) for _ in range(8)]
    assert len(receiver.requests) == 15
    assert isinstance(outcomes[-1], Returned)
    assert 25 * SECOND < outcomes[-1].after <= 31 * SECOND
    assert "is not answering" in (outcomes[-1].reason or "")
    assert SECRET not in (outcomes[-1].reason or "")


def test_a_forbidden_address_stays_forbidden_however_often_it_is_tried(receiver: Receiver) -> None:
    http, hosts = Http(CLOCK, Guard()), Hosts(CLOCK, 4)
    outcomes = [deliver(hosts, http, post(receiver)) for _ in range(10)]
    assert all(isinstance(outcome, Failed) and outcome.permanent for outcome in outcomes)
    http.close()


def test_who_calls_nobody_does_not_load_the_library() -> None:
    program = """
import sys
from duetime.engine.clock import SystemClock
from duetime.net.ssrf_guard import Guard
from duetime.net.host_limits import Hosts
from duetime.net.client import Http
from duetime.net.outcomes import outcome_of
Http(SystemClock(), Guard()).close()
sys.exit("httpcore2" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


@contextmanager
def raw_server(serve: Callable[[socket.socket, threading.Event], Any]) -> Iterator[int]:
    """One connection, served as told until the block ends."""
    stopped = threading.Event()

    def accept() -> None:
        connection, _ = listening.accept()
        with connection:
            try:
                serve(connection, stopped)
            except OSError:
                pass  # the caller hung up, as it should

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=accept)
        serving.start()
        try:
            yield listening.getsockname()[1]
        finally:
            stopped.set()
            serving.join(30)
