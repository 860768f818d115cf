"""Converts the columns of a batch to parameters: numbers in PostgreSQL's binary format, and texts as literals.

Both are many times faster than the driver's lists, in the client and in the server.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import repeat
from struct import error as StructError
from struct import pack
from typing import Any

from duetime.stores.postgres.connections import psycopg

_BIGINT, _BIGINTS = 20, 1016  # PostgreSQL's OIDs of these types
_ELEMENT = array("I", b"\0\0\0\x08" + bytes(8))
"""The length of a number, which precedes it, and two halves of a number."""


class Bigints(bytes):
    """A bigint[] in binary format."""


class _BigintsDumper(psycopg.adapt.Dumper):
    format = psycopg.pq.Format.BINARY
    oid = _BIGINTS

    def dump(self, obj: Bigints) -> Bigints:
        return obj


psycopg.adapters.register_dumper(Bigints, _BigintsDumper)


def numbers(values: Collection[int | None]) -> Bigints | str:
    """Return a parameter for bigint[]. With NULLs among the values, it is a literal."""
    count = len(values)
    try:
        halves = array("I", pack(f"!{count}q", *values))
    except StructError:
        return literal(values)
    elements = _ELEMENT * count
    elements[1::3] = halves[::2]
    elements[2::3] = halves[1::2]
    head = pack("!iiIii", 1, 0, _BIGINT, count, 1) if count else pack("!iiI", 0, 0, _BIGINT)
    return Bigints(head + elements.tobytes())


def literal(values: Iterable[int | None]) -> str:
    """Return a parameter for arrays of any numeric type."""
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def texts(values: Collection[str | None]) -> str:
    try:
        joined = '","'.join(values)  # type: ignore[arg-type]
    except TypeError:  # there are NULLs among the values
        joined = '"'
    if values and "\\" not in joined and joined.count('"') == 2 * len(values) - 2:
        return f'{{"{joined}"}}'
    if len(distinct := set(values)) == 1:  # as in most columns of a batch
        return "{" + ",".join([_element(distinct.pop())] * len(values)) + "}"
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _element(value: str | None) -> str:
    if value is None:
        return "NULL"
    if "\\" in value:
        value = value.replace("\\", "\\\\")
    if '"' in value:
        value = value.replace('"', '\\"')
    return f'"{value}"'


_WRITERS: dict[str, Callable[[Collection[Any]], Bigints | str]] = {"n": numbers, "i": literal, "t": texts}


def columns(shape: str, rows: Sequence[Sequence[Any]]) -> list[Bigints | str]:
    """Return one parameter per column; `shape` has a letter for each: n for bigint, i for integer, t for text."""
    return arrays(shape, zip(*rows, strict=True) if rows else repeat((), len(shape)))


def arrays(shape: str, columns: Iterable[Collection[Any]]) -> list[Bigints | str]:
    """Do the same for rows that are already in columns."""
    return [_WRITERS[letter](column) for letter, column in zip(shape, columns, strict=True)]
