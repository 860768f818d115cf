"""`duetime logs`: what a run has written, and what it writes."""

from __future__ import annotations

from typing import Annotated

from duetime.cli.runs.runs import found_run
from duetime.cli.serve.shutdown import StopButton
from duetime.service.operations.logs import LogAnswer, ReadLog, left_out_line, log_view, read_log
from duetime.terminal import output
from duetime.terminal.completion import RUNS
from duetime.terminal.context import Application, Db, Json, opened
from duetime.terminal.context import again as program
from duetime.terminal.declarations import ReadCommand, argument, option, single
from duetime.terminal.output import clean

_PAUSE = 0.5
"""Seconds between two reads while a log is followed."""
commands = single()


@commands.command(cls=ReadCommand)
def logs(
    run: Annotated[int, argument("RUN", "Number of the run, as `runs list` shows it.", min=1, **RUNS)],
    attempt: Annotated[int | None, option("--attempt NUMBER", "Only this attempt, counted from 1.", min=1)] = None,
    follow: Annotated[bool, option("--follow -f", "Go on until the run has ended.")] = False,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Show what a run wrote: what its task printed and logged, or what its program wrote. With --json, each line is an
    answer as of the HTTP API."""
    with opened(db) as app:
        found_run(app, run, program(app, "runs", "list"))
        request, latest, button = ReadLog(run=run, attempt=attempt), 0, StopButton()
        with button.installed():
            while True:
                answer = read_log(app.call, request).value
                latest = _print(app, answer, latest, json_)
                if not answer.more and (not follow or answer.ended or button.stop.wait(_PAUSE)):
                    break
                request = ReadLog(run=run, attempt=attempt, after=answer.next or None)
        if not latest and not json_:
            print("It has written nothing." if answer.ended else "It has written nothing yet.")


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
