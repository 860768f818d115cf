"""A folder's settings file that commands use: written, and trusted as `duetime trust` does it."""

from __future__ import annotations

from pathlib import Path

from duetime.settings import FILE
from duetime.settings.trust import TrustedFiles, read_found


def write_trusted(folder: Path, text: str, data: Path | None = None) -> Path:
    """Write `duetime.toml`; tests keep the data folder in the folder itself, as `data`."""
    path = folder / FILE
    path.write_text(text, encoding="utf-8")
    found = read_found(path)
    assert found is not None
    TrustedFiles((data or folder / "data") / "duetime").add(found)
    return path
