"""A folder's settings file that commands use: written, and trusted as `duetime trust` does it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from duetime.engine.model import ONLY_LOCAL
from duetime.settings import FILE
from duetime.settings.locations import TrustedFiles, read_file_once


def write_trusted(folder: Path, text: str, data: Path | None = None) -> Path:
    """Write `duetime.toml`; tests keep the data folder in the folder itself, as `data`."""
    path = folder / FILE
    path.write_text(text, encoding="utf-8")
    found = read_file_once(path)
    assert found is not None
    TrustedFiles((data or folder / "data") / "duetime").add(found)
    return path


def open_to_all(text: str) -> str:
    """Return settings whose agents and channels are open to every owner, including the built-in agent."""
    named = re.sub(
        r"^( *)(\[(?:agents|channels)\.[^\]]+\])[^\n]*$", r'\1\2\n\1owners = ["*"]', text, flags=re.MULTILINE
    )
    return named if "[agents.builtin]" in named else f'{named}\n[agents.builtin]\ntype = "builtin"\nowners = ["*"]\n'


def for_all(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments for `Settings` whose agents and channels are open to every owner, unless they name some."""
    tables = {
        name: {
            key: replace(each, owners=("*",)) if each.owners == ONLY_LOCAL else each
            for key, each in settings[name].items()
        }
        for name in ("agents", "channels")
        if name in settings
    }
    return {**settings, **tables}


def remote_agent(url: str, secret: str) -> str:
    """Return the settings of an agent behind a webhook."""
    return f'[agents.remote]\ntype = "webhook"\nurl = "{url}"\nsecret = "{secret}"\n'
