"""Shared parts of the commands that change many runs: the list of runs, the confirmation, and the printed result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from duetime.cli.runs.runs import OVER
from duetime.engine.errors import InvalidInput
from duetime.service.errors import REFUSED, refuse
from duetime.service.operations.dead_letters import Dealt, PlannedRetry
from duetime.service.warnings import ScheduleWarning, warning_facts
from duetime.terminal import output
from duetime.terminal.context import Application, again, print_warnings
from duetime.terminal.declarations import Exit, option
from duetime.terminal.input import agreed, is_interactive
from duetime.terminal.output import plural

EveryRun = Annotated[bool, option("--every-run", "Every run of a recurring schedule, not only its newest.")]
PARTICIPLES = {"retry": "retried", "stop": "stopped", "resolve": "resolved"}


def agreed_to(action: str, planned: Sequence[PlannedRetry], expected: int | None, json_: bool) -> bool:
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
    return agreed(f"{action.capitalize()} {plural(number, 'run')}?")


def print_planned(action: str, planned: Sequence[PlannedRetry]) -> None:
    rows: list[list[object]] = []
    for each in planned:
        paused = "paused, runs nevertheless" if each.is_paused and action == "retry" else ""
        note = paused if each.retried else "left out"
        rows.append([each.number, each.retried, each.newest.kind, each.newest.name, note])
    if rows:
        output.table(["RUNS", f"TO {action.upper()}", "KIND", "NAME", "NOTE"], rows, whole=3)


def leave_out_ended(app: Application, dealt: Dealt, warnings: list[ScheduleWarning]) -> Dealt:
    """Return the result with a warning instead of refusals because schedules were deleted or cancelled."""
    refused = [item for item in dealt.refused if item[1].details.get("state") not in OVER]
    if number := len(dealt.refused) - len(refused):
        what = f"{plural(number, 'run')} of schedules that were deleted or cancelled"
        text = f"left out: {what}; {again(app, 'dead', 'list')} marks them, `dead resolve` removes them"
        warnings.append(ScheduleWarning("left_out", text))
    return dealt._replace(refused=refused)


def print_changed(
    app: Application, key: str, participle: str, dealt: Dealt, warnings: Sequence[ScheduleWarning], json_: bool
) -> None:
    done, refused, _ = dealt
    if json_:
        errors = [{"run_id": id, "code": err.code, "message": err.message} for id, err in refused]
        output.print_json({key: done, "refused": errors, **warning_facts(warnings)})
    else:
        number = plural(len(done), "run")
        print(f"{participle.capitalize()} {number}." if done else f"Nothing was {participle}.")
        output.warn([f"not {participle}: {reason}" for reason in dealt.reasons()])
        print_warnings(app, warnings)
    if refused:
        raise Exit(REFUSED)
