"""Changes many schedules at once: several by id, or all that match a filter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.model import OVER, Schedule, ScheduleState
from duetime.engine.policy.decision import not_possible
from duetime.engine.policy.restore import next_if_restored
from duetime.engine.rule_edits import stays_moved
from duetime.engine.scopes import DELETE, WRITE
from duetime.engine.triggers import build_trigger, trigger_to_json
from duetime.engine.triggers.step_budget import LIST_STEPS, step_budget
from duetime.engine.value_class import dataclass
from duetime.service.errors import refuse, refuse_many
from duetime.service.kind_spec import KEPT_ELSEWHERE, check_kind
from duetime.service.lookup import candidate, find, is_stored
from duetime.service.operations.change import (
    ACTIONS,
    MAX_NOTE_LENGTH,
    NO_RESTORE,
    Effect,
    Until,
    carry_out,
    describe_end,
    find_restorable,
    restorable,
    select,
)
from duetime.service.operations.declaration import Answer, Field, OperationRequest, Tagged, check_choice, read_time_of
from duetime.service.operations.edit import EditSchedule, edit
from duetime.service.operations.schedules import STATUSES
from duetime.service.operations.shift import shifted_trigger
from duetime.service.pauses import falls_into_pause
from duetime.service.presenters import brief_view, instant_view
from duetime.service.services import Call
from duetime.service.when import duration

CHANGES: Final = {**ACTIONS, "shift": "shifted"}
"""The possible changes of many, each with its past participle for messages."""
ENDING: Final = {"cancel": "cancelling", "delete": "deleting"}
"""Changes that end schedules, each with its gerund for messages."""
MAX_CHANGED: Final = 1000
"""Maximum number of schedules that one call changes."""
MAX_NAMED: Final = 100
"""Maximum number of ids or names in one request of a program, because each is looked up."""
_MATCHING: Final = {"pause": (ScheduleState.ACTIVE,), "resume": (ScheduleState.PAUSED, ScheduleState.BROKEN)}
"""States that a filter matches; for the other actions, all states in which a schedule may still fire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeMany(OperationRequest):
    """A change of the schedules in `ids`, of those of the caller that match a filter, or of all of the caller's."""

    action: Annotated[
        str,
        Field(
            "What is done with them. `cancel` ends them and keeps them in lists; `delete` removes them; `restore` "
            "takes back either, a delete for a day; `shift` moves their times.",
            brief="Cancelled ones stay in lists, deleted ones do not; both can come back.",
            choices=tuple(CHANGES),
        ),
    ]
    shift: Annotated[
        str | None,
        Field("For shift: how much later, such as 30m, or -30m for earlier.", brief="Later by 30m, or -30m."),
    ] = None
    status: Annotated[
        str | None,
        Field(
            "Filter by status, such as paused or failed; `finished`: will not fire again.",
            brief="Only these; finished: ended.",
            max_length=200,
        ),
    ] = None
    older_than: Annotated[
        str | None,
        Field(
            "Only those that neither ran nor changed for this long, such as 1d.", brief="Idle for 1d.", max_length=200
        ),
    ] = None
    ids: Annotated[
        Sequence[str | int],
        Field("Ids or names, instead of a filter.", brief="Ids of any kind, or names.", max_items=MAX_NAMED),
    ] = ()
    kind: Annotated[str | None, Field("Filter by kind, such as job.", max_length=200)] = None
    topic: Annotated[
        str | None, Field("Filter by topic, task or agent.", brief="Only this topic, task or agent.", max_length=200)
    ] = None
    label: Annotated[
        str | None, Field("Filter by label or name.", brief="Only this label or name.", max_length=200)
    ] = None
    tagged: Tagged = None
    everything: Annotated[
        bool,
        Field(
            "All schedules that may still fire, instead of a filter.", brief="Every one, without a filter.", name="all"
        ),
    ] = False
    until: Until = None
    note: Annotated[
        str | None, Field("For a pause: the reason.", brief="Why they are paused.", max_length=MAX_NOTE_LENGTH)
    ] = None
    dry_run: Annotated[bool, Field("Change nothing; only report what matches.", brief="Only list what matches.")] = (
        False
    )
    expected_count: Annotated[
        int | None,
        Field(
            "How many must match, or nothing is changed; required to cancel or delete.",
            brief="How many match; needed to cancel or delete.",
            minimum=0,
            maximum=MAX_CHANGED,
        ),
    ] = None
    is_confirmed: bool = False
    """Whether a person has seen the schedules, so that `expected_count` is not needed."""


class Target(NamedTuple):
    """A schedule to change, with its row for the answer."""

    row: dict[str, Any]
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class BulkChange:
    """The result of changing many schedules."""

    matched: Sequence[dict[str, Any]]
    """The schedules that matched."""
    changed: int
    """How many of them were changed."""
    failed: Sequence[dict[str, Any]]
    """Those that could not be changed, with the reason."""
    dry_run: bool = False
    """Whether nothing was changed, because only a list was requested."""

    def facts(self, most: int | None = None) -> dict[str, Any]:
        """Return the result for programs, with at most so many rows."""
        counts = {"matched": len(self.matched), "changed": self.changed, "dry_run": self.dry_run}
        return {**counts, "failed": list(self.failed[:most]), "schedules": list(self.matched[:most])}


def change_many(call: Call, request: ChangeMany) -> Answer[BulkChange]:
    """Change all selected schedules, each in its own transaction; failures are reported, and the rest continues. To
    cancel or delete ends them, so it requires the number of schedules that match, unless a person has seen them."""
    _check(call, request)
    read_time_of(call, None, request.until, "until")  # one that cannot be read is refused before anything is looked for
    effect, shift = Effect(request.action, None, request.note, call.now), _read_shift(request)
    targets, failed = _targets(call, request)
    if request.action in ("restore", "shift") or (request.dry_run and request.action != "pause"):
        targets = _with_next_times(call, targets, request.action, shift, failed)
    for target in targets:
        target.row.update(describe_end(call, target.schedule, request.action))
    if not request.dry_run:
        _check_count(request, len(targets))
    ends = [read_time_of(call, each.schedule, request.until, "until") for each in targets]
    if request.action == "pause":
        for end in ends:
            call.scheduler.drafter.check_pause(end, request.note, call.now)
        _add_effects(targets, ends, call.zone)
    number = 0
    for target, end in () if request.dry_run else zip(targets, ends, strict=True):
        try:
            changed = _change(call, target, effect._replace(until=end), shift)
        except DuetimeError as error:
            failed.append({**target.row, "error": error.message})
            continue
        number += 1
        if request.action != "delete":
            target.row.update(brief_view(changed, call.zone))
    return Answer(BulkChange([target.row for target in targets], number, failed, request.dry_run))


def _check(call: Call, request: ChangeMany) -> None:
    action = DELETE if request.action in ENDING else WRITE
    if request.action == "restore":
        refuse_many(call.caller, *NO_RESTORE)
        if request.status is not None:
            raise refuse("invalid", "status: restore is for cancelled and deleted schedules; leave it out", "status")
    refuse_many(call.caller, "change many schedules", "change them one by one", action)
    if request.action not in CHANGES:
        raise refuse("invalid", f"action: must be one of {', '.join(CHANGES)}", "action")
    if (request.action == "shift") != (request.shift is not None):
        raise refuse("invalid", "shift: belongs to the action shift, which needs it, such as 30m", "shift")
    if request.action != "pause" and (request.until is not None or request.note is not None):
        raise refuse("invalid", "until: belongs to the action pause; leave it out", "until")
    check_kind(request.kind)
    filters = (request.kind, request.topic, request.label, request.tagged, request.status, request.older_than)
    is_filtered = any(each is not None for each in filters)
    if not all(type(each) in (str, int) for each in request.ids):
        raise refuse("invalid", 'ids: a list of ids or names, such as ["job_5_1770000000", 12]', "ids")
    if [bool(request.ids), is_filtered, request.everything].count(True) != 1:
        raise refuse(
            "invalid",
            "ids: give ids, or a filter (kind, topic, label, tagged, status, older_than), or all",
            "ids",
        )


def _read_shift(request: ChangeMany) -> timedelta | None:
    if request.shift is None:
        return None
    text = request.shift.strip()
    length = timedelta(microseconds=duration(text.lstrip("+-"), "shift"))
    return -length if text.startswith("-") else length


def _with_next_times(
    call: Call, targets: Sequence[Target], action: str, shift: timedelta | None, failed: list[dict[str, Any]]
) -> list[Target]:
    """Add to the rows what changes: the next time that is lost, moved or restored. Leave out what cannot be moved or
    restored, and add it to `failed`."""
    possible = []
    for target in targets:
        target.row.update(brief_view(target.schedule, call.zone))
        try:
            if action == "restore":
                target.row["next_run"] = instant_view(next_if_restored(*target.schedule, call.now), call.zone)
            elif shift is not None:
                target.row["moves_to"] = instant_view(_next_if_shifted(call, target.schedule, shift), call.zone)
        except DuetimeError as error:
            failed.append({**target.row, "error": error.message})
        else:
            possible.append(target)
    return possible


def _next_if_shifted(call: Call, schedule: Schedule, shift: timedelta) -> Instant | None:
    if schedule.progress.state in OVER:
        raise not_possible("edited", schedule.progress.state)
    type_, config = shifted_trigger(schedule, shift)
    trigger = build_trigger(type_, config, zone=call.zone, now=call.now)
    definition, progress = schedule
    if stays_moved(definition.trigger, trigger_to_json(trigger), progress.next, call.now):
        return progress.next
    return trigger.next_after(call.now)


def _change(call: Call, target: Target, effect: Effect, shift: timedelta | None) -> Schedule:
    """Change one of the schedules and return it, a deleted one as it was."""
    id = target.schedule.definition.public_id
    if shift is not None:
        request = EditSchedule(schedule=id, trigger=shifted_trigger(target.schedule, shift))
        return edit(call, request).value.schedule
    return carry_out(call, target.schedule if effect.action == "restore" else id, effect).schedule


def _add_effects(targets: Sequence[Target], ends: Sequence[Instant | None], zone: str) -> None:
    """Add to the rows when the pause ends and what falls into it."""
    with step_budget(LIST_STEPS):
        for target, until in zip(targets, ends, strict=True):
            if is_stored(target.schedule.definition):
                target.row["paused_until"] = instant_view(until, zone)
                target.row["falls_into_pause"] = falls_into_pause(target.schedule, until, zone)


def _check_count(request: ChangeMany, matched: int) -> None:
    expected = request.expected_count
    if request.action in ENDING and expected is None and not request.is_confirmed:
        doing = ENDING[request.action]
        text = f"expected_count: {doing} ends schedules, so say how many; {matched} match (dry_run lists them)"
        raise refuse("invalid", text, "expected_count")
    if expected is not None and expected != matched:
        text = f"expected_count: {matched} match, not {expected}, so nothing was changed; dry_run lists them"
        raise refuse("conflict", text, "expected_count")


def _targets(call: Call, request: ChangeMany) -> tuple[list[Target], list[dict[str, Any]]]:
    """Return each schedule to change once, and the ids of which none was found."""
    failed: list[dict[str, Any]] = []
    if request.ids:
        schedules = _find_each(call, request.ids, failed, restorable=request.action == "restore")
    else:
        schedules = islice(_matching(call, request), MAX_CHANGED + 1)
    targets: dict[str, Target] = {}
    for each in schedules:
        definition = each.definition
        owner = {} if definition.owner == call.caller.owner else {"owner": definition.owner}
        targets[definition.public_id] = Target(candidate(each) | owner, each)
    if len(targets) > MAX_CHANGED:
        raise refuse("invalid", f"ids: more than {MAX_CHANGED} match; narrow it down with kind, topic or tagged", "ids")
    return list(targets.values()), failed


def _find_each(
    call: Call, ids: Sequence[str | int], failed: list[dict[str, Any]], *, restorable: bool
) -> Iterator[Schedule]:
    """Yield the schedules with these ids; add the ids of which there is none to `failed`."""
    if len(ids) > MAX_CHANGED:
        raise refuse("invalid", f"ids: at most {MAX_CHANGED}", "ids")
    outside: dict[str, Schedule] | None = None
    for id in dict.fromkeys(ids):
        try:
            yield find_restorable(call, id) if restorable else find(call, id)
        except DuetimeError as error:
            if outside is None and error.code == KEPT_ELSEWHERE:
                outside = {each.definition.public_id: each for each in kept_outside(call)}
            if outside is not None and str(id) in outside:
                yield outside[str(id)]
            else:
                failed.append({"id": id, "error": error.message})


def kept_outside(call: Call, kind: str | None = None) -> list[Schedule]:
    """Return the schedules of the caller that other services keep."""
    services = call.services.outside(kind, call.kinds).values()
    return [schedule for outside in services for schedule in outside.schedules(call.caller)]


def _matching(call: Call, request: ChangeMany) -> Iterator[Schedule]:
    """Yield the schedules that a filter matches: those with the status that was chosen or, if none was, that the
    action is for."""
    states, filters = _MATCHING.get(request.action), (request.kind, request.topic, request.label, request.tagged)
    idle = None if request.older_than is None else Instant(call.now - duration(request.older_than, "older_than"))
    status = "over" if request.status == "finished" else check_choice("status", request.status, STATUSES) or "living"
    is_restore = request.action == "restore"
    for each in restorable(call, *filters) if is_restore else select(call, status, *filters):
        definition, progress = each
        fits = call.serves(definition.kind) and (states is None or progress.state in states)
        if fits and (idle is None or max(definition.updated, progress.last_run or 0) <= idle):
            yield each
    if is_restore or (request.status, request.tagged, idle) != (None,) * 3:
        return
    for each in kept_outside(call, request.kind):
        definition, fits = each.definition, states is None or each.progress.state in states
        if fits and request.topic in (None, definition.subject) and request.label in (None, definition.name):
            yield each
