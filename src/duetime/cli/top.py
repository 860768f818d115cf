"""`duetime top`: workers, what runs, what comes next and what failed, looked at again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from duetime.cli import screen
from duetime.cli.frame import Db, Json, opened
from duetime.cli.plain import PlainCommand, single
from duetime.cli.stopping import StopButton
from duetime.cli.top_frame import frame_of, frame_view, laid_out
from duetime.compose import App

if TYPE_CHECKING:
    from rich.console import Console

ENDLESS = 10_000
"""Lines where nobody looks: what goes to a file is never left out."""

app = single()


@app.command(cls=PlainCommand)
def top(
    once: Annotated[bool, typer.Option("--once", help="Print it once, and end.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.2, max=3600, help="Between two looks.")
    ] = 1.0,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Watch the store until Ctrl-C. Where nobody could watch, in a file or with --json, it is printed once."""
    with opened(db) as room:
        if json_:
            screen.print_json(frame_view(frame_of(room)))
            return
        console = screen.console()
        if once or not console.is_terminal:
            console.print(laid_out(frame_of(room), ENDLESS if not console.is_terminal else console.height))
            return
        button = StopButton()
        with button.installed():
            (_print_again if console.is_dumb_terminal else _watch)(room, console, button, interval)


def _watch(room: App, console: Console, button: StopButton, interval: float) -> None:
    from rich.live import Live

    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(laid_out(frame_of(room), console.height), refresh=True)
            if button.asked.wait(interval):
                return


def _print_again(room: App, console: Console, button: StopButton, interval: float) -> None:
    """A terminal that cannot move its cursor gets one below the other."""
    while True:
        console.print(laid_out(frame_of(room), console.height))
        if button.asked.wait(interval):
            return
        console.print()
