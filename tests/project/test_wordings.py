"""Each wording stands in one test file: whoever changes it changes one line, and finds what else depends on it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
LONG, WORDS = 40, 4
TEXT = re.compile(r'"""(?s:.*?)"""|"((?:[^"\\\n]|\\.)*)"')
"""A docstring, or a text. To read all files as Python would take seconds."""


def wordings(source: str) -> Iterator[str]:
    """Yield the long texts of a module, line by line and between the placeholders of a template."""
    for text in TEXT.findall(source):
        for part in re.split(r"\{[^{}]*\}", text):
            if len(part) >= LONG and len(part.split()) >= WORDS:
                yield part


def test_no_wording_stands_in_two_files() -> None:
    files: dict[str, set[str]] = defaultdict(set)
    for path in TESTS.rglob("*.py"):
        for text in wordings(path.read_text(encoding="utf-8")):
            files[text].add(path.relative_to(TESTS).as_posix())
    repeated = {text: sorted(names) for text, names in files.items() if len(names) > 1}
    assert not repeated, "name it in tests/support (wordings.py), or assert the code or the field instead"
