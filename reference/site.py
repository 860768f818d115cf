"""`python -m reference.site [FOLDER]`: build the documentation as a site with search; broken links are errors.

The pages are copied into a scratch folder with the layout of the repository, so that links between them work unchanged.
Links to files that are not part of the site, such as tests, become plain text.
"""

from __future__ import annotations

import logging
import re
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from reference.state_diagrams import with_diagrams

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
CONFIG = ROOT / "mkdocs.yml"
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
FOLDERS = ("docs", "examples")
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def copy_pages(target: Path) -> None:
    """Copy everything that the site shows."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
    for name in PAGES:
        shutil.copy(ROOT / name, target / name)
    for path in target.rglob("*.md"):
        text = with_diagrams(path.read_text(encoding="utf-8"))
        path.write_text(_LINK.sub(partial(_linked, path, target), text), encoding="utf-8")


def _linked(page: Path, target: Path, match: re.Match[str]) -> str:
    """Return a link as it is, or adapted: a folder is linked by its index, a file outside the site is only named."""
    label, link, anchor = match[1], match[2], match[3] or ""
    found = (page.parent / link).resolve()
    if found.is_dir() and not (found / "README.md").exists():
        first = min(found.glob("*.md"))
        return f"[{label}]({link.rstrip('/')}/{first.name}{anchor})"
    if found.exists() or not (ROOT / found.relative_to(target.resolve())).exists():
        return match[0]
    return f"{label} (`{found.relative_to(target.resolve())}`)"


def build(target: Path) -> None:
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    with tempfile.TemporaryDirectory() as scratch:
        pages = Path(scratch) / "pages"
        copy_pages(pages)
        build_site(load_config(str(CONFIG), docs_dir=str(pages), site_dir=str(target), strict=True))


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else SITE
    build(place.resolve())
    sys.stdout.write(f"{place / 'index.html'}\n")
