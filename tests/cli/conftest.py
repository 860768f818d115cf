"""The user's own settings file, for the commands that read or change it."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the user's own settings file, which does not exist yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "duetime" / "duetime.toml"


def write(own: Path, text: str) -> None:
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(text)
