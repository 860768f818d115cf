"""What a notification may hold, how it is named, and that without a channel it arrives in the inbox."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller, StopReason, StopSignal, Work
from duetime.engine.model import Cause, RunId, RunStatus, ScheduleId
from duetime.engine.outcome import Cancelled, Completed, Failed, Outcome, Retry, Returned
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.options import is_topic
from duetime.engine.policy.rows import Draft, begin, new_run
from duetime.engine.redaction import without_secrets
from duetime.engine.validation import NewSchedule
from duetime.kinds.notifications.delivery import Deliverer, OutgoingMessage
from duetime.kinds.notifications.kind import NotificationKind
from duetime.settings import NotificationSettings, Settings
from duetime.testing import Simulation
from tests.support.drafts import T0, every, once
from tests.support.ntfy import NtfyReceiver
from tests.support.receiver import Behaviour

ANN = Caller("ann")
ARRIVED = Completed('{"channel": "ntfy", "receipt": "abc", "status": 200}')
PLAIN = {"message": "Water the plants", "topic": "home"}
FULL = {
    **PLAIN,
    "title": "Garden",
    "priority": 4,
    "tags": ["seedling", "water"],
    "markdown": True,
    "click": "https://example.org/garden",
    "actions": [
        {"action": "view", "label": "Open", "url": "geo:52.5,13.4", "clear": True},
        {
            "action": "http",
            "label": "Sprinkle",
            "url": "https://example.org/sprinkler",
            "method": "PUT",
            "headers": {"X-A": "1", "X-Empty": ""},
            "body": "",
        },
        {"action": "broadcast", "label": "Snooze", "intent": "io.app.SNOOZE", "extras": {"minutes": "5"}},
    ],
    "icon": "https://example.org/icon.png",
    "attach": "http://example.org/plan.pdf",
    "filename": "plan.pdf",
    "label": "garden.daily_1-a",
}


@pytest.fixture
def kind() -> NotificationKind:
    return NotificationKind()


def work(payload: dict[str, Any]) -> Work:
    draft = once(kind="notification", payload=json.dumps(payload), public_id="msg_1")
    definition = begin(draft, ScheduleId(1))[0]
    run = new_run(RunId(1), definition, T0, RunStatus.RUNNING)
    return Work(Claim(run, definition, T0), StopSignal(), lambda text: None)


@pytest.mark.parametrize("payload", [PLAIN, FULL], ids=["plain", "full"])
def test_what_is_right_is_kept_as_it_is_and_filed_under_its_topic(
    kind: NotificationKind, payload: dict[str, Any]
) -> None:
    prepared = kind.prepare(payload, ANN)
    assert prepared.payload == payload
    assert prepared.subject == "home"
    assert kind.prepare({**payload, "title": None, "icon": None}, ANN).subject == "home"


WRONG: list[tuple[str, Any, str]] = [
    ("message", None, "Water the plants"),
    ("message", "  ", "Water the plants"),
    ("message", 7, "Water the plants"),
    ("message", "a\x00b", "NUL"),
    ("message", "a\ud800b", "surrogates"),
    ("topic", None, "home-alerts"),
    ("topic", "", "home-alerts"),
    ("topic", "Home", "home-alerts"),
    ("topic", "home_alerts", "home-alerts"),
    ("topic", "-home", "home-alerts"),
    ("topic", "home-", "home-alerts"),
    ("topic", "home--alerts", "home-alerts"),
    ("topic", "home\n", "home-alerts"),
    ("topic", "höme", "home-alerts"),
    ("topic", "a" * 201, "home-alerts"),
    ("title", "", "Backup failed"),
    ("priority", 0, "4"),
    ("priority", 6, "4"),
    ("priority", True, "4"),
    ("priority", 2.0, "4"),
    ("tags", "warning", '["warning", "backup"]'),
    ("tags", [1], '["warning", "backup"]'),
    ("tags", ["a"] * 21, "at most 20"),
    ("markdown", "yes", "true"),
    ("click", "example.org", "https://example.org"),
    ("click", "javascript:alert(1)", "https://example.org"),
    ("click", "JavaScript:alert(1)", "https://example.org"),
    ("click", "file:///etc/passwd", "https://example.org"),
    ("click", "https://a b", "https://example.org"),
    ("click", "x:" + "a" * 3000, "https://example.org"),
    ("icon", "ftp://example.org/a.png", "https://example.org"),
    ("icon", "https://", "https://example.org"),
    ("icon", "http://[", "https://example.org"),
    ("attach", "mailto:a@example.org", "https://example.org"),
    ("filename", "../a", "report.pdf"),
    ("filename", "..", "report.pdf"),
    ("label", "", "weekly-report"),
    ("label", "weekly report", "weekly-report"),
    ("label", "weekly\n", "weekly-report"),
    ("label", "Übung", "weekly-report"),
    ("actions", {"action": "view"}, '"action": "view"'),
    ("actions", [{"action": "view", "label": "Open", "url": "https://example.org"}] * 4, "at most 3"),
    ("actions", ["view"], "view, http or broadcast"),
    ("actions", [{"action": "explode", "label": "Boom"}], "view, http or broadcast"),
    ("actions", [{"action": "view", "label": "Open"}], "needs url"),
    ("actions", [{"action": "http", "url": "https://example.org"}], "needs label"),
    ("actions", [{"action": "http", "label": "Go", "url": "geo:1,2"}], "https://example.org"),
    ("actions", [{"action": "http", "label": "Go", "url": "https://a.org", "method": "BREW"}], "POST"),
    ("actions", [{"action": "http", "label": "Go", "url": "https://a.org", "headers": {"a": 1}}], "actions"),
    ("actions", [{"action": "view", "label": "Go", "url": "https://a.org", "intent": "x"}], "no 'intent'"),
    ("actions", [{"action": "broadcast", "label": "Go", "extras": []}], "objects of texts"),
    ("colour", "red", "no such field"),
]


@pytest.mark.parametrize(("field", "value", "said"), WRONG)
def test_what_is_wrong_is_named_with_an_example(kind: NotificationKind, field: str, value: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        kind.prepare({**PLAIN, field: value}, ANN)
    assert refused.value.field == field
    assert refused.value.message.startswith(f"{field}: ")
    assert said in refused.value.message
    assert len(refused.value.message) < 400


def test_ids_cannot_be_guessed_and_tell_what_fires_once(kind: NotificationKind) -> None:
    ids = {kind.public_id(Instant(0), "once") for _ in range(100)}
    assert len(ids) == 100
    assert all(each.startswith("msg_") and len(each) == 36 for each in ids)
    for recurring in ("cron", "interval", "rrule"):
        assert kind.public_id(Instant(0), recurring).startswith("scd_")


def test_without_a_channel_it_arrives_in_the_inbox(kind: NotificationKind) -> None:
    outcome = kind.execute(work(FULL))
    assert isinstance(outcome, Completed)
    assert outcome.result is not None
    assert json.loads(outcome.result) == {"channel": "inbox", "notification_id": "msg_1", **FULL}
    kind.close()


# -- how it is delivered ------------------------------------------------------------------------------------------


class Recorder(Deliverer):
    """Takes what it is given and says what it was told to."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.messages: list[OutgoingMessage] = []
        self.closed = False

    def deliver(self, outgoing: OutgoingMessage) -> Outcome:
        self.messages.append(outgoing)
        return self.outcome

    def close(self) -> None:
        self.closed = True


def carried(draft: Draft, outcome: Outcome = ARRIVED, cause: Cause = Cause.TRIGGER) -> tuple[OutgoingMessage, Outcome]:
    recorder = Recorder(outcome)
    definition = begin(draft, ScheduleId(1))[0]
    run = new_run(RunId(17), definition, T0, RunStatus.RUNNING, cause=cause)
    made = NotificationKind(recorder).execute(Work(Claim(run, definition, T0), StopSignal(), lambda text: None))
    [outgoing] = recorder.messages
    return outgoing, made


def test_what_the_receiver_said_is_kept_with_the_message() -> None:
    outgoing, outcome = carried(once(kind="notification", payload=json.dumps(FULL), public_id="msg_1"))
    assert (outgoing.topic, outgoing.fields) == ("home", FULL)
    assert isinstance(outcome, Completed)
    assert json.loads(outcome.result or "") == {
        "channel": "ntfy",
        "receipt": "abc",
        "status": 200,
        "notification_id": "msg_1",
        **FULL,
    }


@pytest.mark.parametrize("outcome", [Retry("503", 7), Failed("404", permanent=True), Returned("later", 5)])
def test_what_did_not_arrive_is_passed_on_as_it_is(outcome: Outcome) -> None:
    payload = json.dumps(PLAIN)
    assert carried(once(kind="notification", payload=payload), outcome)[1] == outcome


def test_a_receipt_that_is_no_text_does_not_spoil_what_arrived() -> None:
    _, outcome = carried(
        once(kind="notification", payload=json.dumps(PLAIN)),
        Completed(json.dumps({"channel": "ntfy", "receipt": "\ud800"})),
    )
    assert isinstance(outcome, Completed) and outcome.result is not None
    assert "\ufffd" in outcome.result and outcome.result.isprintable()


def test_ids_of_messages() -> None:
    """The same on every attempt, another for each message."""
    payload = json.dumps(PLAIN)
    one_off = once(kind="notification", payload=payload, public_id="msg_1")
    recurring = every(kind="notification", payload=payload, public_id="scd_1")
    edited = every(kind="notification", payload=payload, public_id="msg_2")
    assert carried(one_off)[0].id == "msg_1"
    assert carried(one_off, cause=Cause.MANUAL)[0].id == "msg_1.17"
    assert carried(recurring)[0].id == "scd_1.17"
    assert carried(edited)[0].id == "msg_2.17", "a one-off that was made to recur"


@pytest.mark.parametrize(
    ("policy", "seconds"), [({}, 15), ({"timeout": 5 * SECOND}, 4.75), ({"timeout": 3600 * SECOND}, 60)]
)
def test_an_attempt_ends_before_its_run_must(policy: dict[str, Any], seconds: float) -> None:
    payload = json.dumps(PLAIN)
    assert carried(once(kind="notification", payload=payload, **policy))[0].patience == seconds


def test_what_runs_at_most_once_is_never_sent_twice() -> None:
    draft = once(kind="notification", payload=json.dumps(PLAIN), at_most_once=True)
    assert carried(draft)[0].once and not carried(once(kind="notification", payload=json.dumps(PLAIN)))[0].once


def test_one_that_waits_for_its_retry_does_not_silence_the_next() -> None:
    """The first is tried for an hour and a half; whoever should take a pill at 9 and at 9:30 has to hear of both."""
    back = datetime(2026, 2, 10, 9, 30, tzinfo=UTC)
    with NtfyReceiver() as ntfy:
        server = NotificationSettings(server=ntfy.url)
        settings = Settings(db=":memory:", timezone="UTC", notifications=server)
        with Simulation(back - timedelta(hours=1), settings=settings) as simulation:
            ntfy.misbehave = lambda request: Behaviour(503) if simulation.now < back else None
            cron = {"expression": "0,30 9 * * *"}
            simulation.duetime.scheduler.create(ANN, NewSchedule("notification", "pill", "cron", cron, PLAIN))
            simulation.advance(timedelta(hours=3))
            first, second = simulation.runs()
    assert first.attempt > 1 and (first.finished or 0) >= second.due, "it was still being tried when the next was due"
    assert (first.status, second.status) == (RunStatus.COMPLETED, RunStatus.COMPLETED)


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (StopReason.CANCELLED, Cancelled("taken back before it went out")),
        (StopReason.LEASE, Returned()),
        (StopReason.SHUTDOWN, Returned()),
        (StopReason.TIMEOUT, Returned()),
    ],
)
def test_nothing_is_begun_past_a_stop(reason: StopReason, outcome: Outcome) -> None:
    recorder = Recorder(ARRIVED)
    stopped = work(PLAIN)
    stopped.stop.set(reason)
    assert NotificationKind(recorder).execute(stopped) == outcome
    assert recorder.messages == []


def test_the_delivery_is_closed_with_its_kind() -> None:
    recorder = Recorder(ARRIVED)
    NotificationKind(recorder).close()
    assert recorder.closed


def test_one_that_was_taken_back_does_not_go_out(kind: NotificationKind) -> None:
    taken_back = work(PLAIN)
    taken_back.stop.set(StopReason.CANCELLED)
    assert isinstance(kind.execute(taken_back), Cancelled)


@pytest.mark.parametrize("topic", ["a", "0", "home-alerts", "a1-b2-c3"])
def test_topics(topic: str) -> None:
    assert is_topic(topic)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("401 from https://me:pass@example.org/v2", "401 from https://***@example.org/v2"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ('{"token": "abc", "a": 1}', '{"token": "***", "a": 1}'),
        ("GET /x?api_key=abc&b=1", "GET /x?api_key=***&b=1"),
        ("QSTASH_TOKEN=abc was refused", "QSTASH_TOKEN=*** was refused"),
        ("bad eyJhbGciOi.eyJzdWIi.c2ln here", "bad *** here"),
        ("the schedule is busy", "the schedule is busy"),
    ],
)
def test_secrets_do_not_come_out(said: str, shown: str) -> None:
    assert without_secrets(said) == shown
