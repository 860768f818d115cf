"""The entry point and the subcommands of the CLI. Every failure ends with one clear line and a documented exit code."""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command

from duetime.engine.errors import DuetimeError, InvalidInput, unknown
from duetime.kinds import load_specs
from duetime.service.distribution import documentation, version
from duetime.service.errors import FAILED, INTERRUPTED, OK, PIPE_CLOSED, USAGE, error_class
from duetime.service.kind_spec import Command, KindSpec, known_specs, load
from duetime.terminal import output
from duetime.terminal.completion import COMPLETION, one_of
from duetime.terminal.context import Application, Json, config_named, register_builder, take_config
from duetime.terminal.errors import command_message
from duetime.terminal.output import clean
from duetime.terminal.typer_ext import PlainGroup, ReadCommand, Rows, argument, single

if TYPE_CHECKING:
    from duetime.settings import Settings


class CommandFailure(NamedTuple):
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
    while True:
        try:
            answer: Any = command()(arguments, prog_name="duetime", standalone_mode=False)
        except Exception as error:
            from duetime.terminal.input import answers_for

            added = answers_for(error, arguments)  # nothing was done yet, because the command line was only parsed
            if not added:
                raise
            arguments = [*arguments, *added]
        else:
            return answer if isinstance(answer, int) else OK


def _print_failure(failure: CommandFailure, *, machine: bool) -> int:
    if failure.code == "help":
        print(failure.message, file=sys.stderr)
    elif machine:
        print(json.dumps({"error": {"code": failure.code, "message": failure.message}}), flush=True)
    else:
        text = f"duetime: {output.one_date_format(clean(failure.message))}"
        print(output.between_words(text, sys.stderr), file=sys.stderr)
    return failure.exit


def failure_of(error: BaseException) -> CommandFailure:
    if isinstance(error, DuetimeError):
        return CommandFailure(error.code, command_message(error), error_class(error.code).exit)
    if isinstance(error, KeyboardInterrupt):
        return CommandFailure("interrupted", "interrupted", INTERRUPTED)
    if hasattr(error, "format_message"):  # raised by Typer for a command line that cannot be parsed
        message = error.format_message()
        if type(error).__name__ == "NoArgsIsHelpError":
            return CommandFailure("help", message, USAGE)
        context = getattr(error, "ctx", None)
        text = " ".join(message.split()).rstrip(".")
        where = f"see {context.command_path} --help" if context is not None else ""
        text += f" {where.capitalize()}" if text.endswith("?") else f"; {where}" if where else ""
        return CommandFailure("usage", text, USAGE)
    kind, message = type(error).__name__, str(error) or "without a message"
    return CommandFailure("unexpected", f"unexpected {kind}: {message}; repeat it with --debug to see where", FAILED)


# Commands. The module of each is imported only when it is called.


def _own(name: str, module: str, summary: str, app: str = "commands") -> Command:
    return Command(name, f"duetime.cli.{module}:{app}", summary)


_ONE_SCHEDULE = "One schedule, by its id or name"
_GENERAL = "duetime.terminal.schedules.commands:commands"
"""The group of the commands for a schedule of any kind, which are also commands of their own."""

# The summaries are here so that `duetime --help` imports no command: some need packages that are slow or missing.
_SECTIONS: Mapping[str, tuple[Command, ...]] = {
    "Get started": (
        _own("init", "setup.init", "Set up notifications, the time zone and the agent."),
        _own("serve", "serve.serve", "Run what is due, with the dashboard, the API and MCP."),
        _own("service", "setup.service", "Keep Duetime running in the background."),
        _own("connect", "setup.connect", "Add Duetime to an MCP client, or remove it."),
        _own("open", "serve.serve", "Open the dashboard in the browser.", "open_commands"),
        _own("status", "runs.overview", "Show what is set up and whether it works.", "status_commands"),
        _own("doctor", "setup.doctor", "Find problems and say how to fix them."),
    ),
    "Schedules": (
        _own("list", "runs.overview", "List schedules of all kinds, next due first.", "list_commands"),
        _own("upcoming", "runs.overview", "List what fires next, over all kinds.", "upcoming_commands"),
        _own("change", "runs.change", "Pause, resume, cancel or delete many schedules at once."),
        _own("emit", "runs.emit", "Send an event, on which schedules wait."),
        _own("next", "runs.preview", "Show when an expression fires next."),
        _own("explain", "runs.preview", "Explain an expression in English.", "explain_commands"),
    ),
    _ONE_SCHEDULE: (),  # their declarations say what the help shows of them
    "Runs": (
        _own("runs", "runs.runs", "Single runs: list, show, run again, stop."),
        _own("logs", "runs.logs", "Show what a run wrote, and follow it."),
        _own("attention", "runs.attention", "What needs attention: list, resolve, reopen."),
        _own("dead", "runs.dead", "Dead letters: list, show, retry or resolve what failed."),
        _own("tail", "runs.tail", "Follow runs as they start, end and fail."),
        _own("top", "runs.top", "Watch workers, running and upcoming work, and failures."),
    ),
    "Servers": (
        _own("worker", "serve.worker", "Run what is due, without a server."),
        _own("mcp", "serve.mcp", "Serve one agent over standard input and output."),
        _own("token", "setup.token", "Access tokens for the HTTP server."),
        _own("hook", "setup.hook", "Hooks: addresses at which services report events."),
    ),
    "Data": (
        _own("apply", "data.apply", "Make schedules what a file says, after showing the changes."),
        _own("import", "data.import_", "Import schedules from a crontab or an export."),
        _own("export", "data.export", "Write schedules as JSON lines, as TOML or as a calendar."),
        _own("backup", "data.database", "Copy the store while it is in use.", "backup_commands"),
        _own("db", "data.database", "The store: status, migrate, prune."),
    ),
    "Settings": (
        _own("config", "setup.config", "Show and change settings."),
        _own("trust", "setup.config", "Trust the settings file of a folder.", "trust_commands"),
        _own("completion", "main", "Set up completion with Tab in bash, zsh or fish.", "completion_commands"),
        _own("help", "main", "Show the help of a command.", "help_commands"),
    ),
}
_BUILT_IN = {each.name: each for own in _SECTIONS.values() for each in own}


def _general_commands() -> dict[str, Command]:
    from duetime.terminal.schedules.commands import DECLARATIONS

    return {name: Command(name, _GENERAL, each.summary) for name, each in DECLARATIONS.items()}


def sections() -> dict[str, list[Command]]:
    """Return the commands by heading. Those of the kinds are among the schedules; a built-in command takes precedence
    over them."""
    kinds = {each.name: each for spec in load_specs().values() for each in commands_of(spec)}
    general = _general_commands()
    own = {heading: list(commands) for heading, commands in _SECTIONS.items()} | {_ONE_SCHEDULE: [*general.values()]}
    own["Schedules"][:0] = [each for name, each in kinds.items() if name not in _BUILT_IN and name not in general]
    return own


def all_commands() -> dict[str, Command]:
    """Return all commands by name."""
    return {each.name: each for commands in sections().values() for each in commands}


def commands_of(spec: KindSpec) -> tuple[Command, ...]:
    """Return the command groups of a kind: its own, or a standard one if only a payload model describes it."""
    if spec.commands or not spec.payload:
        return spec.commands
    return (Command(spec.name, "", f"{spec.plural.capitalize()}: add, edit and list them."),)


def _load(name: str) -> Any:
    """Import a command. Installed packages are searched for kinds only if no built-in command has this name."""
    kinds = {each.name: each for spec in known_specs().values() for each in spec.commands}
    declared = _BUILT_IN.get(name) or _general_commands().get(name) or kinds.get(name) or all_commands().get(name)
    if declared is None:
        return None
    if declared.app:
        loaded: Any = get_command(load(declared.app))
    else:
        from duetime.terminal.schedules.standard import standard_commands

        loaded = get_command(standard_commands(load_specs()[name]))
    loaded = loaded.commands[name] if declared.app == _GENERAL else loaded
    loaded.name = name
    return loaded


EXAMPLES = """\
duetime init
duetime notify add "Water the plants" --when "every friday at 9" --topic reminders
duetime job add report --task echo --cron "0 9 * * 1-5"
duetime list
"""
EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 invalid command line, 3 not found, 4 refused, 5 the store cannot be used, "
    "6 a run has not ended within --wait, 130 interrupted by Ctrl-C (`serve`, `worker`, `tail` and `top` run until "
    "then and exit with 0), 141 broken pipe. Every command except `mcp` takes --json, for programs. All commands take "
    "--debug, which shows tracebacks, and --config FILE, which names the settings file."
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
        return _load(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; `duetime run list` and the like are earlier names of `duetime runs list`."""
        if args[0] == "run" and args[1:2] and args[1] in ("list", "show", "again", "stop"):
            args = ["runs", *args[1:]]
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete from the summaries, so that Tab imports no command either."""
        summaries = Summaries(name=self.name, params=self.params)
        return list(summaries.shell_complete(type(ctx)(summaries, info_name=ctx.info_name), incomplete))

    def get_help(self, ctx: Any) -> str:
        address = documentation()
        return super().get_help(ctx) + (f"\n\nDocumentation: {address}" if address else "")

    def sections(self, ctx: Any) -> list[tuple[str, Rows]]:
        return [(heading, [(each.name, each.summary) for each in own]) for heading, own in sections().items()]


commands = typer.Typer(
    cls=LazyCommandGroup,
    no_args_is_help=True,
    add_completion=False,
    epilog=f"{EXAMPLES}\n{EPILOG}",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _build(settings: Settings, *, tasks: bool, must_exist: bool) -> Application:
    from duetime.app import build

    return build(settings, tasks=tasks, must_exist=must_exist, use_published=True)


register_builder(_build)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"duetime {version()}")
        raise typer.Exit


@commands.callback()
def duetime(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A durable scheduler for AI agents: jobs, prompts and notifications that fire on time, once, even after a
    crash."""


def command() -> Any:
    return get_command(commands)


# `duetime help`

help_commands = single()


@help_commands.command(cls=ReadCommand, epilog="duetime help\nduetime help job add")
def show_help(
    names: Annotated[list[str] | None, argument("[COMMAND]", "The command, such as job add; otherwise all.")] = None,
    json_: Json = False,
) -> None:
    """Show the help of a command, as its option --help does."""
    target = command()
    context = target.make_context("duetime", [], resilient_parsing=True)
    context.resilient_parsing = False  # an unknown command is an error
    rest = list(names or ())
    while rest:
        if not hasattr(target, "commands"):
            raise InvalidInput(f"COMMAND: {context.command_path} has no commands of its own, such as {rest[0]!r}")
        name, target, rest = target.resolve_command(context, rest)
        context = type(context)(target, info_name=name, parent=context)
    text = target.get_help(context)
    output.print_result(json_, {"command": context.command_path, "help": text}, text)


# Completion by the shell.

_COMPLETION_SETUP = {
    "bash": 'In ~/.bashrc: eval "$(duetime completion bash)"',
    "zsh": 'In ~/.zshrc, after compinit: eval "$(duetime completion zsh)"',
    "fish": "Once, for fish: duetime completion fish > ~/.config/fish/completions/duetime.fish",
}

completion_commands = single()


@completion_commands.command(cls=ReadCommand, epilog="\n\n".join(_COMPLETION_SETUP.values()))
def print_completion(
    shell: Annotated[str, argument("SHELL", "bash, zsh or fish.", **one_of(*_COMPLETION_SETUP))], json_: Json = False
) -> None:
    """Print the script that lets a shell complete commands, options, ids and names with Tab."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # exported nowhere else

    if shell not in _COMPLETION_SETUP:
        raise InvalidInput(unknown("shell", shell, _COMPLETION_SETUP))
    script = get_completion_script(prog_name="duetime", complete_var=COMPLETION, shell=shell)
    if json_:
        output.print_json({"shell": shell, "script": script, "how": _COMPLETION_SETUP[shell]})
        return
    print(script)
    if output.is_terminal():
        output.note(f"To keep it: {_COMPLETION_SETUP[shell]}")
