"""Edit a schedule of any kind: its time, its payload, its policy and its name, for every interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.encoding import json_object
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import Caller
from duetime.engine.model import Schedule
from duetime.engine.result import Err, Ok, Result
from duetime.engine.validation import Changes
from duetime.service.errors import err_of
from duetime.service.masking import masked_payload, refuse_other_places
from duetime.service.services import Services
from duetime.service.warnings import ScheduleWarning
from duetime.service.when import When


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """The changes that an edit asks for; what is not given stays."""

    name: str | None = None
    when: When | None = None
    """The new time or rule."""
    next: Instant | None = None
    """Moves the coming occurrence alone."""
    starting: Instant | None = None
    """When the new rule replaces the old one; at once, if absent."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Payload fields that are replaced."""
    payload: Mapping[str, Any] | None = None
    """The whole payload, in place of `fields`."""
    policy: Mapping[str, Any] = field(default_factory=dict)
    version: int | None = None
    """The version that the caller has seen; any, if absent."""
    guarded: bool = True
    """Whether another recipient is refused the hidden values of the stored payload."""


class Edited(NamedTuple):
    schedule: Schedule
    warnings: list[ScheduleWarning]
    running: bool
    """Whether a run was under way, which keeps its values: the edit applies from the next occurrence."""


def edit_schedule(services: Services, caller: Caller, found: Schedule, request: EditRequest) -> Result[Edited]:
    """Edit a schedule that was found. The same id and history stay with it."""
    try:
        changes = _changes(services, caller, found, request)
    except DuetimeError as error:
        return err_of(error)
    result = services.edit(caller, found, changes)
    if isinstance(result, Err):
        return result
    told = bool(request.fields or request.payload or request.policy or request.when)
    warnings = services.schedule_warnings(result.value) if told else []
    return Ok(Edited(result.value, warnings, found.progress.active > 0))


def _changes(services: Services, caller: Caller, found: Schedule, request: EditRequest) -> Changes:
    when, name, version = request.when, request.name, request.version
    payload = _merged(found, request, caller.depth) if request.fields else request.payload
    if payload is not None:
        name = name or _following_name(services, found, payload)
    if request.fields:
        # The rest of the payload is written back as it was read, so nobody may have changed it meanwhile.
        version = found.definition.version if version is None else version
    return Changes(
        name=name,
        trigger_type=None if when is None else when.type,
        trigger_config=None if when is None else when.config,
        payload=payload,
        policy=request.policy or None,
        timezone=None if when is None else when.timezone,
        next=request.next,
        starting=request.starting,
        version=version,
    )


def _merged(found: Schedule, request: EditRequest, depth: int) -> dict[str, Any]:
    """Return the stored payload with the new fields. Values that are hidden from readers do not go to others."""
    definition, stored = found.definition, json_object(found.definition.payload) or {}
    whole = {**stored, **request.fields}
    kept = {name: value for name, value in stored.items() if name not in request.fields}
    if request.guarded and masked_payload(definition.kind, kept) != kept:
        refuse_other_places(definition.kind, whole, stored, depth)
    return whole


def _following_name(services: Services, found: Schedule, payload: Mapping[str, Any]) -> str | None:
    """Return the new name of a schedule that is named after its payload; None for one that was named otherwise."""
    hooks, stored = services.hooks(found.definition.kind), json_object(found.definition.payload) or {}
    return hooks.name_of(payload) if hooks.name_of(stored) == found.definition.name else None
