"""`find_schedule` finds a schedule by what people and agents write: an id, its number, a short id, or a name."""

from __future__ import annotations

from collections.abc import Sequence

from duetime.engine.errors import DuetimeError, NotFound
from duetime.engine.kind import LOCAL
from duetime.engine.model import Definition, Run, Schedule
from duetime.engine.queries import MOST_NAMED, could_be_an_id, no_schedule, seen_by
from duetime.engine.store import ScheduleQuery
from duetime.service.errors import refuse
from duetime.service.masking import masked
from duetime.service.presenters import reads_as
from duetime.service.services import Call
from duetime.service.text import plural


def find_schedule(call: Call, reference: str | int, kind: str | None = None, *, deleted: bool = False) -> Schedule:
    """Find a schedule of the caller: see `Queries.meant_by`.

    If several match, the error is `ambiguous`, with the `candidates` in its details. If only a schedule of another kind
    than `kind` matches, the error is `not_found`, with that schedule as `found` in its details. `deleted`: the id of a
    deleted schedule finds it too, for its history. A schedule that is kept outside of this store is an error, which
    says so.
    """
    try:
        return _find(call, reference, kind, deleted=deleted)
    except NotFound:
        for outside in call.services.outside(kind).values():
            reason = outside.why_missing(call.caller, str(reference))
            if reason is not None:
                raise reason from None
        raise


def _find(call: Call, reference: str | int, kind: str | None, *, deleted: bool) -> Schedule:
    text, matching = str(reference).strip(), call.scheduler.meant_by(call.caller, reference, kind, deleted=deleted)
    if len(matching) > 1:
        raise _ambiguous(text, matching)
    if matching and kind not in (None, matching[0].definition.kind):
        raise no_schedule(found=candidate(matching[0]))
    if matching:
        return matching[0]
    is_name = isinstance(reference, str) and could_be_an_id(text)
    raise _of_others(call, text) if call.caller.operator and is_name else no_schedule()


def find(call: Call, reference: str | int | Schedule, kind: str | None = None, *, deleted: bool = False) -> Schedule:
    """Return a schedule as `find_schedule` does, unless it was read already. One of a kind that the call does not serve
    is not found, with that schedule as `found` in the details of the error."""
    if isinstance(reference, Schedule):
        return reference
    schedule = find_schedule(call, reference, kind, deleted=deleted)
    if not call.serves(schedule.definition.kind):
        raise no_schedule(found=candidate(schedule))
    return schedule


def is_stored(definition: Definition) -> bool:
    """Return whether a schedule is in this store; one that is kept outside has no number."""
    return definition.id != 0


def name_of(thing: Definition | Run) -> str:
    """Return the name of a schedule or of a run for a confirmation, with the owner if that is not the local one."""
    return thing.name if thing.owner == LOCAL else f"{thing.name} (owner {thing.owner})"


def candidate(schedule: Schedule) -> dict[str, object]:
    """Return the fields that distinguish a schedule from others."""
    definition = schedule.definition
    return {"id": definition.public_id, "kind": definition.kind, "name": masked(definition.name)}


def _of_others(call: Call, name: str) -> NotFound:
    """Return the error for an operator who has no schedule of this name, with the ids of those that others have."""
    query = seen_by(call.caller, ScheduleQuery(name=name, limit=MOST_NAMED, count_to=0))
    others = ", ".join(f"{each.short_id} (owner {each.owner})" for each, _ in call.scheduler.store.search(query).items)
    message = f"none of your schedules is called {name[:60]!r}; those of others are found by their id: {others}"
    return NotFound(message, details={"others": others}) if others else no_schedule()


def _ambiguous(text: str, matching: Sequence[Schedule]) -> DuetimeError:
    candidates = [{**candidate(each), "reads_as": reads_as(each.definition.trigger)} for each in matching[:MOST_NAMED]]
    number = f"more than {MOST_NAMED} schedules" if len(matching) > MOST_NAMED else plural(len(matching), "schedule")
    listed = ", ".join(f"{each['id']} ({each['kind']} {each['name']!r}, {each['reads_as']})" for each in candidates)
    message = f"{text[:60]!r} could mean {number}; give the id of one of these: {listed}"
    short = [each.definition.short_id for each in matching[:MOST_NAMED]]
    return refuse("ambiguous", message, details={"candidates": candidates, "short_ids": short})
