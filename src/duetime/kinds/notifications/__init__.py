"""Notifications: messages to a person, by channels to a phone or into the built-in inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duetime.service.kind_spec import Command, KindSpec

if TYPE_CHECKING:
    from duetime.settings import Settings


def _may_be_at_qstash(settings: Settings) -> bool:
    from duetime.settings.sections import QSTASH

    return settings.notifications.backend == QSTASH


SPEC = KindSpec(
    name="notification",
    plural="notifications",
    build="duetime.kinds.notifications.build:build",
    payload_fields="message, topic, title, priority and so on",
    title="Tell a person",
    family="notifications",
    tools="duetime.kinds.notifications.mcp.tools:TOOLS",
    resources="duetime.kinds.notifications.mcp.tools:RESOURCES",
    recipes="duetime.kinds.notifications.mcp.tools:RECIPES",
    instructions="notifications reach a person's phone (schedule_notification, schedule_cron_notification)",
    api="duetime.kinds.notifications.api:routes",
    commands=(
        Command(
            "notify", "duetime.kinds.notifications.cli:commands", "Notifications: send one, add, edit and list them."
        ),
        Command(
            "inbox",
            "duetime.kinds.notifications.cli:inbox_commands",
            "Notifications that arrived in the built-in inbox.",
        ),
    ),
    view="duetime.kinds.notifications.view:NOTIFICATION",
    form="duetime.kinds.notifications.dashboard:FORM",
    pages="duetime.kinds.notifications.dashboard:PAGES",
    editable="duetime.kinds.notifications.mcp.text:EDITABLE",
    outcome="duetime.kinds.notifications.delivery:outcome_of",
    settings="duetime.kinds.notifications.settings:SETTINGS",
    checks="duetime.kinds.notifications.checks:CHECKS",
    text="message",
    five_cron_fields=True,
    recipient="topic",
    may_be_outside=_may_be_at_qstash,
    colour=3,
    icon="bell",
)
