"""`duetime emit`: sends an event, which starts the schedules that wait for it."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from duetime.engine.errors import InvalidInput
from duetime.service.errors import NOT_FINISHED
from duetime.service.lookup import name_of
from duetime.service.operations.emit import EmitEvent, emit, is_over, look_at_runs
from duetime.service.operations.waiting import wait_for_result
from duetime.service.text import value_of
from duetime.terminal.context import Db, Json, given_text, opened, print_done
from duetime.terminal.declarations import Exit, argument, option, single
from duetime.terminal.output import clean, run_document
from duetime.terminal.schedules.change import exit_after, run_ending
from duetime.terminal.schedules.commands import Wait

commands = single()

_EXAMPLES = """\
duetime emit deploy.done
duetime emit deploy.done --data '{"version": 5}' --key deploy-5
"""


@commands.command(name="emit", epilog=_EXAMPLES)
def send(
    event: Annotated[str, argument("EVENT", "Its name, such as deploy.done.")],
    data: Annotated[str | None, option("--data JSON", "What the runs get; - reads standard input.")] = None,
    key: Annotated[str | None, option("--key TEXT", "An event of the same name with this key is sent once.")] = None,
    wait: Wait = 0,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Send an event. Every schedule that waits for its name runs, and gets the data. With --wait, the exit code is 1 if
    a run failed and 6 if one has not ended by then."""
    with opened(db) as app:
        request = EmitEvent(event=event, data=None if data is None else _value(given_text(data)), idempotency_key=key)
        sent = wait_for_result(emit(app.call, request), partial(look_at_runs, app.call), is_over, wait)
        (number, duplicate, runs, ended, reason), warnings, notes = sent
        lines = [f"Event {number} was sent before." if duplicate else f"Sent event {number}.", *notes]
        lines += [f"Run {run.id} of {name_of(run)} {run_ending(run, wait, None)}" for run in runs]
        lines += [f"Not over after {wait:g} s: {reason}."] if wait and not ended else []
        document = {**sent.value._asdict(), "runs": [run_document(run, app.scheduler.zone) for run in runs]}
        print_done(app, json_, {**document, "notes": notes}, "\n".join(map(clean, lines)), warnings)
    for run in runs:
        exit_after(run, wait)
    if wait and not ended:
        raise Exit(NOT_FINISHED)


def _value(text: str) -> Any:
    """Return the JSON value of a text; a text that is no JSON is meant as it is."""
    value = value_of(text)
    if value is text and text.lstrip()[:1] in ("{", "["):
        raise InvalidInput(field="data", problem="is not valid JSON; quote it for the shell")
    return value
