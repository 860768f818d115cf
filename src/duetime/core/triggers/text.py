"""How instants and the common fields look inside a stored trigger."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from duetime.core.clock import Instant, datetime_of, instant_of
from duetime.core.errors import InvalidTrigger

if TYPE_CHECKING:
    from duetime.core.triggers.base import Trigger


def instant_text(instant: Instant) -> str:
    return datetime_of(instant).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def instant_from(text: object, field: str) -> Instant:
    if isinstance(text, str) and text.endswith("Z"):
        try:
            return instant_of(datetime.fromisoformat(text))
        except ValueError:
            pass  # refused below, like everything else that is no such text
    raise InvalidTrigger(f"{field} must be an ISO 8601 time in UTC.", field=field)


def common_dict(trigger: Trigger) -> dict[str, object]:
    """The fields that all types share; what is not set is left out, so equal triggers have equal text."""
    common: dict[str, object] = {"type": trigger.type, "timezone": trigger.timezone}
    if trigger.start is not None:
        common["start"] = instant_text(trigger.start)
    if trigger.end is not None:
        common["end"] = instant_text(trigger.end)
    if trigger.jitter:
        common["jitter_us"] = trigger.jitter
    return common
