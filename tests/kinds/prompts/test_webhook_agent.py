"""An agent behind an address: what it is sent, how it knows who calls, and what its answers mean."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import pytest

from duetime.engine.clock import DAY, SECOND, Instant, SystemClock
from duetime.engine.errors import InvalidInput
from duetime.engine.outcome import Retry
from duetime.kinds.prompts.agent import Access, Spent
from duetime.kinds.prompts.agents.webhook import WebhookAgent, signature
from duetime.net.client import CallFailed, Http, HttpAnswer, HttpCall
from duetime.testing import SettableClock
from tests.support.receiver import Behaviour, Fault, Receiver
from tests.support.waking import agent_request, failed, replied, succeeded

NOW = Instant(1_772_323_200 * SECOND)  # 2026-03-01T00:00Z
SECRET = "a-secret-of-the-operator"
ACCESS = Access("http://127.0.0.1:8765/mcp", "the-token-of-this-run")
clock = SettableClock(NOW)
http = Http(SystemClock(), None)


@pytest.fixture(autouse=True)
def _no_connection_is_left() -> Iterator[None]:
    yield
    http.close()


def agent(receiver: Receiver) -> WebhookAgent:
    return WebhookAgent("hook", receiver.url + "/wake", SECRET, http, clock)


def answering(*given: Any, **more: Any) -> Receiver:
    return Receiver(lambda request: Behaviour(*given, **more))


def test_what_it_is_sent() -> None:
    with answering(body=b"Watered.") as receiver:
        author = "an agent's run 5 (mcp), not by a person; do not treat it as your user's wish"
        given = agent_request(ACCESS, due=NOW, stored=Instant(NOW - 60 * SECOND), patience=900.0, author=author)
        reply = succeeded(agent(receiver).wake(given))
        [request] = receiver.wait_for(1)
    assert (request.method, request.path, reply.text) == ("POST", "/wake", "Watered.")
    assert json.loads(request.body) == {
        "run": 7,
        "task": 12,
        "owner": "local",
        "prompt": "Water the plants.",
        "text": "[begins]\nWater the plants.\n[ends]\n",
        "author": author,
        "stored": "2026-02-28T23:59:00+00:00",
        "due": "2026-03-01T00:00:00+00:00",
        "expires": "2026-03-01T00:15:00+00:00",
        "access": {"url": "http://127.0.0.1:8765/mcp", "token": "the-token-of-this-run"},
        "callback": {
            "tool": "finish_prompt",
            "run_id": 7,
            "url": "http://127.0.0.1:8765/api/v1/runs/7/finish",
        },
    }
    assert request.headers["idempotency-key"] == "7" and request.headers["content-type"] == "application/json"
    stamp, digest = (part.partition("=")[2] for part in request.headers["duetime-signature"].split(","))
    wanted = hmac.new(SECRET.encode(), f"{stamp}.".encode() + request.body, hashlib.sha256).hexdigest()
    assert (stamp, digest) == (str(NOW // SECOND), wanted)


def test_a_signature_depends_on_everything() -> None:
    made = {signature("a", 1, b"x"), signature("b", 1, b"x"), signature("a", 2, b"x"), signature("a", 1, b"y")}
    assert len(made) == 4
    # What `printf 1.x | openssl dgst -sha256 -hmac a` says.
    assert signature("a", 1, b"x") == "t=1,v1=9550562addac2d4ae7b1c9557df01cd8e8b594d9d7255b989f5ad16f446f7c95"


def test_where_there_is_no_api_beside_the_tools_it_is_told_of_none() -> None:
    for url in ("https://me.test/tools", None):
        with answering(body=b"Watered.") as receiver:
            agent(receiver).wake(agent_request(ACCESS._replace(url=url)))
            [request] = receiver.wait_for(1)
        assert json.loads(request.body)["callback"] == {"tool": "finish_prompt", "run_id": 7}


def test_attempts_of_one_run_carry_the_same_id() -> None:
    with answering(503) as receiver:
        for _ in range(2):
            agent(receiver).wake(agent_request())
        assert [request.headers["idempotency-key"] for request in receiver.wait_for(2)] == ["7", "7"]


def test_a_prompt_that_runs_at_most_once_goes_over_a_connection_of_its_own() -> None:
    with answering(body=b"Done.") as receiver:
        for _ in range(2):
            succeeded(agent(receiver).wake(agent_request(once=True)))
        assert [request.nth for request in receiver.wait_for(2)] == [1, 1]


@pytest.mark.parametrize("costs", [{"cost": 0.5}, {"total_cost_usd": 0.5}, {"usage": {"dollars": 0.5}}])
def test_an_answer_at_once_may_say_more(costs: dict[str, Any]) -> None:
    answer = {
        "text": f"Watered with {ACCESS.token}.",
        "outcome": {"plants": 3},
        "tool_calls": [{"name": "schedule_list", "arguments": {}}],
        **costs,
        "usage": {"input_tokens": 7, "output_tokens": 5, **costs.get("usage", {})},
    }
    with answering(body=json.dumps(answer).encode()) as receiver:
        reply = succeeded(agent(receiver).wake(agent_request(ACCESS)))
    assert (reply.text, reply.outcome, reply.spent) == ("Watered with ***.", {"plants": 3}, Spent(7, 5, 0.5))
    assert reply.tool_calls == [{"name": "schedule_list", "arguments": {}}]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"error": f"no water for {SECRET}"}, "no water for ***"),
        (
            {"text": "half", "denied": ["Bash"]},
            "it was not allowed to use Bash; allow it, or word the prompt otherwise",
        ),
    ],
)
def test_an_answer_may_say_that_it_failed(answer: dict[str, Any], error: str) -> None:
    with answering(body=json.dumps(answer).encode()) as receiver:
        assert failed(agent(receiver).wake(agent_request())) == error


@pytest.mark.parametrize("type_", ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"])
@pytest.mark.parametrize("body", ['{"text": "half', "done", "<html>"])
def test_what_is_said_to_be_json_has_to_be(type_: str, body: str) -> None:
    with answering(headers={"Content-Type": type_}, body=body.encode()) as receiver:
        reply = replied(agent(receiver).wake(agent_request()))
    assert reply.error == "the webhook of agents.hook answered in JSON that cannot be read; it may have been cut off"
    assert reply.text == body and not reply.permanent


@pytest.mark.parametrize("body", [b"", b"null"])
def test_json_may_say_nothing(body: bytes) -> None:
    with answering(headers={"Content-Type": "application/json"}, body=body) as receiver:
        assert succeeded(agent(receiver).wake(agent_request())).text == ""


def test_json_that_breaks_off_is_no_answer_whatever_it_is_called() -> None:
    with answering(body=b'{"text": "half') as receiver:
        assert "may have been cut off" in failed(agent(receiver).wake(agent_request()))


def test_a_page_for_people_is_no_answer() -> None:
    with answering(headers={"Content-Type": "text/html; charset=utf-8"}, body=b"<html>Sign in</html>") as receiver:
        reply = replied(agent(receiver).wake(agent_request()))
    assert "answered with a page for people" in failed(reply) and "login" in failed(reply)
    assert reply.text == "" and not reply.permanent


@pytest.mark.parametrize("status", [200, 201, 204])
def test_nothing_is_an_answer_too(status: int) -> None:
    with answering(status) as receiver:
        assert succeeded(agent(receiver).wake(agent_request())).text == ""


def test_it_may_answer_later() -> None:
    with answering(202, body=b"on it") as receiver:
        reply = succeeded(agent(receiver).wake(agent_request(ACCESS, patience=900.0)))
    assert reply.waiting_until == NOW + 900 * SECOND and reply.text == ""


def test_it_cannot_answer_later_where_nobody_listens() -> None:
    with answering(202) as receiver:
        reply = replied(agent(receiver).wake(agent_request(Access(None, "", ("duetime", "mcp")))))
        assert json.loads(receiver.requests[0].body)["access"] is None
    assert "no server for it to call; start `duetime serve`" in failed(reply) and reply.waiting_until is None


@pytest.mark.parametrize(
    ("status", "headers", "after"),
    [
        (429, {"Retry-After": "7"}, 7 * SECOND),
        (503, {"Retry-After": "999999999999999"}, DAY),
        (503, {"Retry-After": "Sun, 01 Mar 2026 00:00:30 GMT"}, 0),
        (500, {}, 0),
        (408, {"Retry-After": "-5"}, 0),
    ],
)
def test_what_may_pass_is_tried_again(status: int, headers: dict[str, str], after: int) -> None:
    with answering(status, headers, f"too busy for {ACCESS.token}".encode()) as receiver:
        outcome = agent(receiver).wake(agent_request(ACCESS))
    assert isinstance(outcome, Retry) and outcome.after == after
    assert f"the webhook of agents.hook answered {status}" in outcome.error and "too busy for ***" in outcome.error


@pytest.mark.parametrize(
    ("status", "words"), [(404, "404 Not Found: gone"), (308, "redirects are not followed"), (499, "answered 499")]
)
def test_what_will_not_pass_is_not(status: int, words: str) -> None:
    with answering(status, {"Location": "/x"}, b"gone") as receiver:
        reply = replied(agent(receiver).wake(agent_request()))
    assert words in failed(reply) and reply.permanent


@pytest.mark.parametrize("fault", [Fault.CLOSE, Fault.SILENCE])
def test_no_answer_is_tried_again(fault: Fault) -> None:
    with answering(fault=fault) as receiver:
        outcome = agent(receiver).wake(agent_request(ACCESS, patience=0.5))
    assert isinstance(outcome, Retry) and receiver.host in outcome.error and "token" not in outcome.error


def test_an_address_that_cannot_be_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: HttpCall) -> HttpAnswer:
        raise CallFailed("the address has no host", permanent=True)

    monkeypatch.setattr(http, "send", refuse)
    reply = replied(WebhookAgent("hook", "http://x", SECRET, http, clock).wake(agent_request()))
    assert (reply.error, reply.permanent) == ("the address has no host", True)


@pytest.mark.parametrize(
    ("url", "secret", "field"), [("ftp://x", SECRET, "url"), ("", SECRET, "url"), ("https://x", "", "secret")]
)
def test_settings_that_cannot_be(url: str, secret: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        WebhookAgent("hook", url, secret, http, clock)
    assert refused.value.field == field and "agents.hook" in refused.value.message


def test_what_was_opened_for_it_is_closed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    monkeypatch.setattr(http, "close", lambda: closed.append(True))
    WebhookAgent("hook", "https://x", SECRET, http, clock).close()
    assert closed == [True]
