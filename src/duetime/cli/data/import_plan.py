"""Import of schedules: each line is validated like a create, shown, and created only on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

from duetime.cli.data.crontab import Remark
from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError, InvalidInput, KeyReused
from duetime.engine.kind import Caller
from duetime.engine.validation import NewSchedule
from duetime.service.presenters import instant_view, reads_as, trigger_shape
from duetime.service.vocabulary import Schedule
from duetime.service.when import with_cron_fault
from duetime.terminal import output
from duetime.terminal.context import Application
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


def check(app: Application, candidates: Sequence[Candidate], unreadable: Sequence[Remark]) -> Outcome:
    """Return what would be created and what would be refused, such as what could not be read."""
    outcome = Outcome([], [*unreadable])
    for each in candidates:
        try:
            outcome.rows.append(_plan(app, each))
        except DuetimeError as error:
            outcome.problems.append(Remark(each.line, each.text, _reason(error)))
    outcome.problems.sort()
    return outcome


def _plan(app: Application, candidate: Candidate) -> ImportRow:
    present = candidate.present or app.scheduler.find_created(candidate.caller, candidate.new)
    if present is not None:
        definition, progress = present
        return ImportRow(candidate, PRESENT, definition.trigger, progress.next, definition.public_id)
    refusal = app.services.hooks(candidate.new.kind).outside().refusal()
    if refusal is not None:  # another service keeps this kind, and nobody would look for one here
        raise refusal
    draft = app.scheduler.plan(candidate.caller, candidate.new)
    if candidate.trigger is not None and trigger_shape(draft.definition.trigger) != candidate.trigger:
        raise InvalidInput("it would not fire at the same times; create it again")
    return ImportRow(candidate, NEW, draft.definition.trigger, draft.first)


def _reason(error: DuetimeError) -> str:
    if isinstance(error, KeyReused):
        return "it was imported before, in another form; delete that one first"
    return with_cron_fault(error.message.removeprefix(f"{error.field}: "))  # there are no options in a file


def carry_out(app: Application, plan: Outcome) -> Outcome:
    """Create new schedules in batches, with a progress bar on a terminal; report refusals by the store with their
    line."""
    done = Outcome([row for row in plan.rows if row.status != NEW], list(plan.problems))
    fresh = [row for row in plan.rows if row.status == NEW]
    for batch in output.progress(list(_batches(fresh)), "importing"):
        _create(app, batch, done)
    return Outcome(sorted(done.rows, key=lambda row: row.candidate.line), sorted(done.problems))


def _create(app: Application, batch: Sequence[ImportRow], done: Outcome) -> None:
    """Create the schedules of a batch; one by one if it is refused, to find those that are."""
    first = batch[0].candidate
    try:
        schedules = app.scheduler.create_many(first.caller, [row.candidate.new for row in batch])
    except DuetimeError as error:
        if len(batch) == 1:
            done.problems.append(Remark(first.line, first.text, _reason(error)))
        else:
            for row in batch:
                _create(app, [row], done)
    else:
        done.rows.extend(_finish(app, row, each) for row, each in zip(batch, schedules, strict=True))


def _batches(rows: Sequence[ImportRow]) -> Iterator[list[ImportRow]]:
    """Yield batches of consecutive rows with the same caller."""
    for _, group in groupby(rows, key=lambda row: row.candidate.caller):
        while batch := list(islice(group, BATCH)):
            yield batch


def _finish(app: Application, row: ImportRow, schedule: Schedule) -> ImportRow:
    candidate, id = row.candidate, schedule.definition.public_id
    until = candidate.paused_until
    if candidate.paused and (until is None or until > app.clock.now()):
        app.scheduler.pause(candidate.caller, id, until=until, note=candidate.note or None)
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
