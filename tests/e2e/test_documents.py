"""The documents: their Python and commands run as they are written, and the site is built from them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import ROOT
from tests.support.documents import (
    DOCUMENTS,
    SILENT_CHANNELS,
    blocks_of,
    play,
    run_with_silent_channel,
    steps_of,
)
from tests.support.ntfy import NtfyReceiver

PYTHON = [
    pytest.param(block.text, id=f"{name}-{number}")
    for name, document in DOCUMENTS.items()
    if name != "README.md"  # its examples are run by tests/api/test_documents.py
    for number, block in enumerate(blocks_of(document.read_text(encoding="utf-8")))
    if block.language == "python" and block.reason is None
]
PLAYED = [
    pytest.param(document, id=name)
    for name, document in DOCUMENTS.items()
    if steps_of(document.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("block", PYTHON)
def test_python_in_the_documents_runs(block: str, tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text(block, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "shown.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("channel", SILENT_CHANNELS)
def test_the_notification_of_the_readme_ends_whatever_the_channel_does(channel: str, tmp_path: Path) -> None:
    (example,) = [
        block.text
        for block in blocks_of(DOCUMENTS["README.md"].read_text(encoding="utf-8"))
        if block.language == "python" and "duetime.notify(" in block.text
    ]
    done = run_with_silent_channel(example, tmp_path, accepts=SILENT_CHANNELS[channel])
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("document", PLAYED)
def test_commands_in_the_documents_show_what_is_shown(document: Path, tmp_path: Path) -> None:
    """Where a document sets up ntfy.sh, this machine plays it."""
    text = document.read_text(encoding="utf-8")
    for program in ("bash", "make", "curl"):
        if shutil.which(program) is None and (program == "bash" or f"$ {program} " in text):
            pytest.skip(f"there is no {program} here")
    with NtfyReceiver() as ntfy:
        play(document, tmp_path, {"https://ntfy.sh": f"export DUETIME_NOTIFICATIONS_SERVER={ntfy.url}"})


def test_the_site_is_built_with_search_and_needs_no_other_server(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reference.site", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"", "docs/quickstart/", "docs/concepts/", "docs/reference/python/", "SECURITY/"} <= found
    pages = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    assert not any("stateDiagram" in page for page in pages)
    states = (site / "docs" / "state-diagram" / "index.html").read_text(encoding="utf-8")
    assert states.count("<svg") == 2 and "pause, or a run of it was quarantined" in states
    loaded = {url for page in pages for url in re.findall(r"<(?:script|link|img)\b[^>]*(?:src|href)=\"([^\"]*)", page)}
    assert not [url for url in loaded if re.match(r"(https?:)?//", url)]
