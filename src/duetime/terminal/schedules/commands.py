"""Declares the commands for one schedule, and `list` of every kind. What a command needs is imported when it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

from duetime.engine.value_class import NamedTuple
from duetime.service import MOST_SECONDS
from duetime.terminal.completion import IDS, STATUSES
from duetime.terminal.context import Cursor, Db, Json, Limit, opened
from duetime.terminal.declarations import CommandSet, Function, argument, group, option, single, with_parameters
from duetime.terminal.schedules.kind_view import ANY_KIND, KindView, NamedSchedule

Id = Annotated[str, argument("ID", "Id as lists show it, such as j5, or a unique name.", **IDS)]
Status = Annotated[
    str | None,
    option(
        "--status STATUS",
        "Only this status: scheduled, running, completed, failed (or failing), cancelled, paused or broken.",
        **STATUSES,
    ),
]
Everything = Annotated[bool, option("--all", "Show all without a limit, including those that have ended.")]
Tagged = Annotated[str | None, option("--tagged TAG", "Only with this tag.")]
Runs = Annotated[int, option("--runs", "Number of runs to show from its history.", min=0, max=1000)]
Force = Annotated[bool, option("--force", "Without a check of its condition only_if.")]
HistoryLimit = Annotated[int, option("--limit -n", "Maximum number of runs to show.", min=1, max=1000)]
Wait = Annotated[
    float,
    option("--wait SECONDS", f"Wait for the run to end, at most {MOST_SECONDS} seconds.", min=0, max=MOST_SECONDS),
]
Until = Annotated[str | None, option("--until TIME", 'Resume automatically at this time: "monday 9am".')]
Note = Annotated[str | None, option("--note TEXT", "Reason, shown with the schedule.")]
Yes = Annotated[bool, option("--yes", "Do not ask for confirmation.")]
Forever = Annotated[bool, option("--forever", "Drop what it did at once, so that it cannot be restored.")]
Expected = Annotated[
    int | None, option("--expected N", "Number that you expect; where nobody can be asked, give this or --yes.")
]


class _Declaration(NamedTuple):
    function: Callable[..., None]
    summary: str
    """Its line in the help of `duetime`."""
    reads: bool


DECLARATIONS: dict[str, _Declaration] = {}


def one_schedule(summary: str, *, reads: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare a command for a schedule that is named by its id: `duetime NAME ID` for any kind, which the help lists
    with its summary, and `duetime KIND NAME ID`, an earlier name of it that the help does not show. The function gets
    the schedule as it was named, and the options that the command has of its own. Its docstring is the help, in which
    `{noun}` is what the schedules of the group are called."""

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        DECLARATIONS[function.__name__] = _Declaration(function, summary, reads)
        return function

    return declare


@one_schedule("Show what it does and when, its next times and its history.", reads=True)
def show(target: NamedSchedule, runs: Runs = 10) -> None:
    """Show a {noun}: what it does and when, its policy, its next times and its history."""
    from duetime.terminal.schedules.read import show_schedule

    show_schedule(target, runs)


@one_schedule("Show its runs, latest first, with every attempt.", reads=True)
def history(target: NamedSchedule, limit: HistoryLimit = 20) -> None:
    """Show the runs of a {noun}, latest first, with every attempt; also of one that was deleted."""
    from duetime.terminal.schedules.read import show_history

    show_history(target, limit)


@one_schedule("Run it now, in addition to its own times.")
def run(target: NamedSchedule, wait: Wait = 0, force: Force = False) -> None:
    """Run a {noun} now, in addition to its own times. With --wait, the exit code is 1 if the run failed, 6 if it has
    not ended by then, and 0 if it completed or its condition only_if let nothing pass."""
    from duetime.terminal.schedules.change import run_schedule

    run_schedule(target, wait, force=force)


@one_schedule("Stop its run that is in progress.")
def stop(target: NamedSchedule) -> None:
    """Stop the run of a {noun} that is in progress. The {noun} continues at its next time."""
    from duetime.terminal.schedules.change import stop_schedule

    stop_schedule(target)


@one_schedule("Pause it, until it is resumed or until a time.")
def pause(target: NamedSchedule, until: Until = None, note: Note = None) -> None:
    """Pause a {noun}, until it is resumed or until a time."""
    _change(target, "pause", until=until, note=note)


@one_schedule("Resume it.")
def resume(target: NamedSchedule) -> None:
    """Resume a paused {noun}."""
    _change(target, "resume")


@one_schedule("Cancel it: nothing more starts, and it stays in lists.")
def cancel(target: NamedSchedule) -> None:
    """Cancel a {noun}. Nothing more starts, and a run in progress is asked to stop. Unlike a deleted one, it stays in
    lists; `duetime restore` lets it go on."""
    _change(target, "cancel")


@one_schedule("Delete it: it leaves the lists; its history can still be read.")
def delete(target: NamedSchedule, yes: Yes = False, forever: Forever = False) -> None:
    """Delete a {noun}, after a question on a terminal. Unlike a cancelled one, it leaves the lists. Its history can
    still be read, and `duetime restore` brings it back for a day."""
    _change(target, "delete", yes=yes, forever=forever)


@one_schedule("Restore it after it was cancelled or deleted.")
def restore(target: NamedSchedule) -> None:
    """Restore a {noun} that was cancelled, or deleted within the last day. It goes on from now."""
    _change(target, "restore")


def _change(target: NamedSchedule, action: str, *, yes: bool = True, **options: str | bool | None) -> None:
    from duetime.terminal.schedules.change import change_one

    change_one(target, action, yes=yes, **options)


def add_command(commands: CommandSet, name: str, view: KindView) -> None:
    """Add a command for one schedule, which only finds what its view is about."""
    each = DECLARATIONS[name]
    help_ = " ".join((each.function.__doc__ or "").format(noun=view.noun).split())
    commands.command(name, reads=each.reads, help=help_, hidden=view is not ANY_KIND)(_command(each.function, view))


def general_command(name: str) -> CommandSet:
    """Return a command for a schedule of any kind."""
    commands = single()
    add_command(commands, name, ANY_KIND)
    return commands


def _command(function: Function, view: KindView) -> Function:
    def call(id: Id, db: Db = None, json_: Json = False, **options: Any) -> None:
        with opened(db) as app:
            function(NamedSchedule(app, view, id, json_), **options)

    common = inspect.signature(call, eval_str=True).parameters
    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    return with_parameters(call, [common["id"], *own, common["db"], common["json_"]])


def kind_commands(view: KindView, summary: str, examples: str = "") -> CommandSet:
    """Return the command group of a kind, with the commands that every kind has."""
    *others, last = (f"`{name}`" for name in DECLARATIONS)
    general = f"`duetime {', '.join(others)[1:]} and {last} work for every kind."
    own = group(summary, f"{examples}\n\n{general}")

    def list_(
        status: Status = None,
        limit: Limit = 50,
        everything: Everything = False,
        tagged: Tagged = None,
        cursor: Cursor = None,
        db: Db = None,
        json_: Json = False,
    ) -> None:
        from duetime.service.operations.schedules import ListSchedules
        from duetime.terminal.schedules.read import list_schedules

        request = ListSchedules(kind=view.kind, status=status, tagged=tagged, limit=limit, cursor=cursor)
        with opened(db) as app:
            list_schedules(app, view, request, json_, everything=everything)

    help_ = f"List {view.plural}, newest first, including those that have ended."
    own.command("list", reads=True, help=help_)(list_)
    for name in DECLARATIONS:
        add_command(own, name, view)
    return own
