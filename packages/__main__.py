"""Build every package into dist/: the sdist, the wheel, the MCP bundle and the entry for the MCP registry.

Two builds of the same files are equal to the byte. The version is that of pyproject.toml.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCES = Path(__file__).parent
EPOCH = "1577836800"
"""The time that every file in a package has: 2020-01-01."""
DATE = (2020, 1, 1, 0, 0, 0)


def build_all(target: Path) -> list[Path]:
    """Build into an existing folder and return the files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wheel, sdist = build_python(target, project["version"])
    bundle = target / f"duetime-{project['version']}.mcpb"
    _write_bundle(bundle, project, wheel)
    entry = target / "server.json"
    entry.write_text(_json(registry_entry(project)), "utf-8")
    return [wheel, sdist, bundle, entry]


def build_python(target: Path, version: str) -> tuple[Path, Path]:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(ROOT)]
    done = subprocess.run(
        command, env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"the wheel cannot be built:\n{done.stdout}{done.stderr}")
    return target / f"duetime-{version}-py3-none-any.whl", target / f"duetime-{version}.tar.gz"


def manifest(project: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of the MCP bundle: bundle/manifest.json and what pyproject.toml says."""
    told = json.loads((SOURCES / "bundle" / "manifest.json").read_text("utf-8"))
    [author] = project["authors"]
    shared = {"name": project["name"], "version": project["version"], "description": project["description"]}
    shared |= {"author": author, "license": project["license"], "keywords": project["keywords"]}
    runtimes = {"runtimes": {"python": project["requires-python"]}}
    return {**told, **shared, "compatibility": {**told["compatibility"], **runtimes}}


def registry_entry(project: dict[str, Any]) -> dict[str, Any]:
    """Return the entry for the MCP registry: server.json with the version."""
    told = json.loads((SOURCES / "server.json").read_text("utf-8"))
    packages = [{**package, "version": project["version"]} for package in told["packages"]]
    return {**told, "version": project["version"], "packages": packages}


def pinned_versions(requirements: str) -> list[str]:
    """Return the requirements of a lock file with their versions and markers, without the hashes."""
    return re.findall(r"^([\w.-]+==[^\s\\]+(?: ; [^\n\\]*[^\s\\])?)", requirements, re.MULTILINE)


def bundle_project(project: dict[str, Any], wheel: str) -> str:
    """Return the project that uv runs, with the wheel as its dependency and the versions of requirements/run.txt."""
    text = (SOURCES / "bundle" / "pyproject.toml").read_text("utf-8")
    pinned = pinned_versions((ROOT / "requirements" / "run.txt").read_text("utf-8"))
    listed = "".join(f"    {json.dumps(each)},\n" for each in pinned)
    text = text.replace('version = "0"', f'version = "{project["version"]}"').replace("{wheel}", wheel)
    return text.replace("constraint-dependencies = []", f"constraint-dependencies = [\n{listed}]")


def _write_bundle(path: Path, project: dict[str, Any], wheel: Path) -> None:
    """Write the bundle: its manifest, the wheel, and the project that uses it."""
    files = {
        "manifest.json": _json(manifest(project)).encode(),
        "pyproject.toml": bundle_project(project, wheel.name).encode(),
        "server.py": (SOURCES / "bundle" / "server.py").read_bytes(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        wheel.name: wheel.read_bytes(),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, DATE)
            info.external_attr, info.create_system, info.compress_type = 0o644 << 16, 3, zipfile.ZIP_DEFLATED
            archive.writestr(info, files[name])


def _json(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    folder.mkdir(parents=True, exist_ok=True)
    for made in build_all(folder):
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        sys.stdout.write(f"{digest}  {made.name} ({made.stat().st_size / 1024:,.0f} KB)\n")
