"""The root of the command line as Typer sees it: its help, completion, and lines that have to be parsed with care."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from duetime.cli import all_commands, command_named, is_earlier_name, sections
from duetime.engine.errors import InvalidInput, unknown
from duetime.service.distribution import documentation, version
from duetime.terminal import output
from duetime.terminal.completion import COMPLETION, one_of
from duetime.terminal.context import Json
from duetime.terminal.declarations import CommandSet, argument, single
from duetime.terminal.typer_ext import MEANT, PlainGroup, Rows, typer_app

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
        commands = command_named(cmd_name)
        if commands is None:
            return None
        loaded: Any = get_command(typer_app(commands) if isinstance(commands, CommandSet) else commands)
        loaded.name = cmd_name
        return loaded

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; `duetime run list` and the like are earlier names of `duetime runs list`."""
        return super().resolve_command(ctx, ["runs", *args[1:]] if is_earlier_name(args) else args)

    def suggestions(self, ctx: Any, attempt: str) -> list[str]:
        """Return the commands that may be meant; each kind has its own `add` and `edit`."""
        verb = MEANT.get(attempt, attempt)
        of_kinds = [f"{name} {verb}" for name, each in all_commands().items() if " add, " in each.summary]
        return of_kinds if verb in ("add", "edit") else super().suggestions(ctx, attempt)

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


@help_commands.command(reads=True, epilog="duetime help\nduetime help job add")
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


@completion_commands.command(reads=True, epilog="\n\n".join(_COMPLETION_SETUP.values()))
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
