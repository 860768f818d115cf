"""Checks of the settings file (ignored, or readable or writable by others) and of the secret that signs tokens."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from duetime.engine.errors import DuetimeError
from duetime.security.private_files import FILE, VARIABLE
from duetime.settings import CONFIG, Settings, is_postgres, load_settings
from duetime.terminal.checks import Check
from duetime.terminal.output import clean

_PASSWORD = re.compile(r"//[^/@\s:]{0,256}:[^/@\s]{1,256}@")


def settings_file_checks(settings: Settings) -> Iterator[Check]:
    """Check the settings file. One that is not trusted is only reported: nothing of it is read or run."""
    if settings.origin.ignored:
        yield Check("warn", "settings", clean(settings.origin.ignored))
    if settings.origin.file and os.name == "posix":
        yield from _exposed(Path(settings.origin.file))


def _exposed(path: Path) -> Iterator[Check]:
    """Check the file by its own content, regardless of the environment and the command line."""
    try:
        settings = load_settings(environment={CONFIG: str(path)})
        mode = stat.S_IMODE(path.stat().st_mode)
    except (OSError, DuetimeError):
        return
    advice = f"run: chmod 600 {clean(path)}"
    if mode & stat.S_IWOTH:
        yield Check("warn", "settings", f"{clean(path)} can be changed by everybody (mode {mode:o}); {advice}")
    elif mode & (stat.S_IRGRP | stat.S_IROTH) and (names := secrets_in(settings)):
        said = f"{clean(path)} holds secrets ({', '.join(names)}) and can be read by others (mode {mode:o})"
        yield Check("warn", "settings", f"{said}; {advice}")


def secrets_in(settings: Settings) -> list[str]:
    """Return the names of settings that hold what others should not read."""
    given = settings.notifications
    plain = [
        ("db", bool(_PASSWORD.search(settings.db))),
        ("notifications.token", bool(given.token)),
        ("notifications.qstash_token", bool(given.qstash_token)),
        ("notifications.prefix", bool(given.prefix)),
    ]
    channels = [(f"channels.{name}", bool(each.url or each.headers)) for name, each in settings.channels.items()]
    agents = [
        (f"agents.{name}", bool(each.secret or _PASSWORD.search(each.url))) for name, each in settings.agents.items()
    ]
    return [clean(name) for name, there in (*plain, *channels, *agents) if there]


# Tokens: whether the nodes that share a store accept each other's.


def token_checks(settings: Settings) -> Iterator[Check]:
    """Check the secret. Revocations are in the store, which all nodes share, but each has to be given the secret."""
    if VARIABLE in os.environ:
        yield Check("ok", "tokens", f"signed with {VARIABLE}; what is revoked is kept in the store, for all nodes")
    elif is_postgres(settings.path_of_db()):
        yield Check(
            "warn",
            "tokens",
            f"signed with a secret of this machine, while the store may be shared by many: to have all nodes take the"
            f" same tokens and sign with the same keys, give each of them one {VARIABLE}",
        )
    else:
        made = "a secret" if (settings.path_of_keys() / FILE).exists() else "a secret that the first use makes"
        yield Check("ok", "tokens", f"signed with {made} in the data folder; what is revoked is kept in the store")
