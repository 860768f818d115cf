"""Declares the commands of every kind of schedule. Their implementation is imported when one runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from duetime.service import MOST_SECONDS
from duetime.terminal.completion import IDS, STATUSES
from duetime.terminal.context import Cursor, Db, Json, Limit, opened
from duetime.terminal.schedules.kind_view import ANY_KIND, KindView
from duetime.terminal.typer_ext import PlainCommand, ReadCommand, argument, group, option

Id = Annotated[str, argument("ID", "Id as lists show it, such as j5, or a unique name.", **IDS)]
Status = Annotated[
    str | None,
    option(
        "--status STATUS",
        "Only this status: scheduled, running, completed, failed, cancelled, paused or broken.",
        **STATUSES,
    ),
]
Everything = Annotated[bool, option("--all", "Show all without a limit, including those that have ended.")]
Runs = Annotated[int, option("--runs", "Number of runs to show from its history.", min=0, max=1000)]
HistoryLimit = Annotated[int, option("--limit -n", "Maximum number of runs to show.", min=1, max=1000)]
Wait = Annotated[
    float,
    option("--wait SECONDS", f"Wait for the run to end, at most {MOST_SECONDS} seconds.", min=0, max=MOST_SECONDS),
]
Until = Annotated[str | None, option("--until TIME", 'Resume automatically at this time: "monday 9am".')]
Note = Annotated[str | None, option("--note TEXT", "Reason, shown with the schedule.")]
Yes = Annotated[bool, option("--yes", "Do not ask for confirmation.")]
Expected = Annotated[
    int | None, option("--expected N", "Number that you expect; where nobody can be asked, give this or --yes.")
]


READING = ("show", "history")
"""The commands of a schedule that change nothing."""


def add_commands(commands: typer.Typer, view: KindView) -> None:
    """Add the commands that work on a schedule of any kind, or only on one of the kind of the view. The latter are
    earlier names of the former, which the help does not show."""

    def show(id: Id, runs: Runs = 10, db: Db = None, json_: Json = False) -> None:
        from duetime.terminal.schedules.read import show_schedule

        with opened(db) as app:
            show_schedule(app, view, id, runs, json_)

    def history(id: Id, limit: HistoryLimit = 20, db: Db = None, json_: Json = False) -> None:
        from duetime.terminal.schedules.read import show_history

        with opened(db) as app:
            show_history(app, view, id, limit, json_)

    def run(id: Id, wait: Wait = 0, db: Db = None, json_: Json = False) -> None:
        from duetime.terminal.schedules.change import run_schedule

        with opened(db) as app:
            run_schedule(app, view, id, wait, json_)

    def stop(id: Id, db: Db = None, json_: Json = False) -> None:
        from duetime.terminal.schedules.change import stop_schedule

        with opened(db) as app:
            stop_schedule(app, view, id, json_)

    def pause(id: Id, until: Until = None, note: Note = None, db: Db = None, json_: Json = False) -> None:
        change("pause", id, db, json_, until=until, note=note)

    def resume(id: Id, db: Db = None, json_: Json = False) -> None:
        change("resume", id, db, json_)

    def cancel(id: Id, db: Db = None, json_: Json = False) -> None:
        change("cancel", id, db, json_)

    def delete(id: Id, yes: Yes = False, db: Db = None, json_: Json = False) -> None:
        change("delete", id, db, json_, yes=yes)

    def change(action: str, id: str, db: str | None, json_: bool, **options: Any) -> None:
        from duetime.terminal.schedules.change import change_one

        with opened(db) as app:
            change_one(app, view, id, action, json_, **options)

    noun = view.noun
    helped: dict[Callable[..., None], str] = {
        show: f"Show a {noun}: what it does and when, its policy, its next times and its history.",
        history: f"Show the runs of a {noun}, latest first, with every attempt; also of one that was deleted.",
        run: f"Run a {noun} now, in addition to its own times. With --wait, the exit code is 1 if the run failed "
        "and 6 if it has not ended by then.",
        stop: f"Stop the run of a {noun} that is in progress. The {noun} continues at its next time.",
        pause: f"Pause a {noun}, until it is resumed or until a time.",
        resume: f"Resume a paused {noun}.",
        cancel: f"Cancel a {noun}. Nothing more starts, and a run in progress is asked to stop.",
        delete: f"Delete a {noun}, after a question on a terminal. Its history can still be read.",
    }
    for command, help_ in helped.items():
        cls = ReadCommand if command.__name__ in READING else PlainCommand
        commands.command(cls=cls, help=help_, hidden=view is not ANY_KIND)(command)


commands = group("Commands for a schedule of any kind.")
add_commands(commands, ANY_KIND)


def kind_commands(view: KindView, summary: str, examples: str = "") -> typer.Typer:
    """Return the command group of a kind, with the commands that every kind has."""
    general = "`duetime show`, `history`, `run`, `stop`, `pause`, `resume`, `cancel` and `delete` work for every kind."
    own = group(summary, f"{examples}\n\n{general}")

    def list_(
        status: Status = None,
        limit: Limit = 50,
        everything: Everything = False,
        cursor: Cursor = None,
        db: Db = None,
        json_: Json = False,
    ) -> None:
        from duetime.service.operations.schedules import ListSchedules
        from duetime.terminal.schedules.read import list_schedules

        request = ListSchedules(kind=view.kind, status=status, limit=limit, cursor=cursor)
        with opened(db) as app:
            list_schedules(app, view, request, json_, everything=everything)

    help_ = f"List {view.plural}, newest first, including those that have ended."
    own.command("list", cls=ReadCommand, help=help_)(list_)
    add_commands(own, view)
    return own
