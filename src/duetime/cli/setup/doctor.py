"""`duetime doctor`: check the installation, and say how to fix what is wrong."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path

from duetime.cli.main import failure_of
from duetime.cli.setup.doctor_checks import kind_checks, machine_checks, store_checks, store_file_checks
from duetime.engine.clock import SystemClock
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.security.private_files import FILE, VARIABLE
from duetime.service.checks import Check
from duetime.service.errors import FAILED
from duetime.service.masking import without_password
from duetime.settings import CONFIG, Settings, is_postgres, load_settings
from duetime.terminal import output
from duetime.terminal.context import Db, Json, Tasks
from duetime.terminal.declarations import Exit, single
from duetime.terminal.output import clean

commands = single()


@commands.command(reads=True)
def doctor(db: Db = None, tasks: Tasks = None, json_: Json = False) -> None:
    """Find problems and say how to fix them. Checks the machine, tasks, channels, agents, the store and the workers.
    The exit code is 1 if something is broken."""
    checks = list(_checks({"db": db, "tasks": tasks}))
    failed = any(check.status == "fail" for check in checks)
    if json_:
        output.print_json({"ok": not failed, "checks": [asdict(check) for check in checks]})
    else:
        output.lines([(output.status_text(check.status), check.subject, check.message) for check in checks])
    if failed:
        raise Exit(FAILED)


def _checks(flags: dict[str, object]) -> Iterator[Check]:
    try:
        settings = load_settings(flags)
    except DuetimeError as error:
        yield Check("fail", "settings", error.message)
        settings = Settings(db=str(flags.get("db") or ""))
    else:
        yield Check("ok", "settings", ", ".join(settings.sources) or "the defaults")
        yield from settings_file_checks(settings)
    yield from machine_checks(settings)
    yield from kind_checks(lambda checks: checks.setup(settings, SystemClock()))
    yield from token_checks(settings)
    of_file = list(store_file_checks(settings.path_of_db()))
    yield from of_file
    if not any(check.status == "fail" or check.subject == "store" for check in of_file):
        try:
            yield from store_checks(settings, SystemClock())
        except InvalidInput as error:  # something in the settings is unusable, so no worker would start either
            yield Check("fail", "settings", failure_of(error).message)
        except DuetimeError as error:
            yield Check("fail", "store", failure_of(error).message)


def settings_file_checks(settings: Settings) -> Iterator[Check]:
    """Check the settings file. A file that is not trusted is only reported: none of it is used."""
    if settings.origin.ignored:
        yield Check("warn", "settings", clean(settings.origin.ignored))
    if not settings.origin.file or os.name != "posix":
        return
    path = Path(settings.origin.file)
    try:
        content = load_settings(environment={CONFIG: str(path)})  # without other variables and the command line
        mode = stat.S_IMODE(path.stat().st_mode)
    except (OSError, DuetimeError):
        return
    advice = f"run: chmod 600 {clean(path)}"
    if mode & stat.S_IWOTH:
        yield Check("warn", "settings", f"{clean(path)} can be changed by everybody (mode {mode:o}); {advice}")
    elif mode & (stat.S_IRGRP | stat.S_IROTH) and (names := secrets_in(content)):
        exposed = f"{clean(path)} holds secrets ({', '.join(names)}) and can be read by others (mode {mode:o})"
        yield Check("warn", "settings", f"{exposed}; {advice}")


def secrets_in(settings: Settings) -> list[str]:
    """Return the names of settings that contain values which others should not read."""
    names = ["db"] if _has_password(settings.db) else []
    for table, values in {"notifications": settings.notifications, **settings.tables}.items():
        names += [f"{table}.{each.name}" for each in fields(values) if not each.repr and getattr(values, each.name)]
    names += [f"channels.{name}" for name, each in settings.channels.items() if each.url or each.headers]
    names += [f"agents.{name}" for name, each in settings.agents.items() if each.secret or _has_password(each.url)]
    for name, each in settings.mcp_servers.items():
        literal = [value for value in (*each.headers.values(), *each.env.values()) if "${" not in value]
        names += [f"mcp_servers.{name}"] if literal or _has_password(each.url) else []
    names += [f"executors.{name}" for name, each in settings.executors.items() if _has_password(each.address)]
    return [clean(name) for name in names]


def _has_password(address: str) -> bool:
    return without_password(address) != address


def token_checks(settings: Settings) -> Iterator[Check]:
    """Check the secret. Revocations are in the store, which all nodes share, but the secret has to be given to each
    node."""
    if VARIABLE in os.environ:
        yield Check("ok", "tokens", f"signed with {VARIABLE}; revocations are kept in the store, for all nodes")
    elif is_postgres(settings.path_of_db()):
        yield Check(
            "warn",
            "tokens",
            f"signed with a secret of this machine, while the store may be shared by many: to have all nodes take the"
            f" same tokens and sign with the same keys, give each of them one {VARIABLE}",
        )
    else:
        secret = "a secret" if (settings.path_of_keys() / FILE).exists() else "a secret, created on first use"
        yield Check("ok", "tokens", f"signed with {secret} in the data folder; revocations are kept in the store")
