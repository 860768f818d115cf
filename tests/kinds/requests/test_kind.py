"""What a request may hold, what is sent at each attempt, and what an answer means for it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jwt
import pytest
from qstash import Receiver as Verifier
from qstash.errors import SignatureError

from duetime.engine.clock import DAY, MINUTE, SECOND, Instant, SystemClock
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller, StopReason, StopSignal, Work
from duetime.engine.model import RunId, RunStatus, Schedule, ScheduleId
from duetime.engine.outcome import Cancelled, Completed, Failed, Outcome, Retry, Returned
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.options import Policy, policy_from_json
from duetime.engine.policy.rows import begin, new_run
from duetime.engine.scheduler import Scheduler
from duetime.engine.validation import Changes, NewSchedule
from duetime.kinds.requests.kind import KEPT, KEPT_FOR_CALLBACK, RequestKind
from duetime.kinds.requests.sender import Requests
from duetime.kinds.requests.wire import Outgoing, body_of, dlq_id, failed_run, message_id, schedule_and_run
from duetime.net.client import Http
from duetime.net.host_limits import Hosts
from duetime.net.ssrf_guard import Guard
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import SettableClock
from tests.support.dialling import NOBODY, Dialler
from tests.support.drafts import T0, every, once
from tests.support.qstash import PlayedRequester
from tests.support.receiver import Behaviour, Fault, Receiver

ANN = Caller("ann")
PLAIN = {"method": "POST", "url": "https://a.example/hook"}
FULL = {
    "method": "PUT",
    "url": "https://a.example:8443/x//y?q=%20",
    "headers": {"Content-Type": "text/plain", "X-A": "1"},
    "body": "hello",
    "label": "daily,report",
    "retries": 0,
    "retry_delay": "1000 * (1 + retried)",
    "timeout": 30,
    "delay": 5,
    "cron": "CRON_TZ=Europe/Berlin 0 9 * * *",
    "id": "my.schedule_1-a",
    "callback": "https://b.example/callback",
    "callback_headers": {"X-B": "2"},
    "failure_callback": "http://c.example",
    "failure_callback_headers": {},
    "redact": ["body", "headers", "header[X-A]"],
}


@pytest.fixture
def requester() -> PlayedRequester:
    return PlayedRequester()


@pytest.fixture
def kind(requester: PlayedRequester) -> RequestKind:
    return RequestKind(requester, SettableClock(T0))


def work(
    payload: Mapping[str, Any], *, attempt: int = 1, public_id: str = "msg_1", deaths: int = 0, **policy: Any
) -> Work:
    made = once if public_id.startswith("msg_") else every
    draft = made(kind="request", payload=json.dumps(payload), public_id=public_id, **policy)
    definition = begin(draft, ScheduleId(1))[0]
    run = new_run(RunId(7), definition, T0, RunStatus.RUNNING)._replace(attempt=attempt, deaths=deaths)
    return Work(Claim(run, definition, T0), StopSignal(), lambda text: None)


def sent(kind: RequestKind, requester: PlayedRequester, work: Work) -> Outgoing:
    assert isinstance(kind.execute(work), Completed)
    return requester.sent[-1]


# -- what it may hold -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [PLAIN, FULL], ids=["plain", "full"])
def test_what_is_right_is_kept_as_it_is(kind: RequestKind, payload: dict[str, Any]) -> None:
    assert kind.prepare(payload, ANN).payload == payload


def test_it_is_filed_under_its_label_or_its_host(kind: RequestKind) -> None:
    assert kind.prepare(FULL, ANN).subject == "daily,report"
    assert kind.prepare(PLAIN, ANN).subject == "a.example"
    assert kind.prepare({"url": "https://a.example", "label": None}, ANN).payload == {
        "method": "POST",
        "url": "https://a.example",
    }


WRONG: list[tuple[str, Any]] = [
    ("url", None),
    ("url", 7),
    ("url", "ftp://a.example"),
    ("url", "a.example"),
    ("callback", "file:///etc/passwd"),
    ("failure_callback", 7),
    ("method", "TRACE"),
    ("method", "post"),
    ("method", ["POST"]),
    ("headers", "X-A: 1"),
    ("headers", {"X A": "1"}),
    ("headers", {"": "1"}),
    ("headers", {"X-A": "a\r\nX-B: b"}),
    ("headers", {"X-A": "a\x00"}),
    ("headers", {"X-A": "\ud800"}),
    ("headers", {"X-A": 1}),
    ("headers", {"Host": "b.example"}),
    ("headers", {"content-length": "3"}),
    ("headers", {"Transfer-Encoding": "chunked"}),
    ("headers", {f"X-{number}": "" for number in range(101)}),
    ("headers", {"X-A": "x" * 40_000}),
    ("callback_headers", {"Host": "b.example"}),
    ("body", b"bytes"),
    ("body", "a\x00b"),
    ("body_base64", "no base64!"),
    ("body_base64", 7),
    ("label", ""),
    ("label", "a\nb"),
    ("label", "x" * 201),
    ("retries", -1),
    ("retries", 100),
    ("retries", "3"),
    ("retries", True),
    ("retry_delay", "soon"),
    ("retry_delay", 1000),
    ("timeout", 0),
    ("timeout", 7201),
    ("delay", -1),
    ("delay", 365 * 86_400 + 1),
    ("id", "a/b"),
    ("id", ""),
    ("redact", "body"),
    ("redact", ["everything"]),
    ("redact", ["header[a b]"]),
    ("about", {"run": 1}),
    ("colour", "red"),
]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_what_is_wrong_is_refused_with_its_name(kind: RequestKind, field: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        kind.prepare({**PLAIN, field: value}, ANN)
    assert refused.value.field == field
    assert refused.value.message.startswith(f"{field}: ")


def test_a_request_has_one_body(kind: RequestKind) -> None:
    with pytest.raises(InvalidInput, match="one body"):
        kind.prepare({**PLAIN, "body": "a", "body_base64": "YQ=="}, ANN)


CARRYING = {"url": "https://a.example/", "method": "PUT", "label": "l", "body": "hush", "headers": {"X": "hush"}}


@pytest.fixture
def scheduler(kind: RequestKind) -> Iterator[Scheduler]:
    store = SqliteStore(":memory:")
    store.migrate()
    yield Scheduler(store, {"request": kind}, SystemClock())
    store.close()


def policy_of(result: Schedule) -> Policy:
    return policy_from_json(result.definition.policy)


def test_whoever_makes_it_its_retries_and_callbacks_count(scheduler: Scheduler) -> None:
    """Not only where QStash's API is spoken: a callback that is stored and never called would be a lie."""
    given = {**PLAIN, "retries": 1, "callback": "https://b.example/cb", "callback_headers": {"X-B": "2"}}
    made = scheduler.create(ANN, NewSchedule("request", "call", "interval", {"hours": 1}, given))
    policy = policy_of(made)
    assert policy.max_attempts == 2
    [callback] = policy.callbacks
    assert (callback.on, callback.kind, callback.policy["max_attempts"]) == ("always", "request", 2)
    assert callback.payload == {"method": "POST", "url": "https://b.example/cb", "headers": {"X-B": "2"}, "retries": 1}


def test_an_edit_of_a_request_changes_what_follows_it(scheduler: Scheduler) -> None:
    given = {**PLAIN, "callback": "https://b.example/cb"}
    made = scheduler.create(ANN, NewSchedule("request", "call", "interval", {"hours": 1}, given, {"max_attempts": 7}))
    id = made.definition.public_id
    same = policy_of(scheduler.edit(ANN, id, Changes(payload={**given, "body": "hello"})))
    assert same == policy_of(made), "what somebody chose stays, as long as nothing else is asked for"
    other = {**PLAIN, "retries": 0, "failure_callback": "https://c.example/cb"}
    policy = policy_of(scheduler.edit(ANN, id, Changes(payload=other)))
    assert policy.max_attempts == 1
    assert [(each.on, each.payload["url"]) for each in policy.callbacks] == [("failure", "https://c.example/cb")]
    assert policy_of(scheduler.edit(ANN, id, Changes(payload=PLAIN))).callbacks == ()


def test_ids_cannot_be_guessed_and_say_how_often_it_fires(kind: RequestKind) -> None:
    ids = [kind.public_id(T0, type_) for type_ in ("once", "once", "cron", "interval")]
    assert [id.partition("_")[0] for id in ids] == ["msg", "msg", "scd", "scd"]
    assert len({*ids}) == 4
    assert all(len(id) == 36 for id in ids)


def test_ids_of_messages_lead_back_to_their_runs() -> None:
    schedule = "scd_" + "0a" * 16
    assert message_id("msg_1", 7) == "msg_1"
    assert schedule_and_run(message_id(schedule, 7)) == (schedule, 7)
    assert failed_run(dlq_id(7)) == 7
    for other in ("msg_1", "msg_" + "0a" * 16, "scd_1_2", "msg_" + "0a" * 16 + "_x", ""):
        assert schedule_and_run(other) is None
        assert failed_run(other) is None


# -- what is sent -----------------------------------------------------------------------------------------------


def test_everything_given_is_sent(kind: RequestKind, requester: PlayedRequester) -> None:
    outgoing = sent(kind, requester, work({**FULL, "delay": 0}))
    assert outgoing[:4] == ("msg_1", "ada", "PUT", FULL["url"])
    assert outgoing.body == b"hello"
    assert outgoing.patience == 30
    assert outgoing.headers == {
        "Content-Type": "text/plain",
        "X-A": "1",
        "Upstash-Message-Id": "msg_1",
        "Upstash-Retried": "0",
        "Upstash-Label": "daily,report",
    }


def test_bytes_are_sent_as_they_were(kind: RequestKind, requester: PlayedRequester) -> None:
    raw = bytes(range(256))
    outgoing = sent(kind, requester, work({**PLAIN, "body_base64": base64.b64encode(raw).decode()}))
    assert outgoing.body == raw


def test_each_attempt_has_the_same_id_and_its_number(kind: RequestKind, requester: PlayedRequester) -> None:
    attempts = [sent(kind, requester, work(PLAIN, attempt=number)) for number in (1, 2, 3)]
    assert {each.id for each in attempts} == {"msg_1"}
    assert [each.headers["Upstash-Retried"] for each in attempts] == ["0", "1", "2"]


def test_an_occurrence_of_a_schedule_is_a_message_of_its_own(kind: RequestKind, requester: PlayedRequester) -> None:
    schedule = "scd_" + "0a" * 16
    outgoing = sent(kind, requester, work(PLAIN, public_id=schedule))
    assert outgoing.headers["Upstash-Message-Id"] == outgoing.id == f"msg_{'0a' * 16}_7"
    assert outgoing.headers["Upstash-Schedule-Id"] == schedule
    named = sent(kind, requester, work({**PLAIN, "id": "daily"}, public_id=schedule))
    assert named.headers["Upstash-Schedule-Id"] == "daily"


def test_nobody_forwards_headers_of_ours(kind: RequestKind, requester: PlayedRequester) -> None:
    forged = {"upstash-message-id": "msg_2", "UPSTASH-RETRIED": "9", "upstash-schedule-id": "x", "X-A": "1"}
    outgoing = sent(kind, requester, work({**PLAIN, "headers": forged}))
    assert outgoing.headers == {"X-A": "1", "Upstash-Message-Id": "msg_1", "Upstash-Retried": "0"}


def test_the_formula_says_when_it_is_tried_again(kind: RequestKind, requester: PlayedRequester) -> None:
    formula = {**PLAIN, "retry_delay": "1000 * (1 + retried)"}
    delay = sent(kind, requester, work(formula)).again
    assert [delay(failed_before) for failed_before in (0, 1, 2)] == [SECOND, 2 * SECOND, 3 * SECOND]
    usual = sent(kind, requester, work(PLAIN)).again
    assert usual(0) // SECOND == 12


def test_only_callbacks_make_an_answer_worth_keeping_whole(kind: RequestKind, requester: PlayedRequester) -> None:
    assert sent(kind, requester, work(PLAIN)).max_kept == KEPT
    callback = {"on": "always", "kind": "request", "payload": PLAIN}
    assert sent(kind, requester, work(PLAIN, callbacks=[callback])).max_kept == KEPT_FOR_CALLBACK


def test_what_was_taken_back_does_not_go_out(kind: RequestKind, requester: PlayedRequester) -> None:
    taken_back, stopping = work(PLAIN), work(PLAIN)
    taken_back.stop.set(StopReason.CANCELLED)
    stopping.stop.set(StopReason.SHUTDOWN)
    assert isinstance(kind.execute(taken_back), Cancelled)
    assert kind.execute(stopping) == Returned()
    assert requester.sent == []


def test_a_delay_is_waited_for_without_counting_an_attempt(requester: PlayedRequester) -> None:
    clock = SettableClock(T0)
    kind = RequestKind(requester, clock)
    assert kind.execute(work({**PLAIN, "delay": 5})) == Returned(after=5 * SECOND)
    clock.move_to(Instant(T0 + 5 * SECOND))
    assert isinstance(kind.execute(work({**PLAIN, "delay": 5})), Completed)


# -- callbacks --------------------------------------------------------------------------------------------------


def about(**changes: Any) -> dict[str, Any]:
    source = {**FULL, "retries": 2}
    answer = {"status": 201, "header": {"x": ["y"]}, "body": "b2s=", "cut": False}
    return {
        "run": 7,
        "schedule": "scd_" + "0a" * 16,
        "status": "completed",
        "attempt": 2,
        "due": T0,
        "created": T0 - DAY,
        "payload": json.dumps(source),
        "result": json.dumps(answer),
        "error": None,
        **changes,
    }


def test_a_callback_tells_what_became_of_its_message(kind: RequestKind, requester: PlayedRequester) -> None:
    outgoing = sent(kind, requester, work({**PLAIN, "headers": {"content-type": "x"}, "about": about()}))
    assert outgoing.headers["Content-Type"] == "application/json"
    assert "content-type" not in outgoing.headers
    assert json.loads(outgoing.body) == {
        "status": 201,
        "header": {"x": ["y"]},
        "body": "b2s=",
        "retried": 1,
        "maxRetries": 2,
        "sourceMessageId": f"msg_{'0a' * 16}_7",
        "url": FULL["url"],
        "method": "PUT",
        "sourceHeader": {"Content-Type": ["text/plain"], "X-A": ["1"]},
        "sourceBody": base64.b64encode(b"hello").decode(),
        "notBefore": T0 // 1000,
        "createdAt": (T0 - DAY) // 1000,
        "scheduleId": "my.schedule_1-a",
    }


def test_a_callback_of_a_lost_run_names_no_message_of_the_dlq() -> None:
    told = json.loads(body_of({"about": about(status="lost", result=None, error="its worker died")}))
    assert "dlqId" not in told
    assert base64.b64decode(told["body"]) == b"its worker died"


def test_a_callback_of_a_failure_names_it_and_says_why() -> None:
    told = json.loads(body_of({"about": about(status="failed", result=None, error="nobody answered")}))
    assert told["dlqId"] == "dlq_7"
    assert told["status"] == 0
    assert base64.b64decode(told["body"]) == b"nobody answered"


@pytest.mark.parametrize(
    ("name", "payload", "kept"),
    [
        ("request", json.dumps(CARRYING), {"url": "https://a.example/", "method": "PUT", "label": "l"}),
        ("request", "{", None),  # as nobody but a database shell writes it
        ("request", "[]", None),
        ("of another version", json.dumps(CARRYING), None),
    ],
)
def test_what_is_kept_of_a_deleted_request_says_where_it_went_and_not_what_it_carried(
    scheduler: Scheduler, name: str, payload: str, kept: Any
) -> None:
    made = scheduler.store.create([once(kind=name, payload=payload, owner=ANN.owner)])
    definition = made[0].schedule.definition
    scheduler.delete(ANN, definition.public_id)
    left = scheduler.store.get(definition.id)
    assert left is not None and json.loads(left.definition.payload) == kept


# -- what an answer means ---------------------------------------------------------------------------------------


@contextmanager
def requests(allowed: tuple[str, ...] = ("127.0.0.1",), key: str = "k" * 40, **more: Any) -> Iterator[Requests]:
    clock = SystemClock()
    http = Http(clock, Guard(allowed), **more)
    made = Requests(clock, http, Hosts(clock, 8), lambda owner: f"{key}{owner}")
    try:
        yield made
    finally:
        made.close()


def _delay(failed_before: int) -> int:
    return 12 * SECOND + failed_before


def outgoing(url: str, body: bytes = b"hi", patience: float = 5.0, kept: int = 1000, owner: str = "ada") -> Outgoing:
    return Outgoing("msg_1", owner, "POST", url, {"X-A": "1"}, body, patience, _delay, kept)


def told(outcome: Outcome) -> Any:
    assert isinstance(outcome, Completed | Failed | Retry)
    return json.loads(outcome.result or "null")


def test_a_request_that_runs_at_most_once_is_never_sent_twice(kind: RequestKind, requester: PlayedRequester) -> None:
    made = sent(kind, requester, work(PLAIN, at_most_once=True))
    assert made.once and not sent(kind, requester, work(PLAIN)).once
    losing = Receiver(lambda request: Behaviour(fault=Fault.CLOSE if request.nth > 1 else None))
    with losing as receiver, requests() as sending:
        outcomes = [sending.send(made._replace(url=receiver.url)) for _ in range(2)]
    assert [type(each) for each in outcomes] == [Completed, Completed]
    assert [request.nth for request in receiver.requests] == [1, 1], "never over a kept connection"


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_2xx_is_delivered(status: int) -> None:
    with Receiver(lambda request: Behaviour(status, {"X-B": "2"}, b"" if status == 204 else b"ok")) as receiver:
        with requests() as sending:
            outcome = sending.send(outgoing(receiver.url + "/x//y?q=%20"))
        [request] = receiver.requests
    assert isinstance(outcome, Completed)
    assert told(outcome)["status"] == status
    assert told(outcome)["header"]["x-b"] == ["2"]
    assert (request.method, request.target, request.headers["x-a"]) == ("POST", "/x//y?q=%20", "1")


@pytest.mark.parametrize("status", [301, 400, 401, 404, 408, 410, 422, 429, 489, 500, 503])
def test_everything_else_is_tried_again(status: int) -> None:
    refusing = Behaviour(status, {"Location": "http://127.0.0.1:1/"}, b"no")
    with Receiver(lambda request: refusing) as receiver, requests() as sending:
        outcome = sending.send(outgoing(receiver.url + "/?token=secret"))
    assert isinstance(outcome, Retry)
    assert outcome.after is _delay
    assert outcome.error.startswith(f"{receiver.host} answered {status}")
    assert (told(outcome)["status"], base64.b64decode(told(outcome)["body"])) == (status, b"no")


@pytest.mark.parametrize(
    ("headers", "after"),
    [
        ({"Retry-After": "0"}, 0),
        ({"Retry-After": "3"}, 3 * SECOND),
        ({"Retry-After": "6m5s"}, 6 * MINUTE + 5 * SECOND),
        ({"Retry-After": "9999999"}, DAY),
        ({"Retry-After": "Tue, 10 Feb 2026 12:00:30 GMT", "Date": "Tue, 10 Feb 2026 12:00:00 GMT"}, 30 * SECOND),
        ({"X-RateLimit-Reset": "7"}, 7 * SECOND),
        ({"X-RateLimit-Reset-Tokens": "1m"}, MINUTE),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, None),
    ],
)
def test_a_receiver_may_say_when(headers: dict[str, str], after: int | None) -> None:
    with Receiver(lambda request: Behaviour(429, headers)) as receiver, requests() as sending:
        outcome = sending.send(outgoing(receiver.url))
    assert isinstance(outcome, Retry)
    assert outcome.after == (_delay if after is None else after)


def test_a_receiver_may_say_never() -> None:
    headers = {"Upstash-NonRetryable-Error": "true"}
    with Receiver(lambda request: Behaviour(489, headers, b"bad order")) as receiver, requests() as sending:
        outcome = sending.send(outgoing(receiver.url))
    assert isinstance(outcome, Failed)
    assert outcome.permanent
    assert base64.b64decode(told(outcome)["body"]) == b"bad order"


@pytest.mark.parametrize(("status", "said"), [(489, "false"), (489, ""), (400, "true"), (503, "true")])
def test_only_both_together_mean_never(status: int, said: str) -> None:
    behaviour = Behaviour(status, {"Upstash-NonRetryable-Error": said})
    with Receiver(lambda request: behaviour) as receiver, requests() as sending:
        assert isinstance(sending.send(outgoing(receiver.url)), Retry)


def test_a_long_answer_is_kept_in_part() -> None:
    behaviour = Behaviour(headers={f"X-{number}": "y" * 1000 for number in range(20)}, body=b"x" * 5000)
    with Receiver(lambda request: behaviour) as receiver, requests() as sending:
        answer = told(sending.send(outgoing(receiver.url, kept=100)))
    assert base64.b64decode(answer["body"]) == b"x" * 100
    assert answer["cut"] is True
    assert 5 < len(answer["header"]) < 10


@pytest.mark.parametrize("fault", [Fault.SILENCE, Fault.CLOSE, Fault.RESET])
def test_without_an_answer_it_is_tried_again_by_its_own_formula(fault: Fault) -> None:
    with Receiver(lambda request: Behaviour(fault=fault)) as receiver, requests() as sending:
        outcome = sending.send(outgoing(receiver.url + "/?token=secret", patience=0.3))
    assert isinstance(outcome, Retry)
    assert outcome.after is _delay
    assert receiver.host in outcome.error
    assert "secret" not in outcome.error


def test_a_host_that_is_dead_is_left_alone_and_nobody_pays_for_it() -> None:
    with Receiver(lambda request: Behaviour(fault=Fault.CLOSE)) as receiver, requests() as sending:
        for _ in range(5):
            sending.send(outgoing(receiver.url))
        outcome = sending.send(outgoing(receiver.url))
    assert isinstance(outcome, Returned)
    assert "is not answering" in (outcome.reason or "")
    assert len(receiver.requests) == 5


def test_a_dead_host_is_left_alone_by_every_owner_and_no_other_host_is() -> None:
    with Receiver(lambda request: Behaviour(fault=Fault.CLOSE)) as dead, Receiver() as alive, requests() as sending:
        for _ in range(5):
            sending.send(outgoing(dead.url))
        assert isinstance(sending.send(outgoing(dead.url, owner="bob")), Returned)
        assert isinstance(sending.send(outgoing(alive.url)), Completed)
    assert len(dead.requests) == 5


@pytest.mark.parametrize("status", [500, 503])
def test_a_path_that_is_broken_closes_no_other(status: int) -> None:
    """One owner's broken handler, and another one's that works, are often at the same host."""
    broken = Behaviour(status)
    with Receiver() as receiver, requests() as sending:
        receiver.behave = lambda request: broken if request.path == "/broken" else Behaviour()
        for _ in range(10):
            assert isinstance(sending.send(outgoing(f"{receiver.url}/broken")), Retry)
        assert isinstance(sending.send(outgoing(f"{receiver.url}/good")), Completed)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/",
        "http://localhost/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://0.0.0.0/",
        "http://2130706433/",
        "https://user:password@a.example/",
        "nonsense",
    ],
)
def test_nothing_private_is_ever_dialled(url: str) -> None:
    dialler = Dialler()
    with requests(allowed=(), dialler=dialler, trust=NOBODY) as sending:
        outcome = sending.send(outgoing(url))
    assert isinstance(outcome, Failed)
    assert outcome.permanent
    assert dialler.dialled == []
    assert "password" not in outcome.error


def test_a_url_that_cannot_be_called_is_refused_beforehand(kind: RequestKind) -> None:
    assert kind.prepare({"url": "https://A.example:8443/x"}, Caller("ada")).subject == "a.example"
    with pytest.raises(InvalidInput):
        kind.prepare({"url": "https://user:password@a.example/"}, Caller("ada"))


# -- signatures -------------------------------------------------------------------------------------------------


def test_the_receiver_can_check_who_sent_what_to_where() -> None:
    with Receiver() as receiver, requests() as sending:
        url = receiver.url + "/x?y=1"
        sending.send(outgoing(url, body=b'{"a": 1}')._replace(headers={"upstash-signature": "forged"}))
        [request] = receiver.requests
    assert b"forged" not in request.head
    signature, body = request.headers["upstash-signature"], request.body.decode()
    mine = Verifier("k" * 40 + "ada", "next" * 10)
    mine.verify(signature=signature, body=body, url=url)
    Verifier("old" * 20, "k" * 40 + "ada").verify(signature=signature, body=body)
    for changed, elsewhere in ((body + " ", url), (body, url + "2")):
        with pytest.raises(SignatureError):
            mine.verify(signature=signature, body=changed, url=elsewhere)
    with pytest.raises(SignatureError):
        Verifier("k" * 40 + "bob", "next" * 10).verify(signature=signature, body=body, url=url)


def test_a_signature_is_soon_too_old_and_no_two_are_the_same() -> None:
    with Receiver() as receiver, requests() as sending:
        for _ in range(2):
            sending.send(outgoing(receiver.url))
        signatures = [request.headers["upstash-signature"] for request in receiver.requests]
    first, second = (jwt.decode(each, "k" * 40 + "ada", ["HS256"]) for each in signatures)
    assert first["exp"] - first["iat"] == 300 and first["nbf"] == first["iat"]
    assert first["jti"] != second["jti"]
