"""A named query, or a part of several, is never replaced by another of the same name, and every part is found."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files

import pytest

from duetime.stores.search import load_queries


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_each_name_is_used_once(dialect: str) -> None:
    folder = files("duetime.stores") / "sql"
    texts = [(folder / "queries.sql").read_text(), (folder / dialect / "queries.sql").read_text()]
    names = Counter(name for text in texts for name in re.findall(r"^-- (?:name|part): (\w+)$", text, re.MULTILINE))
    assert len(names) > 100 and [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_each_part_is_found(dialect: str) -> None:
    """One that is misspelled, or stands below the query that names it, would only be noticed by the database."""
    left = {name: re.findall(r"\{\w+\}", text) for name, text in load_queries(dialect).items()}
    assert {part for parts in left.values() for part in parts} <= {"{id}"}, "the place of the number in a public id"
