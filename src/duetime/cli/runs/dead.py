"""`duetime dead`: runs that failed for good or were lost, until somebody retries or dismisses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from duetime.cli.runs.run import OVER, Kind, found_run, known_kind, over, payload_of, print_run, run_number, whole_view
from duetime.engine.clock import Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.model import Run, Schedule
from duetime.engine.scheduler import ordered
from duetime.engine.store import RunQuery
from duetime.service.dead_letters import Action, DeadLetterQuery, Dealt, change_dead, find_dead
from duetime.service.errors import REFUSED, unwrap
from duetime.service.services import OPERATOR
from duetime.service.warnings import ScheduleWarning
from duetime.terminal import output
from duetime.terminal.completion import DEAD_RUNS
from duetime.terminal.context import Application, Cursor, Db, Json, Limit, again, opened, print_warnings
from duetime.terminal.output import counted, plural, relative
from duetime.terminal.typer_ext import PlainCommand, argument, group, option

PAGE = 500
"""Dead letters between two updates of the progress bar."""
Chosen = Annotated[list[str] | None, argument("[RUN]...", "Numbers of runs, as `dead list` shows them.", **DEAD_RUNS)]
Everything = Annotated[bool, option("--all", "All dead letters, or all of --kind.")]

commands = group("Dead letters are runs that failed after all their attempts, or were lost.")


@commands.command("list", cls=PlainCommand)
def list_(
    kind: Kind = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """List dead letters that were neither retried nor forgotten, newest first."""
    with opened(db) as app:
        query = RunQuery(kind=known_kind(kind), status="dead", limit=limit, cursor=cursor)
        page = unwrap(app.scheduler.runs(OPERATOR, query))
        letters = [(run, app.scheduler.schedule_of(OPERATOR, run)) for run in page.items]
        zone, now = app.scheduler.zone, app.clock.now()
        alive = next((run for run, schedule in letters if over(schedule) is None), None)
        if alive is None:
            advice = f"Remove them: {again(app, 'dead', 'forget', '--all')}"
        else:
            advice = f"Retry: {again(app, 'dead', 'retry', str(alive.id))}"
        notes = app.services.failure_notes(kind)
    if json_:
        views = [whole_view(run, schedule, zone) for run, schedule in letters]
        more = {"notes": notes} if notes else {}
        output.print_json({"dead": views, "total": page.total, "next_cursor": page.cursor, **more})
        return
    if not letters:
        print("No dead letters." if not notes else "No dead letters here.")
    else:
        rows = [_row(run, schedule, now) for run, schedule in letters]
        output.table(
            ["RUN", "FAILED", "TRIES", "KIND", "TO", "WHAT", "ERROR"], rows, whole=2, fold=True, spare={"TRIES": 20}
        )
        shown = f"; {len(letters)} shown" if len(letters) < page.total else ""
        output.say(f"{counted(page)} in all{shown}. {advice}")
    for note in notes:
        output.say(note)


@commands.command(cls=PlainCommand)
def show(
    run: Annotated[int, argument("RUN", "Number of the run, as `dead list` shows it.", **DEAD_RUNS)],
    db: Db = None,
    json_: Json = False,
) -> None:
    """Show a dead letter: what it does, and how each attempt failed."""
    with opened(db) as app:
        print_run(app, found_run(app, run, again(app, "dead", "list")), json_)


_RETRY_EXAMPLES = """\
duetime dead retry 91 92
duetime dead retry --all --kind job
"""


@commands.command(cls=PlainCommand, epilog=_RETRY_EXAMPLES)
def retry(
    run: Chosen = None, everything: Everything = False, kind: Kind = None, db: Db = None, json_: Json = False
) -> None:
    """Retry dead letters. Each keeps its id, so that a receiver recognises it. Those of a schedule run one after the
    other, in the order in which they were due. The exit code is 4 if one is refused. --all leaves out the runs of
    schedules that were deleted or cancelled."""
    with opened(db) as app:
        done, refused = _each(app, run, everything, kind, "retry", "requeuing")
        kinds = dict.fromkeys(each.kind for each in done)
        warnings = list(dict.fromkeys(each for name in kinds for each in app.services.worker_warnings(name)))
        if everything and (left_out := [item for item in refused if item[1].details.get("state") in OVER]):
            refused = [item for item in refused if item[1].details.get("state") not in OVER]
            what = f"{plural(len(left_out), 'run')} of schedules that were deleted or cancelled"
            text = f"left out: {what}; {again(app, 'dead', 'list')} marks them, `dead forget` removes them"
            warnings.append(ScheduleWarning("left_out", text))
        _print_changed(app, "retried", "requeued", Dealt(done, refused), warnings, json_)


@commands.command(cls=PlainCommand)
def forget(
    run: Chosen = None, everything: Everything = False, kind: Kind = None, db: Db = None, json_: Json = False
) -> None:
    """Remove runs from this list. They stay in the history."""
    with opened(db) as app:
        dealt = _each(app, run, everything, kind, "dismiss", "removing")
        _print_changed(app, "forgotten", "removed", dealt, [], json_)


def _each(
    app: Application, given: list[str] | None, everything: bool, kind: str | None, action: Action, doing: str
) -> Dealt:
    if bool(given) == everything:
        raise InvalidInput("give the numbers of runs, or --all")
    where, asked = again(app, "dead", "list"), DeadLetterQuery(kind=known_kind(kind))
    numbers = [run_number(text, "`dead list`") for text in given or ()]
    chosen = [found_run(app, id, where) for id in numbers] or find_dead(app.services, OPERATOR, asked)
    ids, dealt = [run.id for run in ordered(chosen)], Dealt([], [])
    with output.bar(doing) as told:
        for start in range(0, len(ids), PAGE):
            part = DeadLetterQuery(ids=ids[start : start + PAGE])
            done, refused = unwrap(change_dead(app.services, OPERATOR, part, action))
            dealt.done.extend(done)
            dealt.refused.extend(refused)
            told(min(1.0, (start + PAGE) / len(ids)))
    return dealt


def _print_changed(
    app: Application, key: str, participle: str, dealt: Dealt, warnings: Sequence[ScheduleWarning], json_: bool
) -> None:
    done, refused = dealt
    if json_:
        errors = [{"run_id": run.id, "code": err.code, "message": err.message} for run, err in refused]
        texts = [each.text for each in warnings]
        output.print_json({key: [run.id for run in done], "refused": errors, "warnings": texts})
    else:
        number = plural(len(done), "run")
        print(f"{participle.capitalize()} {number}." if done else f"Nothing was {participle}.")
        output.warn([f"not {participle}: {reason}" for reason in dealt.reasons()])
        print_warnings(app, warnings)
    if refused:
        raise typer.Exit(REFUSED)


def _row(run: Run, schedule: Schedule | None, now: Instant) -> list[object]:
    subject = over(schedule) or (schedule and schedule.definition.subject) or "-"
    what = payload_of(schedule).get("message", run.name)
    failed = relative(run.finished or run.due, now)
    return [run.id, failed, run.attempt or "-", run.kind, subject, what, run.error or run.status]
