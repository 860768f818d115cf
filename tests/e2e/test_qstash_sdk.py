"""The real QStash SDK, unchanged, against a real `duetime serve`, with deliveries to a real receiver."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import anyio
import pytest
from qstash import AsyncQStash, QStash
from qstash import Receiver as Verifier
from qstash.dlq import DlqMessage
from qstash.errors import QStashError, SignatureError
from qstash.log import LogFilter, LogState
from qstash.message import BatchResponse, PublishResponse
from qstash.schedule import ScheduleState

from duetime.engine.clock import SECOND, SystemClock
from duetime.security.private_files import load_secret
from tests.support.agents import Served, serving
from tests.support.receiver import Behaviour, Receiver, Request
from tests.support.settings import write_trusted
from tests.support.tokens import MemoryRevocations, tokens_with
from tests.support.workers import eventually

CLOCK = SystemClock()
EVERY_SECOND = "* * * * * *"
SETTINGS = 'allowed_hosts = ["127.0.0.1"]\n'


class Installation(NamedTuple):
    """A server with a store of its own."""

    served: Served

    @property
    def url(self) -> str:
        return self.served.url.removesuffix("/mcp")

    def token(self, owner: str) -> str:
        folder = self.served.folder / "data" / "duetime" / "auth"
        secret = load_secret(folder, {})
        tokens = tokens_with(MemoryRevocations(), folder, CLOCK, secret)
        return tokens.issue(owner, 3600 * SECOND)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("installation")
    write_trusted(folder, SETTINGS)
    with serving(folder) as served:
        yield Installation(served)


@contextmanager
def connected(token: str, url: str | None = None) -> Iterator[QStash]:
    """The SDK leaves its connections open to the end of the process."""
    made = QStash(token, retry=False, base_url=url)
    try:
        yield made
    finally:
        made.http._client.close()


@pytest.fixture
def client(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[QStash]:
    """Each test is an owner of its own."""
    monkeypatch.setenv("QSTASH_URL", installation.url)
    monkeypatch.setenv("QSTASH_TOKEN", installation.token(request.node.name))
    with connected(os.environ["QSTASH_TOKEN"]) as made:
        yield made


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


def published(answer: object) -> str:
    assert isinstance(answer, PublishResponse)
    return answer.message_id


def letters(client: QStash, count: int = 1) -> list[DlqMessage]:
    def enough() -> list[DlqMessage]:
        found = client.dlq.list().messages
        return found if len(found) >= count else []

    return eventually(enough, 30, f"{count} messages are in the DLQ")


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(QStashError) as error:
        call()
    return str(error.value)


def verifier(client: QStash) -> Verifier:
    keys = client.signing_key.get()
    return Verifier(keys.current, keys.next)


# -- schedules --------------------------------------------------------------------------------------------------


def test_a_schedule_lives_its_life(client: QStash, receiver: Receiver) -> None:
    url = receiver.url + "/hook//x?y=%20z"
    id = client.schedule.create_json(
        destination=url,
        cron=EVERY_SECOND,
        body={"a": 1},
        method="PUT",
        headers={"My-Header": "v"},
        retries=1,
        retry_delay="1000",
        timeout=30,
        label="daily",
        callback=receiver.url + "/callback",
    )
    first, second = _sources(receiver, 2)
    assert (first.method, first.target, first.body) == ("PUT", "/hook//x?y=%20z", b'{"a": 1}')
    assert first.headers["my-header"] == "v"
    assert first.headers["content-type"] == "application/json"
    assert first.headers["upstash-schedule-id"] == second.headers["upstash-schedule-id"] == id
    assert first.headers["upstash-message-id"] != second.headers["upstash-message-id"]
    verifier(client).verify(signature=first.headers["upstash-signature"], body=first.body.decode(), url=url)

    client.schedule.pause(id)
    paused = client.schedule.get(id)
    assert paused.paused
    assert (paused.destination, paused.cron, paused.method, paused.retries) == (url, EVERY_SECOND, "PUT", 1)
    assert (paused.body, paused.label, paused.timeout) == ('{"a": 1}', "daily", 30)
    assert paused.retry_delay_expression == "1000"
    assert paused.callback == receiver.url + "/callback"
    assert paused.headers == {"Content-Type": ["application/json"], "My-Header": ["v"]}
    assert paused.last_schedule_states is not None
    assert set(paused.last_schedule_states.values()) <= {ScheduleState.SUCCESS, ScheduleState.IN_PROGRESS}
    client.schedule.resume(id)
    assert [each.schedule_id for each in client.schedule.list()] == [id]
    assert not client.schedule.list()[0].paused

    client.schedule.delete(id)
    assert client.schedule.list() == []
    assert "404" in refused(lambda: client.schedule.get(id))


def _sources(receiver: Receiver, count: int) -> list[Request]:
    """Without callbacks."""

    def enough() -> list[Request]:
        found = [each for each in receiver.requests if not each.target.startswith("/callback")]
        return found if len(found) >= count else []

    return eventually(enough, 30, f"{count} deliveries")[:count]


def test_a_schedule_of_ones_own_name_is_changed_by_making_it_again(client: QStash, receiver: Receiver) -> None:
    for body in ("one", "two"):
        made = client.schedule.create(
            destination=receiver.url, cron="CRON_TZ=Europe/Berlin 0 9 * * *", schedule_id="my-daily.report_1", body=body
        )
        assert made == "my-daily.report_1"
    [only] = client.schedule.list()
    assert (only.schedule_id, only.body) == ("my-daily.report_1", "two")
    client.schedule.delete("my-daily.report_1")


def test_the_asynchronous_client_does_the_same(client: QStash, receiver: Receiver) -> None:
    async def whole() -> None:
        later = AsyncQStash(os.environ["QSTASH_TOKEN"], retry=False)
        id = await later.schedule.create(destination=receiver.url, cron="0 9 * * *", body=b"\xff\x00")
        assert (await later.schedule.get(id)).body_base64 == base64.b64encode(b"\xff\x00").decode()
        await later.schedule.pause(id)
        assert [each.paused for each in await later.schedule.list()] == [True]
        await later.schedule.resume(id)
        await later.schedule.delete(id)
        message = published(await later.message.publish(url=receiver.url, delay="1h"))
        assert (await later.message.get(message)).message_id == message
        await later.message.cancel(message)
        assert [log.state for log in (await later.log.list()).logs] == [LogState.CANCELED, LogState.CREATED]
        assert (await later.dlq.list()).messages == []
        assert await later.signing_key.get() == client.signing_key.get()
        await later.http._client.aclose()

    anyio.run(whole)


# -- messages ---------------------------------------------------------------------------------------------------


def test_a_message_is_delivered_with_all_that_was_given(client: QStash, receiver: Receiver) -> None:
    url = receiver.url + "/x?next=https://b.example//c"
    id = published(client.message.publish(url=url, body=b"\x00\xff", method="PATCH", headers={"X-A": "1"}, label="l"))
    [request] = receiver.wait_for(1)
    assert (request.method, request.target, request.body) == ("PATCH", "/x?next=https://b.example//c", b"\x00\xff")
    assert request.headers["x-a"] == "1"
    assert request.headers["upstash-message-id"] == id
    assert request.headers["upstash-retried"] == "0"
    assert request.headers["upstash-label"] == "l"
    eventually(lambda: "404" in _why_gone(client, id), 30, "a delivered message is gone")


def _why_gone(client: QStash, id: str) -> str:
    try:
        client.message.get(id)
    except QStashError as error:
        return str(error)
    return ""


def test_messages_wait_for_their_time(client: QStash, receiver: Receiver) -> None:
    start = CLOCK.now()
    not_before, tomorrow = start // SECOND + 3, start // SECOND + 86_400
    delayed = published(client.message.publish(url=receiver.url + "/delayed", delay=1))
    waiting = published(client.message.publish(url=receiver.url + "/waiting", not_before=not_before))
    never = published(client.message.publish(url=receiver.url + "/never", not_before=tomorrow))
    shown = client.message.get(never)
    assert (shown.url, shown.not_before, shown.max_retries) == (receiver.url + "/never", tomorrow * 1000, 3)
    arrived = {each.headers["upstash-message-id"]: each.at for each in receiver.wait_for(2)}
    assert arrived.keys() == {delayed, waiting}
    assert arrived[delayed] >= start + SECOND
    assert arrived[waiting] >= not_before * SECOND
    client.message.cancel(never)
    assert "404" in refused(lambda: client.message.cancel(never))


def test_messages_are_taken_back(client: QStash, receiver: Receiver) -> None:
    ids = [published(client.message.publish(url=receiver.url, delay="1h")) for _ in range(4)]
    assert client.message.cancel_many([ids[0], ids[1], "msg_unknown"]) == 2
    assert client.message.cancel_many([]) == 0
    assert client.message.cancel_all() == 2
    assert client.message.cancel_all() == 0


def test_a_message_is_tried_again_with_the_same_id(client: QStash, receiver: Receiver) -> None:
    receiver.behave = lambda request: Behaviour(503 if len(receiver.requests) < 3 else 200)
    id = published(client.message.publish(url=receiver.url, retries=3, retry_delay="200 * (1 + retried)"))
    requests = receiver.wait_for(3)
    assert [each.headers["upstash-message-id"] for each in requests] == [id] * 3
    assert [each.headers["upstash-retried"] for each in requests] == ["0", "1", "2"]
    assert requests[1].at - requests[0].at >= 0.2 * SECOND
    assert requests[2].at - requests[1].at >= 0.4 * SECOND


def test_a_receiver_decides_how_long_to_wait(client: QStash, receiver: Receiver) -> None:
    receiver.behave = lambda request: Behaviour(429 if len(receiver.requests) < 2 else 200, {"Retry-After": "1"})
    client.message.publish(url=receiver.url, retry_delay="86400000")
    first, second = receiver.wait_for(2)
    assert SECOND <= second.at - first.at < 10 * SECOND


def test_callbacks_tell_what_became_of_a_message(client: QStash, receiver: Receiver) -> None:
    receiver.behave = lambda request: Behaviour(201, {"X-B": "2"}, b"made") if request.path == "/hook" else Behaviour()
    id = published(
        client.message.publish_json(
            url=receiver.url + "/hook",
            body={"a": 1},
            callback=receiver.url + "/callback",
            callback_headers={"Forward-X-C": "3"},
            failure_callback=receiver.url + "/failure",
        )
    )
    _, callback = receiver.wait_for(2)
    told = json.loads(callback.body)
    assert (callback.path, callback.headers["x-c"]) == ("/callback", "3")
    assert (told["status"], base64.b64decode(told["body"]), told["header"]["x-b"]) == (201, b"made", ["2"])
    assert (told["sourceMessageId"], base64.b64decode(told["sourceBody"])) == (id, b'{"a": 1}')
    assert (told["url"], told["retried"], told["maxRetries"]) == (receiver.url + "/hook", 0, 3)
    verifier(client).verify(
        signature=callback.headers["upstash-signature"], body=callback.body.decode(), url=receiver.url + "/callback"
    )


def test_the_same_message_is_sent_once(client: QStash, receiver: Receiver) -> None:
    by_id: dict[str, Any] = {"url": receiver.url, "deduplication_id": "order-1"}
    by_content: dict[str, Any] = {"url": receiver.url, "body": "b", "content_based_deduplication": True}
    for same in (by_id, by_content):
        first, second = client.message.publish(**same), client.message.publish(**same)
        assert isinstance(first, PublishResponse)
        assert isinstance(second, PublishResponse)
        assert (first.deduplicated, second.deduplicated) == (False, True)
        assert first.message_id == second.message_id
    assert len(receiver.wait_for(2)) == 2


def test_a_batch_is_sent_as_a_whole(client: QStash, receiver: Receiver) -> None:
    made = client.message.batch_json(
        [
            {"url": receiver.url + "/1", "body": {"n": 1}, "label": "a"},
            {"url": receiver.url + "/2", "body": {"n": 2}, "deduplication_id": "x"},
            {"url": receiver.url + "/3", "deduplication_id": "x"},
            {"url": receiver.url + "/4", "delay": "1h"},
        ]
    )
    assert all(isinstance(each, BatchResponse) for each in made)
    assert [each.deduplicated for each in made if isinstance(each, BatchResponse)] == [False, False, True, False]
    requests = receiver.wait_for(2)
    assert {(each.path, each.body) for each in requests} == {("/1", b'{"n": 1}'), ("/2", b'{"n": 2}')}
    assert "message 1" in refused(lambda: client.message.batch([{"url": receiver.url + "/5"}, {"url": "nonsense"}]))
    sent = [each.message_id for each in made[:2] if isinstance(each, BatchResponse)]
    eventually(lambda: all("404" in _why_gone(client, id) for id in sent), 30, "both are recorded as delivered")
    assert client.message.cancel_all() == 1
    assert len(receiver.requests) == 2


# -- the dead letter queue and the logs -------------------------------------------------------------------------


def test_what_fails_for_good_is_kept_retried_and_removed(client: QStash, receiver: Receiver) -> None:
    receiver.behave = lambda request: (
        Behaviour(500, {"X-Why": "1"}, b"broken") if request.path == "/hook" else Behaviour()
    )
    id = published(
        client.message.publish(
            url=receiver.url + "/hook",
            body="hello",
            retries=1,
            retry_delay="100",
            failure_callback=receiver.url + "/failure",
            label="mine",
        )
    )
    [letter] = letters(client)
    assert (letter.message_id, letter.url, letter.body, letter.label) == (id, receiver.url + "/hook", "hello", "mine")
    assert (letter.response_status, letter.response_body, letter.max_retries) == (500, "broken", 1)
    assert letter.response_headers is not None
    assert letter.response_headers["x-why"] == ["1"]
    *_, failure = receiver.wait_for(3)
    told = json.loads(failure.body)
    assert (failure.path, told["status"], told["retried"], told["dlqId"]) == ("/failure", 500, 1, letter.dlq_id)
    assert client.dlq.get(letter.dlq_id) == letter
    assert client.dlq.list(filter={"label": "mine", "response_status": 500}).messages == [letter]
    assert client.dlq.list(filter={"label": "yours"}).messages == []

    receiver.behave = lambda request: Behaviour()
    answer = client.http.request(path=f"/v2/dlq/retry/{letter.dlq_id}", method="POST")
    assert answer == {"messageId": id}
    again = receiver.wait_for(4)[-1]
    assert (again.path, again.body, again.headers["upstash-message-id"]) == ("/hook", b"hello", id)
    eventually(lambda: not client.dlq.list().messages, 30, "what was delivered leaves the DLQ")

    receiver.behave = lambda request: Behaviour(404)
    for _ in range(3):
        client.message.publish(url=receiver.url, retries=0)
    found = letters(client, 3)
    page = client.dlq.list(count=2)
    assert [each.dlq_id for each in page.messages] == [each.dlq_id for each in found[:2]]
    assert client.dlq.list(cursor=page.cursor).messages == found[2:]
    client.dlq.delete(found[0].dlq_id)
    assert client.dlq.delete_many([each.dlq_id for each in found]) == 2
    assert client.dlq.list().messages == []
    assert "404" in refused(lambda: client.dlq.get(found[0].dlq_id))


def test_the_logs_tell_the_story(client: QStash, receiver: Receiver) -> None:
    receiver.behave = lambda request: Behaviour(503 if len(receiver.requests) < 2 else 200)
    id = published(client.message.publish(url=receiver.url, retry_delay="100", label="l"))

    def told(**filters: Any) -> list[LogState]:
        return [log.state for log in client.log.list(filter=cast(LogFilter, filters)).logs]

    eventually(lambda: LogState.DELIVERED in told(), 30, "it is delivered")
    story = [LogState.ACTIVE, LogState.RETRY, LogState.ERROR, LogState.ACTIVE, LogState.CREATED]
    assert told(message_id=id) == [LogState.DELIVERED, *story]
    assert told(state=LogState.ERROR) == [LogState.ERROR]
    assert told(label="other") == []
    assert told(from_time=CLOCK.now() // 1000 + 60_000) == []
    first = client.log.list(count=4)
    rest = client.log.list(cursor=first.cursor)
    assert len(first.logs) + len(rest.logs) == 6
    assert rest.cursor is None


# -- signatures -------------------------------------------------------------------------------------------------


def test_a_signature_proves_sender_body_and_address(client: QStash, receiver: Receiver) -> None:
    keys = client.signing_key.get()
    mine = Verifier(keys.current, keys.next)
    client.message.publish(url=receiver.url + "/a", body="hello")
    [request] = receiver.wait_for(1)
    signature = request.headers["upstash-signature"]
    mine.verify(signature=signature, body="hello", url=receiver.url + "/a")
    for body, path in (("hello!", "/a"), ("hello", "/b")):
        with pytest.raises(SignatureError):
            mine.verify(signature=signature, body=body, url=receiver.url + path)

    rotated = client.signing_key.rotate()
    assert rotated.current == keys.next
    client.message.publish(url=receiver.url + "/a", body="hello")
    newer = receiver.wait_for(2)[1].headers["upstash-signature"]
    mine.verify(signature=newer, body="hello")  # by the key that was the next one
    client.signing_key.rotate()
    client.message.publish(url=receiver.url + "/a", body="hello")
    newest = receiver.wait_for(3)[2].headers["upstash-signature"]
    with pytest.raises(SignatureError):
        mine.verify(signature=newest, body="hello")
    with pytest.raises(SignatureError):
        verifier(client).verify(signature=signature, body="hello")  # what was rotated away proves nothing any more
    verifier(client).verify(signature=newest, body="hello")


# -- owners -----------------------------------------------------------------------------------------------------


@pytest.fixture
def other(client: QStash, installation: Installation) -> Iterator[QStash]:
    with connected(installation.token("somebody else")) as made:
        yield made


def test_another_owner_sees_nothing(client: QStash, other: QStash, receiver: Receiver) -> None:
    receiver.behave = lambda request: Behaviour(500)
    schedule = client.schedule.create(destination=receiver.url, cron="0 9 * * *")
    message = published(client.message.publish(url=receiver.url, delay="1h", deduplication_id="same"))
    client.message.publish(url=receiver.url, retries=0)
    [letter] = letters(client)

    assert other.schedule.list() == []
    assert other.dlq.list().messages == []
    assert other.log.list().logs == []
    for theirs, nobodys in (
        (lambda: other.schedule.get(schedule), lambda: other.schedule.get("scd_" + "0" * 32)),
        (lambda: other.schedule.pause(schedule), lambda: other.schedule.pause("scd_" + "0" * 32)),
        (lambda: other.schedule.delete(schedule), lambda: other.schedule.delete("scd_" + "0" * 32)),
        (lambda: other.message.get(message), lambda: other.message.get("msg_" + "0" * 32)),
        (lambda: other.message.cancel(message), lambda: other.message.cancel("msg_" + "0" * 32)),
        (lambda: other.dlq.get(letter.dlq_id), lambda: other.dlq.get("dlq_999999")),
        (lambda: other.dlq.delete(letter.dlq_id), lambda: other.dlq.delete("dlq_999999")),
    ):
        said = refused(theirs)
        for id in (schedule, message, letter.dlq_id):
            said = said.replace(id, "ID")
        expected = refused(nobodys)
        for id in ("scd_" + "0" * 32, "msg_" + "0" * 32, "dlq_999999"):
            expected = expected.replace(id, "ID")
        assert "404" in said
        assert said == expected
    assert other.message.cancel_all() == 0
    assert other.dlq.delete_many([letter.dlq_id]) == 0
    assert other.signing_key.get() != client.signing_key.get()
    mine = other.message.publish(url=receiver.url, delay="1h", deduplication_id="same")
    assert isinstance(mine, PublishResponse)
    assert not mine.deduplicated

    assert client.schedule.get(schedule).schedule_id == schedule
    assert client.message.get(message).message_id == message
    assert client.dlq.get(letter.dlq_id) == letter


def test_without_a_token_nobody_comes_in(client: QStash) -> None:
    with connected("nonsense") as stranger:
        assert "401" in refused(stranger.schedule.list)


# -- what there is not ------------------------------------------------------------------------------------------


def test_what_is_not_offered_says_so(client: QStash, receiver: Receiver) -> None:
    for call in (
        lambda: client.queue.upsert("q"),
        client.queue.list,
        lambda: client.message.enqueue(queue="q", url=receiver.url),
        client.url_group.list,
        lambda: client.url_group.upsert_endpoints("g", [{"url": receiver.url}]),
        lambda: client.message.publish(url=receiver.url, flow_control={"key": "k", "rate": 1}),
        lambda: client.schedule.create(destination=receiver.url, cron="* * * * *", queue="q"),
        lambda: client.message.batch([{"url": receiver.url, "queue": "q"}]),
        lambda: client.message.publish(url_group="g"),
        lambda: client.message.batch([{"url_group": "g"}]),
        lambda: client.schedule.create(destination="g", cron="* * * * *"),
    ):
        assert "501" in refused(call)
    assert client.schedule.list() == []
    assert receiver.requests == []


# -- crashes ----------------------------------------------------------------------------------------------------


def test_what_was_acknowledged_survives_kill_9_and_is_delivered(tmp_path: Path, receiver: Receiver) -> None:
    write_trusted(tmp_path, SETTINGS)
    with serving(tmp_path) as served:
        with connected(served.token, Installation(served).url) as client:
            id = published(client.message.publish(url=receiver.url, delay=2, body="survivor"))
            keys = client.signing_key.rotate()
        os.kill(served.process.pid, signal.SIGKILL)
        assert served.process.wait(30) == -signal.SIGKILL
    with serving(tmp_path):
        [request] = receiver.wait_for(1, 15)
    assert (request.headers["upstash-message-id"], request.body) == (id, b"survivor")
    Verifier(keys.current, keys.next).verify(
        signature=request.headers["upstash-signature"], body="survivor", url=receiver.url
    )
