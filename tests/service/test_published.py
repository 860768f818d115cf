"""What the server publishes takes precedence elsewhere, unless its own settings file is newer than the server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from duetime.app import App, build
from duetime.cli.serve.mcp import FollowedServices
from duetime.engine.clock import SECOND, Instant, SystemClock
from duetime.engine.model import LOCAL
from duetime.kinds.notifications.kind import NotificationKind
from duetime.kinds.prompts.kind import PromptKind
from duetime.service.published import read_publication
from duetime.service.services import Services
from duetime.settings import AgentSettings, ChannelSettings, NotificationSettings, Settings, load_settings
from duetime.testing import SettableClock

PHONE = {"phone": ChannelSettings("https://example.org/hush")}
SCRIPT = {"script": AgentSettings(command=("true",))}


@contextmanager
def built(settings: Settings, *, server: bool = False) -> Iterator[App]:
    app = build(settings, tasks=False, use_published=not server)
    try:
        if server:
            app.publish()
        yield app
    finally:
        app.close()


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "my.db")


def warnings(app: App) -> list[tuple[str, str]]:
    return [(each.code, each.text) for each in app.services.process_warnings()]


def test_a_process_without_settings_takes_the_servers_and_says_nothing(db: str) -> None:
    topic = NotificationSettings(topic="phone")
    server = Settings(db=db, timezone="Asia/Tokyo", agent="script", agents=SCRIPT, channels=PHONE, notifications=topic)
    with built(server, server=True):
        pass
    with built(Settings(db=db)) as app:
        assert (app.scheduler.zone, warnings(app)) == ("Asia/Tokyo", [])
        prompts, notifications = app.services.kind(PromptKind), app.services.kind(NotificationKind)
        assert prompts.agents(LOCAL) == ["script", "inbox"]
        assert notifications.places.default_topic(LOCAL) == "phone"
        assert notifications.delivery.channel_of("phone") == "phone"
        assert prompts.agents("ann") == ["inbox"], "an agent of the operator's is not there for others"
        assert notifications.places.default_topic("ann") == "", "nor is a channel"


@pytest.mark.parametrize(
    ("own", "names"),
    [
        (Settings(timezone="Asia/Tokyo", agents=SCRIPT), ""),
        (Settings(timezone="Europe/Paris"), "timezone"),
        (Settings(agents=SCRIPT, agent="script"), "agent"),
        (Settings(agents={"script": AgentSettings(type="inbox")}), "agents"),
        (Settings(agents={"script": AgentSettings(command=("true",), owners=("*",))}), "agents"),
        (Settings(notifications=NotificationSettings(topic="home")), "notifications.topic"),
        (Settings(notifications=NotificationSettings(server="https://ntfy.sh")), "notifications.server"),
        (Settings(channels=PHONE), "channels"),
    ],
)
def test_where_own_settings_differ_that_is_said(db: str, own: Settings, names: str) -> None:
    from dataclasses import replace

    with built(Settings(db=db, timezone="Asia/Tokyo", agents=SCRIPT), server=True):
        pass
    with built(replace(own, db=db)) as app:
        assert app.scheduler.zone == "Asia/Tokyo"
        text = f"Settings of this process differ from the server's, which are used: {names}."
        assert warnings(app) == ([("settings_differ", text)] if names else [])
        assert len(text) <= 120


def test_a_file_that_the_server_has_not_read_yet_counts(db: str, tmp_path: Path) -> None:
    file = tmp_path / "duetime.toml"
    file.write_text(f'db = "{db}"\ntimezone = "Asia/Tokyo"\n')
    with built(load_settings(environment={}, folder=tmp_path), server=True):
        pass
    with built(load_settings(environment={}, folder=tmp_path)) as app:
        assert (app.scheduler.zone, warnings(app)) == ("Asia/Tokyo", [])
    file.write_text(f'db = "{db}"\ntimezone = "Europe/Paris"\n')
    os.utime(file, ns=(1, 1))
    with built(load_settings(environment={}, folder=tmp_path)) as app:
        [(code, text)] = warnings(app)
        assert (app.scheduler.zone, code) == ("Europe/Paris", "settings_changed")
        assert "restart `duetime serve`" in text


@pytest.mark.parametrize(
    "text", [None, "", "x", "{}", "[]", '{"zone": "Mars/Base", "kinds": {}, "file": "", "changed": 0}', "null"]
)
def test_what_is_not_understood_is_as_good_as_nothing(text: str | None) -> None:
    assert read_publication(text) is None


def test_a_kind_uses_its_own_settings_where_what_was_published_is_not_understood(db: str) -> None:
    strange = '{"prompt": {"agents": 5, "default": "x"}, "notification": {"channels": [{"name": "A b"}]}, "other": {}}'
    with built(Settings(db=db), server=True) as app:
        app.store.publish(f'{{"zone": "UTC", "kinds": {strange}, "file": "", "changed": 0}}')
    with built(Settings(db=db, agents=SCRIPT, channels=PHONE)) as app:
        assert "script" in app.services.kind(PromptKind).agents(LOCAL)
        assert app.services.kind(NotificationKind).places.names(LOCAL) == {"phone"}


def test_what_is_published_opens_no_agent_of_this_process_to_others(db: str) -> None:
    everybody = {"script": AgentSettings(command=("true",), owners=("*",))}
    with built(Settings(db=db, agents=everybody), server=True):
        pass
    with built(Settings(db=db, agents=SCRIPT)) as app:
        assert "script" not in app.services.kind(PromptKind).agents("ann")
    with built(Settings(db=db)) as app:
        assert "script" in app.services.kind(PromptKind).agents("ann"), "it is the server's own"


def test_a_running_process_follows_the_server(db: str) -> None:
    """It reads what is published again after some seconds, not for every call."""
    clock = SettableClock(SystemClock().now())
    app = build(Settings(db=db, timezone="UTC"), clock=clock, tasks=False, use_published=True)
    changed: list[Services] = []
    followed = FollowedServices(app)
    followed.on_change = changed.append
    topic = NotificationSettings(topic="phone")
    with built(Settings(db=db, timezone="Asia/Tokyo", channels=PHONE, notifications=topic), server=True):
        assert followed.now().zone == "UTC" and changed == []
    for _ in range(2):
        clock.move_to(Instant(clock.now() + 5 * SECOND))
        services = followed.now()
        assert services.zone == "Asia/Tokyo" and services.optional_arguments() == {"notification_topic"}
    assert changed == [followed.now()], "what has not changed is not built again"
    app.close()
