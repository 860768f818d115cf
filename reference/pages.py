"""The list of the pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from reference.api import api_page
from reference.command_line import command_line_page
from reference.python import python_page
from reference.setting import settings_page
from reference.tools import tools_page

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
PAGES: Mapping[str, Callable[[], str]] = {
    "tools.md": tools_page,
    "api.md": api_page,
    "cli.md": command_line_page,
    "python.md": python_page,
    "settings.md": settings_page,
}
