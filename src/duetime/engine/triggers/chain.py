"""The trigger of a schedule that follows another: the end of a run of that one is an event, to which this one listens.

It refers to the other schedule by its number, so that a rename changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from duetime.engine.errors import InvalidTrigger
from duetime.engine.model import ENDED, FOLLOWED, RunStatus, ScheduleId
from duetime.engine.triggers.event import EventTrigger
from duetime.engine.value_class import dataclass

OUTCOMES: Final[Mapping[str, tuple[str, ...]]] = {
    "succeeds": (RunStatus.COMPLETED,),
    "fails": (RunStatus.FAILED, RunStatus.LOST),
    "ends": (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.LOST),
}
"""The statuses of runs after which a schedule follows. Skipped, missed and cancelled runs are no end."""


@dataclass(frozen=True, kw_only=True)
class ChainTrigger(EventTrigger):
    id: str
    """The id of the schedule that it follows."""
    outcome: str

    def to_dict(self) -> dict[str, object]:
        return super().to_dict() | {"id": self.id, "outcome": self.outcome}


class Followed(NamedTuple):
    """A schedule that another follows, as it was when that was decided."""

    number: ScheduleId
    id: str
    name: str


def chain_after(config: Mapping[str, Any], **common: Any) -> ChainTrigger:
    """Return the trigger of a configuration to which the scheduler has added the schedule that is followed."""
    outcome, followed = config.get("outcome", "succeeds"), config.get(FOLLOWED)
    if outcome not in OUTCOMES:
        raise InvalidTrigger(field="outcome", problem=f"must be one of {', '.join(OUTCOMES)}.")
    if not isinstance(followed, Followed):
        raise InvalidTrigger(field="schedule", problem="must be the id or the name of a schedule to follow.")
    event, where = f"{ENDED}{followed.number}", (("status", OUTCOMES[outcome]),)
    return ChainTrigger(event=event, where=where, label=followed.name, id=followed.id, outcome=outcome, **common)


def stored_chain(stored: Mapping[str, Any], name: str, **common: Any) -> ChainTrigger:
    number, id_ = str(stored.get("event")).removeprefix(ENDED), stored.get("id")
    known = isinstance(id_, str) and number.isdecimal()
    followed = Followed(ScheduleId(int(number)), str(id_), name) if known else None
    return chain_after({"outcome": stored.get("outcome"), FOLLOWED: followed}, **common)
