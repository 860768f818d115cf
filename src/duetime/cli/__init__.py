"""The command line: its commands by name and by heading. The module of each is imported only when it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duetime.kinds import load_specs
from duetime.service.kind_spec import Command, KindSpec, known_specs, load


def _own(name: str, module: str, summary: str, app: str = "commands") -> Command:
    return Command(name, f"duetime.cli.{module}:{app}", summary)


_ONE_SCHEDULE = "One schedule, by its id or name"
_GENERAL = "duetime.terminal.schedules.commands:general_command"
"""The function that returns a command for a schedule of any kind."""

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
        _own("runs", "runs.change_runs", "Runs: list, show, run again, retry, stop."),
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
        _own("apply", "data.apply", "Make the schedules match a file, after showing the changes."),
        _own("import", "data.import_", "Import schedules from a crontab or an export."),
        _own("export", "data.export", "Write schedules as JSON lines, as TOML or as a calendar."),
        _own("backup", "data.database", "Copy the store while it is in use.", "backup_commands"),
        _own("db", "data.database", "The store: status, migrate, prune."),
    ),
    "Settings": (
        _own("config", "setup.config", "Show and change settings."),
        _own("trust", "setup.config", "Trust the settings file of a folder.", "trust_commands"),
        _own("completion", "root", "Set up completion with Tab in bash, zsh or fish.", "completion_commands"),
        _own("help", "root", "Show the help of a command.", "help_commands"),
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


def command_named(name: str) -> Any:
    """Import a command or a group: as it is declared here, or what another package has for Typer; None if there is
    none. Installed packages are searched for kinds only if no built-in command has this name."""
    kinds = {each.name: each for spec in known_specs().values() for each in spec.commands}
    command = _BUILT_IN.get(name) or _general_commands().get(name) or kinds.get(name) or all_commands().get(name)
    if command is None:
        return None
    if command.app:
        loaded = load(command.app)
        return loaded(name) if command.app == _GENERAL else loaded
    from duetime.terminal.schedules.standard import standard_commands

    return standard_commands(load_specs()[name])


def is_earlier_name(arguments: Sequence[str]) -> bool:
    """Return whether this is an earlier name of `duetime runs list` and the like."""
    return arguments[0] == "run" and arguments[1:2] != [] and arguments[1] in ("list", "show", "again", "stop")
