"""The four tools for scheduled prompts: schedule, list, edit, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from duetime.engine.clock import SECOND, Instant
from duetime.engine.model import Schedule, ScheduleState, status_of
from duetime.engine.result import Err
from duetime.engine.store import EVERY_ONE, ScheduleQuery
from duetime.engine.times import ReadTime
from duetime.engine.triggers import trigger_from_json
from duetime.engine.validation import Changes, NewSchedule
from duetime.kinds.prompts.kind import Doer, PromptKind, doer_of
from duetime.kinds.prompts.mcp.text import (
    KIND,
    Refusal,
    accepted,
    error,
    fire_time,
    headline,
    lines,
    number_in,
    payload_of,
    prompt_shown,
    refusing,
    repeats,
    shown,
    table_row,
    task_view,
)
from duetime.kinds.prompts.mcp.times import When, past, range_in, read_ahead, rule_in, trigger_in
from duetime.mcp.definitions import Arguments, Reply
from duetime.mcp.schemas import STATUSES, policy_of, with_owner, zone_of
from duetime.service.presenters import instant_view
from duetime.service.services import Call

MOST = 1000
"""Rows of one answer; beyond that, an agent is told to narrow its query."""
NOTHING = "No scheduled tasks found matching filters."
PARTS = ("prompt", "agent", "remind", "max_runs_per_day", "max_tokens_per_day", "max_dollars_per_day")
_EDITABLE = ("pending", "broken")  # an edit can repair a broken one


@refusing
def schedule(call: Call, given: Arguments) -> Reply:
    zone, now = zone_of(call, given), call.scheduler.clock.now()
    when = trigger_in(given, zone, now)
    payload: Arguments = {name: given[name] for name in PARTS if name in given}
    new = NewSchedule(
        kind=KIND,
        name=headline(given["prompt"]) or KIND,
        trigger_type=when.type,
        trigger_config=when.config,
        payload=payload,
        policy=policy_of(given),
        timezone=zone,
        idempotency_key=given.get("idempotency_key"),
    )
    if when.first is not None and when.first.instant < now:
        before = call.scheduler.made_before(call.caller, new)
        if before is None:
            raise past(when.first, zone, now)
        made = accepted(before, **_names(when))
        warnings = call.services.create_warnings(made, payload)
    else:
        made, _, warnings = accepted(call.services.create(call.caller, new), **_names(when))
    doer = doer_of(made.definition, call.services.kind(PromptKind).inboxes, asked_for="agent" in given)
    return _scheduled(call, made, doer, [each.text for each in warnings], when.first and when.first.note, zone)


def _names(when: When) -> dict[str, str]:
    own = dict.fromkeys(("trigger_config", "seconds", "expression", "rrule"), when.argument)
    return {**own, "run_at": "at", "start": "at", "next": "at", "payload": "prompt", "timeout": "timeout_seconds"}


def _scheduled(call: Call, made: Schedule, doer: Doer, warnings: Sequence[str], note: str | None, zone: str) -> Reply:
    first, rule = _first_time(made), repeats(made.definition)
    view = {**task_view(made, zone, call.caller.depth), "fire_at": instant_view(first, zone), "timezone": zone}
    if warnings:
        view["warnings"] = warnings
    if note is not None:
        view["note"] = note
    if doer.wakes is not None:
        view["wakes"] = doer.wakes
    sentence = f"Scheduled task #{made.definition.id} for {shown(first, zone)}."
    return Reply(view, lines(sentence, [rule and f"repeats {rule}", note, doer.note], warnings))


def _first_time(made: Schedule) -> Instant | None:
    """Return the first time as of creation: a repeated key returns the first result, however often it fired since."""
    definition = made.definition
    if definition.version > 1:
        return fire_time(made)
    trigger = trigger_from_json(definition.trigger)
    return trigger.next_after(Instant(definition.created - 1) if trigger.type == "once" else definition.created)


@refusing
def schedule_list(call: Call, given: Arguments) -> Reply:
    zone = zone_of(call, given)
    status = given.get("status", "pending")
    if status != "all" and status not in STATUSES:
        raise error(f'unknown status "{status[:100]}".')
    within = range_in(given, zone, call.scheduler.clock.now())
    query = ScheduleQuery(
        kind=KIND,
        status=None if status == "all" else status,
        due_from=within.first,
        due_to=within.last,
        by_time=True,
        limit=MOST,
        count_to=EVERY_ONE,
    )
    page = accepted(call.scheduler.search(call.caller, query))
    view: dict[str, Any] = {
        "tasks": [
            with_owner(call, task_view(found, zone, call.caller.depth), found.definition.owner) for found in page.items
        ],
        "total": page.total,
        "timezone": zone,
    }
    ends = {"from": instant_view(within.first, zone), "to": instant_view(within.last, zone)}
    view |= {name: end for name, end in ends.items() if end is not None}
    if not page.items:
        return Reply(view, NOTHING)
    table = [table_row(found, zone, call.caller.depth) for found in page.items]
    left_out = page.total - len(table)
    more = [f"{left_out} more are not shown: narrow it down with from and to"] if left_out > 0 else []
    return Reply(view, lines("\n".join(table), [*within.notes, *more]))


@refusing
def schedule_edit(call: Call, given: Arguments) -> Reply:
    number = number_in(given, "id")
    if not any(name in given for name in ("at", "prompt", "agent", "cron", "rrule", "every")):
        raise error("provide at least one of 'at' or 'prompt' to edit.")
    zone, now = zone_of(call, given), call.scheduler.clock.now()
    rule = rule_in(given, zone, now)
    moved = read_ahead(given["at"], zone, now) if rule is None and "at" in given else None
    found = _own(call, number)
    if found is None:
        raise _not_editable(number, "edited")
    _refuse_hidden(call, given, found)
    changes = replace(_changes(given, found, rule, zone), next=_next(moved, now))
    changes = call.services.hooks(KIND).adapt_edit(call.caller, found, changes)
    if status_of(found.progress) not in _EDITABLE and not changes.amid_runs:
        raise _not_editable(number, "edited")
    if "agent" in given and payload_of(found.definition).get("remind"):
        raise error("agent: it is a reminder, which wakes no agent; schedule a new task for one.")
    result = call.scheduler.edit(call.caller, str(number), changes, KIND)
    if isinstance(result, Err) and result.code in ("not_found", "not_possible"):
        raise _not_editable(number, "edited")
    names = _names(rule or When("once", {}, "at"))
    return _updated(call, given, accepted(result, **names), rule, moved and moved.note, zone)


def _refuse_hidden(call: Call, given: Arguments, found: Schedule) -> None:
    """Refuse to pass credentials on to another agent that are hidden from the calling agent's run."""
    hidden = prompt_shown(found.definition, call.caller.depth) != prompt_shown(found.definition, 0)
    if hidden and "prompt" not in given and given.get("agent", found.definition.subject) != found.definition.subject:
        raise error("agent: the prompt holds values that are hidden from you (***); give the prompt anew.")


def _next(moved: ReadTime | None, now: Instant) -> Instant | None:
    """Return the next time. `now` means as soon as possible, and the engine accepts only future times."""
    if moved is None:
        return None
    return Instant(now + SECOND) if moved.instant == now else moved.instant


def _changes(given: Arguments, found: Schedule, rule: When | None, zone: str) -> Changes:
    changes = Changes()
    parts: Arguments = {name: given[name] for name in ("prompt", "agent") if name in given}
    if parts:
        name = (headline(given["prompt"]) or KIND) if "prompt" in parts else None
        # The rest of the payload is written back as it was read, so nobody may have changed it meanwhile.
        payload = {**payload_of(found.definition), **parts}
        changes = replace(changes, name=name, payload=payload, version=found.definition.version)
    if rule is not None:
        # Without a zone of its own, a new rule keeps the zone of the old one, if that can still be read.
        own = zone if "timezone" in given or found.progress.state == ScheduleState.BROKEN else None
        changes = replace(changes, trigger_type=rule.type, trigger_config=rule.config, timezone=own)
    return changes


def _updated(call: Call, given: Arguments, edited: Schedule, rule: When | None, note: str | None, zone: str) -> Reply:
    parts = []
    if rule is not None or "at" in given:
        parts.append(f"time → {shown(fire_time(edited), zone)}")
    if rule is not None:
        parts.append(f"repeats → {repeats(edited.definition)}")
        note = rule.first and rule.first.note
    if "prompt" in given:
        parts.append(f'prompt → "{headline(given["prompt"])}"')
    if "agent" in given:
        parts.append(f"agent → {edited.definition.subject}")
    view = {**task_view(edited, zone, call.caller.depth), "timezone": zone}
    if note is not None:
        view["note"] = note
    return Reply(view, lines(f"Updated task #{edited.definition.id}: {', '.join(parts)}", [note]))


@refusing
def schedule_cancel(call: Call, given: Arguments) -> Reply:
    number = number_in(given, "id")
    result = call.scheduler.cancel_pending(call.caller, str(number), KIND)
    if isinstance(result, Err) and result.code in ("not_found", "not_possible"):
        raise _not_editable(number, "cancelled")
    accepted(result)
    return Reply({"id": number, "status": "cancelled"}, f"Cancelled task #{number}.")


def _own(call: Call, number: int) -> Schedule | None:
    return call.scheduler.find(call.caller, str(number), KIND)


def _not_editable(number: int, verb: str) -> Refusal:
    return Refusal(f"Task #{number} not found or not editable (only pending tasks can be {verb}).")
