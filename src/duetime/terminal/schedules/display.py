"""Finds a schedule that a command names, and displays schedules and their runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError, Refused
from duetime.engine.model import ScheduleId
from duetime.engine.policy.options import policy_from_json
from duetime.service.errors import refuse
from duetime.service.lookup import find
from duetime.service.operations.history import earlier_attempts, gate_views, next_attempt
from duetime.service.operations.schedules import ListSchedules, detail_of, list_schedules
from duetime.service.policy_words import policy_facts
from duetime.service.presenters import actor_view, next_instants, next_of, policy_shape
from duetime.service.services import OPERATOR
from duetime.service.state_details import StatusWords, run_detail, shown_status, status_words
from duetime.service.vocabulary import Cause, Run, Schedule, clock_local, executed, first_start, is_agents, status_of
from duetime.terminal import output
from duetime.terminal.context import Application, again
from duetime.terminal.errors import did_you_mean
from duetime.terminal.output import ahead, clean, coming, outcome, plural, relative, schedule_document, span
from duetime.terminal.schedules.kind_view import KindView, view_of


def find_here(app: Application, view: KindView, text: str, *, deleted: bool = False) -> Schedule:
    """Find a schedule of this store by its id, by a unique prefix of its id, or by its name; with `deleted`, also a
    deleted one by its id."""
    try:
        return find(app.call, text, view.kind, deleted=deleted)
    except Refused as error:
        raise not_found(app, view, text, error) from None


def short_of(app: Application, id: str) -> str:
    """Return the short id of a schedule, or the id itself for one that is not in this store."""
    try:
        return find(app.call, id, deleted=True).definition.short_id
    except Refused:
        return id


NEXT_TIMES = 5
"""Number of coming times that are shown of a schedule."""
_COMPARED = 500
"""Number of latest schedules whose names are compared with a mistyped one."""


def not_found(app: Application, view: KindView, text: str, error: Refused) -> DuetimeError:
    """Return the error of a lookup as the command line words it."""
    name = text if len(text) <= 60 else text[:60] + "..."
    if error.code == "ambiguous":
        several = [*zip(error.details["short_ids"], error.details["candidates"], strict=True)]
        ids = [each["id"] if short == text.strip() else short for short, each in several]  # a name may look like one
        listed = "; ".join(f"{id}: {clean(each['reads_as'])}" for id, (_, each) in zip(ids, several, strict=True))
        return refuse("ambiguous", f"{name!r} could mean several {view.plural}; give the id, such as {listed}")
    if error.code != "not_found" or "others" in error.details:
        return error
    request = ListSchedules(owner=OPERATOR.owner, kind=view.kind, status="living", limit=_COMPARED, count_to=0)
    names = [each.definition.name[:60] for each in list_schedules(app.call, request).value.items]
    similar = did_you_mean(name, names)
    with suppress(Refused):  # the number of a short id is right, and only the letter of its kind is wrong
        if text[:1].isalpha() and text[1:].isdecimal():
            similar = f"; did you mean {find(app.call, text[1:]).definition.short_id}?"
    where = again(app, *filter(None, (view.command, "list")))
    message = f"there is no {view.noun} {name!r}{similar or ';'} list them: {where}"
    other = error.details.get("found")
    spec = None if other is None else app.services.specs.get(other["kind"])
    if spec is not None and spec.command:
        message = f"{name!r} is a {spec.name}; use {again(app, spec.command, '--help')}"
    return refuse("not_found", message)


# Schedules and their runs as tables.

SPARE = {"RUNS": 24, "LAST": 24, "OWNER": 24, "WHEN": output.READABLE}
"""Run count, last status and a common owner are left out before the texts beside them are cut."""


def _paused_until(schedule: Schedule) -> Instant | None:
    return schedule.definition.resume_at if schedule.progress.state == "paused" else None


def _status_words(schedule: Schedule, detail: str | None) -> StatusWords:
    return status_words(status_of(schedule.progress), schedule.progress.last_status, detail)


def print_schedules(
    view: KindView, items: list[Schedule], zone: str, now: Instant, details: Mapping[ScheduleId, str] | None = None
) -> None:
    """Print a table of schedules without uninformative columns, such as the last status before any run."""
    known = details or {}
    owners = {item.definition.owner for item in items}
    news = {
        "OWNER": owners != {OPERATOR.owner},
        "AUTHOR": any(is_agents(item.definition.author, item.definition.depth) for item in items),
        "LAST": any(item.progress.last_status for item in items),
    }
    columns = ["ID", "STATUS", "NEXT", *view.headings, "OWNER", "AUTHOR", "WHEN", "LAST", "RUNS"]
    numbers = [number for number, name in enumerate(columns) if news.get(name, True)]
    rows = [_row(view, item, zone, now, known.get(item.definition.id)) for item in items]
    spare = {name: least for name, least in SPARE.items() if name != "OWNER" or len(owners) == 1}
    headings, cells = [columns[number] for number in numbers], [[row[number] for number in numbers] for row in rows]
    output.table(headings, cells, whole=3, spare=spare)


def _row(kind_view: KindView, item: Schedule, zone: str, now: Instant, detail: str | None) -> list[object]:
    view, progress = schedule_document(item, zone), item.progress
    return [
        item.definition.short_id,
        output.status_text(_status_words(item, detail).word),
        ahead(next_of(progress), now) if (until := _paused_until(item)) is None else f"resumes {ahead(until, now)}",
        *kind_view.cells(item.definition, view["payload"] or {}),
        view["owner"],
        view["author"] or "-",
        view["reads_as"].replace(f" ({zone})", ""),
        output.status_text(progress.last_status or "-"),
        view["run_count"],
    ]


def schedule_facts(app: Application, schedule: Schedule) -> list[tuple[str, object]]:
    """Return what to show of a schedule, with its next times."""
    (definition, progress), zone, now = schedule, app.call.zone, app.call.now
    view = schedule_document(schedule, zone)
    words = _status_words(schedule, detail_of(app.call, schedule))
    instants = next_instants(schedule, now, NEXT_TIMES)
    more = f"{' ' if words.word == 'waiting' else ', '}{words.more}" if words.more else ""
    until = "" if (ends := _paused_until(schedule)) is None else f" until {coming(ends, zone, now)}"
    state = output.status_text(words.word, until + (f"{more}: {progress.note}" if progress.note else more))
    return [
        (definition.kind, f"{definition.name}  ({definition.short_id})"),
        *([("id", definition.public_id)] if definition.public_id != str(definition.id) else []),
        ("status", state),
        *view_of(app.services.specs.get(definition.kind)).facts(definition, view["payload"] or {}),
        *([("author", view["author"])] if is_agents(definition.author, definition.depth) else []),
        *([("source", view["source"])] if view["source"] else []),
        ("when", view["reads_as"]),
        *(("next" if number == 0 else "", coming(instant, zone, now)) for number, instant in enumerate(instants)),
        ("policy", _policy_text(definition.policy)),
        ("runs", _runs_text(schedule, now)),
        ("owner", f"{definition.owner}, created {clock_local(definition.created, zone)}"),
    ]


def _runs_text(schedule: Schedule, now: Instant) -> str:
    progress = schedule.progress
    text = plural(executed(progress), "run")
    if progress.last_run is not None:
        ago = relative(progress.last_run, now)
        text += f", the last one {progress.last_status} {'just now' if ago == 'now' else ago}"
    if progress.failures:
        text += f", {plural(progress.failures, 'failure')} in a row"
    return text + (f": {progress.last_error}" if progress.last_error else "")


_ALWAYS_SHOWN = ("catch_up", "overlap")


def _policy_text(stored: str) -> str:
    """Describe a policy: what differs from the defaults, and what happens to occurrences that are late or overlap. One
    that cannot be parsed must still be shown, because it broke its schedule."""
    try:
        policy_from_json(stored)
    except DuetimeError as error:
        return f"cannot be read: {error.message}"
    shape = policy_shape(stored) or {}
    facts = zip(shape, policy_facts(shape, policy_shape("{}") or {}), strict=True)
    return " · ".join(f"{fact.label} {fact.value}" for name, fact in facts if fact.unusual or name in _ALWAYS_SHOWN)


def print_runs(app: Application, runs: list[Run]) -> None:
    zone, rows, gates = app.call.zone, list[list[object]](), gate_views(app.call, runs)
    for run in runs:
        failure = gates.get(run.id, {}).get("failure")
        text = "; ".join(filter(None, (outcome_text(run), failure, retry_text(app, run))))
        took = "-" if run.started is None or run.finished is None else span(run.finished - run.started)
        attempts = earlier_attempts(app.call, run)
        first = first_start(run, attempts)
        late = "-" if first is None else span(first - run.due)
        status, above = output.status_text(shown_status(run)), run.error
        rows.append([run.id, status, output.local_time(run.due, zone), run.attempt or "-", took, late, text])
        for attempt in reversed(attempts):  # the latest first, like the runs
            if attempt.retried is not None:
                by = f"by {clean(actor_view(attempt.actor) or 'unknown')}"
                rows.append(["", "retried", output.local_time(attempt.retried, zone), "", "", "", by])
            took = "-" if attempt.started is None else span(attempt.finished - attempt.started)
            text = "the same error" if attempt.error and attempt.error == above else output.in_line(attempt.error or "")
            status, above = output.status_text(attempt.status), attempt.error
            rows.append(["", status, "", attempt.number, took, "", output.Styled(text, "dim")])
    headings = ["RUN", "STATUS", "DUE", "TRY", "TOOK", "LATE", "RESULT OR ERROR"]
    output.table(headings, rows, whole=3, fold=True, spare={"LATE": 24})


def retry_text(app: Application, run: Run) -> str:
    """Return when a failed run is tried again; nothing for any other run."""
    at = next_attempt(app.call, run) if run.attempt and run.error else None
    return "" if at is None else f"next attempt {coming(at, app.call.zone, app.call.now)}"


def outcome_text(run: Run, *, cause: bool = True) -> str:
    """Return the result or error of a run; unless `cause` is false, also that a person started it."""
    text = outcome(run) or ("" if shown_status(run) == run.status else str(run_detail(run)))
    text = of_occurrences(run, text)
    return "; ".join(filter(None, ("started manually", text))) if cause and run.cause == Cause.MANUAL else text


def of_occurrences(run: Run, text: str) -> str:
    """Return a text about a run, with the number of occurrences for which it stands if it was missed."""
    if run.last is None:
        return text
    return f"{'at least ' if run.number < 0 else ''}{plural(abs(run.number), 'occurrence')}: {text}"
