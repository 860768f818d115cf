"""`duetime tail`: show live which runs start, end, fail or are retried, whichever process runs them."""

from __future__ import annotations

from typing import Annotated

import typer

from duetime.cli.runs.run import known_kind
from duetime.cli.runs.stream import Stream
from duetime.cli.serve.shutdown import LOOK, StopButton
from duetime.terminal.context import Db, Json, opened
from duetime.terminal.typer_ext import PlainCommand, single

commands = single()


@commands.command(cls=PlainCommand)
def tail(
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="job, prompt, notification or request. Repeatable."),
    ] = None,
    last: Annotated[int, typer.Option("-n", "--last", min=0, max=500, help="How many earlier runs come first.")] = 10,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Show what happens, in this and in every other process on the store, until Ctrl-C. With --json a line for each."""
    for name in kind or ():
        known_kind(name)
    button = StopButton()
    with opened(db) as app, button.installed():
        stream = Stream(app, json_=json_, bar=True, kinds=tuple(kind or ()), long=0, last=last)
        try:
            while not button.asked.wait(LOOK):
                stream.refresh()
        finally:
            stream.close()
