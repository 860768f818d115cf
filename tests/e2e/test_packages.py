"""The packages: what they contain, and real clients of what pip, pipx, uvx, a bundle and `connect` start from them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from duetime.service.client_configs import CLIENTS
from packages.__main__ import build_all
from tests.support.agents import ERAS, call, talk
from tests.support.cli import ROOT

TOOLS = Path(sysconfig.get_path("scripts"))
NOT_PACKED = (".ci/",)
SETTINGS = 'timezone = "Asia/Tokyo"\n'


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build_all(folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [found] = built.glob("*.whl")
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of a user with a settings file, who has used nothing yet."""
    folder = tmp_path / "home"
    own = folder / ".config" / "duetime"
    own.mkdir(parents=True)
    (own / "duetime.toml").write_text(SETTINGS)
    return folder


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`duetime` as pip installs it from the wheel. What it depends on is that of these tests, to save the download."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], {})
    python = folder / "bin" / "python"
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    _run([sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", str(wheel)], {})
    return folder / "bin" / "duetime"


def surroundings(home: Path, **more: str) -> dict[str, str]:
    """The environment of a program that a desktop starts: nothing of this project or its tests."""
    foreign = ("DUETIME_", "PYTHON", "XDG_", "VIRTUAL_ENV", "MAKE", "MFLAGS", "CODEX_HOME", "CLAUDE_CONFIG_DIR")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    cache = os.environ.get("UV_CACHE_DIR", str(Path(os.environ.get("HOME", "/")) / ".cache" / "uv"))
    return own | {"HOME": str(home), "UV_CACHE_DIR": cache, **more}


def _run(command: Sequence[str], env: Mapping[str, str], folder: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, env=dict(env) or None,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if done.returncode != 0 and any(word in done.stderr for word in ("fetch", "onnect", "resolve host", "timed out")):
        pytest.skip(f"the package index cannot be reached: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@asynccontextmanager
async def started(command: Sequence[str], folder: Path, env: Mapping[str, str], era: str) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(env), cwd=folder)
    async with Client(parameters, mode=era, read_timeout_seconds=60) as client:
        yield client


def use(command: Sequence[str], home: Path, folder: Path, era: str = ERAS[0], zone: str = "Asia/Tokyo") -> None:
    """Start the command in another folder, as a client does, and schedule something that fires."""

    async def say(client: Client) -> None:
        assert (await call(client, "get_current_time"))["timezone"] == zone
        made = await call(client, "schedule", prompt="Look", at="in 2 hours", agent="inbox")
        assert "Error" not in json.dumps(made), made
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"schedule_job", "schedule", "schedule_notification"} <= tools

    env = surroundings(home, PATH=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
    talk(started(command, folder, env, era), say)


def test_two_builds_are_equal_and_contain_everything(built: Path, wheel: Path, tmp_path: Path) -> None:
    for file in build_all(tmp_path):
        assert file.read_bytes() == (built / file.name).read_bytes(), f"{file.name} differs"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert wheel.name == f"duetime-{version}-py3-none-any.whl"
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("what belongs to the project is known in a clone only")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = {name for name in listed.splitlines() if (ROOT / name).exists()}
    packed = set(zipfile.ZipFile(wheel).namelist())
    code = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    assert code <= packed and not [name for name in packed if "__pycache__" in name or name.startswith("tests")]
    with tarfile.open(built / f"duetime-{version}.tar.gz") as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in tracked if not name.startswith(NOT_PACKED)} <= source
    assert json.loads((built / "server.json").read_text())["version"] == version


@pytest.mark.parametrize("era", ERAS)
def test_a_client_uses_the_installed_wheel(program: Path, home: Path, tmp_path: Path, era: str) -> None:
    asked = [str(program.with_name("python")), "-P", "-c", "import duetime; print(duetime.__file__)"]
    place = _run(asked, surroundings(home), tmp_path)
    assert str(program.parents[1]) in place, "the source tree is not used"
    use([str(program), "mcp"], home, tmp_path, era)


@pytest.mark.parametrize("name", CLIENTS)
def test_each_client_starts_what_connect_wrote(program: Path, home: Path, tmp_path: Path, name: str) -> None:
    env = surroundings(home)
    said = json.loads(_run([str(program), "connect", name, "--yes", "--json"], env, tmp_path))
    client, text = CLIENTS[name], Path(said["file"]).read_text("utf-8")
    document: dict[str, Any] = tomllib.loads(text) if client.toml else json.loads(text)
    entry = document[client.table]["duetime"]
    command = entry["command"] if isinstance(entry["command"], list) else [entry["command"], *entry["args"]]
    assert Path(command[0]).is_absolute() and command[command.index("--config") + 1].startswith(str(home))
    use(command, home, tmp_path, ERAS[list(CLIENTS).index(name) % 2])


def test_the_bundle_starts_with_its_own_command(built: Path, home: Path, tmp_path: Path) -> None:
    [bundle] = built.glob("*.mcpb")
    folder = tmp_path / "extension"
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(folder)  # noqa: S202 - it was built a moment ago
    manifest = json.loads((folder / "manifest.json").read_text())
    told = manifest["server"]["mcp_config"]
    assert (folder / manifest["server"]["entry_point"]).exists()
    replaced = [argument.replace("${__dirname}", str(folder)) for argument in (told["command"], *told["args"])]
    _run([str(TOOLS / "uv"), "sync", "-q", "--project", str(folder)], surroundings(home), tmp_path)
    other = tmp_path / "other.toml"
    other.write_text('timezone = "Europe/Berlin"\n')
    for settings, zone in (("${user_config.settings}", "Asia/Tokyo"), (str(other), "Europe/Berlin")):
        values = [f"{key}={value.replace('${user_config.settings}', settings)}" for key, value in told["env"].items()]
        use(["/usr/bin/env", *values, *replaced], home, tmp_path, zone=zone)


def test_uvx_runs_the_wheel_and_connect_names_uv(wheel: Path, home: Path, tmp_path: Path) -> None:
    uvx = [str(TOOLS / "uvx"), "-q", "--from", str(wheel), "duetime"]
    env = surroundings(tmp_path)
    assert "duetime" in _run([*uvx, "--version"], env, tmp_path)
    use([*uvx, "mcp"], home, tmp_path)
    shown = json.loads(_run([*uvx, "connect", "cursor", "--print", "--json"], surroundings(home), tmp_path))
    command = [shown["entry"]["command"], *shown["entry"]["args"]]
    assert command[1:4] == ["tool", "run", "--from"] and "mcp" in command
    use(command, home, tmp_path, ERAS[1])


def test_pipx_installs_the_wheel(wheel: Path, home: Path, tmp_path: Path) -> None:
    env = surroundings(home, PIPX_HOME=str(tmp_path / "pipx"), PIPX_BIN_DIR=str(tmp_path / "bin"))
    _run([str(TOOLS / "pipx"), "install", "-q", str(wheel)], env, tmp_path)
    use([str(tmp_path / "bin" / "duetime"), "mcp"], home, tmp_path)
