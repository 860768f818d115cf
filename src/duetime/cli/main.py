"""Entry point and subcommands of the CLI. Every failure ends in one clear line and a documented exit code."""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command

from duetime.engine.errors import DuetimeError
from duetime.terminal.errors import FAILED, INTERRUPTED, NOT_FOUND, OK, PIPE_CLOSED, REFUSED, STORE, USAGE, worded
from duetime.terminal.output import clean
from duetime.terminal.settings import Named, take_config
from duetime.terminal.typer_ext import PlainGroup

_EXITS = {
    **dict.fromkeys(("invalid", "invalid_trigger", "unknown_zone", "unreadable_time", "unknown_task"), USAGE),
    "not_found": NOT_FOUND,
    **dict.fromkeys(("not_possible", "conflict", "busy", "depth", "quota", "key_reused", "not_yours"), REFUSED),
    **dict.fromkeys(("store_unavailable", "store_unusable", "worker_gone"), STORE),
}


COMPLETION = "_DUETIME_COMPLETE"
"""Environment variable that is set when a shell asks for completions instead of running a command."""


class Failure(NamedTuple):
    code: str
    message: str
    exit: int


def main(arguments: Sequence[str] | None = None) -> int:
    return run(sys.argv[1:] if arguments is None else arguments)


def run(arguments: Sequence[str]) -> int:
    """Run a command. `--debug`, which prints tracebacks, and `--config FILE` may appear anywhere before `--`."""
    own = list(arguments)
    options = own[: own.index("--")] if "--" in own else own
    debug = "--debug" in options
    if debug:
        own.remove("--debug")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot encode must not fail
    try:
        own, config = take_config(own)
        with Named(config):
            code = _call(own)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise  # Typer itself exits only for a closed pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that the interpreter's last flush reports no error
        return PIPE_CLOSED
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        return _tell(failure_of(error), machine="--json" in options)
    return code


def _call(arguments: list[str]) -> int:
    if COMPLETION in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]  # exported nowhere else

        completion_init()
    answer: Any = command()(arguments, prog_name="duetime", standalone_mode=False)
    return answer if isinstance(answer, int) else OK


def _tell(failure: Failure, *, machine: bool) -> int:
    if failure.code == "help":
        print(failure.message, file=sys.stderr)
    elif machine:
        document = {"error": {"code": failure.code, "message": failure.message}}
        print(json.dumps(document), flush=True)
    else:
        print(f"duetime: {clean(failure.message)}", file=sys.stderr)
    return failure.exit


def failure_of(error: BaseException) -> Failure:
    if isinstance(error, DuetimeError):
        code = getattr(error, "reason", error.code)
        return Failure(code, worded(error, code), _EXITS.get(code, FAILED))
    if isinstance(error, KeyboardInterrupt):
        return Failure("interrupted", "interrupted", INTERRUPTED)
    if hasattr(error, "format_message"):  # raised by Typer for a command line that cannot be parsed
        return _usage(error)
    kind, said = type(error).__name__, str(error) or "without a message"
    return Failure("unexpected", f"unexpected {kind}: {said}; repeat it with --debug to see where", FAILED)


def _usage(error: Any) -> Failure:
    message = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        return Failure("help", message, USAGE)
    message = " ".join(message.split()).rstrip(".")
    context = getattr(error, "ctx", None)
    where = f"; see {context.command_path} --help" if context is not None else ""
    return Failure("usage", message + where, USAGE)


# Commands. The module of each is imported only when it is called.


class LazyCommand(NamedTuple):
    """A command whose module is imported only when it is called."""

    module: str
    summary: str


# The summaries are here so that `duetime --help` imports no command: some need packages that are slow or missing.
COMMANDS = {
    "init": LazyCommand("cli.setup.init", "Answer a few questions; write duetime.toml."),
    "serve": LazyCommand("cli.serve.serve", "Serve agents over MCP and HTTP, and run what is due."),
    "service": LazyCommand("cli.setup.service", "Keep Duetime running in the background."),
    "worker": LazyCommand("cli.serve.worker", "Run what is due."),
    "mcp": LazyCommand("cli.serve.mcp", "Serve one agent over stdin and stdout."),
    "chat": LazyCommand("kinds.prompts.chat", "Talk with an agent that schedules for you."),
    "job": LazyCommand("kinds.jobs.cli", "Jobs: add, edit, list, show, run, pause, cancel and more."),
    "prompt": LazyCommand("kinds.prompts.cli", "Prompts for agents: add, edit, list, take, finish and more."),
    "notify": LazyCommand("kinds.notifications.cli", "Notifications: send one, add, edit, list and more."),
    "inbox": LazyCommand("kinds.notifications.inbox_cli", "Notifications that arrived in the built-in inbox."),
    "dead": LazyCommand("cli.runs.dead", "What failed for good: list, show, retry, forget."),
    "run": LazyCommand("cli.runs.run", "Single runs: list, show, stop."),
    "next": LazyCommand("cli.runs.preview", "Show when an expression fires next."),
    "explain": LazyCommand("cli.runs.explain", "Say in English what an expression means."),
    "tail": LazyCommand("cli.runs.tail", "Show what fires, ends and fails, as it happens."),
    "top": LazyCommand("cli.runs.top", "Watch workers, what runs, what comes next and what failed."),
    "import": LazyCommand("cli.data.import_", "Bring schedules in: from a crontab, or from an export."),
    "export": LazyCommand("cli.data.export", "Write schedules as lines of JSON, or as a calendar."),
    "backup": LazyCommand("cli.data.backup", "Copy the store while it is in use."),
    "db": LazyCommand("cli.data.database", "The store: status, migrate, prune."),
    "token": LazyCommand("cli.setup.token", "The tokens that the HTTP server asks for."),
    "trust": LazyCommand("cli.setup.trust", "Use the settings file of a folder, or no longer."),
    "doctor": LazyCommand("cli.setup.doctor", "Check the machine, the tasks, the agents, the store and the workers."),
    "completion": LazyCommand("cli.setup.completion", "Have Tab complete commands and options in bash, zsh or fish."),
}

EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 the command line or a value in it cannot be used, 3 not found, "
    "4 refused, 5 the store cannot be used; 130 stopped by Ctrl-C (`serve`, `worker`, `tail` and `top`, which run "
    "until then, end with 0), 141 nobody reads the output any more. "
    "Every command but `mcp` takes --json, for programs; all take --debug, which shows the trace of an error, and "
    "--config FILE, which names the settings file."
)


class Summaries(PlainGroup):
    """Names and summaries of the subcommands, without importing them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name].summary)


class LazyCommandGroup(PlainGroup):
    """The top-level commands; each is imported only when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        found = get_command(import_module(f"duetime.{COMMANDS[cmd_name].module}").app)
        found.name = cmd_name
        return found

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete from the summaries, so that Tab imports no command either."""
        shown = Summaries(name=self.name, params=self.params)
        return list(shown.shell_complete(type(ctx)(shown, info_name=ctx.info_name), incomplete))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])


app = typer.Typer(
    cls=LazyCommandGroup, no_args_is_help=True, add_completion=False, epilog=EPILOG, rich_markup_mode=None
)


def _say_version(wanted: bool) -> None:
    if wanted:
        from duetime.terminal.context import version

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
