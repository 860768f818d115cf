"""`duetime dead`: runs that failed for good or were lost, until somebody retries or resolves them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from duetime.cli.runs.change_runs import DONE, EveryRun, agreed_to, print_changed
from duetime.cli.runs.kind_option import Kind, known_kind
from duetime.cli.runs.runs import found_run, over, payload_of, print_run, whole_view
from duetime.engine.clock import Instant
from duetime.engine.errors import InvalidInput
from duetime.service.operations import dead_letters
from duetime.service.operations.dead_letters import Action, ChangeDeadLetters, Dealt, ListDeadLetters
from duetime.service.operations.declaration import Answer
from duetime.service.operations.history import with_schedules
from duetime.service.vocabulary import Run, Schedule
from duetime.terminal import output
from duetime.terminal.completion import DEAD_RUNS, RUNS
from duetime.terminal.context import Application, Cursor, Db, Json, Limit, again, opened
from duetime.terminal.declarations import argument, group, option
from duetime.terminal.output import counted, relative
from duetime.terminal.schedules.commands import Expected, Tagged, Yes

Runs = Annotated[list[str] | None, argument("[RUN]...", "Numbers of runs, as `dead list` shows them.", **DEAD_RUNS)]
ResolvedRuns = Annotated[
    list[str] | None, argument("[RUN]...", "Numbers of runs, as `dead list --resolved` shows them.", **RUNS)
]
Everything = Annotated[bool, option("--all", "All of them, or all that match --kind, --text and --tagged.")]
Part = Annotated[str | None, option("--text TEXT", "Only those with this text in their name or error.")]
Resolved = Annotated[bool, option("--resolved", "Those that were resolved, instead of those that were not.")]


@dataclass(frozen=True)
class Chosen:
    """Selects the dead letters to change, unless their numbers are given."""

    all_: Everything = False
    kind: Kind = None
    text: Part = None
    tagged: Tagged = None


commands = group("Dead letters are runs that failed after all their attempts, or were lost.")


@commands.command("list", reads=True, former={"--dismissed": "--resolved"})
def list_(
    kind: Kind = None,
    text: Part = None,
    tagged: Tagged = None,
    resolved: Resolved = False,
    limit: Limit = 50,
    cursor: Cursor = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """List dead letters that were neither retried nor resolved, newest first."""
    request = ListDeadLetters(
        kind=known_kind(kind), text=text or "", tagged=tagged, dismissed=resolved, limit=limit, cursor=cursor
    )
    with opened(db) as app:
        page, _, notes = dead_letters.dead_letters(app.call, request)
        letters = with_schedules(app.call, page.items)
        zone, now = app.call.zone, app.call.now
        alive = next((run for run, schedule in letters if over(schedule) is None), None)
        if resolved and letters:
            advice = f"Put one back: {again(app, 'dead', 'reopen', str(letters[0][0].id))}"
        elif alive is None:
            advice = f"Resolve them: {again(app, 'dead', 'resolve', '--all')}"
        else:
            advice = f"Retry: {again(app, 'dead', 'retry', str(alive.id))}"
    if json_:
        views = [whole_view(run, schedule, zone) for run, schedule in letters]
        more = {"notes": list(notes)} if notes else {}
        output.print_json({"dead": views, "total": page.total, "next_cursor": page.cursor, **more})
        return
    if not letters:
        what = "resolved dead letters" if resolved else "dead letters"
        matching = " match" if kind or text or tagged else ""
        print(f"No {what}{matching or (' here' if notes else '')}.")
    else:
        rows = [_row(run, schedule, now) for run, schedule in letters]
        output.table(
            ["RUN", "FAILED", "TRIES", "KIND", "ID", "TO", "WHAT", "ERROR"],
            rows,
            whole=2,
            fold=True,
            spare={"ID": 60, "TRIES": 20},
        )
        part = f"; {len(letters)} shown" if len(letters) < page.total else ""
        output.say(f"{counted(page)} in total{part}. {advice}")
    for note in notes:
        output.say(note)


@commands.command(reads=True)
def show(
    run: Annotated[int, argument("RUN", "Number of the run, as `dead list` shows it.", **DEAD_RUNS)],
    db: Db = None,
    json_: Json = False,
) -> None:
    """Show a dead letter: what it does, and how each attempt failed."""
    with opened(db) as app:
        print_run(app, found_run(app, str(run), "dead", "list"), json_)


_RETRY_EXAMPLES = """\
duetime dead retry 91 92
duetime dead retry --all --kind job --text "connection refused"
"""


@commands.command(epilog=_RETRY_EXAMPLES)
def retry(
    chosen: Chosen,
    run: Runs = None,
    every_run: EveryRun = False,
    expected: Expected = None,
    yes: Yes = False,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Retry dead letters. Each keeps its id, so that a receiver recognises it. Those of a schedule run one after the
    other, in the order in which they were due. The exit code is 4 if one is refused. --all leaves out the runs of
    schedules that were deleted or cancelled, and asks first."""
    with opened(db) as app:
        request = replace(_request(app, "retry", run, chosen), every_run=every_run)
        if not chosen.all_ and (every_run or expected is not None):
            raise InvalidInput(
                "--every-run and --expected go with --all; leave them out where you give numbers of runs"
            )
        if chosen.all_ and (expected is not None or not yes):
            planned = dead_letters.plan_retry(app.call, request)
            if not agreed_to("retry", planned, expected, json_):
                return
        print_changed(app, "retry", _change(app, request), json_, matching=chosen.all_)


_RESOLVE_EXAMPLES = """\
duetime dead resolve 91 92
duetime dead resolve --all --text "certificate has expired"
"""


@commands.command(epilog=_RESOLVE_EXAMPLES)
def resolve(chosen: Chosen, run: Runs = None, db: Db = None, json_: Json = False) -> None:
    """Take dead letters off the list. They stay in the history, and `dead list --resolved` still shows them."""
    _mark("resolve", run, chosen, db, json_)


@commands.command()
def reopen(chosen: Chosen, run: ResolvedRuns = None, db: Db = None, json_: Json = False) -> None:
    """Put resolved dead letters back on the list."""
    _mark("reopen", run, chosen, db, json_)


def _add_former(name: str, action: Action, key: str | None = None) -> None:
    """Add a command under its name until 0.2."""

    @commands.command(name, hidden=True)
    def former(chosen: Chosen, run: Runs = None, db: Db = None, json_: Json = False) -> None:
        """Resolve or reopen dead letters, as `dead resolve` and `dead reopen` do."""
        _mark(action, run, chosen, db, json_, key)


_add_former("dismiss", "dismiss")
_add_former("forget", "dismiss", "forgotten")
_add_former("restore", "restore")


def _mark(
    action: Action, run: list[str] | None, chosen: Chosen, db: str | None, json_: bool, key: str | None = None
) -> None:
    with opened(db) as app:
        print_changed(app, action, _change(app, _request(app, action, run, chosen)), json_, key=key)


def _request(app: Application, action: Action, runs: list[str] | None, chosen: Chosen) -> ChangeDeadLetters:
    if bool(runs) == chosen.all_:
        raise InvalidInput("give the numbers of runs, or --all")
    if runs and (chosen.kind or chosen.text or chosen.tagged):
        raise InvalidInput("--kind, --text and --tagged choose among --all; leave them out if you give numbers of runs")
    if not runs:
        kind, text = known_kind(chosen.kind), chosen.text or ""
        return ChangeDeadLetters(action=action, kind=kind, text=text, tagged=chosen.tagged)
    return ChangeDeadLetters(action=action, ids=[found_run(app, each, "dead", "list").id for each in runs])


def _change(app: Application, request: ChangeDeadLetters) -> Answer[Dealt]:
    with output.bar(DONE[request.action].removesuffix("ed") + "ing") as report:
        return dead_letters.change_dead(app.call, request, report)


def _row(run: Run, schedule: Schedule | None, now: Instant) -> list[object]:
    subject = over(schedule) or (schedule and schedule.definition.subject) or "-"
    what = payload_of(schedule).get("message", run.name)
    failed = relative(run.finished or run.due, now)
    return [run.id, failed, run.attempt or "-", run.kind, run.schedule_short_id, subject, what, run.error or run.status]
