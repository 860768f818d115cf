"""Declares the commands of every kind of schedule, and how its schedules are shown. Their implementation is imported
when one runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from duetime.service import MOST_SECONDS
from duetime.terminal.completion import IDS, STATUSES
from duetime.terminal.context import Cursor, Db, Json, Limit, opened
from duetime.terminal.typer_ext import PlainCommand, ReadCommand, argument, option

if TYPE_CHECKING:
    from duetime.engine.model import Definition


Payload = Mapping[str, Any]
Facts = Sequence[tuple[str, object]]


class KindView(NamedTuple):
    kind: str
    """Name in the engine."""
    command: str
    """Name of the command group, as it is typed."""
    plural: str
    headings: Sequence[str]
    cells: Callable[[Definition, Payload], Sequence[object]]
    """Return the cells under these headings in a list."""
    facts: Callable[[Definition, Payload], Facts]
    """Return what to show of a single schedule."""

    @property
    def noun(self) -> str:
        return self.kind


ANY_KIND = KindView(
    "schedule",
    "list",
    "schedules",
    ("KIND", "NAME"),
    lambda definition, _: (definition.kind, definition.name),
    lambda *_: (),
)
_HEADLINE = 60


def one_line(text: str) -> str:
    return " ".join(text[: 20 * _HEADLINE].split())


def headline(text: str) -> str:
    """Return the name that lists show for a text without a name of its own."""
    line = one_line(text)
    return line if len(line) <= _HEADLINE else f"{line[:_HEADLINE]}..."


def filled(payload: Payload, *names: str) -> Facts:
    """Return the fields that are not empty, texts and integers unchanged, others as JSON."""
    given = [(name, payload[name]) for name in names if payload.get(name) not in (None, [], {}, "")]
    return [
        (name, value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False))
        for name, value in given
    ]


PAGE = 1000
MEANT = {"scheduled": "pending", "failing": "failed", "waiting": "running"}
"""Statuses by the words that people use for them."""


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


def add_commands(commands: typer.Typer, view: KindView) -> None:
    """Add the commands that every kind has."""

    def list_(
        status: Status = None,
        limit: Limit = 50,
        everything: Everything = False,
        cursor: Cursor = None,
        db: Db = None,
        json_: Json = False,
    ) -> None:
        from duetime.terminal.schedules.read import list_schedules

        with opened(db) as app:
            list_schedules(app, view, status, None if everything else limit, cursor, json_)

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
        list_: f"List {view.plural}, newest first, including those that have ended.",
        show: f"Show a {noun}: what it does and when, its policy, its next times and its history.",
        history: f"Show the runs of a {noun}, latest first, with every attempt; also of one that was deleted.",
        run: f"Run a {noun} now, in addition to its schedule. With --wait, the exit code is 1 if the run failed "
        "and 6 if it has not ended by then.",
        stop: f"Stop the run of a {noun} that is in progress. The {noun} continues at its next time.",
        pause: f"Pause a {noun}, until it is resumed or until a time.",
        resume: f"Resume a paused {noun}.",
        cancel: f"Cancel a {noun}. Nothing more starts, and a run in progress is asked to stop.",
        delete: f"Delete a {noun}, after a question on a terminal. Its history can still be read.",
    }
    for command, help_ in helped.items():
        cls = ReadCommand if command in (list_, show, history) else PlainCommand
        commands.command(name=command.__name__.rstrip("_"), cls=cls, help=help_)(command)
