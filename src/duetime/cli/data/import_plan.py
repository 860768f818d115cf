"""Import of schedules: each line is validated like a create, shown, and created only on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

from duetime.cli.data.crontab import Remark
from duetime.engine.clock import Instant
from duetime.engine.kind import Caller
from duetime.engine.policy.rows import Draft
from duetime.engine.result import Err, Ok
from duetime.engine.validation import NewSchedule
from duetime.service.errors import unwrap
from duetime.service.presenters import instant_view, reads_as, trigger_shape
from duetime.service.vocabulary import Schedule
from duetime.terminal import output
from duetime.terminal.context import Application
from duetime.terminal.errors import in_a_file
from duetime.terminal.output import ahead, plural

BATCH = 100
"""Schedules per commit."""
NEW, PRESENT, IMPORTED = "new", "there already", "imported"


class Candidate(NamedTuple):
    line: int
    text: str
    new: NewSchedule
    """With an idempotency key, so that importing the same line twice creates one schedule."""
    caller: Caller
    paused: bool = False
    paused_until: Instant | None = None
    note: str | None = None
    """A note that says why."""
    present: Schedule | None = None
    """The schedule itself, if it is imported into the store from which it was exported."""
    trigger: dict[str, Any] | None = None
    """The trigger as it was exported, which the draft has to match."""


class ImportRow(NamedTuple):
    candidate: Candidate
    status: str
    trigger: str
    next: Instant | None
    id: str | None = None


class Outcome(NamedTuple):
    rows: list[ImportRow]
    problems: list[Remark]


def check(app: Application, candidates: Sequence[Candidate]) -> Outcome:
    """Return what would be created and what would be refused."""
    outcome = Outcome([], [])
    for each in candidates:
        before = Ok(each.present) if each.present is not None else app.scheduler.made_before(each.caller, each.new)
        if isinstance(before, Ok):
            definition, progress = before.value
            outcome.rows.append(ImportRow(each, PRESENT, definition.trigger, progress.next, definition.public_id))
            continue
        draft = before or _draft(app, each)
        if isinstance(draft, Err):
            outcome.problems.append(Remark(each.line, each.text, _reason(draft)))
        else:
            outcome.rows.append(ImportRow(each, NEW, draft.definition.trigger, draft.first))
    return outcome


def _draft(app: Application, candidate: Candidate) -> Draft | Err:
    """Draft a schedule. Refuse a kind that another service keeps, because nobody would look for it here."""
    refusal = app.services.hooks(candidate.new.kind).refusal()
    drafts = refusal or app.scheduler.drafts(candidate.caller, [candidate.new])
    if isinstance(drafts, Err):
        return drafts
    (draft,) = drafts.value
    if candidate.trigger is not None and trigger_shape(draft.definition.trigger) != candidate.trigger:
        return Err("invalid", "it would not fire at the same times; create it again")
    return draft


def _reason(err: Err) -> str:
    if err.code == "key_reused":
        return "it was imported before, in another form; delete that one first"
    return in_a_file(err)


def carry_out(app: Application, plan: Outcome) -> Outcome:
    """Create new schedules in batches, with a progress bar on a terminal; report refusals by the store with their
    line."""
    done = Outcome([row for row in plan.rows if row.status != NEW], list(plan.problems))
    fresh = [row for row in plan.rows if row.status == NEW]
    for batch in output.progress(list(_batches(fresh)), "importing"):
        schedules = app.scheduler.create_many(batch[0].candidate.caller, [row.candidate.new for row in batch])
        if isinstance(schedules, Ok):
            done.rows.extend(_finish(app, row, each) for row, each in zip(batch, schedules.value, strict=True))
            continue
        for row in batch:
            one = app.scheduler.create(row.candidate.caller, row.candidate.new)
            if isinstance(one, Err):
                done.problems.append(Remark(row.candidate.line, row.candidate.text, _reason(one)))
            else:
                done.rows.append(_finish(app, row, one.value))
    return Outcome(sorted(done.rows, key=lambda row: row.candidate.line), sorted(done.problems))


def _batches(rows: Sequence[ImportRow]) -> Iterator[list[ImportRow]]:
    """Yield batches of consecutive rows with the same caller."""
    for _, group in groupby(rows, key=lambda row: row.candidate.caller):
        while batch := list(islice(group, BATCH)):
            yield batch


def _finish(app: Application, row: ImportRow, schedule: Schedule) -> ImportRow:
    candidate, id = row.candidate, schedule.definition.public_id
    until = candidate.paused_until
    if candidate.paused and (until is None or until > app.clock.now()):
        unwrap(app.scheduler.pause(candidate.caller, id, until=until, note=candidate.note or None))
    return row._replace(status=IMPORTED, next=schedule.progress.next, id=id)


def print_outcome(app: Application, outcome: Outcome, notes: Sequence[Remark]) -> None:
    now, zone = app.clock.now(), app.scheduler.zone
    if outcome.rows:
        rows = []
        for row in outcome.rows:
            rule = reads_as(row.trigger).replace(f" ({zone})", "")
            rows.append([row.candidate.line, row.status, ahead(row.next, now), row.candidate.new.name, rule])
        output.table(["LINE", "STATUS", "NEXT", "WHAT", "WHEN"], rows, whole=2)
    for heading, remarks in (("Not imported", outcome.problems), ("Notes", notes)):
        if remarks:
            print(f"\n{heading}:")
            output.table(["LINE", "TEXT", "REASON"], remarks, fold=True)


def summary(outcome: Outcome) -> str:
    counts = {status: sum(row.status == status for row in outcome.rows) for status in (NEW, IMPORTED, PRESENT)}
    parts = [f"{plural(number, 'schedule')} {status}" for status, number in counts.items() if number]
    parts += [f"{plural(len(outcome.problems), 'line')} not imported"] if outcome.problems else []
    return ", ".join(parts) or "nothing to import"


def outcome_view(app: Application, outcome: Outcome, notes: Sequence[Remark], *, dry_run: bool) -> dict[str, Any]:
    zone = app.scheduler.zone
    rows = [
        {
            "line": row.candidate.line,
            "status": row.status,
            "id": row.id,
            "name": row.candidate.new.name,
            "reads_as": reads_as(row.trigger),
            "next": instant_view(row.next, zone),
        }
        for row in outcome.rows
    ]
    problems = [each._asdict() for each in outcome.problems]
    return {"dry_run": dry_run, "schedules": rows, "problems": problems, "notes": [each._asdict() for each in notes]}
