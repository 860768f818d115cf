"""`duetime db`: show the status of the store, migrate its schema, and prune its history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from duetime.app import open_store
from duetime.engine.clock import DAY, Instant, SystemClock
from duetime.engine.errors import InvalidInput, StoreUnusable
from duetime.engine.store import Health, Store
from duetime.kinds.jobs.build import PRUNE_BATCH
from duetime.service.errors import FAILED
from duetime.service.when import duration
from duetime.terminal import output
from duetime.terminal.context import Db, Json, opened, program, store_file
from duetime.terminal.output import plural, span
from duetime.terminal.settings import settings_for
from duetime.terminal.typer_ext import PlainCommand, group

commands = group("The store: its state, its schema, its history.")


@contextmanager
def _store(db: str | None) -> Iterator[Store]:
    """Open the store as it is, without migrating or creating it."""
    store = open_store(settings_for({"db": db}).path_of_db(), must_exist=True)
    try:
        yield store
    finally:
        store.close()


@commands.command(cls=PlainCommand)
def status(db: Db = None, json_: Json = False) -> None:
    """Show what is in the store and whether its schema fits. Exit code 1 when it does not; nothing is changed."""
    now = SystemClock().now()
    with _store(db) as store:
        schema, known = _schema(store), store.known_schema
        health = store.health(now) if schema == known else None
        view: dict[str, Any] = {"store": store.url, "schema": schema, "known_schema": known, "fits": schema == known}
        view["bytes"] = _size(store.url)
    if health is not None:
        view |= {"schedules": health.schedules, "due": health.due, "overdue": health.overdue}
        view |= {"running": health.running, "engine": health.details.get("engine")}
    if json_:
        output.print_json(view)
    else:
        output.facts([
            ("store", f"{view.get('engine') or ''} {view['store']}".strip()),
            ("schema", f"{schema}, {_fitting(schema, known)}"),
            *((("size", f"{view['bytes'] / 1_000_000:.1f} MB"),) if view["bytes"] is not None else ()),
            *(() if health is None else (("schedules", f"{health.schedules:,}, {health.due:,} of them in line"),)),
            *(() if health is None else (("overdue", _overdue(health, now)),)),
            *(() if health is None else (("running", f"{health.running:,}"),)),
        ])  # fmt: skip
    if schema != known:
        raise typer.Exit(FAILED)


def _overdue(health: Health, now: Instant) -> str:
    if not health.overdue or health.oldest_due is None:
        return "nothing"
    return f"{health.overdue:,}, the oldest by {span(now - health.oldest_due)}"


def _schema(store: Store) -> int:
    """Return the version of the schema, or 0 for a database without our tables."""
    try:
        return store.schema()
    except StoreUnusable:
        return 0


def _fitting(schema: int, known: int) -> str:
    if schema == known:
        return "which this Duetime knows"
    if schema > known:
        return f"which is newer than this Duetime knows ({known}): install a newer one"
    return f"and this Duetime has {known}: {program('db', 'migrate')} brings it up to date"


def _size(url: str) -> int | None:
    file = store_file(url)
    parts = [] if file is None else [Path(f"{file}{suffix}") for suffix in ("", "-wal")]
    return sum(part.stat().st_size for part in parts if part.exists()) if parts else None


@commands.command(cls=PlainCommand)
def migrate(db: Db = None, json_: Json = False) -> None:
    """Bring the schema up to date, in one transaction. Every command does so by itself; this one says so."""
    with _store(db) as store:
        before = _schema(store)
        if before < store.known_schema:
            output.note(f"Bringing the schema from {before} to {store.known_schema}; a large history takes a while.")
        store.migrate()
        after = store.schema()
    if json_:
        output.print_json({"from": before, "to": after, "changed": before != after})
    else:
        print(f"The schema is {after} already." if before == after else f"The schema is {after} now; it was {before}.")


@commands.command(cls=PlainCommand)
def prune(
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="SPAN", help="Such as 30d; otherwise as the settings say.")
    ] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Delete what is over for so long: ended runs, and schedules without any. Workers do so by themselves too."""
    with opened(db) as app:
        age = duration(older_than, "--older-than") if older_than else int(app.settings.retention_days * DAY)
        if not age:
            raise InvalidInput("--older-than: the settings keep everything (retention_days = 0); give one, such as 90d")
        before = Instant(app.clock.now() - age)
        deleted = sum(output.counting(_batches(app.store, before), "deleted"))
    if json_:
        output.print_json({"deleted": deleted})
    else:
        print(f"Deleted {plural(deleted, 'row')} older than {span(age)}.")


def _batches(store: Store, before: Instant) -> Iterator[int]:
    """Prune in small batches, so that no worker waits for long, and yield the number of rows of each."""
    while deleted := store.prune(before, PRUNE_BATCH):
        yield deleted
