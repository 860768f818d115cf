"""Where a default topic is set, a notification need not name one; otherwise nothing is different."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from duetime.app import App, build
from duetime.engine.clock import SECOND
from duetime.engine.kind import Caller
from duetime.engine.model import LOCAL
from duetime.engine.outcome import Completed, Outcome, Returned
from duetime.engine.policy.options import ALERTS
from duetime.kinds import load_specs
from duetime.kinds.notifications.delivery import (
    Deliverer,
    Destinations,
    NamedChannel,
    OutgoingMessage,
    ServerDelivery,
)
from duetime.kinds.notifications.kind import NotificationKind
from duetime.mcp.catalog import catalog_of
from duetime.mcp.definitions import Tool, ToolProblem
from duetime.mcp.schemas import checked
from duetime.service.services import Call
from duetime.settings import ChannelSettings, NotificationSettings, Settings

TOOLS = ("schedule_notification", "schedule_cron_notification", "send_push_notification")
MISSING = "Missing argument: notification_topic is required (a string)."


@pytest.fixture
def app() -> Iterator[App]:
    settings = Settings(
        db=":memory:",
        timezone="UTC",
        notifications=NotificationSettings(topic="phone"),
        channels={"phone": ChannelSettings("https://example.org/hush")},
    )
    made = build(settings, tasks=False)
    yield made
    made.close()


def tools(app: App | None = None) -> dict[str, Tool]:
    optional = () if app is None else app.services.optional_arguments()
    return {tool.name: tool for tool in catalog_of(load_specs().values(), optional=optional).tools}


def test_the_argument_is_required_only_without_a_default(app: App) -> None:
    for name in TOOLS:
        assert "notification_topic" in tools()[name].input["required"]
        with_default = tools(app)[name].input
        assert "notification_topic" not in with_default["required"] and "message" in with_default["required"]
        described = with_default["properties"]["notification_topic"]
        assert described["description"].endswith("Optional: there is a default.") and "null" in described["type"]
        assert "phone" not in described["description"].replace("phone listens", ""), "other owners see this list, too"


def test_it_goes_to_the_default_topic(app: App) -> None:
    tool = tools(app)["schedule_notification"]
    call = Call(app.services, Caller(LOCAL), "UTC")
    made = tool.answer(call, checked(tool.input, {"message": "Tea", "delay": "1h", "notification_topic": None}))
    assert made.structured["success"] is True
    [found] = app.services.kind(NotificationKind).service.scheduled(Caller(LOCAL)).value  # type: ignore[union-attr]
    assert found.topic == "phone"


def test_so_does_a_reminder_that_names_none(app: App) -> None:
    for owner, topic in ((LOCAL, "phone"), ("ann", "reminders")):
        payload = {"prompt": "Tea", "remind": True}
        prepared = app.kinds["prompt"].prepare(payload, Caller(owner))
        assert prepared.policy == {"deliver_to": topic}


def test_for_owners_who_cannot_use_the_channel_there_is_no_default(app: App) -> None:
    tool = tools(app)["schedule_notification"]
    call = Call(app.services, Caller("ann"), "UTC")
    with pytest.raises(ToolProblem, match=r"Missing argument: notification_topic is required \(a string\)\."):
        tool.answer(call, checked(tool.input, {"message": "Tea", "delay": "1h"}))


def test_without_a_default_the_error_is_as_it_was() -> None:
    for name in TOOLS:
        with pytest.raises(ToolProblem) as problem:
            checked(tools()[name].input, {"message": "Tea"})
        assert str(problem.value) == MISSING


# -- a process that has the server's names, but not its channels ------------------------------------------------------

SERVER = Destinations("phone", True, {"phone": NamedChannel("https", ("local",))}, alerts="phone")


@pytest.mark.parametrize(
    ("topic", "owner", "channel"),
    [
        ("phone", "local", "phone"),
        ("home", "local", "ntfy"),
        ("inbox", "local", "inbox"),
        ("duetime-alerts", "local", "phone"),
        ("phone", "ann", "ntfy"),
        ("duetime-alerts", "ann", "ntfy"),
    ],
)
def test_a_message_that_only_the_server_can_deliver_waits_for_it(topic: str, owner: str, channel: str) -> None:
    delivery = ServerDelivery(Deliverer(), SERVER)
    assert delivery.channel_of(topic, owner) == channel
    outcome = delivery.deliver(OutgoingMessage("msg_1", topic, {"message": "Tea"}, 5.0, owner))
    if channel == "inbox":
        assert isinstance(outcome, Completed)
    else:
        assert isinstance(outcome, Returned) and outcome.after == 60 * SECOND
        assert outcome.reason is not None and f"the channel {channel} is not in the settings" in outcome.reason


NTFY_SERVER, CHANNEL = Destinations(ntfy=True), Destinations(channels={"ntfy": NamedChannel("https", ("local",))})


@pytest.mark.parametrize(("own", "server"), [(NTFY_SERVER, CHANNEL), (CHANNEL, NTFY_SERVER), (CHANNEL, CHANNEL)])
def test_a_channel_with_the_name_of_the_ntfy_server_is_told_apart_from_it(
    own: Destinations, server: Destinations
) -> None:
    outcome = ServerDelivery(Delivering(own), server).deliver(OutgoingMessage("msg_1", "ntfy", {}, 5.0))
    assert isinstance(outcome, Completed if own == server else Returned)


def test_an_alert_goes_to_the_topic_of_the_server_where_both_have_an_ntfy_server() -> None:
    own = Delivering(NTFY_SERVER)
    ServerDelivery(own, replace(NTFY_SERVER, alerts="home-alerts")).deliver(OutgoingMessage("1", ALERTS, {}, 5.0))
    assert own.topics == ["home-alerts"]


class Delivering(Deliverer):
    """Has places of its own, and keeps the topics of what it delivers."""

    def __init__(self, places: Destinations) -> None:
        self.places, self.topics = places, list[str]()

    def deliver(self, outgoing: OutgoingMessage) -> Outcome:
        self.topics.append(outgoing.topic)
        return super().deliver(outgoing)
