"""`duetime runs retry`, `stop` and `resolve`: change the runs with these numbers, or all that match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from duetime.cli.runs.runs import OVER, RunChoice, commands, found_run, whole_view
from duetime.engine.errors import InvalidInput
from duetime.service.errors import REFUSED, refuse
from duetime.service.lookup import name_of
from duetime.service.operations.change_runs import ChangeRuns, RunAction, change_runs, notes_of, plan_runs
from duetime.service.operations.dead_letters import Dealt, PlannedRetry
from duetime.service.operations.declaration import Answer
from duetime.service.operations.run import Stop
from duetime.service.operations.run import stop as stop_run
from duetime.service.text import plural
from duetime.service.vocabulary import LIVE
from duetime.service.warnings import ScheduleWarning, warning_facts
from duetime.terminal import output
from duetime.terminal.completion import RUNS
from duetime.terminal.context import Application, Db, Json, again, opened, print_warnings
from duetime.terminal.declarations import Exit, argument, option
from duetime.terminal.input import agreed, is_interactive
from duetime.terminal.output import clean, in_words
from duetime.terminal.schedules.commands import Expected, Yes

__all__ = ["commands"]
EveryRun = Annotated[bool, option("--every-run", "Every run of a recurring schedule, not only its newest.")]
PARTICIPLES = {
    "retry": "retried", "stop": "stopped", "resolve": "resolved", "reopen": "reopened", "dismiss": "dismissed",
    "restore": "restored",
}  # fmt: skip
DONE = PARTICIPLES | {"retry": "requeued", "stop": "stopped or asked to stop"}
"""What a change has done so far."""


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
def retry(chosen: RunChoice, extent: Extent, every_run: EveryRun = False) -> None:
    """Retry runs that failed, were lost or, with --status cancelled, were cancelled. Each keeps its number. Those that
    match filters are listed and confirmed first. The exit code is 4 if one is refused."""
    _change("retry", chosen, extent, every_run=every_run)


@commands.command(epilog="duetime runs resolve --status missed --until yesterday")
def resolve(chosen: RunChoice, extent: Extent) -> None:
    """Resolve runs that failed, were lost or were missed: nothing reminds of them, and they stay in the history."""
    _change("resolve", chosen, extent)


@commands.command(epilog="duetime runs stop 91\nduetime runs stop --task report --longer-than 1h")
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
        id = found_run(app, numbers[0], "runs", "list", "--status", "live").id
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
        ids = [found_run(app, each).id for each in runs or ()] or None
        choice = ChangeRuns(**chosen.fields(), action=action, ids=ids, every_run=every_run, everything=everything)
        planned = plan_runs(app.call, choice) if ids is None or dry_run else []
        notes = notes_of(app.call, choice)
        if dry_run and not json_:
            print_planned(action, planned)
            print(f"{plural(sum(each.retried for each in planned), 'run')} would be {PARTICIPLES[action]}.")
            output.warn(notes)
            return
        is_agreed = dry_run or ids is not None or (yes and expected is None)
        if is_agreed or agreed_to(action, planned, expected, json_, notes):
            answer = change_runs(app.call, replace(choice, dry_run=dry_run))
            print_changed(app, action, answer, json_, matching=ids is None, notes=answer.notes)


# Shared with the commands that change many dead letters: the list of runs, the confirmation, and the printed result.


def agreed_to(
    action: str, planned: Sequence[PlannedRetry], expected: int | None, json_: bool, notes: Sequence[str] = ()
) -> bool:
    """Return whether as many runs as expected are changed or, if no number is expected, whether a person agrees."""
    number = sum(each.retried for each in planned)
    would_be = f"{plural(number, 'run')} would be {PARTICIPLES[action]}"
    if expected not in (None, number):
        raise refuse("conflict", f"--expected: {would_be}, not {expected}")
    if expected is not None or number == 0:
        return True
    if json_ or not is_interactive():
        raise InvalidInput(f"{would_be}; pass --expected {number}, or --yes")
    print_planned(action, planned)
    output.warn(notes)
    return agreed(f"{action.capitalize()} {plural(number, 'run')}?")


def print_planned(action: str, planned: Sequence[PlannedRetry]) -> None:
    rows: list[list[object]] = []
    for each in planned:
        paused = "paused, runs nevertheless" if each.is_paused and action == "retry" else ""
        note = paused if each.retried else "left out"
        rows.append([each.number, each.retried, each.newest.kind, each.newest.name, note])
    if rows:
        output.table(["RUNS", f"TO {action.upper()}", "KIND", "NAME", "NOTE"], rows, whole=3)


def print_changed(
    app: Application,
    action: str,
    answer: Answer[Dealt],
    json_: bool,
    *,
    key: str | None = None,
    matching: bool = False,
    notes: Sequence[str] = (),
) -> None:
    """Print what was done. `key` is its name in a document. Of all runs that are `matching`, those of schedules that
    were deleted or cancelled are not refused, but left out with a warning."""
    dealt, warnings, _ = answer
    done, participle, key = dealt.done, DONE[action], key or PARTICIPLES[action]
    refused = [item for item in dealt.refused if not matching or item[1].details.get("state") not in OVER]
    if number := len(dealt.refused) - len(refused):
        what = f"{plural(number, 'run')} of schedules that were deleted or cancelled"
        text = f"left out: {what}; {again(app, 'dead', 'list')} marks them, `dead resolve` removes them"
        warnings = [*warnings, ScheduleWarning("left_out", text)]
    if json_:
        errors = [{"run_id": id, "code": err.code, "message": err.message} for id, err in refused]
        more = {"notes": list(notes)} if notes else {}
        output.print_json({key: done, "refused": errors, **warning_facts(warnings), **more})
    else:
        print(f"{participle.capitalize()} {plural(len(done), 'run')}." if done else f"Nothing was {participle}.")
        output.warn([f"not {participle}: {reason}" for reason in dealt._replace(refused=refused).reasons()])
        print_warnings(app, warnings)
        output.warn(notes)
    if refused:
        raise Exit(REFUSED)
