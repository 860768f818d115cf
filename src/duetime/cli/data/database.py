"""`duetime db` and `backup`: the status, the schema and the history of the store, and copies of it."""

from __future__ import annotations

import os
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Annotated, Any

from duetime.app import open_store
from duetime.engine.clock import DAY, Instant, SystemClock, datetime_of
from duetime.engine.errors import InvalidInput, StoreUnusable
from duetime.engine.store import RunQuery, Store
from duetime.kinds.jobs.build import PRUNE_BATCH
from duetime.service.errors import FAILED, refuse
from duetime.service.masking import masked
from duetime.service.vocabulary import Run, names_limit, was_given_back
from duetime.service.when import duration
from duetime.settings.locations import store_file
from duetime.terminal import output
from duetime.terminal.context import Application, Db, Json, opened, program, settings_for
from duetime.terminal.declarations import Exit, argument, group, option, single
from duetime.terminal.output import clean, plural, span

commands = group("Manage the store: its state, its schema and its history.")


def _store(db: str | None) -> closing[Store]:
    """Open the store as it is, without migrating or creating it."""
    return closing(open_store(settings_for({"db": db}).path_of_db(), must_exist=True))


@commands.command(reads=True)
def status(db: Db = None, json_: Json = False) -> None:
    """Show what is in the store and whether its schema is up to date. The exit code is 1 if it is not. Nothing is
    changed."""
    now = SystemClock().now()
    with _store(db) as store:
        schema, known = _schema(store), store.known_schema
        fits = bool(schema) and store.fits(schema)
        health = store.health(now) if fits else None
        view: dict[str, Any] = {"store": store.url, "schema": schema, "known_schema": known, "fits": fits}
        view["bytes"] = _size(store.url)
        held = [] if health is None else _given_back(store)
    if health is not None:
        view |= {"schedules": health.schedules, "due": health.due, "overdue": health.overdue}
        view |= {"running": health.running, "waiting_for_a_worker": len(held), "engine": health.details.get("engine")}
    if json_:
        output.print_json(view)
    else:
        facts = [("store", f"{view.get('engine') or ''} {view['store']}".strip())]
        facts += [("schema", f"{schema}, {_fitting(schema, known, fits)}")]
        if view["bytes"] is not None:
            facts += [("size", f"{view['bytes'] / 1_000_000:.1f} MB")]
        if health is not None:
            overdue = "nothing"
            if health.overdue and health.oldest_due is not None:
                overdue = f"{health.overdue:,}, the oldest by {span(now - health.oldest_due)}"
            facts += [("schedules", f"{health.schedules:,}, {health.due:,} of them active"), ("overdue", overdue)]
            facts += [("running", f"{health.running:,}")]
            if held:
                reason = masked(held[0].error)
                facts += [("waiting", f"{plural(len(held), 'run')}, such as {clean(held[0].name)}: {clean(reason)}")]
        output.facts(facts)
    if not fits:
        raise Exit(FAILED)


def _given_back(store: Store) -> list[Run]:
    """Return due runs that no worker could execute so far, except those that a limit holds back."""
    pending = store.runs(RunQuery(status="pending", limit=1000, count_to=0)).items
    return [run for run in pending if was_given_back(run) and not names_limit(run.error)]


def _schema(store: Store) -> int:
    """Return the version of the schema, or 0 for a database without our tables."""
    try:
        return store.schema()
    except StoreUnusable:
        return 0


def _fitting(schema: int, known: int, fits: bool) -> str:
    if schema == known:
        return "up to date"
    if schema > known:
        may = "and it may go on using it" if fits else "which must not use it"
        return f"newer than this Duetime knows ({known}), {may}: install a newer one"
    return f"and this Duetime has {known}: {program('db', 'migrate')} brings it up to date"


def _size(url: str) -> int | None:
    file = store_file(url)
    parts = [] if file is None else [Path(f"{file}{suffix}") for suffix in ("", "-wal")]
    return sum(part.stat().st_size for part in parts if part.exists()) if parts else None


@commands.command()
def migrate(db: Db = None, json_: Json = False) -> None:
    """Bring the schema up to date, in one transaction. All commands do this automatically; this one reports it."""
    with _store(db) as store:
        before = _schema(store)
        if before < store.known_schema:
            output.note(f"Bringing the schema from {before} to {store.known_schema}; a large history takes a while.")
        store.migrate()
        after = store.schema()
    same, new = f"The schema is already up to date (version {after}).", f"The schema is {after} now; it was {before}."
    output.print_result(
        json_, {"from": before, "to": after, "changed": before != after}, same if before == after else new
    )


@commands.command()
def prune(
    older_than: Annotated[
        str | None, option("--older-than SPAN", "Age, such as 30d; by default that of the settings.")
    ] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Delete finished runs, and schedules that have ended, if they are older than --older-than. Workers do this
    automatically too."""
    with opened(db) as app:
        age = duration(older_than, "--older-than") if older_than else int(app.settings.retention_days * DAY)
        if not age:
            raise InvalidInput("--older-than: the settings keep everything (retention_days = 0); give one, such as 90d")
        before = Instant(app.clock.now() - age)
        batches = iter(lambda: app.store.prune(before, PRUNE_BATCH), 0)  # small, so that no worker waits for long
        deleted = sum(output.counting(batches, "deleted"))
    output.print_result(json_, {"deleted": deleted}, f"Deleted {plural(deleted, 'row')} older than {span(age)}.")


# `duetime backup`

backup_commands = single()


@backup_commands.command(epilog="duetime backup copy.db")
def backup(
    target: Annotated[
        str | None, argument("[TARGET]", "New file, or a folder; by default the folder of the settings.")
    ] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Copy the store while it is in use. To use the copy, name it with --db."""
    with opened(db) as app:
        if app.store.url.startswith("postgres"):
            raise refuse("not_possible", "PostgreSQL is backed up with its own tools, such as pg_dump")
        path = _target(app, target)
        umask = os.umask(0o077)  # only the owner may read the copy, because it contains payloads
        try:
            with output.bar("copying") as show_progress:
                app.store.backup(str(path), show_progress)
        finally:
            os.umask(umask)
    size = path.stat().st_size
    text = f"Wrote {clean(path)} ({size / 1_000_000:.1f} MB); only you can read it."
    output.print_result(json_, {"file": str(path), "bytes": size}, text)


def _target(app: Application, target: str | None) -> Path:
    folder = app.settings.path_of_backups() if target is None else Path(target).expanduser()
    try:
        if target is None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be created ({error.strerror}); name another place") from error
    path = folder
    if folder.is_dir():
        name = f"duetime-{datetime_of(app.clock.now()):%Y%m%dT%H%M%S}"
        names = (f"{name}{'' if number == 1 else f'-{number}'}.db" for number in count(1))
        path = next(folder / each for each in names if not (folder / each).exists())
    if path.exists():
        raise refuse("not_possible", f"{path} already exists; a backup overwrites nothing: name another file")
    if not path.parent.is_dir():
        raise InvalidInput(f"TARGET: there is no folder {path.parent}; create it first")
    return path
