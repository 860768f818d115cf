"""The four tools for scheduled prompts: schedule, list, edit, cancel."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import InvalidInput, UnreadableTime
from duetime.engine.model import ScheduleId
from duetime.engine.policy.options import policy_for_ending
from duetime.engine.result import Err
from duetime.engine.store import EVERY_ONE, ScheduleQuery
from duetime.engine.times import ReadTime, read_time
from duetime.engine.times.parser import midnight_note, read_past_time
from duetime.engine.validation import Changes, NewSchedule
from duetime.kinds.prompts.kind import KIND, PARTS, PromptKind, headline, payload_of, prompt_of
from duetime.kinds.prompts.mcp.text import (
    Refusal,
    accepted,
    error,
    fire_time,
    found_task,
    lines,
    prompt_shown,
    refusing,
    repeats,
    shown,
    table_row,
    task_named,
    task_view,
)
from duetime.mcp.definitions import Arguments, Reply
from duetime.mcp.schemas import STATUSES, policy_of, with_owner, with_warnings
from duetime.service.edits import left_out
from duetime.service.operations.schedules import detail_of, details_of
from duetime.service.presenters import instant_view
from duetime.service.services import Call
from duetime.service.vocabulary import Schedule, ScheduleState, format_local, iso_local, status_of
from duetime.service.warnings import TIME, ScheduleWarning
from duetime.service.when import When, limits_of, parse_when, read_phrase

MOST = 1000
"""Maximum number of rows in one answer; beyond it, the answer asks the agent to narrow its query."""
NOTHING = "No scheduled tasks found matching filters."
SOON = "in 1 second"
"""Replaces `now` if the time must still be in the future when it is checked."""
_EDITABLE = ("pending", "broken")  # an edit can repair a broken one


@refusing
def schedule(call: Call, given: Arguments) -> Reply:
    """Wake an agent later with instructions: for work that needs one (check, decide, write). Give one of at, cron,
    rrule, every, when. Tell the user the time, the agent and warnings. To message a person use schedule_notification,
    to run a task schedule_job."""
    zone, now = call.in_zone(given.get("timezone")).zone, call.scheduler.clock.now()
    when, first = _when(given, zone, now)
    limits = limits_of(given)
    if twice := next((name for name in limits if name in when.config), None):
        raise error(f"{twice}: is given twice; give it once.")
    new = NewSchedule(
        kind=KIND,
        name=given.get("name") or headline(given["prompt"]) or KIND,
        trigger_type=when.type,
        trigger_config=when.config | limits,
        payload={name: given[name] for name in PARTS if name in given},
        policy=policy_of(given),
        timezone=zone,
        idempotency_key=given.get("idempotency_key"),
    )
    # A repeated create is answered even if its time has passed since.
    if first is not None and first.instant < now and call.scheduler.made_before(call.caller, new) is None:
        raise _past(first, zone, now)
    created = accepted(call.services.create(call.caller, new), **_argument_names(when.type, given))
    made, warnings = created.first_result, created.warnings
    if not created.fresh:  # as it was understood then; after an edit, its time may be different
        _, first = _when(given, zone, made.definition.created) if made.definition.version == 1 else (when, None)
    fires, rule, note = fire_time(made), repeats(made.definition), first and first.note
    view = {**task_view(made, zone, call.caller.depth), "fire_at": instant_view(fires, zone), "timezone": zone}
    view = with_warnings(view | call.services.facts(made, zone), warnings)
    if note is not None:
        view["note"] = note
    wakes, doer_note = _agent_and_note(call, made, asked_for="agent" in given)
    if wakes is not None:
        view["wakes"] = wakes
    sentence = f"Scheduled task #{made.definition.id} for {shown(fires, zone)}."
    notes = [rule and f"repeats {rule}", note, doer_note]
    return Reply(view, lines(sentence, notes, [each.text for each in warnings if each.code != TIME]))


def _agent_and_note(call: Call, made: Schedule, *, asked_for: bool) -> tuple[str | None, str | None]:
    """Return the agent that is woken, if any, and a note on who does the prompt. A prompt that waits in the inbox, but
    was not sent there explicitly, has no note, because there is a warning about it."""
    definition, kind = made.definition, call.services.kind(PromptKind)
    agent = definition.subject
    if payload_of(definition).get("remind"):
        topic = policy_for_ending(definition.policy).deliver_to
        return None, f"a reminder: no agent is woken, its text goes to {topic}"
    if agent not in kind.inboxes:
        return agent, f"wakes the agent {agent}"
    if kind.heartbeat_takes(definition):
        return None, "waits in the inbox until the heartbeat, or another agent, takes it"
    return None, "waits in the inbox until an agent takes it with take_prompt" if asked_for else None


@refusing
def schedule_list(call: Call, given: Arguments) -> Reply:
    """The caller's scheduled prompts by fire time: number, local time, status, prompt; pending ones unless another
    status is given. list_upcoming shows all kinds."""
    zone = call.in_zone(given.get("timezone")).zone
    status = given.get("status", "pending")
    if status != "all" and status not in STATUSES:
        raise error(f'unknown status "{status[:100]}".')
    ends, notes = _range(given, zone, call.scheduler.clock.now(), past=status != "pending")
    query = ScheduleQuery(
        kind=KIND,
        status=None if status == "all" else status,
        due_from=ends.get("from"),
        due_to=ends.get("to"),
        by_time=True,
        limit=MOST,
        count_to=EVERY_ONE,
    )
    page, depth = accepted(call.scheduler.search(call.caller, query)), call.caller.depth
    details = details_of(call, page.items)
    view: dict[str, Any] = {
        "tasks": [with_owner(call, _row(found, zone, depth, details), found.definition.owner) for found in page.items],
        "total": page.total,
        "timezone": zone,
        **{name: instant_view(end, zone) for name, end in ends.items()},
    }
    if not page.items:
        return Reply(view, NOTHING)
    table = [table_row(found, zone, depth) for found in page.items]
    left_out = page.total - len(table)
    more = [f"{left_out} more are not shown: narrow it down with from and to"] if left_out > 0 else []
    return Reply(view, lines("\n".join(table), [*notes, *more]))


def _row(found: Schedule, zone: str, depth: int, details: Mapping[ScheduleId, str]) -> dict[str, Any]:
    view = task_view(found, zone, depth, details.get(found.definition.id))
    return view | {"error": view["last_error"]} if view["status"] == "failed" and "last_error" in view else view


def _range(given: Arguments, zone: str, now: Instant, *, past: bool) -> tuple[dict[str, Instant], list[str]]:
    """Return the ends of the range, both inclusive, and notes. A day without a time is included whole, so no
    midnight is assumed. With `past`, the question is also about what happened, so the range may begin on the most
    recent Monday."""
    ends: dict[str, Instant] = {}
    notes: list[str] = []
    for name in ("from", "to"):
        if name in given:
            found = _read_past(given[name], zone, now, first=past and name == "from")
            ends[name] = found.last(zone) if name == "to" else found.instant
            note = (found.note or "").replace(shown(found.instant, zone), shown(ends[name], zone))
            notes += [f"{name}: {part}" for part in note.split("; ") if part and part != midnight_note(zone)]
    return ends, notes


@refusing
def schedule_edit(call: Call, given: Arguments) -> Reply:
    """Change a pending prompt; what is not given stays. at moves only the next time of a recurring one; cron, rrule or
    every replace its rule. What runs or has ended cannot be changed."""
    named = task_named(given)
    if not any(name in given for name in ("at", "prompt", "agent", "cron", "rrule", "every")):
        hint = (
            {"hint": "timezone is how times are read; to change it, give the rule too."} if "timezone" in given else {}
        )
        raise Refusal("Error: provide at least one of 'at' or 'prompt' to edit.", **hint)
    zone, now = call.in_zone(given.get("timezone")).zone, call.scheduler.clock.now()
    first, rule = None, None
    if any(name in given for name in ("cron", "rrule", "every")):
        rule, first = _when(given, zone, now)
    elif "at" in given:
        first = _read(given["at"], zone, now)
    if first is not None and first.instant < now:
        raise _past(first, zone, now)
    found = found_task(call, given, _not_editable(named, "edited"), "edit_schedule")
    _refuse_hidden(call, given, found)
    changes = _changes(given, found, rule, first, zone, now)
    changes = replace(changes, pending_only=True)
    changes = call.services.hooks(KIND).adapt_edit(call.caller, found, changes)
    if status_of(found.progress) not in _EDITABLE and not changes.amid_runs:
        raise Refusal(_not_editable(named, "edited"), **_if_paused(found))
    if "agent" in given and payload_of(found.definition).get("remind"):
        raise error("agent: it is a reminder, which wakes no agent; schedule a new task for one.")
    result = call.scheduler.edit(call.caller, found.definition.public_id, changes, KIND)
    if isinstance(result, Err) and result.code in ("not_found", "not_possible"):
        raise Refusal(_not_editable(named, "edited"))
    edited = accepted(result, **_argument_names("once" if rule is None else rule.type, given))
    return _updated(call, given, edited, first and first.note, left_out(call.services, found, edited), zone)


def _refuse_hidden(call: Call, given: Arguments, found: Schedule) -> None:
    """Refuse to pass credentials that are hidden from the calling agent's run on to another agent."""
    hidden = prompt_shown(found.definition, call.caller.depth) != prompt_shown(found.definition, 0)
    if hidden and "prompt" not in given and given.get("agent", found.definition.subject) != found.definition.subject:
        raise error("agent: the prompt holds values that are hidden from you (***); give the prompt anew.")


def _changes(
    given: Arguments, found: Schedule, rule: When | None, first: ReadTime | None, zone: str, now: Instant
) -> Changes:
    changes = Changes()
    parts: Arguments = {name: given[name] for name in ("prompt", "agent") if name in given}
    if parts:
        named_after_text = found.definition.name == (headline(prompt_of(found.definition)) or KIND)
        name = (headline(given["prompt"]) or KIND) if "prompt" in parts and named_after_text else None
        # The rest of the payload is written back as it was read, so nobody may have changed it meanwhile.
        payload = {**payload_of(found.definition), **parts}
        changes = replace(changes, name=name, payload=payload, version=found.definition.version)
    # `now` means as soon as possible, and the engine accepts only future times.
    at = None if first is None else Instant(now + SECOND) if first.instant == now else first.instant
    if rule is None:
        return replace(changes, next=at)
    # Without a zone of its own, a new rule keeps the zone of the old one, if that can still be read. Its first time is
    # made absolute, because it was read in the zone of this call.
    own = zone if "timezone" in given or found.progress.state == ScheduleState.BROKEN else None
    start = {} if at is None else {"start": iso_local(at, zone)}
    return replace(changes, trigger_type=rule.type, trigger_config=rule.config | start, timezone=own)


def _updated(
    call: Call, given: Arguments, edited: Schedule, note: str | None, warnings: list[ScheduleWarning], zone: str
) -> Reply:
    ruled = any(name in given for name in ("cron", "rrule", "every"))
    parts = []
    if ruled or "at" in given:
        parts.append(f"time → {shown(fire_time(edited), zone)}")
    if ruled:
        parts.append(f"repeats → {repeats(edited.definition)}")
    if "prompt" in given:
        parts.append(f'prompt → "{headline(given["prompt"])}"')
    if "agent" in given:
        parts.append(f"agent → {edited.definition.subject}")
    detail = detail_of(call, edited)
    view = {**task_view(edited, zone, call.caller.depth, detail), "timezone": zone, **call.services.facts(edited, zone)}
    if note is not None:
        view["note"] = note
    view = with_owner(call, view, edited.definition.owner)
    sentence = f"Updated task #{edited.definition.id}: {', '.join(parts)}"
    return Reply(with_warnings(view, warnings), lines(sentence, [note], [each.text for each in warnings]))


@refusing
def schedule_cancel(call: Call, given: Arguments) -> Reply:
    """Cancel a pending prompt for good, with all its coming times. Ask the user if several could be meant."""
    stop, refusal = given.get("stop_running", False), _not_editable(task_named(given), "cancelled")
    task = found_task(call, given, refusal, None)
    found = task.definition
    result = call.scheduler.cancel_pending(call.caller, found.public_id, KIND, stop_running=stop)
    if isinstance(result, Err) and result.code in ("not_found", "not_possible"):
        raise Refusal(refusal, **_if_paused(task))
    accepted(result)
    view = with_owner(call, {"id": found.id, "status": "cancelled"}, found.owner)
    return Reply(view, f"Cancelled task #{found.id}.")


def _if_paused(found: Schedule) -> dict[str, str]:
    """Return a hint for a paused task, which other tools can change."""
    if status_of(found.progress) != "paused":
        return {}
    return {"hint": "It is paused: edit_schedule and resume_schedule accept it, and delete_schedule its id as text."}


def _not_editable(named: str, verb: str) -> str:
    return f"Task {named} not found or not editable (only pending tasks can be {verb})."


# -- times and rules ----------------------------------------------------------------------------------------------


def _when(given: Arguments, zone: str, now: Instant) -> tuple[When, ReadTime | None]:
    """Return the trigger and the time in `at`. Times stay as written in the trigger, because a create that is repeated
    under its key must be the same request. The caller checks whether the time has passed."""
    named = [name for name in ("at", "cron", "rrule", "every", "when") if name in given]
    if named == ["when"]:
        return _in_words(given["when"], zone, now)
    ways = "at, cron, rrule, every, when"
    if named not in (["at"], ["cron"], ["rrule"], ["every"], ["at", "every"]):
        was = ", ".join(named) or "none of them"
        raise error(f"give exactly one of {ways} (every may have at as its first time), not {was}.")
    at = given.get("at")
    first = None if at is None else _read(at, zone, now)
    if "every" in given:
        start = SOON if at is not None and at.strip().lower() == "now" else at
        return _every(given["every"], start), first
    return parse_when(at=at, cron=given.get("cron"), rrule=given.get("rrule")), first


def _in_words(text: str, zone: str, now: Instant) -> tuple[When, ReadTime | None]:
    try:
        when = When(*read_phrase(text), None)
    except InvalidInput as problem:
        raise error(problem.message) from None
    return when, _read(text, zone, now) if when.type == "once" else None


def _every(text: str, start: str | None) -> When:
    try:
        return parse_when(every=text, start=start)
    except InvalidInput as problem:
        raise error(problem.message) from None


def _read(text: str, zone: str, now: Instant) -> ReadTime:
    try:
        return read_time(text, zone=zone, now=now)
    except UnreadableTime as problem:
        raise error(problem.message) from problem


def _read_past(text: str, zone: str, now: Instant, *, first: bool) -> ReadTime:
    """Parse a time that may be in the past, such as yesterday: with `first`, prefer a past time; otherwise, use one
    only if the text has no other meaning."""
    if not first:
        with suppress(UnreadableTime):
            return read_time(text, zone=zone, now=now)
    try:
        return read_past_time(text, zone=zone, now=now)
    except UnreadableTime as problem:
        raise error(problem.message) from problem


def _past(found: ReadTime, zone: str, now: Instant) -> Refusal:
    past, present = format_local(found.instant, zone), format_local(now, zone)
    if past == present:  # within the same minute, only the seconds distinguish them
        past, present = iso_local(found.instant, zone), iso_local(now, zone)
    return error(f"{past} is in the past; it is now {present}.")


def _argument_names(trigger_type: str, given: Arguments) -> dict[str, str]:
    """Return the arguments of the tools, by the names of the engine's fields."""
    argument = "when" if "when" in given else {"once": "at", "interval": "every"}.get(trigger_type, trigger_type)
    own = dict.fromkeys(("trigger_config", "seconds", "expression", "rrule", "run_at"), argument)
    start = "start" if "start" in given else "at"
    return {**own, "start": start, "next": "at", "payload": "prompt", "timeout": "timeout_seconds"}
