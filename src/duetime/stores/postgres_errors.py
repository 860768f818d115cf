"""PostgreSQL's errors in our words. No message shows where the server is or who connects: a log is read by many."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from duetime.core.errors import DuetimeError, InvalidInput, StoreUnavailable, StoreUnusable
from duetime.stores.postgres_driver import psycopg

errors = psycopg.errors
_REFUSED = re.compile(r"FATAL:\s+(.+)")


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidInput("text with lone surrogates cannot be stored") from error
    except psycopg.Error as error:
        raise in_our_words(error) from error


def in_our_words(error: psycopg.Error) -> DuetimeError | psycopg.Error:
    """The error to raise instead; a fault of our own statements stays what it is."""
    match error:
        case errors.ProgramLimitExceeded():
            return InvalidInput("too large to be stored")
        case errors.DiskFull():
            return StoreUnavailable("PostgreSQL: the disk is full; free some space, the work then goes on")
        case errors.ReadOnlySqlTransaction():
            return StoreUnavailable("PostgreSQL takes no writes here (a standby?); the work goes on when it does")
        case errors.InsufficientPrivilege():
            return StoreUnusable(f"PostgreSQL: {_primary(error)}; give the user its rights")
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.InvalidSchemaName():
            return StoreUnusable(f"PostgreSQL: {_primary(error)}; the schema of Duetime is not there, migrate first")
        case errors.NumericValueOutOfRange():
            return InvalidInput("a number is too large to be stored")
        case psycopg.DataError():
            return InvalidInput("text with NUL characters cannot be stored")
        case psycopg.OperationalError() | psycopg.InterfaceError() | errors.IdleInTransactionSessionTimeout():
            return StoreUnavailable(f"PostgreSQL: {_primary(error)}; the work goes on when it is back")
        case _:
            return error


def refused(error: psycopg.Error) -> StoreUnavailable:
    """Why no connection came about: the server's own reason when it gave one."""
    found = _REFUSED.search(str(error))
    reason = f"refuses the connection ({found[1].strip()})" if found else "cannot be reached"
    return StoreUnavailable(f"PostgreSQL {reason}; the work goes on when it is back")


def _primary(error: psycopg.Error) -> str:
    return error.diag.message_primary or "the connection was lost"
