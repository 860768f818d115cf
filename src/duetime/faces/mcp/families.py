"""The families of tools, and which of them are switched on."""

from __future__ import annotations

from collections.abc import Sequence

from duetime.core.errors import InvalidInput
from duetime.faces.mcp import (
    job_resources,
    job_tools,
    notification_resources,
    notifications,
    prompt_resources,
    prompt_tools,
    upcoming,
)
from duetime.faces.mcp.resource import Resource
from duetime.faces.mcp.tool import Tool

_TOOLS: dict[str, list[Tool]] = {
    "jobs": job_tools.TOOLS,
    "prompts": prompt_tools.TOOLS,
    "notifications": notifications.TOOLS,
}
_RESOURCES: dict[str, list[Resource]] = {
    "jobs": job_resources.RESOURCES,
    "prompts": prompt_resources.RESOURCES,
    "notifications": notification_resources.RESOURCES,
}
FAMILIES = tuple(_TOOLS)


def check_families(names: Sequence[str]) -> tuple[str, ...]:
    """All of them when none is named."""
    for name in names:
        if name not in FAMILIES:
            raise InvalidInput(f"tools: there is no family {name!r}; there are {', '.join(FAMILIES)}", field="tools")
    return tuple(names) or FAMILIES


def tools_of(families: Sequence[str]) -> list[Tool]:
    return [tool for name in families for tool in _TOOLS[name]] + upcoming.TOOLS


def resources_of(families: Sequence[str]) -> list[Resource]:
    return [resource for name in families for resource in _RESOURCES[name]]
