"""Columns of a batch arrive in PostgreSQL as they were given."""

from __future__ import annotations

from typing import Any

import psycopg

from duetime.stores.postgres.arrays import Bigints, columns, numbers

TEXTS = ["", "plain", 'a "quoted" one', "back\\slash", "a,b", "{c}", "NULL", '","', "new\nline", "zażółć 🎉"]
BATCHES: list[list[tuple[Any, ...]]] = [
    [],
    [(1, 2, "three")],
    [(number - 5, number, text) for number, text in enumerate(TEXTS)],
    *[[(1, 2, text), (3, 4, "plain")] for text in TEXTS],
    [(-(2**63), -(2**31), "a"), (2**63 - 1, 2**31 - 1, "b")],
    [(None, 1, "a"), (2, None, None)],
    [(None, None, None)],
    [(number, number, None) for number in range(1000)],
]


def test_columns_arrive_as_they_were(postgres_server_url: str) -> None:
    with psycopg.connect(postgres_server_url) as connection:
        for rows in BATCHES:
            statement = "SELECT * FROM unnest(%s::bigint[], %s::integer[], %s::text[])"
            found = connection.execute(statement, columns("nit", rows), prepare=True).fetchall()
            assert found == rows


def test_numbers_are_sent_in_binary_form_unless_there_are_nulls() -> None:
    assert isinstance(numbers([1, -1]), Bigints)
    assert isinstance(numbers([]), Bigints)
    assert numbers([1, None]) == "{1,NULL}"
