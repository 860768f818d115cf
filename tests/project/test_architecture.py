"""The architecture page names every package, and no package that is not there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
OWN = re.compile(r"^\| `(duetime[a-z_.]*)` \|", re.MULTILINE)


def test_the_table_names_every_package() -> None:
    packages = {".".join(file.parent.relative_to(SOURCE).parts) for file in SOURCE.rglob("__init__.py")}
    assert set(OWN.findall(PAGE)) == packages - {"duetime"}


def test_every_module_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`((?:engine|stores|service|mcp|kinds|http|net)\.(?!py`)[a-z_.]+)`", PAGE))
    assert len(named) > 10
    for name in named:
        place = SOURCE / "duetime" / Path(*name.split("."))
        assert place.is_dir() or place.with_suffix(".py").is_file(), name


def test_every_path_that_the_page_names_exists() -> None:
    packages = "api|cli|dashboard|engine|kinds|mcp|rest|service|settings|stores|terminal"
    named = set(re.findall(rf"`((?:{packages})/[a-z_./]+)`", PAGE))
    assert len(named) > 30
    for name in named:
        assert (SOURCE / "duetime" / name).exists(), name
