"""The four tools for scheduled prompts: schedule, list, edit, cancel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duetime.engine.clock import NEVER
from duetime.engine.errors import DuetimeError
from duetime.engine.model import ScheduleId, is_busy
from duetime.kinds.prompts.kind import KIND, PromptKind, deliver_to, headline, payload_of
from duetime.kinds.prompts.mcp.text import (
    Refusal,
    error,
    fire_time,
    found_task,
    lines,
    local_time,
    prompt_shown,
    refusal_of,
    refusing,
    repeats,
    table_row,
    task_named,
    task_view,
)
from duetime.kinds.prompts.payload import PromptPayload
from duetime.kinds.prompts.times import RULES, TIMES, first_time, read_ends
from duetime.mcp.definitions import Arguments, Reply
from duetime.mcp.schemas import STATUSES, warn_of_end, with_owner, with_warnings
from duetime.mcp.standard_tools import create_request, created_facts
from duetime.service.operations.change import describe_end
from duetime.service.operations.create import create, was_created
from duetime.service.operations.edit import EditedSchedule, EditSchedule, edit
from duetime.service.operations.schedules import COUNT_ALL, ListSchedules, detail_of, details_of, list_schedules
from duetime.service.options import TIME_LIMITS
from duetime.service.payload_fields import fields_of
from duetime.service.presenters import instant_view
from duetime.service.services import Call
from duetime.service.vocabulary import OVER, ReadTime, Schedule, format_local, iso_local, status_of
from duetime.service.warnings import TIME, ScheduleWarning

PAYLOAD = tuple(field.name for field in fields_of(PromptPayload))
MOST = 1000
"""Maximum number of rows in one answer; beyond it, the answer asks the agent to narrow its query."""
NOTHING = "No scheduled tasks found matching filters."
SOON = "in 1 second"
"""Replaces `now` if the time must still be in the future when it is checked."""


@refusing
def schedule(call: Call, args: Arguments) -> Reply:
    """Wake an agent later with instructions: for work that needs one (check, decide, write). Give one of at, cron,
    rrule, every, when. Tell the user the time, the agent and warnings. To message a person use schedule_notification,
    to run a task schedule_job."""
    call = call.in_zone(args.get("timezone"))
    zone, now = call.zone, call.scheduler.clock.now()
    first = first_time(args, zone, now)
    payload = {name: args[name] for name in PAYLOAD if name in args}
    request = create_request(args, KIND, payload)._replace(times=_times(args))
    # A repeated create is answered even if its time has passed since.
    if first is not None and first.instant < now and not was_created(call, request):
        raise _past(call, first)
    try:
        created, warnings, _ = create(call, request)
    except DuetimeError as problem:
        raise refusal_of(problem, **_argument_names(args)) from None
    task = created.first_result
    if not created.fresh:  # as it was understood then; after an edit, its time may be different
        first = first_time(args, zone, task.definition.created) if task.definition.version == 1 else None
    note = _time_note(warnings, first)
    fires, rule = fire_time(task), repeats(task.definition)
    view = with_warnings(_view(call, task, created.limits, note), warnings)
    wakes, doer_note = _agent_and_note(call, task, asked_for="agent" in args)
    if wakes is not None:
        view["wakes"] = wakes
    sentence = f"Scheduled task #{task.definition.id} for {local_time(fires, zone)}."
    if task.progress.next == NEVER and rule is not None:
        sentence, rule = f"Scheduled task #{task.definition.id} {rule}.", None
    notes = [rule and f"repeats {rule}", note, doer_note]
    return Reply(view, lines(sentence, notes, [each.text for each in warnings if each.code != TIME]))


def _view(
    call: Call, schedule: Schedule, limits: Mapping[str, Any], note: str | None, detail: str | None = None
) -> dict[str, Any]:
    view = {**task_view(schedule, call.zone, call.caller.depth, detail), "timezone": call.zone}
    view |= created_facts(call, schedule, limits) | {name: view[name] for name in ("options",) if name in view}
    return view if note is None else {**view, "note": note}


def _time_note(warnings: Sequence[ScheduleWarning], first: ReadTime | None) -> str | None:
    """Return how an ambiguous time was understood."""
    return next((each.text for each in warnings if each.code == TIME), first and first.note)


def _agent_and_note(call: Call, task: Schedule, *, asked_for: bool) -> tuple[str | None, str | None]:
    """Return the agent that is woken, if any, and a note on who does the prompt. A prompt that waits in the inbox, but
    was not sent there explicitly, has no note, because there is a warning about it."""
    definition, kind = task.definition, call.services.kind(PromptKind)
    agent = definition.subject
    if payload_of(definition).get("remind"):
        return None, f"a reminder: no agent is woken, its text goes to {deliver_to(definition)}"
    if agent not in kind.inboxes:
        return agent, f"wakes the agent {agent}"
    if kind.heartbeat_takes(definition):
        return None, "waits in the inbox until the heartbeat, or another agent, takes it"
    return None, "waits in the inbox until an agent takes it with take_prompt" if asked_for else None


@refusing
def schedule_list(call: Call, args: Arguments) -> Reply:
    """The caller's scheduled prompts by fire time: number, local time, status, prompt; pending ones unless another
    status is given. list_upcoming shows all kinds."""
    zone = call.in_zone(args.get("timezone")).zone
    status = args.get("status", "pending")
    if status != "all" and status not in STATUSES:
        raise error(f'unknown status "{status[:100]}".')
    ends, notes = read_ends(args, zone, call.scheduler.clock.now(), past=status != "pending")
    request = ListSchedules(
        kind=KIND,
        status=None if status == "all" else status,
        due_from=ends.get("from"),
        due_to=ends.get("to"),
        tagged=args.get("tagged"),
        order="time",
        limit=MOST,
        count_to=COUNT_ALL,
    )
    page, depth = list_schedules(call, request).value, call.caller.depth
    details = details_of(call, page.items)
    view: dict[str, Any] = {
        "tasks": [with_owner(call, _row(task, zone, depth, details), task.definition.owner) for task in page.items],
        "total": page.total,
        "timezone": zone,
        **{name: instant_view(end, zone) for name, end in ends.items()},
    }
    if not page.items:
        return Reply(view, NOTHING)
    table = [table_row(task, zone, depth) for task in page.items]
    left_out = page.total - len(table)
    more = [f"{left_out} more are not shown: narrow it down with from and to"] if left_out > 0 else []
    return Reply(view, lines("\n".join(table), [*notes, *more]))


def _row(task: Schedule, zone: str, depth: int, details: Mapping[ScheduleId, str]) -> dict[str, Any]:
    view = task_view(task, zone, depth, details.get(task.definition.id))
    return view | {"error": view["last_error"]} if view["status"] == "failed" and "last_error" in view else view


@refusing
def schedule_edit(call: Call, args: Arguments) -> Reply:
    """Change a pending prompt; what is not given stays. at moves only the next time of a recurring one; cron, rrule or
    every replace its rule. What runs or has ended cannot be changed."""
    named = task_named(args)
    if not any(name in args for name in ("at", "prompt", "agent", *RULES)):
        hint = (
            {"hint": "timezone is how times are read; to change it, give the rule too."} if "timezone" in args else {}
        )
        raise Refusal("Error: provide at least one of 'at' or 'prompt' to edit.", **hint)
    call = call.in_zone(args.get("timezone"))
    now = call.scheduler.clock.now()
    first = first_time(args, call.zone, now) if any(name in args for name in TIMES) else None
    if first is not None and first.instant < now:
        raise _past(call, first)
    task = found_task(call, args, _not_editable(named, "edited"), "edit_schedule")
    _refuse_hidden(call, args, task)
    if status_of(task.progress) == "paused" and not is_busy(task.progress):
        raise Refusal(_not_editable(named, "edited"), **_other_tools(task))
    if "agent" in args and payload_of(task.definition).get("remind"):
        raise error("agent: it is a reminder, which wakes no agent; schedule a new task for one.")
    times = {name: args[name] for name in TIMES if name in args}
    if times.keys() & RULES and "timezone" in args:
        times["timezone"] = args["timezone"]
    fields: Arguments = {name: args[name] for name in ("prompt", "agent") if name in args}
    version = task.definition.version if fields else None  # whose hidden values may be passed on
    request = EditSchedule(schedule=task, times=times, fields=fields, version=version, guarded=False, pending_only=True)
    try:
        edited, warnings, _ = edit(call, request)
    except DuetimeError as problem:
        if problem.code in ("not_found", "not_possible"):
            raise Refusal(_not_editable(named, "edited"), **_other_tools(task)) from None
        raise refusal_of(problem, **_argument_names(args)) from None
    return _updated(call, args, edited, warnings, first)


def _refuse_hidden(call: Call, args: Arguments, task: Schedule) -> None:
    """Refuse to pass credentials that are hidden from the calling agent's run on to another agent."""
    hidden = prompt_shown(task.definition, call.caller.depth) != prompt_shown(task.definition, 0)
    if hidden and "prompt" not in args and args.get("agent", task.definition.subject) != task.definition.subject:
        raise error("agent: the prompt holds values that are hidden from you (***); give the prompt anew.")


def _updated(
    call: Call, args: Arguments, edited: EditedSchedule, warnings: Sequence[ScheduleWarning], first: ReadTime | None
) -> Reply:
    schedule, zone, ruled = edited.schedule, call.zone, any(name in args for name in RULES)
    parts = []
    if ruled or "at" in args:
        parts.append(f"time → {local_time(fire_time(schedule), zone)}")
    if ruled:
        parts.append(f"repeats → {repeats(schedule.definition)}")
    if "prompt" in args:
        parts.append(f'prompt → "{headline(args["prompt"])}"')
    if "agent" in args:
        parts.append(f"agent → {schedule.definition.subject}")
    note = _time_note(warnings, first)
    view = _view(call, schedule, edited.limits, note, detail_of(call, schedule))
    view = with_owner(call, view, schedule.definition.owner)
    sentence = f"Updated task #{schedule.definition.id}: {', '.join(parts)}"
    about_edit = [each.text for each in warnings if each.code == "moved"]  # the others were said before
    return Reply(with_warnings(view, warnings), lines(sentence, [note], about_edit))


@refusing
def schedule_cancel(call: Call, args: Arguments) -> Reply:
    """End a pending prompt with all its times. It stays in lists and can be restored; delete_schedule removes it. Ask
    the user if several could be meant."""
    stop, refusal = args.get("stop_running", False), _not_editable(task_named(args), "cancelled")
    task = found_task(call, args, refusal, None)
    definition = task.definition
    try:
        call.scheduler.cancel_pending(call.caller, definition.public_id, KIND, stop_running=stop)
    except DuetimeError as error:
        if error.code in ("not_found", "not_possible"):
            raise Refusal(refusal, **_other_tools(task)) from None
        raise
    warning = warn_of_end(*describe_end(call, task, "cancel").values())
    view = with_owner(call, {"id": definition.id, "status": "cancelled", **warning}, definition.owner)
    return Reply(view, lines(f"Cancelled task #{definition.id}.", (), warning.get("warnings", ())))


def _other_tools(task: Schedule) -> dict[str, str]:
    """Return a hint for a task that is paused or over, which other tools can change."""
    if task.progress.state in OVER:
        status = status_of(task.progress)
        return {"hint": f"It is {status}: prompt_result shows what came of it, and delete_schedule removes it."}
    if status_of(task.progress) != "paused":
        return {}
    return {"hint": "It is paused: edit_schedule, resume_schedule and delete_schedule accept it."}


def _not_editable(named: str, verb: str) -> str:
    return f"Task {named} not found or not editable (only pending tasks can be {verb})."


# -- times and rules ----------------------------------------------------------------------------------------------


def _times(args: Arguments) -> dict[str, Any]:
    """Return the options of times. They stay as written, because a create that is repeated under its key must be the
    same request."""
    times = {name: args[name] for name in (*TIMES, *TIME_LIMITS) if name in args}
    if "every" in times and "at" in times:
        if "start" in times:
            raise error("start: is given twice; give it once.")
        at = times.pop("at")
        times["start"] = SOON if at.strip().lower() == "now" else at
    return times


def _past(call: Call, time: ReadTime) -> Refusal:
    now, zone = call.scheduler.clock.now(), call.zone
    past, present = format_local(time.instant, zone), format_local(now, zone)
    if past == present:  # within the same minute, only the seconds distinguish them
        past, present = iso_local(time.instant, zone), iso_local(now, zone)
    return error(f"{past} is in the past; it is now {present}.")


def _argument_names(args: Arguments) -> dict[str, str]:
    """Return the arguments of the tools, by names of fields that differ from them."""
    start = "start" if "start" in args else "at"
    timeout = "timeout_seconds" if "timeout_seconds" in args else "timeout"
    return {"start": start, "payload": "prompt", "timeout": timeout}
