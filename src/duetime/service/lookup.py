"""`find_schedule` finds a schedule by what people and agents write: an id, its number, a short id, or a name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from duetime.engine.errors import DuetimeError, NotFound
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Definition, Run, Schedule, ScheduleId, ScheduleState
from duetime.engine.queries import could_be_an_id, no_schedule, seen_by
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import ScheduleQuery
from duetime.service.errors import refuse
from duetime.service.kind_spec import KindHooks
from duetime.service.masking import masked
from duetime.service.services import Call
from duetime.service.text import plural

MOST_NAMED = 5
"""Number of candidates that an error names."""
_NUMBER = re.compile(r"#?([0-9]{1,18})")
_NUMBERED = re.compile(r"[a-z]+_([0-9]{1,18})")
"""The beginning of an id that contains the number, such as job_5 of job_5_1770000000."""
_SHORT = re.compile(r"([a-z])([0-9]{1,18})")
"""A short id: the first letter of the kind and the number."""
_BEGINNING = re.compile(r"[a-z]+_[0-9a-f]{4,31}")


def find_schedule(
    scheduler: Scheduler, caller: Caller, reference: str | int, kind: str | None = None, *, deleted: bool = False
) -> Schedule:
    """Find a schedule of the caller by its id (`job_5_1770000000`, `scd_...`), its number (5, `5`, `#5`), its short id
    (`j5`), the beginning of its id (`job_5`, `scd_1a2b`) or its name, whatever its case. At most eight indexed queries;
    one for a whole id.

    If several match, the error is `ambiguous`, with the `candidates` in its details. If only a schedule of another kind
    than `kind` matches, the error is `not_found`, with that schedule as `found` in its details. `deleted`: the id of a
    deleted schedule finds it too, for its history. A schedule that is kept outside of this store is an error, which
    says so.
    """
    try:
        return _find(scheduler, caller, reference, kind, deleted=deleted)
    except NotFound:
        for each in scheduler.kinds.values():
            if isinstance(each, KindHooks) and kind in (None, each.name):
                reason = each.outside().why_missing(caller, str(reference))
                if reason is not None:
                    raise reason from None
        raise


def _find(scheduler: Scheduler, caller: Caller, reference: str | int, kind: str | None, *, deleted: bool) -> Schedule:
    text = str(reference).strip()
    if not text or not could_be_an_id(text):
        raise no_schedule()
    schedule = _by_id(scheduler, caller, text, deleted=deleted)
    if schedule is not None:
        return _of_kind(schedule, kind)
    if isinstance(reference, int):  # a number is never a name
        raise no_schedule()
    short = _by_short_id(scheduler, caller, text, deleted=deleted)
    for query in _searches(text):
        matching = _matching(scheduler, caller, query, kind)
        if short is not None and all(each.definition.id != short.definition.id for each in matching):
            matching = [short, *matching]  # a name may look like the short id of another schedule
        if len(matching) == 1:
            return _of_kind(matching[0], kind)
        if matching:
            raise _ambiguous(text, matching)
    raise _of_others(scheduler, caller, text) if caller.operator else no_schedule()


def find(call: Call, reference: str | int | Schedule, kind: str | None = None, *, deleted: bool = False) -> Schedule:
    """Return a schedule as `find_schedule` does, unless it was read already. One of a kind that the call does not serve
    is not found, with that schedule as `found` in the details of the error."""
    if isinstance(reference, Schedule):
        return reference
    schedule = find_schedule(call.scheduler, call.caller, reference, kind, deleted=deleted)
    if not call.serves(schedule.definition.kind):
        raise no_schedule(found=candidate(schedule))
    return schedule


def short_id(definition: Definition) -> str:
    """Return the id that people read and type: the first letter of the kind and the number, if it has one."""
    return f"{definition.kind[0]}{definition.id}" if is_stored(definition) else definition.public_id


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


def _by_id(scheduler: Scheduler, caller: Caller, text: str, *, deleted: bool) -> Schedule | None:
    schedule = scheduler.store.find(text)
    if schedule is None and (number := _NUMBER.fullmatch(text) or _NUMBERED.fullmatch(text)):
        schedule = scheduler.store.get(ScheduleId(int(number[1])))
        if schedule is not None and text[0].isalpha() and not schedule.definition.public_id.startswith(f"{text}_"):
            return None
    return _visible(schedule, caller, deleted=deleted)


def _by_short_id(scheduler: Scheduler, caller: Caller, text: str, *, deleted: bool) -> Schedule | None:
    match = _SHORT.fullmatch(text)
    schedule = None if match is None else scheduler.store.get(ScheduleId(int(match[2])))
    if match is None or schedule is None or schedule.definition.kind[0] != match[1]:
        return None
    return _visible(schedule, caller, deleted=deleted)


def _visible(schedule: Schedule | None, caller: Caller, *, deleted: bool) -> Schedule | None:
    if schedule is None or not caller.sees(schedule.definition.owner, schedule.definition.kind):
        return None
    return None if schedule.progress.state == ScheduleState.DELETED and not deleted else schedule


def _searches(text: str) -> list[ScheduleQuery]:
    """Return the further searches; the first one that finds something decides."""
    by_name = ScheduleQuery(name=text, limit=MOST_NAMED + 1, count_to=0)
    named = [replace(by_name, status="living"), by_name]
    return [replace(by_name, name=None, id_prefix=text), *named] if _BEGINNING.fullmatch(text) else named


def _matching(scheduler: Scheduler, caller: Caller, query: ScheduleQuery, kind: str | None) -> Sequence[Schedule]:
    """Return the matches, only those of this kind if there are any; of names that differ in case, the one with the
    given case. A name finds only the caller's own: whoever gives theirs the same name must not get an operator's
    changes."""
    query = seen_by(caller, query)
    query = query if query.name is None else replace(query, owner=caller.owner)
    of_kind = [] if kind is None else scheduler.store.search(replace(query, kind=kind)).items
    schedules = of_kind or scheduler.store.search(query).items
    exact = [each for each in schedules if each.definition.name == query.name]
    return exact or schedules


def _of_others(scheduler: Scheduler, caller: Caller, name: str) -> NotFound:
    """Return the error for an operator who has no schedule of this name, with the ids of those that others have."""
    query = seen_by(caller, ScheduleQuery(name=name, limit=MOST_NAMED, count_to=0))
    others = ", ".join(f"{short_id(each)} (owner {each.owner})" for each, _ in scheduler.store.search(query).items)
    message = f"none of your schedules is called {name[:60]!r}; those of others are found by their id: {others}"
    return NotFound(message, details={"others": others}) if others else no_schedule()


def _of_kind(schedule: Schedule, kind: str | None) -> Schedule:
    if kind is None or schedule.definition.kind == kind:
        return schedule
    raise no_schedule(found=candidate(schedule))


def _ambiguous(text: str, matching: Sequence[Schedule]) -> DuetimeError:
    candidates = [candidate(each) for each in matching[:MOST_NAMED]]
    number = f"more than {MOST_NAMED} schedules" if len(matching) > MOST_NAMED else plural(len(matching), "schedule")
    listed = ", ".join(f"{each['id']} ({each['kind']} {each['name']!r})" for each in candidates)
    message = f"{text[:60]!r} could mean {number}; give the id of one of these: {listed}"
    short = [short_id(each.definition) for each in matching[:MOST_NAMED]]
    return refuse("ambiguous", message, details={"candidates": candidates, "short_ids": short})
