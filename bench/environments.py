"""Environments for the peers: each is made on demand from the pinned packages of `bench/peers/peers.toml`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.processes import NotMeasured, run_program, say

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache" / "bench"
PINS = ROOT / "bench" / "peers" / "peers.toml"
INSTALL_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Peer:
    """Another scheduler: the packages of its environment, and the settings to try for each measurement."""

    name: str
    packages: tuple[str, ...]
    needs: str
    """A program that has to be found on PATH, if any."""
    candidates: dict[str, list[dict[str, Any]]]

    @property
    def title(self) -> str:
        """The name and version of its first package."""
        name, _, version = self.packages[0].partition("==")
        return f"{name.partition('[')[0]} {version}"

    def measure(self, measurement: str, **request: Any) -> dict[str, Any]:
        """Run one measurement in the environment of the peer. Raise NotMeasured with the reason if that fails."""
        if self.needs:
            request["redis"] = found(self.needs)
        return run_program([str(python_of(self)), "-m", f"bench.peers.{self.name}"], measurement, request)


@cache
def load_peers() -> dict[str, Peer]:
    table = tomllib.loads(PINS.read_text(encoding="utf-8"))
    return {name: _peer(name, entry) for name, entry in table.items()}


def _peer(name: str, entry: dict[str, Any]) -> Peer:
    candidates = {key: value for key, value in entry.items() if key not in ("packages", "needs")}
    return Peer(name, tuple(entry["packages"]), entry.get("needs", ""), candidates)


def found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise NotMeasured(f"there is no {program} on PATH")
    return path


def python_of(peer: Peer) -> Path:
    """Return the interpreter of the peer's environment; make the environment if it is missing or outdated."""
    if peer.needs:
        found(peer.needs)
    folder = CACHE / peer.name
    python, stamp = folder / "bin" / "python", folder / "packages.json"
    wanted = json.dumps([sys.version, *peer.packages])
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    say(f"making an environment for {peer.title}")
    shutil.rmtree(folder, ignore_errors=True)
    _install([sys.executable, "-m", "venv", str(folder)])
    _install([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input", *peer.packages])
    stamp.write_text(wanted, encoding="utf-8")
    return python


def _install(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotMeasured(f"its packages were not installed within {INSTALL_SECONDS} s") from error
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.strip()]
        raise NotMeasured(f"its packages cannot be installed: {errors[-1] if errors else done.returncode}")
