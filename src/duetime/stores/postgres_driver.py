"""The driver, or a word on how to get it: PostgreSQL is an extra."""

from __future__ import annotations

from duetime.core.errors import StoreUnusable

try:
    import psycopg
except ImportError as error:  # the driver itself, or the libpq that it needs
    raise StoreUnusable("PostgreSQL needs a driver that is not there: install duetime[postgres]") from error

__all__ = ["psycopg"]
