"""`duetime runs retry`, `stop` and `resolve`: change the runs with these numbers, or all that match."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final

from duetime.cli.runs.bulk_changes import (
    PARTICIPLES,
    EveryRun,
    agreed_to,
    leave_out_ended,
    print_changed,
    print_planned,
)
from duetime.cli.runs.runs import RunChoice, commands, found_run, run_number, whole_view
from duetime.engine.errors import InvalidInput
from duetime.service.lookup import name_of
from duetime.service.operations.change_runs import ChangeRuns, RunAction, change_runs, plan_runs
from duetime.service.operations.run import Stop
from duetime.service.operations.run import stop as stop_run
from duetime.service.text import plural
from duetime.service.vocabulary import LIVE
from duetime.terminal import output
from duetime.terminal.completion import RUNS
from duetime.terminal.context import Db, Json, again, opened
from duetime.terminal.declarations import argument, bundled, option
from duetime.terminal.output import clean, in_words
from duetime.terminal.schedules.commands import Expected, Yes

__all__ = ["commands"]
_DONE: Final = {"retry": "requeued", "stop": "stopped or asked to stop", "resolve": "resolved"}


@dataclass(frozen=True)
class Extent:
    """Which runs a change concerns, unless filters say so, and who agrees to it."""

    run: Annotated[list[str] | None, argument("[RUN]...", "Numbers of runs; or use filters.", **RUNS)] = None
    everything: Annotated[bool, option("--all", "All runs that can be changed in this way.")] = False
    dry_run: Annotated[bool, option("--dry-run", "Show what matches without changing it.")] = False
    expected: Expected = None
    yes: Yes = False
    db: Db = None
    json_: Json = False


@commands.command(epilog='duetime runs retry --status failed --error "connection refused"')
@bundled
def retry(chosen: RunChoice, extent: Extent, every_run: EveryRun = False) -> None:
    """Retry runs that failed, were lost or, with --status cancelled, were cancelled. Each keeps its number. Those that
    match filters are listed and confirmed first. The exit code is 4 if one is refused."""
    _change("retry", chosen, extent, every_run=every_run)


@commands.command(epilog="duetime runs resolve --status missed --until yesterday")
@bundled
def resolve(chosen: RunChoice, extent: Extent) -> None:
    """Resolve runs that failed, were lost or were missed: nothing reminds of them, and they stay in the history."""
    _change("resolve", chosen, extent)


@commands.command(epilog="duetime runs stop 91\nduetime runs stop --task report --longer-than 1h")
@bundled
def stop(
    chosen: RunChoice,
    extent: Extent,
    after: Annotated[str | None, option("--after DURATION", "Only when it has run this long, such as 10m.")] = None,
) -> None:
    """Stop runs, and nothing else of their schedules. One that has not started is cancelled; one that is running is
    asked to stop. The exit code is 4 if a run has already ended."""
    numbers = extent.run or []
    if len(numbers) != 1 or any((extent.dry_run, extent.everything, *vars(chosen).values())):
        if after is not None:
            raise InvalidInput("--after: is for one run; give its number")
        _change("stop", chosen, extent)
        return
    with opened(extent.db) as app:
        id = found_run(app, run_number(numbers[0], "`runs list`"), again(app, "runs", "list", "--status", "live")).id
        ([ended], schedule), _, notes = stop_run(app.call, Stop(run=id, after=after))
        is_requested = ended.status in LIVE and after is None
        document = whole_view(ended, schedule, app.call.zone) | {"stopping": is_requested, "notes": notes}
        state = "was asked to stop" if is_requested else f"is {ended.status}"
        first = f"Run {ended.id} of {clean(name_of(ended))} {state}." if after is None else clean(notes[0])
        output.print_result(extent.json_, document, in_words(" ".join([first, *notes[1:]]), app.call.zone))


def _change(action: RunAction, chosen: RunChoice, extent: Extent, *, every_run: bool = False) -> None:
    runs, everything, dry_run, expected, yes, db, json_ = vars(extent).values()
    if bool(runs) == (everything or any(each is not None for each in vars(chosen).values())):
        raise InvalidInput("give either numbers of runs, or filters such as --status failed, or --all")
    with opened(db) as app:
        where = again(app, "runs", "list")
        ids = [found_run(app, run_number(each, "`runs list`"), where).id for each in runs or ()] or None
        choice = ChangeRuns(**chosen.fields(), action=action, ids=ids, every_run=every_run, everything=everything)
        planned = plan_runs(app.call, choice) if ids is None or dry_run else []
        if dry_run and not json_:
            print_planned(action, planned)
            print(f"{plural(sum(each.retried for each in planned), 'run')} would be {PARTICIPLES[action]}.")
            return
        is_agreed = dry_run or ids is not None or (yes and expected is None)
        if is_agreed or agreed_to(action, planned, expected, json_):
            dealt, warnings, _ = change_runs(app.call, replace(choice, dry_run=dry_run))
            further = list(warnings)
            dealt = leave_out_ended(app, dealt, further) if ids is None else dealt
            print_changed(app, PARTICIPLES[action], _DONE[action], dealt, further, json_)
