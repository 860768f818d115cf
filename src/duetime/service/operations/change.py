"""Pauses, resumes, cancels, deletes and restores one schedule, wherever it is kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Final

from duetime.engine.clock import Instant
from duetime.engine.errors import Conflict, NotFound
from duetime.engine.model import Schedule
from duetime.engine.policy.options import tags_of
from duetime.engine.policy.restore import KEPT_AFTER_DELETE
from duetime.engine.queries import no_schedule
from duetime.engine.store import ScheduleQuery
from duetime.engine.value_class import NamedTuple, dataclass
from duetime.service.errors import refuse, refuse_many
from duetime.service.kind_spec import KEPT_ELSEWHERE
from duetime.service.lookup import find, find_schedule, is_stored
from duetime.service.masking import masked
from duetime.service.operations.declaration import Answer, Field, OperationRequest, ScheduleReference, Time, read_time
from duetime.service.pauses import falls_into_pause
from duetime.service.presenters import source_view
from duetime.service.services import Call, pages_of

ACTIONS: Final[dict[str, str]] = {
    "pause": "paused",
    "resume": "resumed",
    "cancel": "cancelled",
    "delete": "deleted",
    "restore": "restored",
}
"""The possible changes, each with its past participle for messages."""
MAX_NOTE_LENGTH: Final = 500
MAX_DELETED: Final = 1000
"""Maximum number of deleted schedules among which one is looked for by its name, the latest first."""
Until = Annotated[Time | None, Field("When to resume automatically.", brief="Resumes then: monday 9am.")]
Note = Annotated[str | None, Field("Why it is paused.", max_length=MAX_NOTE_LENGTH)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest(OperationRequest):
    """A change of one schedule, which is looked for in this store first, and then outside of it."""

    action: ClassVar[str]
    schedule: Annotated[ScheduleReference, Field("Its id or name.")]
    kind: str | None = None
    """The only kind that is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(ChangeRequest):
    action: ClassVar[str] = "pause"
    until: Until = None
    note: Note = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(ChangeRequest):
    action: ClassVar[str] = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(ChangeRequest):
    action: ClassVar[str] = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(ChangeRequest):
    action: ClassVar[str] = "delete"
    forever: Annotated[bool, Field("Drop what it did at once, so that it cannot be restored.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore(ChangeRequest):
    """A schedule that was cancelled, or deleted within the last day, and goes on from now."""

    action: ClassVar[str] = "restore"


REQUESTS: Final[dict[str, type[ChangeRequest]]] = {
    each.action: each for each in (Pause, Resume, Cancel, Delete, Restore)
}


NO_RESTORE: Final = ("restore schedules, one or many", "ask a person to do it")
"""What an agent's run cannot do, and what to do instead."""


class Changed(NamedTuple):
    """A schedule after its change; a deleted schedule as it was before."""

    id: str
    schedule: Schedule
    already: bool = False
    """Whether it was already in this state, so that nothing was changed."""
    limits: dict[str, Any] | None = None
    """The limits in force, after it was resumed."""
    falls_into_pause: str | None = None
    """What its pause skips or holds."""
    followers: str | None = None
    """What the change means for the schedules that follow."""
    declared: str | None = None
    """That a file or a module declares it, and may bring it back."""

    def facts(self) -> dict[str, Any]:
        """Return what an answer says beside the schedule."""
        return {name: value for name, value in self._asdict().items() if name in _FACTS and value is not None}


_FACTS: Final = ("limits", "falls_into_pause", "followers", "declared")
_MAX_FOLLOWERS: Final = 5
_MEANINGS: Final = dict.fromkeys(("cancel", "delete"), "have no further runs") | {"restore": "run again"}


class Effect(NamedTuple):
    """What a change does, with times that were read once for all of its schedules."""

    action: str
    until: Instant | None = None
    note: str | None = None
    requested: Instant | None = None
    forever: bool = False


def change(call: Call, request: ChangeRequest) -> Answer[Changed]:
    """Pause, resume, cancel, delete or restore a schedule."""
    until, note = (request.until, request.note) if isinstance(request, Pause) else (None, None)
    forever = isinstance(request, Delete) and request.forever
    effect = Effect(request.action, read_time(call, until, "until"), note, forever=forever)
    changed = carry_out(call, request.schedule, effect, request.kind)
    schedule, facts = changed.schedule, describe_end(call, changed.schedule, request.action)
    if is_stored(schedule.definition):  # otherwise, limits and pauses are those of the service that keeps it
        if request.action in ("resume", "restore"):
            facts["limits"] = call.services.limits(schedule)
        elif request.action == "pause":
            facts["falls_into_pause"] = falls_into_pause(schedule, schedule.definition.resume_at, call.zone)
    return Answer(changed._replace(**facts))


def followers(call: Call, schedule: Schedule, limit: int) -> list[Schedule]:
    """Return schedules that follow this one."""
    return call.scheduler.store.followers_of(schedule, limit) if schedule.progress.followed else []


def describe_followers(call: Call, schedule: Schedule, action: str, besides: Collection[int] = ()) -> str | None:
    """Return what such a change means for the schedules that follow, except those with the ids `besides`."""
    most = _MAX_FOLLOWERS + 1 + len(besides)
    some = [each.definition for each in followers(call, schedule, most) if each.definition.id not in besides]
    names = [masked(each.name) for each in some[:_MAX_FOLLOWERS]]
    more = ["others"] if len(some) > _MAX_FOLLOWERS else []
    return f"schedules that follow it {_MEANINGS[action]}: {', '.join([*names, *more])}" if names else None


def describe_end(call: Call, schedule: Schedule, action: str) -> dict[str, Any]:
    """Return what it means that a schedule is cancelled, deleted or restored: for the `followers`, and if it is
    `declared` in a file or a module."""
    text = describe_followers(call, schedule, action) if action in _MEANINGS else None
    facts = {"followers": text} if text else {}
    source = source_view(schedule.definition.key) if action in ("cancel", "delete") else None
    if source is not None:
        facts["declared"] = f"it is declared in {source}, which may bring it back: remove it there, too"
    return facts


def carry_out(call: Call, reference: ScheduleReference, effect: Effect, kind: str | None = None) -> Changed:
    """Change a schedule that is given, or looked for in this store and then outside of it."""
    if isinstance(reference, Schedule):
        return _change_here(call, reference, effect)
    if effect.action == "restore":
        return _change_here(call, find_restorable(call, reference, kind), effect)
    try:
        schedule = find_schedule(call, reference, kind, deleted=effect.forever)
    except (NotFound, Conflict) as error:
        if error.code not in (NotFound.code, KEPT_ELSEWHERE):
            raise
        changed = _change_outside(call, str(reference), effect, kind)
        if changed is None:
            raise no_schedule() if error.code == KEPT_ELSEWHERE else error from None
        return changed
    if not call.serves(schedule.definition.kind):
        raise no_schedule()
    return _change_here(call, schedule, effect)


def _change_outside(call: Call, id: str, effect: Effect, kind: str | None) -> Changed | None:
    """Change a schedule that another service keeps; return None if none of them has it."""
    is_limited = effect.until is not None or effect.note is not None
    for outside in call.services.outside(kind, call.kinds).values():
        with suppress(NotFound):
            schedule = outside.change(call.caller, effect.action, id, is_limited=is_limited)
            return Changed(schedule.definition.public_id, schedule)
    return None


def _change_here(call: Call, schedule: Schedule, effect: Effect) -> Changed:
    """Change a schedule of this store."""
    scheduler, caller, id = call.scheduler, call.caller, schedule.definition.public_id
    match effect.action:
        case "pause":
            changed = scheduler.pause(
                caller, schedule, until=effect.until, note=effect.note, requested=effect.requested
            )
        case "resume":
            changed = scheduler.resume(caller, schedule)
        case "cancel":
            changed = scheduler.cancel(caller, schedule)
        case "restore":
            refuse_many(caller, *NO_RESTORE)
            changed = scheduler.restore(caller, schedule)
        case _:
            scheduler.delete(caller, schedule, forever=effect.forever)
            return Changed(id, schedule)
    already = changed.definition == schedule.definition and changed.progress.state == schedule.progress.state
    return Changed(id, changed, already=already)


def find_restorable(call: Call, reference: str | int, kind: str | None = None) -> Schedule:
    """Return a cancelled or deleted schedule by its id or, unlike other lookups, by the name of a deleted one."""
    name = str(reference).strip()
    gone = list(restorable(call, kind, name=name))
    if len(gone) == 1:
        return gone[0]
    if gone:
        ids = ", ".join(each.definition.public_id for each in gone)
        raise refuse("ambiguous", f"{name[:60]!r} could mean {len(gone)} schedules; give the id of one of these: {ids}")
    return find(call, reference, kind, deleted=True)


def restorable(
    call: Call,
    kind: str | None = None,
    subject: str | None = None,
    name: str | None = None,
    tagged: str | None = None,
) -> Iterator[Schedule]:
    """Yield the caller's schedules that were deleted within a day, and then cancelled ones."""
    owner, since = call.caller.owner, Instant(call.now - KEPT_AFTER_DELETE)
    for each in call.scheduler.store.deleted_schedules(owner, since, MAX_DELETED):
        definition = each.definition
        fits = kind in (None, definition.kind) and subject in (None, definition.subject)
        fits = fits and (tagged is None or tagged in tags_of(definition.policy))
        if fits and name in (None, definition.name) and call.sees(definition):
            yield each
    for each in select(call, "cancelled", kind, subject, name, tagged):  # which finds a name whatever its case
        if name in (None, each.definition.name) and call.serves(each.definition.kind):
            yield each


def select(
    call: Call, status: str, kind: str | None, subject: str | None, name: str | None, tagged: str | None
) -> Iterator[Schedule]:
    """Yield the caller's own schedules with a status that match every filter."""
    query = ScheduleQuery(
        call.caller.owner, kind, status=status, subject=subject, name=name, tagged=tagged, limit=500, count_to=0
    )
    for page in pages_of(call.scheduler.search, call.caller, query):
        yield from page.items
