"""`duetime service`: let the system keep `duetime serve` running, so that schedules always fire."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from duetime.cli.setup.service_units import PrivateFile, Unit, launchd_agent, systemd_unit
from duetime.engine.errors import InvalidInput
from duetime.security.private_files import VARIABLE, replace_private
from duetime.service.errors import FAILED, refuse
from duetime.service.masking import without_password
from duetime.settings import PREFIX, environment_names
from duetime.settings.locations import config_folder
from duetime.terminal import output
from duetime.terminal.context import Db, Json, Tasks, Tools, program, settings_for
from duetime.terminal.declarations import Exit, group, option
from duetime.terminal.input import agreed
from duetime.terminal.output import clean

commands = group("Keep `duetime serve` running: a systemd user unit on Linux, a launchd agent on macOS.")

Yes = Annotated[bool, option("--yes", "Don't ask for confirmation.")]
DryRun = Annotated[bool, option("--dry-run", "Show what would be done without doing it.")]
NO_MANAGER = "no_manager"
"""Error code for a system without a service manager."""
_HIDDEN = f"{VARIABLE} is set here, but no service sees it: it will use the secret of the data folder"
KEPT = ("PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""Variables of this environment that a service needs besides the settings, to find programs and its own data."""


@commands.command()
def install(
    db: Db = None,
    tasks: Tasks = None,
    port: Annotated[int | None, option("--port", "Port to listen on; by default 8765.", min=1, max=65535)] = None,
    tools: Tools = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json_: Json = False,
) -> None:
    """Install and start the service, with the settings file that is in use here. With --tasks, it runs in this
    folder."""
    settings = settings_for({"db": db, "tasks": tasks, "port": port, "tools": tools})
    secret = db is not None and without_password(db) != db
    started = _command(settings.origin.file, None if secret else db, tasks, port, tools)
    unit = _unit(started, {f"{PREFIX}DB": db} if db is not None and secret else {})
    warnings = [_HIDDEN] if VARIABLE in os.environ else []
    if not json_:
        print(f"{clean(unit.path)}:\n\n{unit.text}")
        if unit.private.variables:
            names = ", ".join(unit.private.variables)
            print(f"{clean(unit.private.path)}, which only you can read, holds {names}.\n")
        output.warn(warnings)
    if dry_run:
        _show("Would then run", unit.load, json_, {**_about(unit), "installed": False, "warnings": warnings})
        return
    _need(unit)
    if not yes and not _agreed("Write this file and start the service?", json_):
        return
    for command in unit.renew if unit.path.exists() else ():
        _succeeds(command)
    _write(unit)
    for command in unit.load:
        _run(command)
    if json_:
        output.print_json({**_about(unit), "installed": True, "note": unit.after, "warnings": warnings})
        return
    print(f"Installed and started. {unit.after}")
    print(f"To connect a client: {program('connect', 'claude-code')}")


@commands.command(reads=True)
def status(json_: Json = False) -> None:
    """Show whether the service is installed and running. The exit code is 1 if it is not."""
    unit = _unit(())
    installed = unit.path.exists()
    running = installed and shutil.which(unit.manager) is not None and _succeeds(unit.state)
    state = "runs" if running else "is installed, but does not run" if installed else "is not installed"
    text = f"The service {state} ({clean(unit.path)})."
    output.print_result(json_, {"installed": installed, "running": running, "file": str(unit.path)}, text)
    if not running:
        raise Exit(FAILED)


@commands.command()
def uninstall(dry_run: DryRun = False, yes: Yes = False, json_: Json = False) -> None:
    """Stop and remove the service. The store and its schedules are kept."""
    unit = _unit(())
    if not unit.path.exists():
        text = f"The service is not installed ({clean(unit.path)})."
        output.print_result(json_, {"file": str(unit.path), "removed": False}, text)
        return
    if dry_run:
        _show("Would run", unit.unload, json_, {"file": str(unit.path), "removed": False})
        if not json_:
            print(f"and remove {clean(unit.path)}")
        return
    _need(unit)
    if not yes and not _agreed(f"Stop the service and remove {clean(unit.path)}?", json_):
        return
    for command in unit.unload:
        _run(command)
    unit.path.unlink()
    unit.private.path.unlink(missing_ok=True)
    for command in unit.forget:
        _succeeds(command)
    output.print_result(json_, {"file": str(unit.path), "removed": True}, "The service is stopped and removed.")


def _command(file: str, db: str | None, tasks: Sequence[str] | None, port: int | None, tools: str | None) -> list[str]:
    """Return the command of the service. `--no-link` keeps tokens out of the journal. The settings file is named
    explicitly, because whoever installs a service trusts it, including later changes."""
    named = [part for each in tasks or () for part in ("--tasks", each)]
    options = [*_option("--db", db), *named, *_option("--port", port), *_option("--tools", tools)]
    return [sys.executable, "-P", "-m", "duetime", "serve", "--no-link", *_option("--config", file or None), *options]


def _option(option: str, value: object) -> list[str]:
    return [] if value is None else [option, str(value)]


def _unit(command: Sequence[str], secrets: Mapping[str, str] | None = None) -> Unit:
    """Return the unit for this system. `secrets` are settings that must not appear on a command line."""
    environment = {name: os.environ[name] for name in KEPT if os.environ.get(name)}
    # The settings of this environment, without the secret that signs tokens, because the data folder has one.
    here = {name: os.environ[name] for name in sorted(environment_names()) if os.environ.get(name)}
    private = PrivateFile(config_folder() / "service.env", {**here, **(secrets or {})})
    try:
        if sys.platform == "darwin":
            return launchd_agent(command, Path.cwd(), environment, private)
        if sys.platform.startswith("linux"):
            return systemd_unit(command, Path.cwd(), environment, private)
    except ValueError as error:
        raise InvalidInput(str(error)) from error
    raise refuse(
        NO_MANAGER,
        f"services are supported on Linux and macOS; have {program('serve')} started when this machine starts",
    )


def _need(unit: Unit) -> None:
    if shutil.which(unit.manager) is None:
        raise refuse(
            NO_MANAGER,
            f"there is no {unit.manager} on this machine; have its own supervisor keep {program('serve', '--no-link')} "
            "running, or see the file above with --dry-run",
        )


def _write(unit: Unit) -> None:
    """Write the files, readable only by their owner."""
    try:
        unit.path.parent.mkdir(parents=True, exist_ok=True)
        if unit.private.variables:
            unit.private.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_private(unit.private.path, unit.private.text)
        else:
            unit.private.path.unlink(missing_ok=True)
        replace_private(unit.path, unit.text)
    except OSError as error:
        raise refuse(NO_MANAGER, f"{unit.path} cannot be written ({error.strerror})") from error


def _agreed(question: str, json_: bool) -> bool:
    if json_:
        raise InvalidInput("--json: cannot ask; pass --yes, or preview with --dry-run")
    return agreed(question, "pass --yes, or preview with --dry-run")


def _about(unit: Unit) -> dict[str, Any]:
    about = {"file": str(unit.path), "text": unit.text}
    return about | ({"private": str(unit.private.path)} if unit.private.variables else {})


def _show(heading: str, commands: Sequence[Sequence[str]], json_: bool, facts: dict[str, Any]) -> None:
    lines = [shlex.join(command) for command in commands]
    output.print_result(json_, facts | {"commands": lines}, f"{heading}: {'; '.join(lines)}")


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = " ".join((done.stderr or done.stdout).split()) or f"exit code {done.returncode}"
        advice = "fix that and try again, or run duetime serve yourself"
        raise refuse(NO_MANAGER, f"`{shlex.join(command)}` failed: {reason}; {advice}")


def _succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
