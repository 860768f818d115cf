"""Which way a message takes: its topic decides between channels, ntfy and the inbox."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from duetime.app import build
from duetime.engine.clock import SystemClock
from duetime.engine.policy.options import ALERTS
from duetime.kinds.notifications.build import delivery_of
from duetime.kinds.notifications.channels.ntfy import NtfyServer
from duetime.kinds.notifications.delivery import Deliverer, destinations_of
from duetime.kinds.notifications.kind import NotificationKind
from duetime.settings import ChannelSettings, NotificationSettings, Settings
from tests.support.channels import delivery, outgoing, told
from tests.support.ntfy import NtfyReceiver
from tests.support.receiver import Receiver


def test_a_topic_that_is_a_channel_goes_there_and_every_other_to_ntfy() -> None:
    with NtfyReceiver() as ntfy, Receiver() as hook:
        channels = {"hook": ChannelSettings(hook.url), "ntfy": ChannelSettings(f"{hook.url}/ntfy")}
        with delivery(NtfyServer(ntfy.url), channels) as made:
            ways = {topic: told(made.deliver(outgoing(topic=topic)))["channel"] for topic in ("hook", "home", "inbox")}
            assert ways == {"hook": "hook", "home": "ntfy", "inbox": "inbox"}
            assert {topic: made.channel_of(topic) for topic in ways} == ways
            made.deliver(outgoing(topic="ntfy"))
        assert [each["topic"] for each in ntfy.publications] == ["home"]
        assert [request.path for request in hook.requests] == ["/", "/ntfy"]


def test_a_channel_that_is_closed_to_an_owner_hides_neither_the_server_nor_the_inbox_of_its_name() -> None:
    with NtfyReceiver() as ntfy, Receiver() as hook:
        closed = {name: ChannelSettings(hook.url, owners=("bob",)) for name in ("ntfy", "inbox", "hook")}
        settings = Settings(
            db=":memory:", timezone="UTC", notifications=NotificationSettings(server=ntfy.url), channels=closed
        )
        app = build(settings, tasks=False)
        kind = app.services.kind(NotificationKind)
        way = told(kind.delivery.deliver(outgoing(topic="home")._replace(owner="ann")))["channel"]
        described, warnings = kind.status("ann")
        assert way in kind.delivery_topics("ann") == ["inbox", "ntfy"]
        assert described["channels"] == [{"name": name, "type": name} for name in ("inbox", "ntfy")]
        assert warnings == [], "a message for her does not go to the inbox"
        app.close()


def test_a_topic_of_a_channel_that_is_called_ntfy_is_not_on_the_server() -> None:
    channel, server = (
        ChannelSettings("https://example.org/hook", owners=("ann",)),
        NtfyServer("https://ntfy.example.org"),
    )
    with delivery(server, {"ntfy": channel}) as made:
        assert NotificationKind(made).knows_topic("ntfy", "ann") and made.address_of("ntfy", "ann") == ""
        assert made.address_of("ntfy", "bob").startswith("https://ntfy.example.org/")


def test_without_a_server_what_is_no_channel_goes_to_the_inbox() -> None:
    with delivery(channels={"hook": ChannelSettings("https://example.org/hook")}) as made:
        assert made.channel_of("hook") == "hook"
        assert made.channel_of("home") == "inbox"
        assert told(made.deliver(outgoing(topic="home"))) == {"channel": "inbox"}


def test_a_channel_before_the_server_even_where_its_settings_are_wrong() -> None:
    """A message must not go to a public server because the private one has a typo."""
    with delivery(NtfyServer("https://ntfy.example.org"), {"hook": ChannelSettings("https://")}) as made:
        assert made.channel_of("hook") == "hook"


def test_all_problems_are_told_at_once() -> None:
    channels = {
        "a": ChannelSettings("https://"),
        "B": ChannelSettings("https://example.org"),
        "c": ChannelSettings("https://c.org"),
    }
    with delivery(NtfyServer("nowhere"), channels) as made:
        assert [problem.split(":")[0] for problem in made.problems()] == [
            "channels.B",
            "channels.a",
            "notifications.server",
        ]


def test_settings_reach_the_delivery() -> None:
    with NtfyReceiver(token="tk_1") as ntfy, Receiver() as hook:
        settings = Settings(
            notifications=NotificationSettings(server=ntfy.url, prefix="p-", token="tk_1"),
            channels={"hook": ChannelSettings(hook.url, "PUT", {"X-A": "1"}, "{message}")},
        )
        made = delivery_of(settings, SystemClock())
        assert told(made.deliver(outgoing(topic="home")))["receipt"] == "own-1"
        assert ntfy.publications[0]["topic"] == "p-home"
        made.deliver(outgoing(topic="hook", message="text"))
        [request] = hook.requests
        assert (request.method, request.headers["x-a"], request.body) == ("PUT", "1", b"text")
        made.close()


@pytest.mark.parametrize("topic", ["", "reminders", "hook", "inbox"])
@pytest.mark.parametrize("alerts", ["", "duetime-alerts", "home-alerts", "hook", "inbox"])
def test_alerts_go_where_the_settings_say(alerts: str, topic: str) -> None:
    """If they do not say, to the default topic; if there is none, to a topic of their own."""
    place = alerts or topic or "duetime-alerts"
    with NtfyReceiver() as ntfy, Receiver() as hook:
        settings = Settings(
            notifications=NotificationSettings(server=ntfy.url, alerts=alerts, topic=topic),
            channels={"hook": ChannelSettings(hook.url)},
        )
        made = delivery_of(settings, SystemClock())
        way = {"hook": "hook", "inbox": "inbox"}.get(place, "ntfy")
        assert made.channel_of(ALERTS) == told(made.deliver(outgoing(topic=ALERTS)))["channel"] == way
        assert [each["topic"] for each in ntfy.publications] == ([place] if way == "ntfy" else [])
        assert destinations_of(settings).channel_of(ALERTS, "local") == way
        assert len(hook.requests) == (way == "hook")
        made.close()


@pytest.mark.parametrize(("alerts", "problems"), [("a" * 65, 1), ("a" * 64, 0)])
def test_a_topic_of_alerts_that_the_server_would_refuse_is_a_problem(alerts: str, problems: int) -> None:
    server = NotificationSettings(server="https://ntfy.example.org", alerts=alerts)
    made = delivery_of(Settings(notifications=server), SystemClock())
    assert [problem.split(":")[0] for problem in made.problems()] == ["notifications.alerts"] * problems
    made.close()


def test_with_nothing_set_up_there_is_only_the_inbox() -> None:
    assert type(delivery_of(Settings(), SystemClock())) is Deliverer


def test_a_worker_says_at_its_start_what_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(db=":memory:", timezone="UTC", channels={"hook": ChannelSettings("https://me:hush@a.org")})
    app = build(settings, tasks=False)
    with caplog.at_level(logging.DEBUG):
        app.engine()
    app.close()
    [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.getMessage().startswith("channels.hook: the address ")
    assert record.getMessage().endswith("what is sent there fails until this is fixed")
    assert "hush" not in caplog.text


LOADED = """
import sys
from duetime.app import build
from duetime.settings import ChannelSettings, NotificationSettings, Settings
channels = {"phone": ChannelSettings("tgram://123456:abcdefghijklmnop/12"), "hook": ChannelSettings("https://a.org")}
app = build(Settings(db=":memory:", notifications=NotificationSettings("local", "https://a.org"), channels=channels))
print({"apprise", "httpcore2", "httpx2", "requests"} & set(sys.modules))
app.close()
"""


def test_nothing_heavy_is_imported_before_something_is_sent() -> None:
    answer = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.strip() == "set()"
