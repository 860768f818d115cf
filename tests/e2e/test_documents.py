"""What the documents show works: their Python and their commands run as they stand."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import DOCUMENTS, play, steps_of
from tests.support.ntfy import NtfyReceiver

BLOCKS = [
    pytest.param(block, id=f"{name}-{number}")
    for name, document in DOCUMENTS.items()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL))
]
PLAYED = [
    pytest.param(document, id=name)
    for name, document in DOCUMENTS.items()
    if steps_of(document.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_in_the_documents_runs(block: str, tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text(block, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "shown.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("document", PLAYED)
def test_commands_in_the_documents_show_what_is_shown(document: Path, tmp_path: Path) -> None:
    """Where a document sets up ntfy.sh, this machine plays it."""
    text = document.read_text(encoding="utf-8")
    for program in ("bash", "make", "curl"):
        if shutil.which(program) is None and (program == "bash" or f"$ {program} " in text):
            pytest.skip(f"there is no {program} here")
    with NtfyReceiver() as ntfy:
        play(document, tmp_path, {"https://ntfy.sh": f"export DUETIME_NOTIFICATIONS_SERVER={ntfy.url}"})
