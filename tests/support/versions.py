"""A newer version of Duetime, beside which this one is tried: its source with further migrations."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.cli import ROOT, environment

ADDED = "ALTER TABLE runs ADD COLUMN novelty text;\nALTER TABLE schedules ADD COLUMN novelty text;\n"
"""A migration like most: code from before does not see it."""
RAISED = "UPDATE meta SET value = {version} WHERE key = 'floor';\n"
"""One after which code from before must not write."""


def newer_version(folder: Path, known: int, *scripts: str) -> Path:
    """Copy the source, with these migrations after those that are known."""
    shutil.copytree(ROOT / "src" / "duetime", folder / "duetime", ignore=shutil.ignore_patterns("__pycache__"))
    for version, script in enumerate(scripts, known + 1):
        for dialect in ("sqlite", "postgres"):
            place = folder / "duetime" / "stores" / "sql" / dialect / f"{version:04}_newer.sql"
            place.write_text(script.format(version=version), encoding="utf-8")
    return folder


def migrate_with(source: Path, url: str, folder: Path) -> str:
    """Run `duetime db migrate` of a version, and return what it says."""
    command = [sys.executable, "-m", "duetime", "db", "migrate", "--db", url]
    variables = environment() | {"PYTHONPATH": str(source), "XDG_DATA_HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=True)
    return done.stdout
