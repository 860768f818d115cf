"""Entry point and subcommands of the CLI. Every failure ends in one clear line and a documented exit code."""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command

from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.kinds import load_specs
from duetime.service.errors import FAILED, INTERRUPTED, OK, PIPE_CLOSED, USAGE, shown
from duetime.service.kind_spec import Command, KindSpec, known_specs, load
from duetime.terminal import output
from duetime.terminal.context import Application, Json, config_named, register_builder, take_config
from duetime.terminal.errors import worded
from duetime.terminal.output import clean
from duetime.terminal.typer_ext import PlainCommand, PlainGroup, argument, single

if TYPE_CHECKING:
    from duetime.settings import Settings

COMPLETION = "_DUETIME_COMPLETE"
"""Environment variable that is set when a shell asks for completions instead of running a command."""


class Failure(NamedTuple):
    code: str
    message: str
    exit: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. `--debug`, which prints tracebacks, and `--config FILE` may appear anywhere before `--`."""
    own = list(sys.argv[1:] if arguments is None else arguments)
    options = own[: own.index("--")] if "--" in own else own
    debug = "--debug" in options
    if debug:
        own.remove("--debug")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot encode must not fail
    try:
        own, config = take_config(own)
        with config_named(config):
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
        return _print_failure(failure_of(error), machine="--json" in options)
    return code


def _call(arguments: list[str]) -> int:
    if COMPLETION in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]  # exported nowhere else

        completion_init()
    answer: Any = command()(arguments, prog_name="duetime", standalone_mode=False)
    return answer if isinstance(answer, int) else OK


def _print_failure(failure: Failure, *, machine: bool) -> int:
    if failure.code == "help":
        print(failure.message, file=sys.stderr)
    elif machine:
        print(json.dumps({"error": {"code": failure.code, "message": failure.message}}), flush=True)
    else:
        print(f"duetime: {clean(failure.message)}", file=sys.stderr)
    return failure.exit


def failure_of(error: BaseException) -> Failure:
    if isinstance(error, DuetimeError):
        code = getattr(error, "reason", error.code)
        return Failure(code, worded(error, code), shown(code).exit)
    if isinstance(error, KeyboardInterrupt):
        return Failure("interrupted", "interrupted", INTERRUPTED)
    if hasattr(error, "format_message"):  # raised by Typer for a command line that cannot be parsed
        message = error.format_message()
        if type(error).__name__ == "NoArgsIsHelpError":
            return Failure("help", message, USAGE)
        context = getattr(error, "ctx", None)
        where = f"; see {context.command_path} --help" if context is not None else ""
        return Failure("usage", " ".join(message.split()).rstrip(".") + where, USAGE)
    kind, message = type(error).__name__, str(error) or "without a message"
    return Failure("unexpected", f"unexpected {kind}: {message}; repeat it with --debug to see where", FAILED)


# Commands. The module of each is imported only when it is called.


def _own(name: str, module: str, summary: str, app: str = "commands") -> Command:
    return Command(name, f"duetime.cli.{module}:{app}", summary)


# The summaries are here so that `duetime --help` imports no command: some need packages that are slow or missing.
_BEFORE_KINDS = (
    _own("init", "setup.init", "Answer a few questions; write duetime.toml."),
    _own("serve", "serve.serve", "Serve agents over MCP and HTTP, and run what is due."),
    _own("service", "setup.service", "Keep Duetime running in the background."),
    _own("worker", "serve.worker", "Run what is due."),
    _own("connect", "setup.connect", "Add Duetime to an MCP client, or remove it."),
    _own("mcp", "serve.mcp", "Serve one agent over stdin and stdout."),
)
_AFTER_KINDS = (
    _own("status", "runs.overview", "Show what is set up and whether it works.", "status_commands"),
    _own("upcoming", "runs.overview", "List what fires next, over all kinds."),
    _own("change", "runs.change", "Pause, resume, cancel or delete many schedules at once."),
    _own("dead", "runs.dead", "What failed for good: list, show, retry, forget."),
    _own("run", "runs.run", "Single runs: list, show, stop."),
    _own("next", "runs.preview", "Show when an expression fires next."),
    _own("explain", "runs.preview", "Say in English what an expression means.", "explain_commands"),
    _own("tail", "runs.tail", "Show what fires, ends and fails, as it happens."),
    _own("top", "runs.top", "Watch workers, what runs, what comes next and what failed."),
    _own("import", "data.import_", "Bring schedules in: from a crontab, or from an export."),
    _own("export", "data.export", "Write schedules as lines of JSON, or as a calendar."),
    _own("backup", "data.database", "Copy the store while it is in use.", "backup_commands"),
    _own("db", "data.database", "The store: status, migrate, prune."),
    _own("token", "setup.token", "The tokens that the HTTP server asks for."),
    _own("config", "setup.config", "The settings: which file, what they say, and changing one."),
    _own("trust", "setup.trust", "Use the settings file of a folder, or no longer."),
    _own("doctor", "setup.doctor", "Check the machine, the tasks, the agents, the store and the workers."),
    _own("completion", "main", "Have Tab complete commands and options in bash, zsh or fish.", "completion_commands"),
)


def all_commands() -> dict[str, Command]:
    """Return the commands by name, those of the kinds together. A built-in command wins over a kind's."""
    kinds = (command for spec in load_specs().values() for command in commands_of(spec))
    every = {command.name: command for command in (*_BEFORE_KINDS, *kinds, *_AFTER_KINDS)}
    return every | {command.name: command for command in (*_BEFORE_KINDS, *_AFTER_KINDS)}


def commands_of(spec: KindSpec) -> tuple[Command, ...]:
    """Return the command groups of a kind: its own, or a standard one if only a payload model describes it."""
    if spec.commands or not spec.payload:
        return spec.commands
    return (Command(spec.name, "", f"{spec.plural.capitalize()}: add, edit, list, show, run, cancel and more."),)


def _load(name: str) -> Any:
    """Import a command. Installed packages are searched for kinds only if no built-in command has this name."""
    built_in = (each for spec in known_specs().values() for each in spec.commands)
    known = {each.name: each for each in (*built_in, *_BEFORE_KINDS, *_AFTER_KINDS)}
    found = known.get(name) or all_commands().get(name)
    if found is None or found.app:
        return None if found is None else load(found.app)
    from duetime.terminal.schedules.standard import standard_commands

    return standard_commands(load_specs()[name])


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
        return list(all_commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return TyperCommand(cmd_name, help=all_commands()[cmd_name].summary)


class LazyCommandGroup(Summaries):
    """The top-level commands; each is imported only when it is called."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = _load(cmd_name)
        if found is None:
            return None
        command = get_command(found)
        command.name = cmd_name
        return command

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete from the summaries, so that Tab imports no command either."""
        shown = Summaries(name=self.name, params=self.params)
        return list(shown.shell_complete(type(ctx)(shown, info_name=ctx.info_name), incomplete))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in all_commands().items()])


commands = typer.Typer(
    cls=LazyCommandGroup, no_args_is_help=True, add_completion=False, epilog=EPILOG, rich_markup_mode=None
)


def _build(settings: Settings, *, tasks: bool, must_exist: bool) -> Application:
    from duetime.app import build

    return build(settings, tasks=tasks, must_exist=must_exist, use_published=True)


register_builder(_build)


def _print_version(wanted: bool) -> None:
    if wanted:
        from duetime.terminal.context import version

        print(f"duetime {version()}")
        raise typer.Exit


@commands.callback()
def duetime(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A durable scheduler for AI agents: what is due fires on time, once, even after a crash."""


def command() -> Any:
    return get_command(commands)


# Completion by the shell.

_COMPLETION_SETUP = {
    "bash": 'eval "$(duetime completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(duetime completion zsh)"    # in ~/.zshrc, after compinit',
    "fish": "duetime completion fish > ~/.config/fish/completions/duetime.fish",
}

completion_commands = single()


@completion_commands.command(cls=PlainCommand)
def print_completion(shell: Annotated[str, argument("SHELL", "bash, zsh or fish.")], json_: Json = False) -> None:
    """Print what a shell has to read to complete commands and options."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # exported nowhere else

    if shell not in _COMPLETION_SETUP:
        raise InvalidInput(f"SHELL: there is no {shell!r}; there are {', '.join(_COMPLETION_SETUP)}")
    script = get_completion_script(prog_name="duetime", complete_var=COMPLETION, shell=shell)
    if json_:
        output.print_json({"shell": shell, "script": script, "how": _COMPLETION_SETUP[shell]})
        return
    print(script)
    if output.is_terminal():
        output.note(f"To have it always: {_COMPLETION_SETUP[shell]}")
