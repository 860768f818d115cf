"""`find_schedule` finds a schedule by what people and agents write: an id, its number, a short id, or a name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Definition, Run, Schedule, ScheduleId, ScheduleState
from duetime.engine.queries import NOT_FOUND, could_be_an_id, expected, seen_by
from duetime.engine.result import Err, Ok, Result
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import ScheduleQuery
from duetime.service.errors import error_of, unwrap
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


@expected
def find_schedule(
    scheduler: Scheduler, caller: Caller, given: str | int, kind: str | None = None, *, deleted: bool = False
) -> Result[Schedule]:
    """Find a schedule of the caller by its id (`job_5_1770000000`, `scd_...`), its number (5, `5`, `#5`), its short id
    (`j5`), the beginning of its id (`job_5`, `scd_1a2b`) or its name, whatever its case. At most eight indexed queries;
    one for a whole id.

    If several match, the error is `ambiguous`, with the `candidates` in its details. If only a schedule of another kind
    than `kind` matches, the error is `not_found`, with that schedule as `found` in its details. `deleted`: the id of a
    deleted schedule finds it too, for its history. A schedule that is kept outside of this store is an error, which
    says so.
    """
    result = _find(scheduler, caller, given, kind, deleted=deleted)
    if not isinstance(result, Err) or result.code != NOT_FOUND.code:
        return result
    for each in scheduler.kinds.values():
        if isinstance(each, KindHooks) and kind in (None, each.name):
            result = each.outside().why_missing(caller, str(given)) or result
    return result


def _find(
    scheduler: Scheduler, caller: Caller, given: str | int, kind: str | None, *, deleted: bool
) -> Result[Schedule]:
    text = str(given).strip()
    if not text or not could_be_an_id(text):
        return NOT_FOUND
    found = _by_id(scheduler, caller, text, deleted=deleted)
    if found is not None:
        return _of_kind(found, kind)
    if isinstance(given, int):  # a number is never a name
        return NOT_FOUND
    short = _by_short_id(scheduler, caller, text, deleted=deleted)
    for query in _searches(text):
        matching = _matching(scheduler, caller, query, kind)
        if short is not None and all(each.definition.id != short.definition.id for each in matching):
            matching = [short, *matching]  # a name may look like the short id of another schedule
        if len(matching) == 1:
            return _of_kind(matching[0], kind)
        if matching:
            return _ambiguous(text, matching)
    return _of_others(scheduler, caller, text) if caller.operator else NOT_FOUND


def find(call: Call, reference: str | int | Schedule, kind: str | None = None, *, deleted: bool = False) -> Schedule:
    """Return a schedule as `find_schedule` does, unless it was read already. One of a kind that the call does not serve
    is not found, with that schedule as `found` in the details of the error."""
    if isinstance(reference, Schedule):
        return reference
    schedule = unwrap(find_schedule(call.scheduler, call.caller, reference, kind, deleted=deleted))
    if not call.serves(schedule.definition.kind):
        raise error_of(Err(NOT_FOUND.code, NOT_FOUND.message, {"found": candidate(schedule)}))
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
    found = scheduler.store.find(text)
    if found is None and (number := _NUMBER.fullmatch(text) or _NUMBERED.fullmatch(text)):
        found = scheduler.store.get(ScheduleId(int(number[1])))
        if found is not None and text[0].isalpha() and not found.definition.public_id.startswith(f"{text}_"):
            return None
    return _visible(found, caller, deleted=deleted)


def _by_short_id(scheduler: Scheduler, caller: Caller, text: str, *, deleted: bool) -> Schedule | None:
    match = _SHORT.fullmatch(text)
    found = None if match is None else scheduler.store.get(ScheduleId(int(match[2])))
    if match is None or found is None or found.definition.kind[0] != match[1]:
        return None
    return _visible(found, caller, deleted=deleted)


def _visible(found: Schedule | None, caller: Caller, *, deleted: bool) -> Schedule | None:
    if found is None or not caller.sees(found.definition.owner, found.definition.kind):
        return None
    return None if found.progress.state == ScheduleState.DELETED and not deleted else found


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
    found = of_kind or scheduler.store.search(query).items
    exact = [each for each in found if each.definition.name == query.name]
    return exact or found


def _of_others(scheduler: Scheduler, caller: Caller, name: str) -> Err:
    """Return the error for an operator who has no schedule of this name, with the ids of those that others have."""
    query = seen_by(caller, ScheduleQuery(name=name, limit=MOST_NAMED, count_to=0))
    others = ", ".join(f"{short_id(each)} (owner {each.owner})" for each, _ in scheduler.store.search(query).items)
    message = f"none of your schedules is called {name[:60]!r}; those of others are found by their id: {others}"
    return Err(NOT_FOUND.code, message, {"others": others}) if others else NOT_FOUND


def _of_kind(found: Schedule, kind: str | None) -> Result[Schedule]:
    if kind is None or found.definition.kind == kind:
        return Ok(found)
    return Err(NOT_FOUND.code, NOT_FOUND.message, {"found": candidate(found)})


def _ambiguous(text: str, matching: Sequence[Schedule]) -> Err:
    shown = [candidate(each) for each in matching[:MOST_NAMED]]
    number = f"more than {MOST_NAMED} schedules" if len(matching) > MOST_NAMED else plural(len(matching), "schedule")
    listed = ", ".join(f"{each['id']} ({each['kind']} {each['name']!r})" for each in shown)
    message = f"{text[:60]!r} could mean {number}; give the id of one of these: {listed}"
    short = [short_id(each.definition) for each in matching[:MOST_NAMED]]
    return Err("ambiguous", message, {"candidates": shown, "short_ids": short})
