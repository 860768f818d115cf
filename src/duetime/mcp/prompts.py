"""MCP prompts: ready-made requests that a client can offer to its user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from duetime.mcp.tool import Tool
from duetime.service.text import listed


@dataclass(frozen=True, slots=True)
class Recipe:
    """An MCP prompt; the name keeps it apart from other meanings of the word."""

    name: str
    title: str
    description: str
    arguments: Mapping[str, str]
    text: Callable[[Mapping[str, str]], str]


def quoted(arguments: Mapping[str, str], name: str, otherwise: str = "ask me.") -> str:
    """Wrap user input in a tag, so that it is data within the prompt and not part of its wording."""
    value = arguments.get(name, "").strip()
    return f"\n\n<{name}>\n{value}\n</{name}>\n\n" if value else f" {otherwise} "


def general_recipes(tools: Sequence[Tool]) -> list[Recipe]:
    """Return the prompts about the schedules of all kinds."""
    lists = listed([tool.name for tool in tools if tool.lists_schedules])
    return [
        Recipe(
            "what_is_scheduled",
            "What is scheduled?",
            "Everything that fires next.",
            {},
            lambda _: "Call list_upcoming and tell me in local time what fires next, by day. Say so if nothing does.",
        ),
        Recipe(
            "stop_this",
            "Stop something",
            "Find a schedule and cancel it.",
            {"what": "What should stop."},
            lambda given: (
                f"Find what I mean with {lists}:{quoted(given, 'what')}"
                "Show me the one that you found and ask before you cancel or delete it."
            ),
        ),
    ]
