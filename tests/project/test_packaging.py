"""What the project says of itself: pinned dependencies without addresses, a README that can be followed."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.cli import ROOT, environment

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
OPTIONAL = PROJECT["project"]["optional-dependencies"]
EXTRAS = [text for name, extra in OPTIONAL.items() if name not in {"all", "ray"} for text in extra]
"""What development needs; Ray would add 260 MB, and its tests are skipped without it."""
GROUPS = PROJECT["dependency-groups"]


def entries(lock: Path) -> list[str]:
    """Each requirement of a lock with its hashes, on one line, without the comments."""
    text = re.sub(r"^\s*#.*\n", "", lock.read_text("utf-8"), flags=re.MULTILINE)
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def pins(name: str) -> dict[str, str]:
    """Package to version, as a lock has it."""
    found: dict[str, str] = {}
    for entry in entries(ROOT / "requirements" / f"{name}.txt"):
        requirement = Requirement(entry.split(" --hash")[0])
        (specifier,) = requirement.specifier
        found[canonicalize_name(requirement.name)] = specifier.version
    return found


def test_there_is_a_lock_for_running_developing_installing_and_locking() -> None:
    assert [lock.stem for lock in LOCKS] == ["container", "dev", "install", "lock", "run"]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_entry_of_a_lock_is_one_version_with_hashes(lock: Path) -> None:
    pinned = re.compile(r"[A-Za-z0-9._-]+==[^\s;]+( ; [^\\]+?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*")
    assert entries(lock)
    assert [entry for entry in entries(lock) if not pinned.fullmatch(entry)] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_records_no_address_and_no_path(lock: Path) -> None:
    address = re.compile(r"https?:|file:|git\+|--(extra-)?index|--find-links|(^|[\s=])(/|~/|[A-Za-z]:\\)")
    assert [line for line in lock.read_text("utf-8").splitlines() if address.search(line)] == []


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("run", [*PROJECT["project"]["dependencies"], *GROUPS["build"]]),
        ("dev", [*PROJECT["project"]["dependencies"], *EXTRAS, *GROUPS["build"], *GROUPS["dev"]]),
        ("container", [*PROJECT["project"]["dependencies"], *OPTIONAL["channels"], *OPTIONAL["postgres"]]),
        ("lock", GROUPS["lock"]),
        ("install", GROUPS["install"]),
    ],
    ids=["run", "dev", "container", "lock", "install"],
)
def test_everything_the_project_asks_for_is_pinned_and_fits(lock: str, wanted: list[str]) -> None:
    found = pins(lock)
    for text in wanted:
        requirement = Requirement(text)
        version = found.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in {lock}.txt: run `make lock`"
        assert version in requirement.specifier, f"{text} does not admit {version}: run `make lock`"


def test_what_is_tested_is_what_runs() -> None:
    dev = pins("dev")
    for name in ("run", "container"):
        assert {package: dev.get(package) for package in pins(name)} == pins(name)


def test_the_extra_all_has_every_other_one() -> None:
    [every] = OPTIONAL["all"]
    clusters = {"celery", "dask", "ray"}  # large, and of use only beside such a cluster
    assert Requirement(every).extras == set(OPTIONAL) - {"all"} - clusters


@pytest.mark.parametrize("packages", ["run", "dev", "lock"])
@pytest.mark.process
def test_the_set_up_uses_neither_the_pip_nor_the_setuptools_of_the_interpreter(packages: str) -> None:
    """They are as old as the interpreter, with the holes that were found since."""
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    goal = ".venv/.lock" if packages == "lock" else f".venv/.{packages}-packages"
    told = subprocess.run(
        ["make", "--dry-run", "--always-make", goal],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    steps = [
        told.index(step) for step in ("-r requirements/install.txt", "uninstall -y setuptools", f"/{packages}.txt")
    ]
    assert steps == sorted(steps)
    if (Path(sys.prefix) / ".tools").exists():
        assert version("pip") == pins("install")["pip"]
        assert importlib.util.find_spec("setuptools") is None


def test_the_readme_gives_commands_that_the_makefile_has() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    commands = set(re.findall(r"^make ([a-z]+)", readme, re.MULTILINE))
    assert {"run", "test"} <= commands <= targets


def test_the_bundle_installs_the_versions_of_the_lock() -> None:
    from packages.__main__ import bundle_project

    text = bundle_project(PROJECT["project"], "duetime.whl")
    pinned = [Requirement(each) for each in tomllib.loads(text)["tool"]["uv"]["constraint-dependencies"]]
    assert {canonicalize_name(each.name): str(each.specifier) for each in pinned} == {
        name: f"=={found}" for name, found in pins("run").items()
    }
    markers = {each.name: str(each.marker) for each in pinned if each.marker is not None}
    assert markers["colorama"] == 'sys_platform == "win32"'
    assert "://" not in text, "no package index is named"
