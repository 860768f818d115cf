"""The rooms of the command line. Each is a module that is imported when its word is said."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.main import get_command

from duetime.cli.plain import PlainGroup


class Room(NamedTuple):
    module: str
    summary: str


# The summaries stand here so that `duetime --help` imports no room: some need packages that are slow, or not there.
ROOMS = {
    "serve": Room("serve", "Serve agents over MCP and HTTP, and run what is due."),
    "mcp": Room("mcp", "Serve one agent over stdin and stdout."),
    "worker": Room("worker", "Run what is due."),
    "job": Room("job", "Jobs: add, edit, list, show, run, pause, cancel and more."),
    "next": Room("preview", "Show when an expression fires next."),
    "inbox": Room("inbox", "Notifications that arrived in the built-in inbox."),
    "token": Room("token", "The tokens that the HTTP server asks for."),
    "service": Room("service", "Keep Duetime running in the background."),
    "doctor": Room("doctor", "Check the machine, the store, the workers and the tasks."),
}

EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 the command line or a value in it cannot be used, 3 not found, "
    "4 refused, 5 the store cannot be used; 130 after Ctrl-C. "
    "Every command takes --json, for programs, and --debug, which shows the trace of an error."
)


class Rooms(PlainGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(ROOMS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in ROOMS:
            return None
        room = get_command(import_module(f"duetime.cli.{ROOMS[cmd_name].module}").app)
        room.name = cmd_name
        return room

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, room.summary) for name, room in ROOMS.items()])


app = typer.Typer(cls=Rooms, no_args_is_help=True, add_completion=False, epilog=EPILOG, rich_markup_mode=None)


def _say_version(wanted: bool) -> None:
    if wanted:
        from duetime.cli.frame import version

        print(f"duetime {version()}")
        raise typer.Exit


@app.callback()
def duetime(
    _version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A durable scheduler for AI agents: what is due fires on time, once, even after a crash."""


def command() -> Any:
    return get_command(app)
