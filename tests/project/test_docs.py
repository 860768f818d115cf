"""What the documents show works: their Python and their commands run as they stand, and their links lead somewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from duetime.settings import FILE, load_settings
from scorecard.lines import LINES
from tests.support.documents import play, steps_of
from tests.support.ntfy import NtfyReceiver

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")])
BLOCKS = [
    pytest.param(block, id=f"{document.relative_to(ROOT)}-{number}")
    for document in DOCUMENTS
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL))
]
TABLES = [
    pytest.param(block, id=f"{document.relative_to(ROOT)}-{number}")
    for document in DOCUMENTS
    for number, block in enumerate(re.findall(r"```toml\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL))
]
PLAYED = [document for document in DOCUMENTS if steps_of(document.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_in_the_documents_runs(block: str, tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text(block, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "shown.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", TABLES)
def test_settings_in_the_documents_can_be_set(block: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(block, encoding="utf-8")
    assert load_settings(environment={}, folder=tmp_path).sources == (str(tmp_path / FILE),)


@pytest.mark.parametrize("document", PLAYED, ids=[str(document.relative_to(ROOT)) for document in PLAYED])
def test_commands_in_the_documents_show_what_is_shown(document: Path, tmp_path: Path) -> None:
    """Where a document sets up ntfy.sh, this machine plays it."""
    text = document.read_text(encoding="utf-8")
    for program in ("bash", "make", "curl"):
        if shutil.which(program) is None and (program == "bash" or f"$ {program} " in text):
            pytest.skip(f"there is no {program} here")
    with NtfyReceiver() as ntfy:
        play(document, tmp_path, {"https://ntfy.sh": f"export DUETIME_NOTIFICATIONS_SERVER={ntfy.url}"})


@pytest.mark.parametrize("document", DOCUMENTS, ids=[str(document.relative_to(ROOT)) for document in DOCUMENTS])
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
