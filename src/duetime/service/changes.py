"""Pause, resume, cancel and delete one schedule, wherever it is kept; `bulk_changes` does so with many."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.kind import Caller
from duetime.engine.model import Schedule
from duetime.engine.queries import NOT_FOUND
from duetime.engine.result import Err, Ok, Result
from duetime.service.kind_spec import ExternalSchedules
from duetime.service.lookup import find_schedule
from duetime.service.services import Services

ACTIONS: Final = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "delete": "deleted"}
"""The changes, each with the word for one that was made."""


class ChangeRequest(NamedTuple):
    action: str
    until: Instant | None = None
    """When a pause ends by itself."""
    note: str | None = None
    """Why it is paused."""


class Changed(NamedTuple):
    """A schedule after its change; a deleted one as it was before."""

    id: str
    schedule: Schedule | None
    """None if another service keeps it."""
    place: str | None = None
    """The other service."""


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
    """Find a schedule by an id or a name, in this store first and then at other services, and change it.

    `kind` is the only kind that the caller asks for; `kinds` are those that it may change at all. `gone`: also one that
    its kind counts as gone.
    """
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
            done = scheduler.pause(caller, found, until=request.until, note=request.note)
        case "resume":
            done = scheduler.resume(caller, found)
        case "cancel":
            done = scheduler.cancel(caller, found)
        case _:
            done = scheduler.delete(caller, found)
    if isinstance(done, Err):
        return done
    return Ok(Changed(id, done.value if isinstance(done.value, Schedule) else found))


def _change_elsewhere(
    services: Services,
    caller: Caller,
    id: str,
    request: ChangeRequest,
    kind: str | None,
    kinds: Collection[str] | None,
) -> Result[Changed] | None:
    """Change a schedule that another service keeps; return None if none of them has it."""
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
