"""Service files with which systemd or launchd keeps `duetime serve` running, and the commands that load them."""

from __future__ import annotations

import os
import plistlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

LABEL = "duetime"
AGENT = "dev.duetime.serve"


class Unit(NamedTuple):
    """A service file, and the commands with which its service manager loads it, unloads it and shows its state."""

    manager: str
    path: Path
    text: str
    load: Sequence[Sequence[str]]
    unload: Sequence[Sequence[str]]
    renew: Sequence[Sequence[str]]
    """Commands to run before loading if the file already existed; they may fail."""
    forget: Sequence[Sequence[str]]
    """Commands to run after the file was removed; they may fail."""
    state: Sequence[str]
    after: str
    """A note for users once it is installed."""
    private: PrivateFile
    """Further environment variables of the service, if any."""


class PrivateFile(NamedTuple):
    """Variables that may be secret, in a separate file that only its owner can read, because the service file is
    printed and its commands are visible to everybody on the machine."""

    path: Path
    variables: Mapping[str, str]

    @property
    def text(self) -> str:
        """The content, in a syntax that both systemd and a shell read."""
        return "".join(f"{name}={_quoted(value)}\n" for name, value in self.variables.items())


def _quoted(value: str) -> str:
    if re.search(r"[\x00-\x1f]", value):
        raise ValueError("an environment file cannot hold control characters")
    return '"' + re.sub(r'(["\\$`])', r"\\\1", value) + '"'


def systemd_unit(command: Sequence[str], folder: Path, environment: Mapping[str, str], private: PrivateFile) -> Unit:
    lines = [
        "[Unit]",
        "Description=Duetime: what was scheduled fires on time",
        "",
        "[Service]",
        f"ExecStart={' '.join(_systemd_word(part) for part in command)}",
        f"WorkingDirectory={_systemd_path(folder)}",
        *(f"Environment={_systemd_word(f'{name}={value}', variables=False)}" for name, value in environment.items()),
        *([f"EnvironmentFile={_systemd_path(private.path)}"] if private.variables else []),
        "Restart=always",
        "RestartSec=2",
        "TimeoutStopSec=30",
        "",
        "[Install]",
        "WantedBy=default.target",
        "",
    ]
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    name, reload = f"{LABEL}.service", ("systemctl", "--user", "daemon-reload")
    return Unit(
        "systemctl",
        home / "systemd" / "user" / name,
        "\n".join(lines),
        load=(reload, ("systemctl", "--user", "enable", name), ("systemctl", "--user", "restart", name)),
        unload=(("systemctl", "--user", "disable", "--now", name),),
        renew=(),
        forget=(reload,),
        state=("systemctl", "--user", "is-active", name),
        after="It stops when you log out, unless you allow it to stay: loginctl enable-linger",
        private=private,
    )


_WITH_VARIABLES = ("/bin/sh", "-c", 'set -a; . "$0"; exec "$@"')
"""Wrapper for launchd, which reads no environment file: a shell reads it, and then executes the program."""


def launchd_agent(command: Sequence[str], folder: Path, environment: Mapping[str, str], private: PrivateFile) -> Unit:
    started = [*_WITH_VARIABLES, str(private.path), *command] if private.variables else list(command)
    home = Path.home() / "Library"
    path = home / "LaunchAgents" / f"{AGENT}.plist"
    document = {
        "Label": AGENT,
        "ProgramArguments": started,
        "WorkingDirectory": str(folder),
        "EnvironmentVariables": dict(environment),
        "RunAtLoad": True,
        "KeepAlive": True,
        "StandardErrorPath": str(home / "Logs" / "duetime.log"),
    }
    domain = f"gui/{os.getuid()}"
    return Unit(
        "launchctl",
        path,
        plistlib.dumps(document).decode(),
        load=(("launchctl", "bootstrap", domain, str(path)),),
        unload=(("launchctl", "bootout", f"{domain}/{AGENT}"),),
        renew=(("launchctl", "bootout", f"{domain}/{AGENT}"),),
        forget=(),
        state=("launchctl", "print", f"{domain}/{AGENT}"),
        after="Messages are kept in ~/Library/Logs/duetime.log",
        private=private,
    )


def _systemd_word(text: str, *, variables: bool = True) -> str:
    """Quote and escape a word: `%` begins a specifier everywhere, `$` a variable in commands."""
    quoted = _systemd_path(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted.replace("$", "$$") if variables else quoted}"'


def _systemd_path(text: object) -> str:
    if re.search(r"[\x00-\x1f]", str(text)):
        raise ValueError("a unit file cannot hold control characters")
    return str(text).replace("%", "%%")
