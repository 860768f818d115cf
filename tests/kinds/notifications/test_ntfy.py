"""One attempt at an ntfy server that really listens: what arrives, what is kept, and what each failure becomes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from duetime.engine.clock import SECOND
from duetime.engine.outcome import Completed, Failed, Outcome, Retry, Returned
from duetime.kinds.notifications.channels.ntfy import CUT, NtfyServer
from tests.support.channels import FULL, delivery, outgoing, told
from tests.support.ntfy import NtfyReceiver
from tests.support.receiver import Behaviour, Fault

TOKEN = "tk_verysecret"


@pytest.fixture
def ntfy() -> Iterator[NtfyReceiver]:
    with NtfyReceiver(token=TOKEN) as made:
        yield made


def sent(ntfy: NtfyReceiver, prefix: str = "", token: str = TOKEN, **given: Any) -> Outcome:
    with delivery(NtfyServer(ntfy.url, prefix, token)) as made:
        return made.deliver(outgoing(**given))


def test_every_field_arrives_with_the_token_and_the_id(ntfy: NtfyReceiver) -> None:
    outcome = sent(ntfy, "x7Kq-", fields={**FULL, "label": "garden.daily"}, id_="scd_1.17")
    assert told(outcome) == {"channel": "ntfy", "receipt": "own-1", "status": 200}
    [publication] = ntfy.publications
    assert publication.fields == {**FULL, "topic": "x7Kq-home", "sequence_id": "scd_1-17"}
    assert publication.key == "scd_1.17"
    assert publication.request.headers["authorization"] == f"Bearer {TOKEN}"
    assert publication.request.headers["content-type"] == "application/json"


def test_without_a_token_none_is_sent() -> None:
    with NtfyReceiver() as ntfy:
        assert told(sent(ntfy, token=""))["channel"] == "ntfy"
        assert "authorization" not in ntfy.publications[0].request.headers


@pytest.mark.parametrize(
    "message",
    ["a" * 4097, "a" * 5000, "ä" * 3000, "🌱" * 2000, "a" * 4094 + "🌱🌱", '"\n' * 3000, "\x01" * 4096],
    ids=["by one", "ascii", "umlauts", "emoji", "emoji at the edge", "escaped", "escaped sixfold"],
)
def test_a_message_that_is_too_long_is_cut_and_says_so(ntfy: NtfyReceiver, message: str) -> None:
    assert told(sent(ntfy, message=message))["cut"] is True
    arrived = ntfy.publications[0]["message"]
    assert arrived.endswith(CUT)
    assert message.startswith(arrived.removesuffix(CUT)) and len(arrived) > 500


@pytest.mark.parametrize("message", ["a" * 4096, "ä" * 2048, "🌱" * 1024])
def test_a_message_that_just_fits_is_left_as_it_is(ntfy: NtfyReceiver, message: str) -> None:
    assert "cut" not in told(sent(ntfy, message=message))
    assert ntfy.publications[0]["message"] == message


def test_a_message_gives_way_to_its_other_fields(ntfy: NtfyReceiver) -> None:
    """The server reads so much of the whole and no more."""
    button = {"action": "view", "label": "Open", "url": f"https://example.org/{'a' * 2000}"}
    assert told(sent(ntfy, message="b" * 4096, actions=[button] * 3))["cut"] is True
    assert ntfy.publications[0]["actions"] == [button] * 3


@pytest.mark.parametrize(
    ("behaviour", "error", "after"),
    [
        (Behaviour(500), "answered 500 Internal Server Error", 0),
        (Behaviour(503, {"Retry-After": "7"}), "answered 503 Service Unavailable", 7 * SECOND),
        (Behaviour(429, {"Retry-After": "3"}), "answered 429 Too Many Requests", 3 * SECOND),
        (Behaviour(fault=Fault.SILENCE), "did not answer within 0.3 s", 0),
        (Behaviour(drip=0.05, drip_head=True), "did not answer within 0.3 s", 0),
        (Behaviour(fault=Fault.CLOSE), "closed the connection without an answer", 0),
        (Behaviour(fault=Fault.RESET), "closed the connection without an answer", 0),
        (Behaviour(raw=b"nonsense\r\n\r\n"), "its answer is not valid HTTP", 0),
        (
            Behaviour(200, {"Content-Type": "text/html"}, b"<h1>Sign in</h1>"),
            "answered with a page for people",
            0,
        ),
    ],
)
def test_what_may_pass_is_tried_again(ntfy: NtfyReceiver, behaviour: Behaviour, error: str, after: int) -> None:
    ntfy.misbehave = lambda request: behaviour
    outcome = sent(ntfy, patience=0.3 if "within 0.3 s" in error else 20.0)
    assert isinstance(outcome, Retry), outcome
    assert error in outcome.error and ntfy.host in outcome.error
    assert outcome.after == after


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413])
def test_what_will_not_pass_is_over(ntfy: NtfyReceiver, status: int) -> None:
    ntfy.misbehave = lambda request: Behaviour(status)
    outcome = sent(ntfy)
    assert isinstance(outcome, Failed) and outcome.permanent
    assert f"answered {status}" in outcome.error


def test_a_wrong_token_is_over_and_not_shown(ntfy: NtfyReceiver) -> None:
    outcome = sent(ntfy, token="tk_wrong")
    assert isinstance(outcome, Failed) and outcome.permanent
    assert "answered 401" in outcome.error and "credentials" in outcome.error
    assert "tk_wrong" not in outcome.error


@pytest.mark.parametrize(
    "body", [b"", b"OK", b"[1]", b'{"id": 7}', b"{" * 5000], ids=["none", "text", "list", "number", "deep"]
)
def test_an_answer_without_an_id_is_an_answer(ntfy: NtfyReceiver, body: bytes) -> None:
    ntfy.misbehave = lambda request: Behaviour(200, {}, body)
    assert told(sent(ntfy)) == {"channel": "ntfy", "status": 200}


def test_a_slow_body_does_not_undo_what_was_taken(ntfy: NtfyReceiver) -> None:
    ntfy.misbehave = lambda request: Behaviour(200, {}, b" " * 100 + b'{"id":"abc"}', drip=0.05)
    assert told(sent(ntfy, patience=1.5)) == {"channel": "ntfy", "status": 200}


def test_a_server_that_is_not_there_is_tried_again() -> None:
    with NtfyReceiver() as gone:
        pass
    outcome = sent(gone)
    assert isinstance(outcome, Retry) and "could not be reached" in outcome.error


def test_a_dead_server_is_left_alone_whatever_the_topic(ntfy: NtfyReceiver) -> None:
    ntfy.misbehave = lambda request: Behaviour(500)
    with delivery(NtfyServer(ntfy.url, "", TOKEN)) as made:
        for number in range(5):
            assert isinstance(made.deliver(outgoing(topic=f"topic-{number}")), Retry)
        assert isinstance(made.deliver(outgoing(topic="another")), Returned)
    assert len(ntfy.publications) == 5


def test_a_topic_that_ntfy_does_not_take_is_over(ntfy: NtfyReceiver) -> None:
    outcome = sent(ntfy, prefix="p" * 10, topic="a" * 55)
    assert isinstance(outcome, Failed) and outcome.permanent
    assert "at most 54 characters" in outcome.error and "pppp" not in outcome.error
    assert told(sent(ntfy, prefix="p" * 10, topic="a" * 54))["channel"] == "ntfy"


PROBLEMS: list[tuple[NtfyServer, str]] = [
    (NtfyServer("ntfy.sh"), "notifications.server: the address must begin with http:// or https://"),
    (NtfyServer("https://me:hush@ntfy.sh"), "notifications.server: the address holds a user name"),
    (NtfyServer("https://ntfy.sh/hush"), "notifications.server: give the server alone, https://ntfy.sh, without"),
    (NtfyServer("https://ntfy.sh", "hush/"), "notifications.prefix: at most 63 letters"),
    (NtfyServer("https://ntfy.sh", "h" * 64), "notifications.prefix: at most 63 letters"),
    (NtfyServer("https://ntfy.sh", token="hush\n"), "notifications.token holds characters that no token has"),
    (NtfyServer("https://ntfy.sh", token="hüsh"), "notifications.token holds characters that no token has"),
]


@pytest.mark.parametrize(("server", "said"), PROBLEMS)
def test_wrong_settings_are_named_and_fail_for_good(server: NtfyServer, said: str) -> None:
    with delivery(server) as made:
        [problem] = made.problems()
        assert problem.startswith(said) and "hush" not in problem
        assert made.deliver(outgoing()) == Failed(problem, permanent=True)


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}", "http://127.0.0.1:{port}/", "http://localhost:{port}"])
def test_an_address_of_the_operator_may_be_private(ntfy: NtfyReceiver, url: str) -> None:
    with delivery(NtfyServer(url.format(port=ntfy.port), token=TOKEN)) as made:
        assert made.problems() == []
        assert told(made.deliver(outgoing()))["receipt"] == "own-1"


def test_repeats_carry_the_same_id(ntfy: NtfyReceiver) -> None:
    ntfy.misbehave = lambda request: Behaviour(fault=Fault.CLOSE) if len(ntfy.requests) < 3 else None
    with delivery(NtfyServer(ntfy.url, token=TOKEN)) as made:
        outcomes = [made.deliver(outgoing()) for _ in range(3)]
    assert [type(outcome) for outcome in outcomes] == [Retry, Retry, Completed]
    assert {(each.key, each["sequence_id"]) for each in ntfy.publications} == {("msg_1", "msg_1")}
