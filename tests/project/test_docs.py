"""Documents: their settings are valid, their links lead somewhere, and every block is run or says why not.

`tests/e2e/test_documents.py` runs their Python and their commands.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duetime.settings import FILE, load_settings
from scorecard.lines import LINES
from tests.support.cli import ROOT
from tests.support.documents import DOCUMENTS, blocks_of

LANGUAGES = {"console", "sh", "python", "toml", "json", "text", "mermaid"}
TABLES = [
    pytest.param(block.text, id=f"{name}-{number}")
    for name, document in DOCUMENTS.items()
    for number, block in enumerate(blocks_of(document.read_text(encoding="utf-8")))
    if block.language == "toml" and block.reason is None and not block.text.startswith("# schedules.toml\n")
]


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_every_block_says_what_it_is(document: Path) -> None:
    """A block of `sh`, `console` or `python` is run, unless a comment above it says why it cannot be."""
    text = document.read_text(encoding="utf-8")
    blocks = blocks_of(text)
    assert len(blocks) * 2 == len(re.findall(r"^```", text, re.MULTILINE)), "a block is not closed, or is indented"
    assert {block.language for block in blocks} <= LANGUAGES
    assert len(re.findall(r"^<!-- not run", text, re.MULTILINE)) == sum(block.reason is not None for block in blocks)


@pytest.mark.parametrize("block", TABLES)
def test_settings_in_the_documents_can_be_set(block: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(block, encoding="utf-8")
    assert load_settings(environment={}, folder=tmp_path).sources == (str(tmp_path / FILE),)


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!http)([^)]+)\)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not leads_somewhere(document, link)] == []


def leads_somewhere(document: Path, link: str) -> bool:
    """To a file or folder and, where a heading is named, to one that is there."""
    path, _, heading = link.partition("#")
    target = document.parent / path if path else document
    return target.exists() and (not heading or heading in headings(target.read_text(encoding="utf-8")))


def headings(text: str) -> set[str]:
    """As readers of Markdown name them: small letters, hyphens for blanks, no other signs."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_checks_of_the_security_page_are_lines_of_the_scorecard() -> None:
    named = re.findall(r"scorecard line `([\w-]+)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert named
    assert set(named) <= {line.name for line in LINES}
