"""Brings the schema of a PostgreSQL database up to this code's version, one process at a time."""

from __future__ import annotations

from duetime.core.errors import StoreUnusable
from duetime.stores.postgres_connections import Connection
from duetime.stores.postgres_driver import psycopg
from duetime.stores.postgres_rows import SQL
from duetime.stores.queries import load_migrations

MIGRATIONS = load_migrations("postgres")
KNOWN_SCHEMA = MIGRATIONS[-1][0]
_OURS = ("schedules", "progress", "due", "runs", "attempts", "workers", "meta")


def bring_up(connection: Connection) -> None:
    """In one transaction: a migration that fails leaves the schema as it was."""
    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")
        connection.execute("SELECT pg_advisory_xact_lock(71001)")
        _have_schema(connection)
        version = _version(connection)
        if version > KNOWN_SCHEMA:
            raise StoreUnusable(
                f"this database has schema {version}, and this Duetime knows {KNOWN_SCHEMA}: install a newer Duetime"
            )
        for number, script in MIGRATIONS:
            if number > version:
                connection.execute(script.encode())
                connection.execute(SQL["set_schema_version"], (number,))


def _have_schema(connection: Connection) -> None:
    """A schema named in the URL's search_path is made when it is not there."""
    row = connection.execute("SELECT current_schema(), current_setting('search_path')").fetchone()
    assert row is not None
    current, path = row
    if current is None:
        name = path.split(",")[0].strip().strip('"')
        connection.execute(psycopg.sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(psycopg.sql.Identifier(name)))


def _version(connection: Connection) -> int:
    """0 for a schema without tables of ours; one with somebody else's tables under these names is refused."""
    found = connection.execute(
        "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = current_schema() AND table_name = ANY (%s)",
        (list(_OURS),),
    ).fetchall()
    if not found:
        return 0
    if len(found) == len(_OURS):
        versions = connection.execute(SQL["schema_version"]).fetchall()
        if versions:
            return int(versions[0][0])
    raise StoreUnusable(
        "this database holds tables of some other program; choose another one, or a schema of Duetime's own:"
        " add ?options=-csearch_path%3Dduetime to the URL"
    )
