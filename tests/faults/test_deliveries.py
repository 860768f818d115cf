"""Deliveries through whatever a network does: each arrives, each repeat has its id, and no secret comes out."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

import pytest

from duetime.app import App, build
from duetime.engine.clock import SECOND, Instant, SystemClock
from duetime.engine.model import Run
from duetime.engine.validation import NewSchedule
from duetime.kinds.notifications.kind import NotificationKind
from duetime.settings import ChannelSettings, Settings
from tests.support.channels import FULL, everything_logged
from tests.support.deliveries import (
    CALLER,
    SOON,
    completed,
    delivering,
    lateness,
    notify,
    percentile,
    result_of,
    settled,
)
from tests.support.notifying import Agent
from tests.support.ntfy import NtfyReceiver
from tests.support.receiver import Behaviour, Fault, Receiver
from tests.support.size import FULL as EVERYTHING
from tests.support.workers import eventually, quickest

TOKEN = "tk_hush_token"
PATIENT = {**SOON, "timeout": 2 * SECOND}


@pytest.fixture
def ntfy() -> Iterator[NtfyReceiver]:
    with NtfyReceiver(token=TOKEN) as made:
        yield made


# -- every fault is survived --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (Behaviour(500), "answered 500"),
        (Behaviour(429, {"Retry-After": "1"}), "answered 429"),
        (Behaviour(fault=Fault.SILENCE), "did not answer within 1.9 s"),
        (Behaviour(drip=0.2, drip_head=True), "did not answer within 1.9 s"),
        (Behaviour(fault=Fault.RESET), "closed the connection"),
        (Behaviour(fault=Fault.CLOSE), "closed the connection"),
        (Behaviour(raw=b"nonsense\r\n\r\n"), "not valid HTTP"),
    ],
    ids=["500", "429", "time-out", "slow head", "reset", "lost acknowledgement", "nonsense"],
)
def test_a_fault_is_survived(tmp_path: Path, ntfy: NtfyReceiver, behaviour: Behaviour, error: str) -> None:
    ntfy.misbehave = lambda request: behaviour if len(ntfy.requests) == 1 else None
    with delivering(tmp_path, ntfy.url, token=TOKEN) as app:
        [message_id] = notify(app, ["home"], PATIENT, **FULL | {"topic": "home"})
        [run] = settled(app, 1)
        [failed] = app.store.attempts(run.id)
    assert run.attempt == 2
    assert result_of(run) == {
        "channel": "ntfy",
        "receipt": "own-2",
        "status": 200,
        "notification_id": message_id,
        **FULL,
    }
    assert error in (failed.error or "")
    first, second = ntfy.publications
    assert first.fields == second.fields == {**FULL, "sequence_id": message_id}
    assert (first.key, second.key) == (message_id, message_id)
    if "Retry-After" in behaviour.headers:
        assert second.request.at - first.request.at >= SECOND


def test_an_answer_that_trickles_is_an_answer(tmp_path: Path, ntfy: NtfyReceiver) -> None:
    ntfy.misbehave = lambda request: Behaviour(200, {}, b'{"id":"abc"}' + b" " * 100, drip=0.05)
    with delivering(tmp_path, ntfy.url, token=TOKEN) as app:
        notify(app, ["home"], PATIENT)
        [run] = settled(app, 1)
    assert (result_of(run)["channel"], run.attempt, len(ntfy.requests)) == ("ntfy", 1, 1)


def test_what_recurs_has_an_id_for_each_time(tmp_path: Path, ntfy: NtfyReceiver) -> None:
    with delivering(tmp_path, ntfy.url, token=TOKEN) as app:
        schedule_id = Agent(app, CALLER).cron(notification_topic="home")
        for count in (1, 2):
            app.scheduler.run_now(CALLER, schedule_id)
            eventually(lambda: len(completed(app)) == count, 30, "it went out")  # noqa: B023 - called at once
        found = completed(app)
    assert sorted(each.key for each in ntfy.publications) == sorted(f"{schedule_id}.{run.id}" for run in found)


def test_thirty_of_a_hundred_acknowledgements_are_lost_and_nothing_else(tmp_path: Path, ntfy: NtfyReceiver) -> None:
    number = 1000 if EVERYTHING else 300
    ntfy.misbehave = lambda request: Behaviour(fault=Fault.CLOSE) if len(ntfy.requests) % 10 in (2, 5, 8) else None
    with delivering(tmp_path, ntfy.url, token=TOKEN) as app:
        ids = notify(app, ["home"] * number, SOON)
        found = settled(app, number, 60)
    assert {run.status for run in found} == {"completed"}
    assert {result_of(run)["notification_id"] for run in found} == set(ids)
    keys: dict[str, str] = {}
    for each in ntfy.publications:
        assert keys.setdefault(each["message"], each.key) == each.key == each["sequence_id"]
    assert set(keys.values()) == set(ids)
    repeats = len(ntfy.requests) - number
    assert repeats >= number * 0.3 / 0.7 * 0.9, f"only {repeats} were repeated"


WORKER = [sys.executable, "-m", "duetime", "worker", "--lease", "1"]


def test_a_worker_that_dies_in_a_delivery_leaves_it_to_another_with_its_id(tmp_path: Path) -> None:
    with NtfyReceiver() as ntfy:
        ntfy.misbehave = lambda request: Behaviour(fault=Fault.SILENCE) if len(ntfy.requests) == 1 else None
        db = str(tmp_path / "due.db")
        app = build(Settings(db=db, timezone="UTC"), tasks=False)
        [message_id] = notify(app, ["home"])
        app.close()
        environment = {**os.environ, "DUETIME_NOTIFICATIONS_SERVER": ntfy.url, "DUETIME_DB": db}
        workers = [subprocess.Popen(WORKER, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)]
        try:
            ntfy.wait_for(1, 30)
            workers[0].kill()
            workers.append(subprocess.Popen(WORKER, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL))
            keys = [each.key for each in ntfy.wait_for_publications(2, 30)]
        finally:
            for worker in workers:
                worker.terminate()
                worker.wait(20)
    assert keys == [message_id, message_id]


# -- one dead host ------------------------------------------------------------------------------------------------


@pytest.mark.later
@pytest.mark.parametrize("refuses", [False, True], ids=["blackhole", "refused"])
def test_one_dead_host_among_ten_delays_no_other(tmp_path: Path, refuses: bool) -> None:
    """Small and tolerant; `make bench-delivery` holds it to its bound."""
    with Receiver() as gone:
        pass
    with Receiver() as healthy, Receiver(lambda request: Behaviour(fault=Fault.SILENCE)) as silent:
        ten = {f"host-{number}": ChannelSettings(healthy.url) for number in range(10)}
        dead = {"host-9": ChannelSettings(gone.url if refuses else silent.url)}
        before = percentile(_latenesses(tmp_path / "ten", ten), 0.99)
        bound, folders = max(3 * before, 0.5), count()
        latest = quickest(lambda: percentile(_latenesses(tmp_path / f"nine-{next(folders)}", ten | dead), 0.99), bound)
    assert latest <= bound


def _latenesses(folder: Path, channels: dict[str, ChannelSettings]) -> list[float]:
    """Of those to the nine, from their instants to their arrival."""
    folder.mkdir()
    with delivering(folder, channels=channels) as app:
        begin = app.clock.now() + SECOND
        topics = [f"host-{number % 10}" for number in range(300)]
        policy = {"timeout": 2 * SECOND}
        notify(app, topics, policy, [Instant(begin + number * SECOND // 250) for number in range(300)])
        eventually(lambda: len(_to_the_nine(app)) == 270, 60, "the nine got theirs")
        return [lateness(run) for run in _to_the_nine(app)]


def _to_the_nine(app: App) -> list[Run]:
    return [run for run in completed(app) if result_of(run)["topic"] != "host-9"]


def test_eight_silent_hosts_stop_nothing_else(tmp_path: Path) -> None:
    """Each of them may hold two threads, and there are no more than sixteen for all kinds of work."""
    with delivering(tmp_path, allowed_hosts=("127.0.0.1",)) as app, ExitStack() as ending, Receiver() as healthy:
        silent = [ending.enter_context(Receiver(lambda request: Behaviour(fault=Fault.SILENCE))) for _ in range(8)]
        call(app, healthy.url)
        healthy.wait_for(1)
        for receiver in silent * 3:
            call(app, receiver.url)
        eventually(lambda: sum(len(each.requests) for each in silent) >= 8, 30, "half of the threads are held")
        begun = app.clock.now()
        notify(app, ["home"])
        app.scheduler.create(CALLER, NewSchedule("job", "echo", "once", NOW, {"task": "echo"}))
        call(app, healthy.url)
        eventually(lambda: len(completed(app)) == 4, 40, "the others are done")
        took = (app.clock.now() - begun) / SECOND
        assert took < 30, f"they waited for {took:.1f} s"
        assert sum(len(each.requests) for each in silent) == 8


NOW = {"run_at": "now"}


def call(app: App, url: str) -> None:
    app.scheduler.create(CALLER, NewSchedule("request", "a call", "once", NOW, {"url": url, "timeout": 60}))


# -- sending at once ----------------------------------------------------------------------------------------------


def test_a_send_takes_at_most_five_seconds_and_says_that_it_goes_on(tmp_path: Path, ntfy: NtfyReceiver) -> None:
    ntfy.misbehave = lambda request: Behaviour(fault=Fault.SILENCE)
    clock = SystemClock()
    with delivering(tmp_path, ntfy.url, token=TOKEN) as app:
        agent = Agent(app, CALLER)

        def seconds_to_send() -> float:
            began = clock.monotonic()
            sent = agent("send_push_notification", message="hi", notification_topic="home")
            took = clock.monotonic() - began
            assert sent["success"] is False
            assert sent["error"].startswith("Not delivered yet: ") and ". It will be retried" in sent["error"]
            if f"{ntfy.host} did not answer within 4.75 s" not in sent["error"]:
                return inf  # a busy machine began the delivery so late that its time was not over
            last = max(agent.runs(), key=lambda run: run.id)
            assert (last.status, last.attempt) == ("pending", 1)
            return took

        assert quickest(seconds_to_send, 5.5) < 5.5
        ntfy.misbehave = lambda request: None


def test_a_send_that_arrives_says_where(tmp_path: Path, ntfy: NtfyReceiver) -> None:
    with delivering(tmp_path, ntfy.url, token=TOKEN) as app:
        sent = Agent(app, CALLER, service=app.services.kind(NotificationKind).service)(
            "send_push_notification", message="a" * 5000, notification_topic="home"
        )
    assert (sent["success"], sent["reached"]) == (True, "phone")
    assert sent["warnings"][0] == "The message was longer than its receiver takes: the end was cut off."
    assert sent["warning_codes"] == ["note", "new_topic"]


# -- secrets ------------------------------------------------------------------------------------------------------

HUSH = re.compile("hush", re.IGNORECASE)
"""Stands in every secret: token, prefix, addresses, headers."""
MODES: dict[str, Behaviour] = {
    "200": Behaviour(200, {"Set-Cookie": "hush"}, b'{"id":"own-1"}'),
    "401": Behaviour(401, {}, b"the token hush is wrong"),
    "302": Behaviour(302, {"Location": "https://hush.example.org/"}),
    "500": Behaviour(500, {}, b"hush"),
    "429": Behaviour(429, {"Retry-After": "1"}),
    "silence": Behaviour(fault=Fault.SILENCE),
    "close": Behaviour(fault=Fault.CLOSE),
    "reset": Behaviour(fault=Fault.RESET),
    "nonsense": Behaviour(raw=b"hush\r\n\r\n"),
}


@pytest.mark.parametrize("mode", [*MODES, "refused"])
def test_secrets_come_out_nowhere(tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """Not in a log at its most talkative, nor in a run, its attempts, or what an agent is told."""
    with Receiver(lambda request: MODES.get(mode, Behaviour())) as receiver:
        if mode == "refused":
            receiver.turn_away = True
        channels = {
            "hook": ChannelSettings(f"{receiver.url}/hush?key=hush", "POST", {"X-Token": "hush"}, "hush {message}"),
            "phone": ChannelSettings(f"json://hush:hush@{receiver.host}/hush?-key=hush&+X-Token=hush"),
            "other": ChannelSettings(f"ntfy://hush:hush@{receiver.host}/hush"),
        }
        topics = ["home", *channels]
        with (
            caplog.at_level(logging.DEBUG),
            delivering(tmp_path, receiver.url, channels, token="tk_hush", prefix="hush-") as app,
        ):
            notify(app, topics, {**SOON, "max_attempts": 2, "timeout": SECOND, "alert": "off"})
            found = settled(app, len(topics))
            assert {run.status for run in found} == {"completed" if mode == "200" else "failed"}
            agent = Agent(app, CALLER, service=app.services.kind(NotificationKind).service)
            answers = [_sent(agent, topic) for topic in topics] if mode != "silence" else []
            attempts = [attempt for run in agent.runs() for attempt in app.store.attempts(run.id)]
            shown = [*agent.runs(), *attempts, *answers, agent("list_scheduled_notifications")]
    assert len(receiver.requests) >= len(topics) or mode == "refused"
    assert [each for each in shown if HUSH.search(repr(each))] == []
    assert [line for line in everything_logged(caplog).splitlines() if HUSH.search(line)] == []


def _sent(agent: Agent, topic: str) -> dict[str, Any]:
    return agent("send_push_notification", message="hi", notification_topic=topic, max_attempts=2)
