"""A named query is never replaced by another of the same name."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files

import pytest


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_each_name_is_used_once(dialect: str) -> None:
    folder = files("duetime.stores") / "sql"
    texts = [(folder / "queries.sql").read_text(), (folder / dialect / "queries.sql").read_text()]
    names = Counter(name for text in texts for name in re.findall(r"^-- name: (\w+)$", text, re.MULTILINE))
    assert len(names) > 100 and [name for name, count in names.items() if count > 1] == []
