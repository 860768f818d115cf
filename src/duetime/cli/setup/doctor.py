"""`duetime doctor`: check the installation, and say how to fix what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import typer

from duetime.cli.main import failure_of
from duetime.cli.setup.doctor_machine import machine_checks, store_file_checks, task_checks
from duetime.cli.setup.doctor_settings import settings_file_checks, token_checks
from duetime.cli.setup.doctor_store import store_checks
from duetime.engine.clock import SystemClock
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.kinds.notifications.checks import delivery_checks
from duetime.kinds.prompts.checks import agent_checks
from duetime.settings import Settings, load_settings
from duetime.terminal import output
from duetime.terminal.checks import Check
from duetime.terminal.context import Db, Json, Tasks
from duetime.terminal.errors import FAILED
from duetime.terminal.typer_ext import PlainCommand, single

app = single()


@app.command(cls=PlainCommand)
def doctor(db: Db = None, tasks: Tasks = None, json_: Json = False) -> None:
    """Check the machine, tasks, channels, agents, store and workers. Exit code 1 when something is broken."""
    checks = list(_checks({"db": db, "tasks": tuple(tasks) if tasks else None}))
    worst = "fail" if any(check.status == "fail" for check in checks) else "ok"
    if json_:
        output.print_json({"ok": worst == "ok", "checks": [asdict(check) for check in checks]})
    else:
        rows = [(output.status_text(check.status), check.subject, check.message) for check in checks]
        output.lines(rows)
    if worst == "fail":
        raise typer.Exit(FAILED)


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
    registry, loaded = task_checks(settings)
    yield from loaded
    yield from delivery_checks(settings, SystemClock())
    yield from agent_checks(settings)
    yield from token_checks(settings)
    usable = True
    for check in store_file_checks(settings.path_of_db()):
        usable = usable and check.status != "fail" and check.subject != "store"
        yield check
    if usable:
        try:
            yield from store_checks(settings, registry, SystemClock())
        except InvalidInput as error:  # something in the settings is unusable: no worker would start either
            yield Check("fail", "settings", failure_of(error).message)
        except DuetimeError as error:
            yield Check("fail", "store", failure_of(error).message)
