"""Pauses, resumes, cancels and deletes schedules, wherever they are kept: one, several by id, or all that match a
filter."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import Caller
from duetime.engine.model import Schedule, ScheduleState
from duetime.engine.queries import NOT_FOUND
from duetime.engine.result import Err, Ok, Result, err_of
from duetime.engine.scopes import DELETE, WRITE
from duetime.engine.store import ScheduleQuery
from duetime.engine.triggers.step_budget import LIST_STEPS, step_budget
from duetime.service.errors import refuse, refuse_many, unwrap
from duetime.service.kind_spec import ExternalSchedules, check_kind
from duetime.service.lookup import candidate, find_schedule
from duetime.service.pauses import falls_into_pause
from duetime.service.presenters import brief_view, instant_view
from duetime.service.services import Services, pages_of

ACTIONS: Final = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "delete": "deleted"}
"""The possible changes, each with its past participle for messages."""
FINAL: Final = {"cancel": "cancelling", "delete": "deleting"}
"""Changes that cannot be undone, each with its gerund for messages."""


class ChangeRequest(NamedTuple):
    action: str
    until: Instant | None = None
    """When the pause ends automatically."""
    note: str | None = None
    """Why it is paused."""
    asked: Instant | None = None
    """When a change of many schedules was asked for: whether `until` lies ahead is decided once for all of them."""


class Changed(NamedTuple):
    """A schedule after its change; a deleted schedule as it was before."""

    id: str
    schedule: Schedule | None
    """None if another service keeps it."""
    place: str | None = None
    """The name of the other service."""
    already: bool = False
    """Whether it was already in this state, so that nothing was changed."""


def change_schedule(
    services: Services,
    caller: Caller,
    given: str | int,
    request: ChangeRequest,
    *,
    kind: str | None = None,
    kinds: Collection[str] | None = None,
    gone: bool = True,
) -> Result[Changed]:
    """Find a schedule by an id or a name, first in this store and then at other services, and change it. `kind` is the
    only kind that the caller asks for; `kinds` are those that it may change at all. With `gone`, also find a schedule
    that its kind counts as gone."""
    found = find_schedule(services.scheduler, caller, given, kind)
    if isinstance(found, Ok):
        of = found.value.definition.kind
        if (kinds is not None and of not in kinds) or (not gone and services.hooks(of).is_gone(found.value)):
            return NOT_FOUND
    if isinstance(found, Err) and found.code == "not_found":
        elsewhere = _change_elsewhere(services, caller, str(given), request, kind, kinds)
        return found if elsewhere is None else elsewhere
    return found if isinstance(found, Err) else change_found(services, caller, found.value, request)


def change_found(services: Services, caller: Caller, found: Schedule, request: ChangeRequest) -> Result[Changed]:
    """Change a schedule of this store."""
    scheduler, id = services.scheduler, found.definition.public_id
    done: Result[Any]
    match request.action:
        case "pause":
            done = scheduler.pause(caller, found, until=request.until, note=request.note, asked=request.asked)
        case "resume":
            done = scheduler.resume(caller, found)
        case "cancel":
            done = scheduler.cancel(caller, found)
        case _:
            done = scheduler.delete(caller, found)
    if isinstance(done, Err):
        return done
    if not isinstance(done.value, Schedule):
        return Ok(Changed(id, found))
    definition, progress = done.value
    already = definition == found.definition and progress.state == found.progress.state
    return Ok(Changed(id, done.value, already=already))


def _change_elsewhere(
    services: Services, caller: Caller, id: str, request: ChangeRequest, kind: str | None, kinds: Collection[str] | None
) -> Result[Changed] | None:
    """Change a schedule that another service keeps; return None if no service has it."""
    for external in services.external(kind, kinds):
        done = change_external(external, caller, id, request)
        if not isinstance(done, Err) or done.code != "not_found":
            return done
    return None


def change_external(external: ExternalSchedules, caller: Caller, id: str, request: ChangeRequest) -> Result[Changed]:
    if (request.until is not None or request.note is not None) and external.actions(caller, id):
        reason = "where a pause has no end and no note; pause it without until and note, and resume it later"
        return Err("not_possible", f"{id} is kept at {external.place}, {reason}")
    done = external.change(caller, request.action, id)
    return done if isinstance(done, Err) else Ok(Changed(id, None, external.place))


# Changes of many schedules.

MOST: Final = 1000
"""Maximum number of schedules that one call changes."""
MOST_NAMES: Final = 100
"""Maximum number of ids or names in one request, because each is looked up."""
_MATCHING: Final = {"pause": (ScheduleState.ACTIVE,), "resume": (ScheduleState.PAUSED, ScheduleState.BROKEN)}
"""States that a filter matches; for the other actions, all states in which a schedule may still fire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The schedules to change: exactly one of `ids`, a filter, and `everything`. A filter matches only the caller's
    own."""

    ids: Sequence[str | int] = ()
    kind: str | None = None
    topic: str | None = None
    """The subject of the schedules: a topic, a task or an agent."""
    label: str | None = None
    """Their name."""
    everything: bool = False


class Target(NamedTuple):
    """A schedule to change, with its row for the answer."""

    id: str
    row: dict[str, Any]
    schedule: Schedule | None = None
    """None if another service keeps it."""


@dataclass(frozen=True, slots=True)
class BulkChange:
    """The result of changing many schedules."""

    matched: Sequence[dict[str, Any]]
    """The schedules that matched."""
    changed: int
    """How many of them were changed."""
    failed: Sequence[dict[str, Any]]
    """Those that could not be changed, with the reason."""


def change_schedules(
    services: Services,
    caller: Caller,
    selection: Selection,
    request: ChangeRequest,
    *,
    dry_run: bool = False,
    expected_count: int | None = None,
    confirmed: bool = False,
    kinds: Collection[str] | None = None,
    zone: str | None = None,
) -> Result[BulkChange]:
    """Change all selected schedules, each in its own transaction; failures are reported, and the rest continues. Times
    in the answer are in `zone`. To cancel or delete is final, so it requires `expected_count`, how many schedules the
    caller expects to match, or `confirmed`: a person has seen them."""
    zone = services.zone if zone is None else zone
    request = request._replace(asked=services.scheduler.clock.now())
    try:
        _check(caller, selection, request)
        targets, failed = _targets(services, caller, selection, request, kinds)
        if not dry_run:
            _check_count(request, len(targets), expected_count, confirmed)
    except DuetimeError as error:
        return err_of(error)
    if request.action == "pause":
        _add_effects(targets, request.until, zone)
    done = 0
    for target in () if dry_run else targets:
        result = change_schedule(services, caller, target.id, request, kinds=kinds)
        if isinstance(result, Err):
            failed.append({**target.row, "error": result.message or "it is gone"})
        else:
            done += 1
            if result.value.schedule is not None and request.action != "delete":
                target.row.update(brief_view(result.value.schedule, zone))
    return Ok(BulkChange([target.row for target in targets], done, failed))


def _check(caller: Caller, selection: Selection, request: ChangeRequest) -> None:
    action = DELETE if request.action in ("cancel", "delete") else WRITE
    refuse_many(caller, "change many schedules", "change them one by one", action)
    if request.action not in ACTIONS:
        raise refuse("invalid", f"action: must be one of {', '.join(ACTIONS)}", "action")
    if request.action != "pause" and (request.until is not None or request.note is not None):
        raise refuse("invalid", "until: belongs to the action pause; leave it out", "until")
    check_kind(selection.kind)
    filtered = any(each is not None for each in (selection.kind, selection.topic, selection.label))
    if not all(type(each) in (str, int) for each in selection.ids):
        raise refuse("invalid", 'ids: a list of ids or names, such as ["job_5_1770000000", 12]', "ids")
    if [bool(selection.ids), filtered, selection.everything].count(True) != 1:
        raise refuse("invalid", "ids: give either ids, or a filter (kind, topic, label), or all", "ids")


def _add_effects(targets: Sequence[Target], until: Instant | None, zone: str) -> None:
    """Add to the rows when the pause ends and what falls into it."""
    with step_budget(LIST_STEPS):
        for target in targets:
            if target.schedule is not None:
                target.row["paused_until"] = instant_view(until, zone)
                target.row["falls_into_pause"] = falls_into_pause(target.schedule, until, zone)


def _check_count(request: ChangeRequest, matched: int, expected: int | None, confirmed: bool) -> None:
    if request.action in FINAL and expected is None and not confirmed:
        doing = FINAL[request.action]
        text = f"expected_count: {doing} is final, so say how many; {matched} match (dry_run lists them)"
        raise refuse("invalid", text, "expected_count")
    if expected is not None and expected != matched:
        text = f"expected_count: {matched} match, not {expected}, so nothing was changed; dry_run lists them"
        raise refuse("conflict", text, "expected_count")


def _targets(
    services: Services, caller: Caller, selection: Selection, request: ChangeRequest, kinds: Collection[str] | None
) -> tuple[list[Target], list[dict[str, Any]]]:
    if selection.ids:
        return _by_ids(services, caller, selection.ids, kinds)
    found = {target.id: target for target in _matching(services, caller, selection, request, kinds)}
    if len(found) > MOST:
        raise refuse("invalid", f"ids: more than {MOST} match; narrow it down with kind, topic or label", "ids")
    return list(found.values()), []


def _by_ids(
    services: Services, caller: Caller, ids: Sequence[str | int], kinds: Collection[str] | None
) -> tuple[list[Target], list[dict[str, Any]]]:
    """Find each schedule once. One that is not in this store may be at another service, which is asked when it is
    changed."""
    if len(ids) > MOST:
        raise refuse("invalid", f"ids: at most {MOST}", "ids")
    targets: dict[str, Target] = {}
    failed: list[dict[str, Any]] = []
    for given in ids:
        found = find_schedule(services.scheduler, caller, given)
        if isinstance(found, Ok) and (kinds is None or found.value.definition.kind in kinds):
            id, owner = found.value.definition.public_id, found.value.definition.owner
            of = {} if owner == caller.owner else {"owner": owner}
            targets[id] = Target(id, candidate(found.value) | of, found.value)
        elif (row := _elsewhere(services, caller, kinds).get(str(given))) is not None:
            targets[str(given)] = Target(str(given), row)
        else:
            failed.append(
                {"id": given, "error": found.message if isinstance(found, Err) else "there is no such schedule"}
            )
    return list(targets.values()), failed


def _elsewhere(services: Services, caller: Caller, kinds: Collection[str] | None) -> dict[str, dict[str, Any]]:
    """Return the schedules that other services keep for the caller, each with its row."""
    pairs = ((external, each) for external in services.external(kinds=kinds) for each in unwrap(external.list(caller)))
    return {each.id: {"id": each.id, "kept_at": external.place, **each.fields} for external, each in pairs}


def _matching(
    services: Services, caller: Caller, selection: Selection, request: ChangeRequest, kinds: Collection[str] | None
) -> Iterator[Target]:
    """Yield the schedules that a filter matches, at most one more than may be changed."""
    states, number = _MATCHING.get(request.action), 0
    query = ScheduleQuery(
        owner=caller.owner,
        kind=selection.kind,
        subject=selection.topic,
        name=selection.label,
        status="living",
        limit=500,
        count_to=0,
    )
    for page in pages_of(services.scheduler.search, caller, query):
        for each in page.items:
            fits = kinds is None or each.definition.kind in kinds
            if fits and (states is None or each.progress.state in states) and number <= MOST:
                number += 1
                yield Target(each.definition.public_id, candidate(each), each)
        if number > MOST:
            return
    yield from _matching_elsewhere(services, caller, selection, request, kinds)


def _matching_elsewhere(
    services: Services, caller: Caller, selection: Selection, request: ChangeRequest, kinds: Collection[str] | None
) -> Iterator[Target]:
    if selection.label is not None:  # other services keep no names
        return
    for external in services.external(selection.kind, kinds):
        for each in unwrap(external.list(caller)):
            fits = selection.topic is None or selection.topic in each.fields.values()
            possible = request.action == "cancel" or request.action in external.actions(caller, each.id)
            needed = {"pause": not each.paused, "resume": each.paused}.get(request.action, True)
            if fits and possible and needed:
                yield Target(each.id, {"id": each.id, "kept_at": external.place, **each.fields})
