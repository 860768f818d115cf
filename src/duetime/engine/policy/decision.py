"""The input and the result of a decision about one schedule, and helpers that these decisions share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

from duetime.engine.clock import Instant
from duetime.engine.errors import Conflict, InvalidInput
from duetime.engine.model import ENDED, Definition, Run, Schedule, ScheduleId
from duetime.engine.policy.finish import Reader
from duetime.engine.policy.rows import NewId, Writes
from duetime.engine.value_class import NamedTuple

P = ParamSpec("P")
T = TypeVar("T")


class Change(NamedTuple):
    """The input of a decision: the locked rows, the instant, and a reader for further rows."""

    schedule: Schedule
    now: Instant
    reader: Reader
    new_id: NewId
    depth: int = 0
    """The caller's depth: 0 for a person, more for an agent's run."""
    actor: str | None = None
    """The caller, as it is stored: see `engine.actor`."""

    @property
    def set_off(self) -> Definition:
        """The definition with a depth of at least what the caller would give it by creating it: otherwise, two runs
        that start each other would never end."""
        definition = self.schedule.definition
        return definition if self.depth <= definition.depth else definition._replace(depth=self.depth)

    def check_circle(self, trigger: str) -> None:
        """Refuse a trigger with which the schedule would follow itself. Until the change is written, no other schedule
        of the owner can become part of a chain."""
        definition, place = self.schedule.definition, followed_by(trigger)
        if place is not None:
            self.reader.lock_owner(definition.owner)
        seen = set()
        while place is not None and place not in seen:
            if place == definition.id:
                text = "it would follow itself, directly or by way of others; let it follow a schedule that does not"
                raise Conflict(text, code="not_possible")
            seen.add(place)
            place = followed_by(self.reader.trigger_of(place) or "")


Decision: TypeAlias = tuple[Writes, T]
"""The rows to write, and the value for the caller. A decision against the change is raised as Refused."""
RunDecider: TypeAlias = Callable[[Change, Run], Decision[T]]


def followed_by(trigger: str) -> ScheduleId | None:
    """Return the schedule that a stored trigger follows; None if it follows none."""
    _, separator, rest = trigger.partition(f'"event":"{ENDED}')
    return ScheduleId(int(rest.partition('"')[0])) if separator else None


def changed(schedule: Schedule, writes: Writes) -> Schedule:
    """Return a schedule as it is after these writes."""
    definition, progress = schedule
    edited = next((each for each in writes.definitions if each.id == definition.id), definition)
    return Schedule(edited, writes.progress.get(definition.id, progress))


def as_stored(decide: Callable[P, Decision[T]]) -> Callable[P, Decision[T]]:
    """Make a decision raise `broken` if a stored trigger or policy can no longer be read, because InvalidInput would
    blame the caller."""

    @wraps(decide)
    def answered(*args: P.args, **kwargs: P.kwargs) -> Decision[T]:
        try:
            return decide(*args, **kwargs)
        except InvalidInput as error:
            reason = f"what is stored of it cannot be used ({error}); edit that, or delete it"
            raise Conflict(reason, code="broken") from error

    return answered


_VERBS = {"ended": "has", "failed": "has", "lost": "was", "missed": "was", "skipped": "was"}


def not_possible(verb: str, state: str) -> Conflict:
    return Conflict(f"it {state_words(state)}, so it cannot be {verb}", code="not_possible", details={"state": state})


def state_words(state: str) -> str:
    return f"{_VERBS.get(state, 'is')} {state}"


def touch(writes: Writes, change: Change, **changed: Any) -> None:
    """Bump `updated` so that the change feed sees the change, although the content is the same."""
    writes.definitions.append(change.set_off._replace(updated=change.now, **changed))
