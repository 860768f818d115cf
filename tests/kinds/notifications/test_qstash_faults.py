"""QStash that is away, slow, broken or strange: clear errors, nothing made twice, nothing told that is secret."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime.app import App, build
from duetime.engine.clock import instant_of
from duetime.engine.errors import StoreUnavailable
from duetime.engine.kind import Caller
from duetime.engine.store_interfaces import Remote
from duetime.kinds.notifications.channels.ntfy import NtfyServer
from duetime.kinds.notifications.kind import NotificationKind
from duetime.kinds.notifications.qstash.client import Account
from duetime.kinds.notifications.qstash.service import LARGEST_ANSWER, QStashNotifications
from duetime.settings import ChannelSettings, NotificationSettings, Settings
from duetime.testing import SettableClock
from tests.support.agent import TOOLS as ALL_TOOLS
from tests.support.cli import Answer, Cli
from tests.support.mcp import leaks
from tests.support.notifying import START, Agent
from tests.support.qstash_standin import LOST, TOKEN, StandIn
from tests.support.receiver import Behaviour, Fault
from tests.support.refusals import refusal_of
from tests.support.settings import write_trusted

NTFY_TOKEN = "tk_ntfy_secret_77"
PREFIX = "x7Kq2mNv-"
ANN = Caller("local")
PERHAPS = "QStash may have accepted it anyway; repeating the same request creates no second one"
CRON: dict[str, Any] = {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}
MAKING: dict[str, dict[str, Any]] = {
    "schedule_cron_notification": CRON,
    "schedule_notification": {"delay": "1h"},
}
PLAIN = {"message": "hi", "notification_topic": "alerts"}


@pytest.fixture
def there(qstash: StandIn) -> StandIn:
    return qstash


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(instant_of(START))


def settings_for(there: StandIn, **changes: Any) -> Settings:
    given = NotificationSettings(
        backend="qstash",
        server="https://ntfy.example.org",
        prefix=PREFIX,
        token=NTFY_TOKEN,
        qstash_url=there.url,
        qstash_token=TOKEN,
    )
    return Settings(db=":memory:", timezone="Europe/Berlin", notifications=replace(given, **changes))


@pytest.fixture
def app(there: StandIn, clock: SettableClock) -> Iterator[App]:
    made = build(settings_for(there), clock=clock, tasks=False)
    yield made
    made.close()


@pytest.fixture
def ann(app: App) -> Agent:
    return Agent(app, ANN)


@pytest.fixture
def ben(app: App) -> Agent:
    return Agent(app, Caller("ben"))


def clean(said: str) -> str:
    for secret in (TOKEN, NTFY_TOKEN, PREFIX, "ntfy_secret"):
        assert secret not in said
    assert leaks(said) == []
    assert len(said) < 700
    return said


# -- what QStash is asked -----------------------------------------------------------------------------------------


def test_a_schedule_as_qstash_gets_it(there: StandIn, ann: Agent) -> None:
    schedule = ann.cron(label="daily.check_1", max_attempts=3, timeout_seconds=7.2)
    (kept,) = there.schedules.values()
    assert kept.destination == "https://ntfy.example.org/"
    assert kept.body == {"topic": f"{PREFIX}alerts", "message": "hi"}
    wanted = {
        "upstash-cron": "CRON_TZ=Europe/Berlin 0 9 * * *",
        "upstash-schedule-id": schedule,
        "upstash-label": "daily.check_1",
        "upstash-retries": "2",
        "upstash-timeout": "8s",
        "upstash-forward-authorization": f"Bearer {NTFY_TOKEN}",
        "upstash-redact-fields": "header[Authorization]",
        "content-type": "application/json",
    }
    assert {name: kept.headers[name] for name in wanted} == wanted
    assert not {"upstash-forward-idempotency-key", "upstash-callback"} & set(kept.headers)


def test_a_one_off_as_qstash_gets_it(there: StandIn, ann: Agent) -> None:
    message = ann.once(delay="90m")
    (kept,) = there.messages.values()
    assert kept.body == {"topic": f"{PREFIX}alerts", "message": "hi", "sequence_id": message}
    assert kept.headers["upstash-not-before"] == str(int((START + timedelta(minutes=90)).timestamp()))
    assert kept.headers["upstash-deduplication-id"] == message
    assert kept.headers["upstash-forward-idempotency-key"] == message
    assert kept.headers["upstash-label"] == message
    assert not {"upstash-retries", "upstash-timeout"} & set(kept.headers)


def test_no_one_off_is_a_moment_early(there: StandIn, clock: SettableClock, ann: Agent) -> None:
    """QStash counts in whole seconds."""
    clock.jump(timedelta(microseconds=1))
    ann.once(delay="90m")
    (kept,) = there.messages.values()
    assert kept.headers["upstash-not-before"] == str(int((START + timedelta(minutes=90, seconds=1)).timestamp()))


def test_everything_that_a_notification_may_hold_goes_along(there: StandIn, ann: Agent) -> None:
    more = {
        "title": "Grüße",
        "priority": 4,
        "tags": ["warning"],
        "markdown": True,
        "click": "https://example.org/",
        "actions": [{"action": "view", "label": "Open", "url": "https://example.org"}],
        "icon": "https://example.org/i.png",
        "attach": "https://example.org/a.pdf",
        "filename": "a.pdf",
    }
    sent = ann("send_push_notification", **PLAIN, **more)
    assert sent == {
        "success": True,
        "message_id": sent["message_id"],
        "reached": "phone",
        "confirmation": "Notification sent to topic alerts (channel: qstash, which delivers it)",
    }
    (kept,) = there.messages.values()
    assert kept.body == {"topic": f"{PREFIX}alerts", "message": "hi", "sequence_id": sent["message_id"], **more}
    assert "upstash-not-before" not in kept.headers


def test_no_worker_is_missed(ann: Agent) -> None:
    """It fires there."""
    assert "warnings" not in ann("schedule_cron_notification", **PLAIN, cron="0 9 * * *", timezone="UTC")
    assert "warnings" not in ann("schedule_notification", **PLAIN, delay="1h")


@pytest.mark.parametrize("topic", ["inbox", "phone"])
def test_a_topic_that_only_this_machine_can_reach_is_refused(there: StandIn, topic: str) -> None:
    settings = replace(settings_for(there), channels={"phone": ChannelSettings(url="json://localhost")})
    app = build(settings, tasks=False)
    try:
        said = Agent(app, ANN).problem(
            "schedule_cron_notification",
            message="hi",
            notification_topic=topic,
            cron="0 9 * * *",
            timezone="UTC",
        )
    finally:
        app.close()
    assert said.startswith(f"notification_topic: {topic} is a channel of this installation, which QStash cannot reach")
    assert 'notifications.backend = "local"' in said
    assert there.requests == []


def test_a_topic_too_long_for_ntfy_is_refused_at_once(there: StandIn, ann: Agent) -> None:
    said = ann.problem("send_push_notification", message="hi", notification_topic="a" * 60)
    assert said.startswith("notification_topic: ntfy takes topics of at most")
    assert there.requests == []


# -- answers that get lost ----------------------------------------------------------------------------------------

TROUBLES: dict[str, Behaviour] = {
    "closed": LOST,
    "reset": Behaviour(fault=Fault.RESET),
    "500": Behaviour(500, {}, b"oops"),
    "502 page": Behaviour(502, {}, b"<html>bad gateway</html>"),
    "no JSON": Behaviour(200, {}, b"<html>welcome</html>"),
    "empty": Behaviour(200, {}, b""),
    "not HTTP": Behaviour(raw=b"SSH-2.0-nonsense\r\n"),
    "wrong shape": Behaviour(200, {}, b'{"scheduleId": 7, "messageId": null}'),
    "another shape": Behaviour(200, {}, b'["a", 1]'),
    "deep": Behaviour(200, {}, b"[" * 100_000),
    "cut off": Behaviour(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"),
}
each_trouble = pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
each_making = pytest.mark.parametrize("tool", MAKING)


def made_there(there: StandIn) -> int:
    return len(there.schedules) + len(there.messages)


@each_trouble
@each_making
def test_a_lost_answer_is_asked_for_again_and_nothing_is_made_twice(
    there: StandIn, ann: Agent, tool: str, trouble: Behaviour
) -> None:
    there.answers = [trouble]
    made = ann(tool, **PLAIN, **MAKING[tool])
    assert made["success"] is True
    assert made_there(there) == 1
    assert [len(found) for found in ann.listed()] == ([1, 0] if "schedule_id" in made else [0, 1])
    deleted = ann("delete_schedule", schedule_id=made.get("schedule_id") or made["message_id"])
    assert deleted["success"] is True
    assert made_there(there) == 0


@each_trouble
@each_making
def test_a_create_that_is_never_answered_can_be_repeated(
    there: StandIn, ann: Agent, tool: str, trouble: Behaviour
) -> None:
    """Whether QStash has it is not known; whoever asks again means the same one."""
    there.answers = [trouble, trouble]
    said = clean(ann.problem(tool, **PLAIN, **MAKING[tool]))
    assert said.startswith("Not created: ")
    assert PERHAPS in said
    assert made_there(there) == 1
    assert ann(tool, **PLAIN, **MAKING[tool])["success"] is True
    assert made_there(there) == 1
    ann(tool, **PLAIN, **MAKING[tool])  # and this is a second one
    assert made_there(there) == 2


@each_making
@pytest.mark.parametrize("minutes", [1, 30], ids=["soon", "late"])
def test_a_create_with_a_key_is_repeated_whenever_it_is(
    there: StandIn, ann: Agent, clock: SettableClock, tool: str, minutes: int
) -> None:
    """Also when QStash has long forgotten its deduplication id."""
    given = {**PLAIN, **MAKING[tool], "idempotency_key": "once only"}
    there.answers = [LOST, LOST]
    assert PERHAPS in ann.problem(tool, **given)
    clock.jump(timedelta(minutes=minutes))
    there.forget_duplicates(minutes > 10)
    first = ann(tool, **given)
    assert ann(tool, **given) == first
    assert made_there(there) == 1
    assert "idempotency_key" in ann.problem(tool, **{**given, "message": "another"})
    assert made_there(there) == 1


def test_a_send_that_is_never_answered_says_so(there: StandIn, ann: Agent) -> None:
    there.answers = [LOST, LOST]
    failed = ann("send_push_notification", **PLAIN)
    assert failed["success"] is False
    assert "It will not be retried; call send_push_notification again" in clean(failed["error"])
    assert ann("send_push_notification", **PLAIN)["success"] is True
    assert len(there.messages) == 1


@each_making
def test_what_was_asked_for_in_vain_is_shown_where_qstash_has_it(
    there: StandIn, ann: Agent, capsys: pytest.CaptureFixture[str], tool: str
) -> None:
    there.answers = [LOST, LOST]
    ann.problem(tool, **PLAIN, **MAKING[tool])
    [id] = [id for ids in ann.listed() for id in ids]
    assert ann.listed() == (([id], []) if id.startswith("scd_") else ([], [id]))
    assert ann("delete_schedule", schedule_id=id)["success"] is True
    assert made_there(there) == 0
    assert capsys.readouterr().out == ""  # it may be the channel of a protocol


@each_making
def test_what_qstash_never_took_is_forgotten_in_time(
    there: StandIn, app: App, ann: Agent, clock: SettableClock, tool: str
) -> None:
    there.refuses = [Behaviour(500), Behaviour(500)]
    ann.problem(tool, **PLAIN, **MAKING[tool])
    assert ann.listed() == ([], [])
    (unsure,) = app.store.remotes("local", clock.now())
    assert "not found" in ann("delete_schedule", schedule_id=unsure.id)["error"]
    clock.jump(timedelta(minutes=11))
    assert ann.listed() == ([], [])
    assert app.store.remote(unsure.id) is None


def test_a_failed_send_can_be_taken_back_where_qstash_has_it(there: StandIn, ann: Agent) -> None:
    there.answers = [LOST, LOST]
    failed = ann("send_push_notification", **PLAIN)
    assert ann("delete_schedule", schedule_id=failed["message_id"])["success"] is True
    assert there.messages == {}


def test_a_late_repetition_is_a_request_of_its_own(there: StandIn, ann: Agent, clock: SettableClock) -> None:
    """QStash itself would not know it again."""
    there.answers = [LOST, LOST]
    ann.problem("schedule_notification", **PLAIN, delay="1h")
    clock.jump(timedelta(minutes=11))
    assert ann("schedule_notification", **PLAIN, delay="1h")["success"] is True
    assert len(there.messages) == 2


def test_a_repeated_delay_counts_from_when_qstash_took_it(there: StandIn, ann: Agent, clock: SettableClock) -> None:
    there.refuses = [Behaviour(500), Behaviour(500)]
    ann.problem("schedule_notification", **PLAIN, delay="1h")
    clock.jump(timedelta(minutes=5))
    made = ann("schedule_notification", **PLAIN, delay="1h")
    assert made["confirmation"].endswith("at 2026-02-10T16:05:00+01:00")
    (row,) = ann("list_scheduled_notifications")["messages"]
    assert row["scheduled_time"] == "2026-02-10T16:05:00+01:00"


def test_a_delay_that_qstash_had_taken_keeps_its_time(there: StandIn, ann: Agent, clock: SettableClock) -> None:
    there.answers = [LOST, LOST]
    ann.problem("schedule_notification", **PLAIN, delay="1h")
    clock.jump(timedelta(minutes=5))
    made = ann("schedule_notification", **PLAIN, delay="1h")
    assert made["confirmation"].endswith("at 2026-02-10T16:00:00+01:00")


@pytest.mark.parametrize("tool", ["pause_schedule", "resume_schedule", "delete_schedule"])
@pytest.mark.parametrize("lost", [1, 2], ids=["look", "change"])
def test_a_change_whose_answer_is_lost_is_made_again(there: StandIn, ann: Agent, tool: str, lost: int) -> None:
    """Also where the second attempt finds it gone: that was the first one's doing."""
    schedule = ann.cron()
    there.answers = [Behaviour(body=json.dumps(there.row(schedule)).encode()), LOST][2 - lost :]
    assert ann(tool, schedule_id=schedule)["success"] is True
    assert len(there.schedules) == (tool != "delete_schedule")
    assert len(there.paused) == (tool == "pause_schedule")


@pytest.mark.parametrize("verb", ["pause", "resume", "delete"])
@pytest.mark.parametrize("trouble", [TROUBLES[name] for name in ("closed", "500", "no JSON")])
def test_a_change_that_is_never_answered_is_told_and_can_be_repeated(
    there: StandIn, ann: Agent, trouble: Behaviour, verb: str
) -> None:
    schedule = ann.cron()
    there.refuses = [trouble, trouble]
    failed = ann(f"{verb}_schedule", schedule_id=schedule)
    assert failed["success"] is False
    assert clean(failed["error"]).startswith(f"Could not {verb} {schedule}: ")
    assert ann(f"{verb}_schedule", schedule_id=schedule)["success"] is True


@each_trouble
def test_a_list_that_is_not_answered_is_a_tool_error(there: StandIn, ann: Agent, trouble: Behaviour) -> None:
    schedule = ann.cron()
    there.refuses = [trouble, trouble]
    said = clean(ann.problem("list_scheduled_notifications"))
    assert said.startswith("The notifications cannot be listed: ")
    assert ann.listed() == ([schedule], [])


@pytest.mark.parametrize("field", ["scheduleId", "cron", "createdAt", "method", "retries", "destination"])
def test_a_list_with_a_row_of_a_wrong_shape_is_a_tool_error(there: StandIn, ann: Agent, field: str) -> None:
    schedule = ann.cron()
    row = {name: value for name, value in there.row(schedule).items() if name != field}
    there.answers = [Behaviour(body=json.dumps([row]).encode())] * 2
    assert "could not be understood" in clean(ann.problem("list_scheduled_notifications"))


@pytest.mark.parametrize("told", [-1, 0, "tomorrow", 2**70, None, 1.5, True])
def test_times_that_are_none_are_computed_here(there: StandIn, ann: Agent, told: Any) -> None:
    schedule = ann.cron()
    row = {**there.row(schedule), "nextScheduleTime": told, "lastScheduleTime": told}
    there.answers = [Behaviour(body=json.dumps([row]).encode())]
    (shown,) = ann("list_scheduled_notifications")["schedules"]
    assert shown["next_occurrence"] == "2026-02-11T09:00:00+01:00"
    assert shown["last_occurrence"] is None


def test_times_that_qstash_tells_are_shown(there: StandIn, ann: Agent) -> None:
    schedule = ann.cron()
    later = int((START + timedelta(days=3)).timestamp() * 1000)
    row = {**there.row(schedule), "nextScheduleTime": later, "lastScheduleTime": later - 60_000}
    there.answers = [Behaviour(body=json.dumps([row]).encode())]
    (shown,) = ann("list_scheduled_notifications")["schedules"]
    assert shown["next_occurrence"] == "2026-02-13T15:00:00+01:00"
    assert shown["last_occurrence"] == "2026-02-13T14:59:00+01:00"


# -- answers that take their time, or never end -------------------------------------------------------------------

SLOW = {
    "silent": Behaviour(fault=Fault.SILENCE),
    "dripping": Behaviour(body=b" " * 1000, drip=0.02),
    "dripping head": Behaviour(body=b" " * 1000, drip=0.02, drip_head=True),
}


@pytest.mark.parametrize("slow", SLOW.values(), ids=SLOW)
def test_a_slow_answer_is_waited_for_no_longer_than_said(there: StandIn, slow: Behaviour) -> None:
    app = build(settings_for(there), tasks=False)
    service = QStashNotifications(
        app.scheduler, Account(TOKEN, there.url), NtfyServer("https://ntfy.example.org"), patience=0.6
    )
    try:
        there.answers = [slow, slow]
        began = app.clock.monotonic()
        said = Agent(app, ANN, service=service).problem("schedule_cron_notification", **PLAIN, **CRON)
        assert app.clock.monotonic() - began < 10
        assert PERHAPS in clean(said)
        assert len(there.requests) == 2
        assert len(there.schedules) == 1
    finally:
        service.close()
        app.close()


def test_an_answer_without_end_is_not_read_to_its_end(
    there: StandIn, ann: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann.cron()
    there.answers = [Behaviour(body=b"[" + b" " * (LARGEST_ANSWER + 1))] * 2
    assert "is too long" in clean(ann.problem("list_scheduled_notifications"))


# -- refusals -----------------------------------------------------------------------------------------------------

REFUSALS: dict[str, tuple[Behaviour, str]] = {
    "token": (Behaviour(401, {}, b"{}"), "QStash did not accept the token (401); check notifications.qstash_token"),
    "burst": (Behaviour(429, {"Retry-After": "3"}), "QStash is being asked too often (429); try again in a moment"),
    "day": (
        Behaviour(429, {"RateLimit-Limit": "500"}),
        "QStash's messages of this day are used up (429); try again tomorrow, or with a larger plan",
    ),
    "plan": (
        Behaviour(412, {}, b'{"error": "maxRetries\\n exceeds the quota"}'),
        "QStash answered 412: maxRetries exceeds the quota",
    ),
    "elsewhere": (
        Behaviour(404, {}, b"<html>404 Not Found</html>"),
        "QStash answered 404, and not in its own words; check notifications.qstash_url",
    ),
    "redirect": (
        Behaviour(302, {"Location": "https://example.org"}),
        "QStash answered 302, and not in its own words; check notifications.qstash_url",
    ),
    "echo": (
        Behaviour(400, {}, f'{{"error": "bad {TOKEN} {NTFY_TOKEN} Bearer abc.def topic {PREFIX}alerts"}}'.encode()),
        "QStash answered 400: bad *** *** Bearer *** topic ***alerts",
    ),
}
each_refusal = pytest.mark.parametrize(("refusal", "words"), REFUSALS.values(), ids=REFUSALS)


@each_refusal
@each_making
def test_a_refusal_is_told_and_leaves_nothing_behind(
    there: StandIn, app: App, ann: Agent, clock: SettableClock, tool: str, refusal: Behaviour, words: str
) -> None:
    there.refuses = [refusal]
    assert clean(ann.problem(tool, **PLAIN, **MAKING[tool], idempotency_key="k")) == f"Not created: {words}"
    assert len(there.requests) == 1
    assert app.store.remotes("local", clock.now()) == []
    assert ann(tool, **PLAIN, **MAKING[tool], idempotency_key="k")["success"] is True


@each_refusal
@pytest.mark.parametrize("verb", ["pause", "resume", "delete"])
def test_a_refused_change_is_told_in_the_contracts_words(
    there: StandIn, ann: Agent, verb: str, refusal: Behaviour, words: str
) -> None:
    schedule = ann.cron()
    there.refuses = [refusal]
    failed = ann(f"{verb}_schedule", schedule_id=schedule)
    assert failed == {
        "success": False,
        "schedule_id": schedule,
        "error": clean(f"Could not {verb} {schedule}: {words}"),
    }
    assert ann.listed() == ([schedule], [])


@each_refusal
def test_a_refused_send_is_told(there: StandIn, ann: Agent, refusal: Behaviour, words: str) -> None:
    there.refuses = [refusal]
    failed = ann("send_push_notification", **PLAIN)
    assert failed["success"] is False
    assert clean(failed["error"]).startswith(f"Not delivered: {words}. It will not be retried;")


def test_a_refusal_after_a_lost_answer_is_not_the_last_word(there: StandIn, ann: Agent) -> None:
    """The first attempt may have been taken: the record of it stays."""
    there.answers = [LOST, Behaviour(429)]
    assert "asked too often" in ann.problem("schedule_cron_notification", **PLAIN, **CRON)
    (schedule,) = there.schedules
    assert ann.listed() == ([schedule], [])


def test_nobody_listens_there(there: StandIn, ann: Agent) -> None:
    schedule = ann.cron()
    there.turn_away = True
    there.drop_connections()
    said = clean(ann("delete_schedule", schedule_id=schedule)["error"])
    assert said.startswith(f"Could not delete {schedule}: {there.host} ")
    there.turn_away = False
    assert ann("delete_schedule", schedule_id=schedule)["success"] is True


def test_what_was_deleted_there_is_not_found_here(there: StandIn, ann: Agent) -> None:
    schedule, message = ann.cron(), ann.once()
    there.schedules.clear()
    there.messages.clear()
    assert ann.listed()[0] == []
    for verb in ("pause", "resume", "delete"):
        said = ann(f"{verb}_schedule", schedule_id=schedule)["error"]
        assert said.startswith(f"Schedule not found: {schedule}. It may have ")
    assert "not found" in ann("delete_schedule", schedule_id=message)["error"]


# -- whose it is --------------------------------------------------------------------------------------------------

STRANGE = [
    "",
    ".",
    "..",
    "../messages",
    "a/b",
    "a?b#c",
    "scd_" + "x" * 500,
    "\x00",
    "\ud800",
    "scd_%2F",
    "ä ö",
    "\r\nX: y",
]


@pytest.mark.parametrize("verb", ["pause", "resume", "delete"])
def test_qstash_never_hears_of_an_id_that_nobody_made_here(there: StandIn, ann: Agent, verb: str) -> None:
    service = ann.call.services.kind(NotificationKind).outside()
    assert isinstance(service, QStashNotifications)
    for unknown in STRANGE:
        assert refusal_of(service.change, ANN, verb, unknown).code == "not_found"
    assert there.requests == []


def test_what_others_made_is_answered_as_what_does_not_exist(there: StandIn, ann: Agent, ben: Agent) -> None:
    schedule, message = ann.cron(), ann.once()
    asked = len(there.requests)
    for verb in ("pause", "resume", "delete"):
        for each in (schedule, message):
            theirs = ben(f"{verb}_schedule", schedule_id=each)
            nobodys = ben(f"{verb}_schedule", schedule_id="scd_x")
            assert theirs["error"].replace(each, "scd_x") == nobodys["error"]
    assert ben.listed() == ([], [])
    assert len(there.requests) == asked
    assert ann.listed() == ([schedule], [message])


def test_an_operator_deletes_for_others(app: App, there: StandIn, ann: Agent) -> None:
    operator = Agent(app, Caller("root", operator=True))
    assert operator("delete_schedule", schedule_id=ann.cron())["success"] is True
    assert there.schedules == {}


def test_only_what_was_made_here_is_listed(there: StandIn, ann: Agent) -> None:
    schedule = ann.cron()
    there.schedules["scd_made_by_hand"] = there.schedules[schedule]
    assert ann.listed() == ([schedule], [])


def test_a_one_off_is_no_schedule(there: StandIn, ann: Agent) -> None:
    message = ann.once()
    for verb in ("pause", "resume"):
        assert "goes out once" in ann(f"{verb}_schedule", schedule_id=message)["error"]
    assert ann("delete_schedule", schedule_id=message)["success"] is True
    assert there.messages == {}
    assert "not found" in ann("delete_schedule", schedule_id=message)["error"]


def test_an_id_of_qstashs_own_making_is_quoted(there: StandIn, ann: Agent) -> None:
    message = ann.once()
    (name,) = there.messages
    assert ann("delete_schedule", schedule_id=message)["success"] is True
    assert [request.path for request in there.requests[1:]] == [
        f"/v2/messages/{name.replace('/', '%2F').replace('?', '%3F').replace('.', '%2E')}"
    ] * 2


def at_once(number: int, ask: Callable[[], dict[str, Any]]) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda: answers.append(ask())) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == number
    return answers


@each_making
def test_many_at_once_with_one_key_make_one(there: StandIn, ann: Agent, tool: str) -> None:
    there.answers = [LOST]
    answers = at_once(6, lambda: ann(tool, **PLAIN, **MAKING[tool], idempotency_key="k"))
    assert answers == [answers[0]] * 6
    assert made_there(there) == 1


@each_making
def test_many_at_once_without_a_key_make_as_many(there: StandIn, ann: Agent, tool: str) -> None:
    answers = at_once(6, lambda: ann(tool, **PLAIN, **MAKING[tool]))
    assert len({json.dumps(answer) for answer in answers}) == 6
    assert made_there(there) == 6


# -- the rest -----------------------------------------------------------------------------------------------------


def test_the_digest_moves_with_every_change_and_firing(there: StandIn, ann: Agent, clock: SettableClock) -> None:
    last = ann.digest("alerts")

    def moved() -> None:
        nonlocal last
        before, last = last, ann.digest("alerts")
        assert before != last

    schedule = ann.cron()
    moved()
    asked = len(there.requests)
    clock.jump(timedelta(days=1))
    moved()
    clock.jump(timedelta(days=1))
    moved()
    assert len(there.requests) == asked
    ann("pause_schedule", schedule_id=schedule)
    moved()
    ann("resume_schedule", schedule_id=schedule)
    moved()
    ann.once(delay="1h")
    moved()
    clock.jump(timedelta(hours=2))
    moved()
    ann("delete_schedule", schedule_id=schedule)
    moved()
    assert ann.digest("another") == []


def test_the_resource_shows_the_same_as_the_list(there: StandIn, ann: Agent) -> None:
    ann.cron()
    ann.once(notification_topic="another")
    shown = ann.read("schedules://{topic}", "alerts")
    assert shown == {"notification_topic": "alerts", **ann("list_scheduled_notifications", notification_topic="alerts")}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"qstash_token": ""}, "notifications.qstash_token is not set"),
        ({"qstash_token": "with\nbreak"}, "notifications.qstash_token holds characters"),
        ({"qstash_url": "qstash.example.org"}, "notifications.qstash_url: the address must begin with"),
        ({"server": ""}, "notifications.server is not set: QStash sends to an ntfy server, such as https://ntfy.sh"),
        ({"server": "ntfy.sh"}, "notifications.server: the address must begin with"),
        ({"server": "https://ntfy.sh/topic"}, "notifications.server: give the server alone"),
    ],
)
def test_what_is_not_set_up_is_said_by_every_tool(
    there: StandIn, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], words: str
) -> None:
    monkeypatch.delenv("QSTASH_TOKEN", raising=False)
    app = build(settings_for(there, **changes), tasks=False)
    try:
        agent = Agent(app, ANN)
        said = [
            agent.problem("send_push_notification", **PLAIN),
            *(agent.problem(tool, **PLAIN, **MAKING[tool]) for tool in MAKING),
            agent.problem("list_scheduled_notifications"),
            *(agent(f"{verb}_schedule", schedule_id="scd_1")["error"] for verb in ("pause", "resume", "delete")),
        ]
    finally:
        app.close()
    assert all(words in clean(each) for each in said), said
    assert there.requests == []


@pytest.mark.parametrize("server", ["http://localhost", "http://192.168.1.7:2586", "http://[::1]", "http://ntfy.local"])
def test_a_server_that_qstash_cannot_reach_is_named(there: StandIn, server: str) -> None:
    """With a QStash of one's own, which may stand beside it, it is none of our business."""
    for url, fits in (("", False), (there.url, True)):
        app = build(settings_for(there, server=server, qstash_url=url), tasks=False)
        service = app.services.kind(NotificationKind).service
        assert isinstance(service, QStashNotifications)
        problem = service.problem
        app.close()
        assert (problem is None) is fits
        assert fits or "which QStash cannot reach" in str(problem)


def test_what_fires_next_says_what_it_cannot_know(there: StandIn, ann: Agent) -> None:
    ann.cron()
    there.refuses = [Behaviour(500), Behaviour(500)]
    told = ALL_TOOLS["list_upcoming"].answer(ann.call, {}).structured
    assert told["upcoming"] == []
    [warning] = told["warnings"]
    assert clean(warning).startswith("Notifications are missing here, for they cannot be listed: QStash answered 500")


def test_the_doctor_asks_qstash(there: StandIn, cli: Cli, tmp_path: Path) -> None:
    write_trusted(tmp_path, table_for(there))
    build(Settings(db=str(tmp_path / "my.db")), tasks=False).close()
    assert checked(cli("doctor", "--json")) == [("ok", "it keeps the notifications, and answers; 0 schedules there")]
    there.refuses = [Behaviour(401)]
    refused = cli("doctor", "--json")
    assert refused.code == 1
    said = "QStash did not accept the token (401); check notifications.qstash_token"
    assert checked(refused) == [("fail", clean(said))]


def test_the_doctor_knows_of_what_was_made_before(there: StandIn, cli: Cli, tmp_path: Path) -> None:
    write_trusted(tmp_path, table_for(there))
    before = build(Settings(db=str(tmp_path / "my.db")), tasks=False)
    Agent(before, ANN).cron()
    before.close()
    _, (status, message) = checked(cli("doctor", "--json"))
    assert status == "warn"
    assert message.startswith("kept and fired here, from before: 1 notification, which the tools do not show")


def table_for(there: StandIn) -> str:
    return f"""[notifications]
backend = "qstash"
server = "https://ntfy.example.org"
token = "{NTFY_TOKEN}"
qstash_url = "{there.url}"
qstash_token = "{TOKEN}"
"""


def checked(answer: Answer) -> list[tuple[str, str]]:
    checks = [check for check in answer.document["checks"] if check["subject"] == "qstash"]
    return [(check["status"], check["message"]) for check in checks]


def test_the_environment_may_hold_the_token(there: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QSTASH_TOKEN", TOKEN)
    monkeypatch.setenv("QSTASH_URL", there.url)
    app = build(settings_for(there, qstash_token="", qstash_url=""), tasks=False)
    try:
        Agent(app, ANN).cron()
    finally:
        app.close()
    assert len(there.schedules) == 1


def test_without_the_sdk_it_says_what_to_install(there: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qstash", None)
    app = build(settings_for(there), tasks=False)
    try:
        said = Agent(app, ANN).problem("send_push_notification", **PLAIN)
    finally:
        app.close()
    assert said == "Not created: the QStash SDK is not installed; install duetime[qstash]"


def test_a_store_that_is_away_is_told_without_its_path(app: App, there: StandIn, ann: Agent) -> None:
    """Before QStash is asked for anything: what is made there has to be known here."""
    app.store.close()
    said = ann.problem("schedule_cron_notification", **PLAIN, **CRON)
    assert said == "Not created: the store cannot be reached right now; try again in a moment"
    assert there.requests == []


def test_a_store_that_goes_away_in_the_middle_leaves_it_findable(
    app: App, there: StandIn, ann: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_remote: Remote) -> None:
        raise StoreUnavailable("/a/path is locked")

    with monkeypatch.context() as patch:
        patch.setattr(app.store, "update_remote", away)
        assert "the store cannot be reached" in ann.problem("schedule_cron_notification", **PLAIN, **CRON)
    (schedule,) = there.schedules
    assert ann.listed() == ([schedule], [])


def test_the_same_limits_hold_as_here(there: StandIn) -> None:
    app = build(replace(settings_for(there), max_schedules=2), tasks=False)
    try:
        agent = Agent(app, ANN)
        agent.cron()
        agent.once()
        assert "limit of 2 schedules" in agent.problem("schedule_cron_notification", **PLAIN, **CRON)
    finally:
        app.close()
    assert made_there(there) == 2


def test_depth_is_no_limit_for_what_wakes_nobody(app: App, there: StandIn) -> None:
    Agent(app, ANN._replace(depth=9)).once()
    assert made_there(there) == 1
