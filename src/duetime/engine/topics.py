"""Topics: what a message is filed under, and what its receiver subscribes to."""

from __future__ import annotations

import re

from duetime.engine.errors import InvalidInput

TOPIC = r"^[a-z0-9]+(-[a-z0-9]+)*$"
_TOPIC = re.compile(TOPIC[1:-1])
_LONGEST = 200

ALERTS = "duetime-alerts"
"""The topic for alerts that need a person, where a schedule names no topic itself."""


def is_topic(text: object) -> bool:
    return isinstance(text, str) and len(text) <= _LONGEST and _TOPIC.fullmatch(text) is not None


def checked_topic(text: object, field: str = "topic") -> str:
    if isinstance(text, str) and is_topic(text):
        return text
    raise InvalidInput(
        field=field,
        problem=(
            f"lowercase letters and digits, joined by single hyphens, at most {_LONGEST} characters: for example"
            f" home-alerts; not {repr(text)[:80]}"
        ),
    )
