"""What a notification reached, and the warning about a topic that nothing else uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime.app import App, build
from duetime.engine.kind import LOCAL, Caller
from duetime.kinds.notifications.kind import NotificationKind
from duetime.settings import ChannelSettings, NotificationSettings, Settings
from tests.support.notifying import Agent
from tests.support.ntfy import NtfyReceiver
from tests.support.receiver import Behaviour

pytestmark = pytest.mark.socket
CRON: dict[str, Any] = {"message": "hi", "cron": "0 9 * * *", "timezone": "UTC"}


@pytest.fixture
def ntfy() -> Iterator[NtfyReceiver]:
    with NtfyReceiver() as made:
        yield made


@pytest.fixture
def app(ntfy: NtfyReceiver, tmp_path: Path) -> Iterator[App]:
    channels = {"desk": ChannelSettings(url="json://127.0.0.1:1")}
    notifications = NotificationSettings(server=ntfy.url)
    made = build(
        Settings(db=str(tmp_path / "d.db"), timezone="UTC", notifications=notifications, channels=channels), tasks=False
    )
    engine = made.engine()
    engine.start()
    yield made
    engine.stop(5)
    made.close()


def agent(app: App, owner: str = LOCAL) -> Agent:
    return Agent(app, Caller(owner), service=app.services.kind(NotificationKind).service)


def test_a_channel_is_a_phone(app: App) -> None:
    sent = agent(app)("send_push_notification", message="hi", notification_topic="home")
    assert (sent["success"], sent["reached"]) == (True, "phone")
    assert sent["confirmation"] == "Notification sent to topic home (channel: ntfy)"


def test_the_inbox_is_no_phone(app: App) -> None:
    sent = agent(app)("send_push_notification", message="hi", notification_topic="inbox")
    assert (sent["success"], sent["reached"]) == (True, "inbox")
    assert "sent" not in sent["confirmation"]
    assert "in the built-in inbox only" in sent["confirmation"]


def test_what_fails_reaches_nobody(app: App, ntfy: NtfyReceiver) -> None:
    ntfy.misbehave = lambda request: Behaviour(400)
    sent = agent(app)("send_push_notification", message="hi", notification_topic="home", max_attempts=1)
    assert (sent["success"], sent["reached"]) == (False, "nobody")
    assert "confirmation" not in sent


def test_where_it_arrived_counts_and_not_the_settings_of_this_process(app: App, tmp_path: Path) -> None:
    """A process without channels, on the store of a server that has some."""
    other = build(Settings(db=str(tmp_path / "d.db"), timezone="UTC"), tasks=False)
    sent = agent(other)("send_push_notification", message="hi", notification_topic="home")
    other.close()
    assert sent["reached"] == "phone"
    assert "no_channel" not in sent.get("warning_codes", [])


def test_the_first_use_of_a_topic_is_warned_about_once(app: App) -> None:
    ann = agent(app)
    made = ann("schedule_cron_notification", **CRON, notification_topic="garden")
    assert made["warning_codes"] == ["new_topic"]
    assert "garden" in made["warnings"][0]
    assert "warnings" not in ann("schedule_cron_notification", **CRON, notification_topic="garden")
    assert ann("send_push_notification", message="hi", notification_topic="gardn")["warning_codes"] == ["new_topic"]


def test_a_topic_that_was_used_before_this_process_is_not_new(app: App, ntfy: NtfyReceiver, tmp_path: Path) -> None:
    agent(app)("schedule_cron_notification", **CRON, notification_topic="garden")
    settings = Settings(db=str(tmp_path / "d.db"), timezone="UTC", notifications=NotificationSettings(server=ntfy.url))
    other = build(settings, tasks=False)
    made = agent(other)("schedule_cron_notification", **CRON, notification_topic="garden")
    other.close()
    assert "new_topic" not in made.get("warning_codes", [])


def test_the_name_of_a_channel_is_never_new(app: App) -> None:
    assert "warnings" not in agent(app)("schedule_cron_notification", **CRON, notification_topic="desk")


def test_a_create_answers_with_the_next_time_the_rule_and_the_limits(app: App) -> None:
    made = agent(app)("schedule_cron_notification", **CRON, notification_topic="desk", max_attempts=2)
    assert made["next_run"].endswith("09:00:00+00:00")
    assert "09:00" in made["reads_as"]
    assert made["limits"]["max_attempts"] == 2
    once = agent(app)("schedule_notification", message="hi", notification_topic="desk", delay="2h")
    assert once["next_run"] in once["confirmation"]
