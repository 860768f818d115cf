"""What needs attention, as one list: incidents, dead letters, missed runs and what waits for somebody; and its verbs,
resolve and reopen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.model import DISMISSABLE, Definition, Run, RunStatus, Schedule, ScheduleId, ScheduleState, Trouble
from duetime.engine.policy.incidents import NO_INCIDENT, IncidentRow, headline, trouble_to_tell
from duetime.engine.policy.options import checked_tag
from duetime.engine.value_class import dataclass
from duetime.service.errors import refuse_many
from duetime.service.masking import masked
from duetime.service.operations import dead_letters, overview
from duetime.service.operations.dead_letters import ChangeDeadLetters, ListDeadLetters, change_dead, ended_at
from duetime.service.operations.declaration import Answer, Field, Limit, OperationRequest, Tagged
from duetime.service.operations.history import ShowRun, show_run
from duetime.service.operations.inbox import MARKS, REOPENING, Mark, MarkMessages, is_message, mark_messages
from duetime.service.operations.overview import RunOfSchedule, Some
from duetime.service.presenters import View, actor_view, instant_view
from duetime.service.services import Call

MAX_MARKED: Final = 100
"""Maximum number of runs and incidents that one call marks."""
STOPPED: Final = (Trouble.PAUSED, Trouble.BROKEN)
"""Troubles of a schedule that stopped by itself. They stand for its failures, too."""
_KEY: Final = re.compile(r"(?:(run|incident)-)?([1-9][0-9]{0,17})", re.ASCII)
_NEXT_STEPS: Final[Mapping[str, str]] = {
    Trouble.FAILED: "Remove the cause and retry the run, or resolve it if nothing is left to do.",
    Trouble.MISSED: "Run it now if it is still wanted, or resolve it.",
    Trouble.UNTAKEN: "Answer it in the inbox, let an agent take it, or resolve it if it was missed.",
    Trouble.UNDELIVERED: "Check the channel and retry the run, or resolve it.",
    Trouble.PAUSED: "Remove the cause and resume the schedule.",
    Trouble.BROKEN: "Edit the time rule of the schedule, or delete it.",
    Trouble.HELD: "Start the cluster again, or correct its address; the run goes on then.",
}
_UNKNOWN: Final = "Update Duetime, whose newer version has noted this, and look again."
_NEEDS_LABEL: Final = "Start a worker with the label that it needs, or cancel it."


@dataclass(frozen=True, slots=True, kw_only=True)
class ListAttention(OperationRequest):
    """What needs attention, the latest first."""

    resolved: Annotated[bool, Field("What was resolved and is not over, instead of what needs attention.")] = False
    tagged: Tagged = None
    limit: Limit = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRuns(OperationRequest):
    """Messages to mark as read; or messages, failed and missed runs, and incidents that are dealt with."""

    ids: Annotated[
        Sequence[int | str],
        Field(
            "Numbers of runs, and keys of the list such as `incident-3`.",
            brief="run_id of each, or key in status.",
            min_items=1,
            max_items=MAX_MARKED,
        ),
    ]
    mark: Annotated[Mark, Field("`reopen` undoes `resolve`.", brief="reopen undoes resolve.", choices=MARKS)]


class AttentionRows(NamedTuple):
    items: list[View]
    cut: frozenset[str]
    """Troubles of which there is more than these rows show."""


def attention(call: Call, request: ListAttention) -> Answer[AttentionRows]:
    """Return what needs attention. An incident stands for the runs of its schedule; what has no incident, such as a
    failure of long ago, is listed by its latest run."""
    scheduler, looked_at = call.scheduler, overview.LOOKED_AT
    incidents = scheduler.incidents(call.caller, looked_at + 1, resolved=request.resolved)
    pairs, cut = _resolved_runs(call) if request.resolved else _runs(call)
    stopped = Some[Schedule]([], False) if request.resolved else overview.stopped_schedules(call).value
    concerned = {each.schedule for each in incidents} | {run.schedule for run, _ in pairs}
    known = scheduler.store.incidents_of([*concerned, *(each.definition.id for each in stopped.items)])
    by_run = _of_runs(pairs, {each.schedule for each in known})
    listed = incidents[:looked_at]
    further = [*_of_stopped(stopped.items, listed, known, by_run)]
    rows = [*_of_incidents(call, listed, known), *further, *by_run.values()]
    if request.tagged is not None:
        rows = [row for row in rows if checked_tag(request.tagged) in row.tags]
    rows.sort(key=lambda row: (row.last, row.id), reverse=True)
    cut |= {*STOPPED} if stopped.is_cut else set()
    cut |= {*Trouble} if len(incidents) > looked_at else {row.trouble for row in rows[request.limit :]}
    return Answer(AttentionRows([problem_view(call, row) for row in rows[: request.limit]], frozenset(cut)))


def problem_view(call: Call, row: IncidentRow) -> View:
    """Return an incident for programs, or a run that needs attention without one."""
    trouble, name = trouble_to_tell(row, call.scheduler.store.messenger), masked(row.name)
    first, number = row.first, row.number
    if row.trouble == Trouble.MISSED:  # noticed later, and all times of a range at once
        first, number = min(first, row.run_due or first), max(number, abs(row.occurrences or 1))
    return {
        "key": f"incident-{row.id}" if row.id else f"run-{row.run}" if row.run else None,
        "id": row.public_id or None,
        "short_id": f"{row.kind[:1]}{row.schedule}",
        "name": name,
        "owner": row.owner,
        "kind": row.kind,
        "tags": masked(row.tags),
        "trouble": row.trouble,
        "text": masked(row.text),
        "run_id": row.run,
        "run_status": row.run_status,
        "since": instant_view(first, call.zone),
        "last": instant_view(row.last, call.zone),
        "count": number,
        "status": "open" if row.resolved is None else "resolved",
        "resolved_by": actor_view(row.actor),
        "headline": headline(trouble, name),
        "next_step": _NEXT_STEPS.get(trouble, _UNKNOWN) if row.run or trouble != Trouble.UNTAKEN else _NEEDS_LABEL,
    }


def _runs(call: Call) -> tuple[list[RunOfSchedule], set[str]]:
    """Return runs that need attention, and the troubles of which more were not read."""
    dead, missed = overview.failing_runs(call).value, overview.missed_runs(call).value
    waiting = overview.untaken_runs(call).value
    waiting_pairs = call.scheduler.with_schedules(call.caller, waiting.items)
    parts = {Trouble.FAILED: dead.is_cut, Trouble.MISSED: missed.is_cut, Trouble.UNTAKEN: waiting.is_cut}
    return [*dead.items, *missed.items, *waiting_pairs], {trouble for trouble, is_cut in parts.items() if is_cut}


def _resolved_runs(call: Call) -> tuple[list[RunOfSchedule], set[str]]:
    request = ListDeadLetters(dismissed=True, limit=overview.LOOKED_AT, count_to=0)
    page = dead_letters.dead_letters(call, request).value
    return call.scheduler.with_schedules(call.caller, page.items), {Trouble.FAILED} if page.cursor else set()


def _of_runs(pairs: Iterable[RunOfSchedule], known: set[ScheduleId]) -> dict[tuple[ScheduleId, str], IncidentRow]:
    """Return a row for the runs of each schedule that no incident stands for; what waits is no incident yet. As
    incidents, those of schedules that are gone need nobody; they stay among the dead letters."""
    rows: dict[tuple[ScheduleId, str], IncidentRow] = {}
    for run, schedule in sorted(pairs, key=lambda pair: (ended_at(pair[0]), pair[0].id), reverse=True):
        if schedule is None or schedule.progress.state == ScheduleState.CANCELLED:
            continue
        if run.schedule in known and run.status != RunStatus.WAITING:
            continue
        row = _of_run(run, schedule.definition)
        latest = rows.setdefault((run.schedule, run.status), row)
        if latest is not row:
            rows[run.schedule, run.status] = latest._replace(first=row.first, number=latest.number + 1)
    return rows


def _of_run(run: Run, definition: Definition) -> IncidentRow:
    waits = run.status == RunStatus.WAITING
    trouble = Trouble.UNTAKEN if waits else Trouble.MISSED if run.status == RunStatus.MISSED else Trouble.FAILED
    at = run.due if waits else ended_at(run)
    resolved = at if run.stop and not waits else None
    text = "" if waits else run.error or run.status
    return IncidentRow(
        NO_INCIDENT, run.owner, run.schedule, trouble, "", text, run.id, at, at, 1,
        resolved=resolved, name=run.name, public_id=definition.public_id, kind=run.kind, run_status=run.status,
        occurrences=run.number, run_due=run.due, run_last=run.last or run.due,
        policy=definition.policy,
    )  # fmt: skip


def _of_incidents(call: Call, incidents: Iterable[IncidentRow], known: Sequence[IncidentRow]) -> Iterator[IncidentRow]:
    stopped = {each.schedule for each in known if each.trouble in STOPPED}
    long_ago = overview.long_ago(call)
    for each in incidents:
        if each.trouble in STOPPED:
            yield _with_failures(each, known)
        elif each.schedule not in stopped and not (
            each.trouble == Trouble.MISSED and each.run_last is not None and each.run_last < long_ago
        ):
            yield each


def _with_failures(stop: IncidentRow, known: Sequence[IncidentRow]) -> IncidentRow:
    """Return the incident of a schedule that stopped by itself, which counts the failures that led to it."""
    failures = [each for each in known if each.schedule == stop.schedule and each.trouble not in STOPPED]
    if not failures:
        return stop
    latest, first = max(failures, key=lambda each: each.last), min(each.first for each in failures)
    return stop._replace(text=latest.text, first=first, number=sum(each.number for each in failures))


def _of_stopped(
    schedules: Iterable[Schedule],
    listed: Sequence[IncidentRow],
    known: Sequence[IncidentRow],
    by_run: dict[tuple[ScheduleId, str], IncidentRow],
) -> Iterator[IncidentRow]:
    """Yield the schedules that stopped by themselves and whose incident is not listed, because newer ones are, or has
    never been: those that stopped long ago have none. A row of their failed run is replaced."""
    incidents = {each.schedule: each for each in known if each.trouble in STOPPED}
    for definition, progress in schedules:
        incident = incidents.get(definition.id)
        if incident is not None:
            if incident.resolved is None and incident not in listed:
                yield _with_failures(incident, known)
            continue
        trouble = Trouble.PAUSED if progress.state == ScheduleState.PAUSED else Trouble.BROKEN
        at = Instant(progress.last_run or definition.updated)
        failed = [by_run.pop((definition.id, status), None) for status in (RunStatus.FAILED, RunStatus.LOST)]
        run = next((each.run for each in failed if each is not None), None)
        text, number = progress.last_error or progress.note or "", max(1, progress.failures)
        yield IncidentRow(
            NO_INCIDENT, definition.owner, definition.id, trouble, "", text, run, at, at, number,
            name=definition.name, public_id=definition.public_id, kind=definition.kind, policy=definition.policy,
        )  # fmt: skip


def mark_runs(call: Call, request: MarkRuns) -> Answer[int]:
    """Mark messages, runs and incidents, and return how many. Notes say why some were not marked. Resolving an incident
    resolves its latest run, and the other way round; nothing reminds of it until it is over."""
    mark, undo = request.mark, request.mark in REOPENING
    numbers = _read_keys(request.ids)
    if mark not in (*MARKS, "dismiss", "restore"):
        raise InvalidInput(field="mark", problem=f"must be one of {', '.join(MARKS)}")
    incidents = [call.scheduler.incident(call.caller, number) for is_run, number in numbers if not is_run]
    runs = [show_run(call, ShowRun(run=number)).value for is_run, number in numbers if is_run]
    messages = [run.id for run in runs if is_message(call, run)]
    failed = [run.id for run in runs if run.id not in messages]
    if mark == "read" and (failed or incidents):
        what = f"Run {failed[0]}" if failed else f"Incident {incidents[0].id}"
        raise InvalidInput(f"{what} is not a message, so it cannot be marked as read; use resolve instead.")
    marked = mark_messages(call, MarkMessages(ids=messages, mark=mark)).value if messages else 0
    if mark == "read" or not (failed or incidents):
        return Answer(marked)
    refuse_many(call.caller, f"{mark} many runs", "ask a person to do it")
    for each in incidents:
        _mark_incident(call, each, undo=undo)
    if not failed:
        return Answer(marked + len(incidents))
    dealt, _, notes = change_dead(call, ChangeDeadLetters(action="reopen" if undo else "resolve", ids=failed))
    return Answer(marked + len(incidents) + len(dealt.done), (), notes)


def _read_keys(keys: Sequence[int | str]) -> list[tuple[bool, int]]:
    """Return for each key whether it names a run, and the number of the run or incident."""
    parts = [None if isinstance(key, bool) else _KEY.fullmatch(str(key)) for key in keys]
    numbers = [(part[1] != "incident", int(part[2])) for part in parts if part is not None]
    if not 1 <= len(numbers) <= MAX_MARKED or len(numbers) < len(keys):
        text = f'Give 1 to {MAX_MARKED} whole numbers of runs, or keys of the list, such as [12, "incident-3"].'
        raise InvalidInput(text, field="ids")
    return list(dict.fromkeys(numbers))


def _mark_incident(call: Call, incident: IncidentRow, *, undo: bool) -> None:
    same = [incident]
    if incident.trouble in STOPPED:
        same = call.scheduler.store.incidents_of([incident.schedule])
    for each in same:
        call.scheduler.mark_incident(call.caller, each, undo=undo)
    if incident.run is not None and incident.run_status in DISMISSABLE:
        call.scheduler.dismiss(call.caller, incident.run, undo=undo)
