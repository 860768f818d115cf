"""The rooms of the command line. Each is a module that is imported when its word is said."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command

from duetime.cli.plain import PlainGroup


class Room(NamedTuple):
    module: str
    summary: str


# The summaries stand here so that `duetime --help` imports no room: some need packages that are slow, or not there.
ROOMS = {
    "init": Room("init", "Answer a few questions; write duetime.toml."),
    "serve": Room("serve", "Serve agents over MCP and HTTP, and run what is due."),
    "service": Room("service", "Keep Duetime running in the background."),
    "worker": Room("worker", "Run what is due."),
    "mcp": Room("mcp", "Serve one agent over stdin and stdout."),
    "chat": Room("chat", "Talk with an agent that schedules for you."),
    "job": Room("job", "Jobs: add, edit, list, show, run, pause, cancel and more."),
    "prompt": Room("prompt", "Prompts for agents: add, edit, list, take, finish and more."),
    "notify": Room("notify", "Notifications: send one, add, edit, list and more."),
    "inbox": Room("inbox", "Notifications that arrived in the built-in inbox."),
    "dead": Room("dead", "What failed for good: list, show, retry, forget."),
    "run": Room("run", "Single runs: list, show, stop."),
    "next": Room("preview", "Show when an expression fires next."),
    "explain": Room("explain", "Say in English what an expression means."),
    "tail": Room("tail", "Show what fires, ends and fails, as it happens."),
    "top": Room("top", "Watch workers, what runs, what comes next and what failed."),
    "import": Room("bringing", "Bring schedules in: from a crontab, or from an export."),
    "export": Room("export", "Write schedules as lines of JSON, or as a calendar."),
    "backup": Room("backup", "Copy the store while it is in use."),
    "db": Room("database", "The store: status, migrate, prune."),
    "token": Room("token", "The tokens that the HTTP server asks for."),
    "trust": Room("trust", "Use the settings file of a folder, or no longer."),
    "doctor": Room("doctor", "Check the machine, the tasks, the agents, the store and the workers."),
    "completion": Room("completion", "Have Tab complete commands and options in bash, zsh or fish."),
}

EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 the command line or a value in it cannot be used, 3 not found, "
    "4 refused, 5 the store cannot be used; 130 stopped by Ctrl-C (`serve`, `worker`, `tail` and `top`, which run "
    "until then, end with 0), 141 nobody reads the output any more. "
    "Every command but `mcp` takes --json, for programs; all take --debug, which shows the trace of an error, and "
    "--config FILE, which names the settings file."
)


class Summaries(PlainGroup):
    """The names of the rooms and what they are for, without the rooms."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(ROOMS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return TyperCommand(cmd_name, help=ROOMS[cmd_name].summary)


class Rooms(PlainGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(ROOMS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in ROOMS:
            return None
        room = get_command(import_module(f"duetime.cli.{ROOMS[cmd_name].module}").app)
        room.name = cmd_name
        return room

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """By their summaries, so that Tab imports no room either."""
        shown = Summaries(name=self.name, params=self.params)
        return list(shown.shell_complete(type(ctx)(shown, info_name=ctx.info_name), incomplete))

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
