"""MCP prompts: ready-made requests that a client can offer to its user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recipe:
    name: str
    title: str
    description: str
    arguments: Mapping[str, str]
    text: Callable[[Mapping[str, str]], str]


def _quoted(arguments: Mapping[str, str], name: str, otherwise: str) -> str:
    """Wrap user input in a tag, so that it is data within the prompt and not part of its wording."""
    value = arguments.get(name, "").strip()
    return f"\n\n<{name}>\n{value}\n</{name}>\n\n" if value else f" {otherwise} "


RECIPES = [
    Recipe(
        "remind_me",
        "Remind me",
        "Send me a message at a time.",
        {"what": "What to be reminded of.", "when": "When, in your own words."},
        lambda given: (
            "Schedule a notification for me with schedule_notification (or schedule_cron_notification if it repeats)."
            f" What:{_quoted(given, 'what', 'ask me.')}When:{_quoted(given, 'when', 'ask me.')}"
            "Use my time zone, ask for the topic if you do not know it, and tell me the local time that was understood."
        ),
    ),
    Recipe(
        "what_is_scheduled",
        "What is scheduled?",
        "Everything that fires next.",
        {},
        lambda given: "Call list_upcoming and tell me in local time what fires next, by day. Say so if nothing does.",
    ),
    Recipe(
        "stop_this",
        "Stop something",
        "Find a schedule and cancel it.",
        {"what": "What should stop."},
        lambda given: (
            f"Find what I mean with list_upcoming, list_jobs, schedule_list and list_scheduled_notifications:"
            f"{_quoted(given, 'what', 'ask me.')}"
            "Show me the one that you found and ask before you cancel or delete it."
        ),
    ),
]
