"""`duetime logs`: what a run has written, and what it writes."""

from __future__ import annotations

from typing import Annotated

from duetime.cli.runs.runs import found_run
from duetime.cli.serve.shutdown import StopButton
from duetime.service.errors import refuse
from duetime.service.operations.history import History, ShowRun, history, show_run
from duetime.service.operations.logs import LogAnswer, ReadLog, left_out_line, log_view, read_log
from duetime.service.state_details import shown_status
from duetime.service.vocabulary import Run
from duetime.terminal import output
from duetime.terminal.completion import RUNS
from duetime.terminal.context import Application, Db, Json, again, opened
from duetime.terminal.declarations import argument, option, single
from duetime.terminal.output import clean, local_time
from duetime.terminal.schedules.display import find_here
from duetime.terminal.schedules.kind_view import ANY_KIND

_PAUSE = 0.5
"""Seconds between two reads while a log is followed."""
commands = single()


@commands.command(reads=True)
def logs(
    run: Annotated[
        str, argument("RUN", "Number of a run; or the id or name of a schedule, for its latest run.", **RUNS)
    ],
    attempt: Annotated[int | None, option("--attempt NUMBER", "Only this attempt, counted from 1.", min=1)] = None,
    follow: Annotated[bool, option("--follow -f", "Go on until the run has ended.")] = False,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Show what a run wrote: what its task printed and logged, or what its program wrote. With --json, each line is an
    answer as of the HTTP API."""
    with opened(db) as app:
        id = _run(app, run).id
        request, latest, button = ReadLog(run=id, attempt=attempt), 0, StopButton()
        with button.installed():
            while True:
                answer = read_log(app.call, request).value
                latest = _print(app, answer, latest, json_)
                if not answer.more and (not follow or answer.ended or button.stop.wait(_PAUSE)):
                    break
                request = ReadLog(run=id, attempt=attempt, after=answer.next or None)
        if not latest and not json_:
            command = again(app, "runs", "show", str(id))
            error = f" {command} shows its error." if show_run(app.call, ShowRun(run=id)).value.error else ""
            print(f"It has written nothing.{error}" if answer.ended else "It has written nothing yet.")


def _run(app: Application, text: str) -> Run:
    """Return the run of this number, or the latest one of a schedule that has begun."""
    if text.isdecimal():
        return found_run(app, text)
    schedule = find_here(app, ANY_KIND, text, deleted=True)
    latest = history(app.call, History(schedule=schedule, limit=100, count_to=0)).value.items
    run = next((run for run in latest if run.started is not None), None)
    if run is None:
        raise refuse("not_found", f"{clean(text)} has not run yet, so that it has written nothing")
    output.note(f"Run {run.id}, {shown_status(run)}, due {local_time(run.due, app.call.zone)}:")
    return run


def _print(app: Application, answer: LogAnswer, latest: int, json_: bool) -> int:
    """Print an answer, and return the attempt whose lines came last; 0 for none."""
    if json_ and (answer.excerpts or answer.ended):
        output.print_json_line(log_view(app.call, answer))
    for each in answer.excerpts if not json_ else ():
        if each.part.attempt != latest and (latest or each.part.attempt > 1):
            print(f"-- attempt {each.part.attempt} --")
        latest = each.part.attempt
        if each.left_out:
            print(left_out_line(each.left_out))
        print("\n".join(clean(line.expandtabs()) for line in each.text.rstrip("\n").split("\n")), flush=True)
    return latest
