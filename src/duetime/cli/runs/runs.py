"""`duetime runs`: list, show and repeat single runs of every kind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from duetime.cli.runs.kind_option import Kind, known_kind
from duetime.engine.encoding import json_object
from duetime.engine.errors import InvalidInput, NotFound
from duetime.service.errors import refuse
from duetime.service.lookup import name_of
from duetime.service.masking import masked_payload
from duetime.service.operations.change_runs import CHANGEABLE
from duetime.service.operations.history import (
    History,
    ShowRun,
    history_with_facts,
    run_details,
    schedule_of,
    show_run,
    with_schedules,
)
from duetime.service.operations.logs import ReadLog, read_log
from duetime.service.operations.run import RunAgain, run_again
from duetime.service.operations.waiting import wait_for_end, waited_for
from duetime.service.state_details import shown_status
from duetime.service.text import Count, value_of
from duetime.service.vocabulary import LIVE, Run, Schedule, ScheduleState, clock_local
from duetime.terminal import output
from duetime.terminal.completion import IDS, RUNS
from duetime.terminal.context import Application, Cursor, Db, Json, Limit, Tasks, opened
from duetime.terminal.context import again as program
from duetime.terminal.declarations import argument, group, option
from duetime.terminal.output import clean, counted, in_words, local_time, run_document
from duetime.terminal.schedules.change import exit_after, print_started, run_ending
from duetime.terminal.schedules.commands import Tagged, Wait
from duetime.terminal.schedules.display import outcome_text, print_runs, retry_text

# Finding one run of any kind by its number, and showing it as text or JSON.

OVER = frozenset({ScheduleState.DELETED, ScheduleState.CANCELLED})
"""States of schedules that never run again."""
_DIGITS = 19
"""More than the number of any run has."""


def found_run(app: Application, text: str, *command: str) -> Run:
    """Return the run of this number. The command, by default `runs list`, is the one that shows the numbers."""
    command = command or ("runs", "list")
    if not text.isdecimal():
        raise InvalidInput(f"RUN: {text[:40]!r} is not a number; `{' '.join(command[:2])}` shows them")
    try:
        return show_run(app.call, ShowRun(run=int(text[:_DIGITS]))).value
    except NotFound:
        raise refuse("not_found", f"there is no run {text[:40]}; list them: {program(app, *command)}") from None


def over(schedule: Schedule | None) -> str | None:
    """Return the state in which a schedule can never run again, or None."""
    state = ScheduleState.DELETED if schedule is None else schedule.progress.state
    return state if state in OVER else None


def payload_of(schedule: Schedule | None) -> dict[str, Any]:
    definition = None if schedule is None else schedule.definition
    payload = {} if definition is None else masked_payload(definition.kind, json.loads(definition.payload))
    return payload if isinstance(payload, dict) else {}


def whole_view(run: Run, schedule: Schedule | None, zone: str) -> dict[str, Any]:
    can_retry = over(schedule) is None and run.status in CHANGEABLE["retry"]
    about = {"kind": run.kind, "owner": run.owner, "name": run.name, "can_retry": can_retry}
    about["schedule_short_id"] = run.schedule_short_id
    if schedule is None:
        return run_document(run, zone) | about | {"schedule": None, "to": None, "payload": None}
    definition = schedule.definition
    where = {"schedule": definition.public_id, "to": definition.subject, "payload": payload_of(schedule)}
    return run_document(run, zone) | about | where


def print_run(app: Application, run: Run, json_: bool) -> None:
    schedule, details = schedule_of(app.call, run), run_details(app.call, run)
    if json_:
        view = whole_view(run, schedule, app.call.zone)
        known = (*view, "schedule_deleted")  # its `schedule` says so
        output.print_json(view | {name: value for name, value in details.items() if name not in known})
        return
    output.facts([*run_facts(app, run, schedule), *_further_facts(app, run, details)])
    print()
    print_runs(app, [run])
    _print_traceback(run, details)


def run_facts(app: Application, run: Run, schedule: Schedule | None) -> list[tuple[str, object]]:
    """Return the labels and values that describe a run."""
    zone = app.call.zone
    return [
        (run.kind, f"{run.name}  (run {run.id})"),
        ("status", output.status_text(shown_status(run))),
        ("owner", run.owner),
        ("schedule", "deleted" if schedule is None else schedule.definition.short_id),
        ("due", clock_local(run.due, zone)),
        *((("retry", each),) if (each := retry_text(app, run)) else ()),
        *((name, _readable(value)) for name, value in payload_of(schedule).items() if value not in (None, [], {}, "")),
    ]


def _further_facts(app: Application, run: Run, details: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield what only some runs have."""
    if (gate := details["gate"]) is not None:
        checked = gate["failure"] or _readable(gate["result"])
        yield "condition", "was not checked: somebody started it without" if gate["forced"] else checked
    if (request := details["stop_request"]) is not None:
        yield "stop", f"requested by {clean(request['by'] or 'somebody')}, {in_words(request['at'], app.call.zone)}"
    if read_log(app.call, ReadLog(run=run.id)).value.excerpts:
        yield "log", f"what it wrote: {program(app, 'logs', str(run.id))}"


def _print_traceback(run: Run, details: Mapping[str, Any]) -> None:
    """Print the latest traceback: that of the run, or of its last attempt while it waits for the next one."""
    latest = [each["traceback"] for each in details["attempts"][-1:]] if run.status in LIVE else []
    for text in latest or [details["traceback"]]:
        if text is not None:
            print()
            print("\n".join(output.lines_of(text)))


def _readable(value: object) -> object:
    return output.block(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


Number = Annotated[int, argument("RUN", "Number of the run, as `runs list` shows it.", min=1, **RUNS)]

commands = group("List, show, repeat, stop and resolve runs. `duetime dead` has those that failed.", usual="list")


_LIST_EXAMPLES = """\
duetime runs --status live
duetime runs --from yesterday --kind job
duetime runs --status failed --error "connection refused"
duetime runs --task backup --longer-than 10m
"""


@dataclass(frozen=True)
class RunChoice:
    """Selects runs, by the names that `History` has for it."""

    kind: Kind = None
    status: Annotated[
        str | None,
        option("--status STATUS", "Only this status, or several: failed,missed. live: all that have not ended."),
    ] = None
    since: Annotated[
        str | None, option("--from TIME", "Due from this time on: yesterday, '2 hours ago', 2026-02-10.")
    ] = None
    until: Annotated[str | None, option("--until TIME", "Due up to this time; a date includes the whole day.")] = None
    tagged: Tagged = None
    schedule: Annotated[str | None, option("--schedule ID", "Only of this schedule: its id or name.", **IDS)] = None
    task: Annotated[str | None, option("--task TASK", "Only of this task, agent or topic.")] = None
    error: Annotated[str | None, option("--error TEXT", "Only those with this text in their error.")] = None
    longer_than: Annotated[
        str | None, option("--longer-than DURATION", "Only those that took at least this long, such as 10m.")
    ] = None
    shorter_than: Annotated[
        str | None, option("--shorter-than DURATION", "Only those that took at most this long, such as 2s.")
    ] = None
    owner: Annotated[str | None, option("--owner OWNER", "Only of this owner.")] = None

    def fields(self) -> dict[str, Any]:
        return {**vars(self), "kind": known_kind(self.kind)}


@commands.command("list", reads=True, former={"--to": "--until"}, epilog=_LIST_EXAMPLES)
def list_(
    chosen: RunChoice,
    limit: Limit = 20,
    cursor: Cursor = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """List runs of all kinds, newest first, including those of deleted schedules. --task, --tagged, --error,
    --longer-than and --shorter-than search the newest 100,000 runs up to --until, or all since --from or of --schedule;
    --tagged searches all of a --status other than completed."""
    request = History(**chosen.fields(), limit=limit, cursor=cursor)
    with opened(db) as app:
        zone = app.call.zone
        (page, _, notes), facts = history_with_facts(app.call, request)
        if json_:
            views = [whole_view(*pair, zone) for pair in with_schedules(app.call, page.items)]
            more = {"notes": list(notes)} if notes else {}
            more |= facts
            output.print_json({"runs": views, "total": page.total, "next_cursor": page.cursor, **more})
        elif not page.items:
            print(" ".join(notes if cursor is None else ["No runs were found.", *notes]))
        else:
            rows = []
            for run in page.items:
                state, due = output.status_text(shown_status(run)), local_time(run.due, zone)
                rows.append([run.id, state, due, run.kind, run.schedule_short_id, run.name, outcome_text(run)])
            headings = ["RUN", "STATUS", "DUE", "KIND", "ID", "NAME", "OUTCOME"]
            output.table(headings, rows, whole=3, spare={"ID": 60, "KIND": 20})
            if len(page.items) < page.total:
                counts, bounds = facts.get("counts", {}), facts.get("counts_at_least", ())
                by_status = ", ".join(f"{Count(counts[each], each not in bounds)} {each}" for each in counts)
                of_all = f" Of all statuses: {by_status}" if by_status else ""
                output.say(f"{len(page.items)} of {counted(page)}; --limit shows more.{of_all}")
            for note in notes:
                output.say(note)


@commands.command(reads=True)
def show(run: Number, db: Db = None, json_: Json = False) -> None:
    """Show a run: what it does, its outcome, and every attempt."""
    with opened(db) as app:
        print_run(app, found_run(app, str(run)), json_)


@commands.command()
def again(
    run: Number,
    payload: Annotated[str | None, option("--payload JSON", "The whole input, instead of that of the run.")] = None,
    fields: Annotated[
        list[str] | None, option("--set FIELD=VALUE", "Change one field of the input; JSON or text. Repeatable.")
    ] = None,
    wait: Wait = 0,
    tasks: Tasks = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Start a new run of the same schedule, now, with the input of this run or an edited one. The schedule keeps its
    own input. To run the same run once more, use `runs retry`. With --wait, the exit code is 1 if the run failed
    and 6 if it has not ended by then."""
    whole = None if payload is None else json_object(payload)
    if payload is not None and whole is None:
        raise InvalidInput('--payload: must be a JSON object, such as \'{"message": "hello"}\'')
    changed = dict(_field(each) for each in fields or ())
    from duetime.kinds.jobs.cli import naming_known_tasks  # the other commands start without it

    with opened(db, tasks, load_tasks=True) as app, naming_known_tasks(app):
        found_run(app, str(run))
        request = RunAgain(run=run, payload=whole, fields=changed)
        answer = run_again(app.call, request)
        started = wait_for_end(app.call, answer.value, wait)
        waited = waited_for(app.call, started)
        document = whole_view(started, schedule_of(app.call, started), app.call.zone) | waited
        command, ending = program(app, "runs", "show", str(started.id)), run_ending(started, wait, waited["reason"])
        text = f"Run {started.id} of {clean(name_of(started))} {ending} See it: {command}"
        print_started(app, answer._replace(value=started), document, text, json_)
    exit_after(started, wait)


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInput(f"--set: {text[:40]!r} is not FIELD=VALUE; an example is --set message=hello")
    return name, value_of(value)
