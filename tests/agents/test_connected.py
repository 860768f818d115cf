"""The agents' own commands show the server that `duetime connect` wrote into their configuration, connected."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.agents.installed import MADE, NOWHERE, PROGRAMS, native, require, script
from tests.agents.installed import environment as isolated
from tests.support.cli import ROOT, environment, start
from tests.support.model_server import ModelServer, say
from tests.support.node import AGENTS, Node, NoNode, installed

pytestmark = pytest.mark.skipif(
    not os.environ.get("DUETIME_TEST_AGENTS"), reason="`make test-agents` installs the agents from npm and runs them"
)


@pytest.fixture(scope="module")
def node() -> Node:
    try:
        return installed(AGENTS)
    except NoNode as reason:
        pytest.skip(str(reason))


def command_of(name: str, node: Node) -> Sequence[str]:
    require("claude" if name == "claude-code" else name, node)
    match name:
        case "claude-code":
            return [native(node, PROGRAMS["claude"])]
        case "codex":
            return script(node, "@openai/codex/bin/codex.js")
        case "gemini":
            return script(node, "@google/gemini-cli/bundle/gemini.js")
        case _:
            return [native(node, PROGRAMS["opencode"])]


SHOWN = {
    "claude-code": r"duetime: .*(Connected|✔|✓)",
    "codex": r"duetime\s+.*enabled",
    "gemini": r"duetime: .* - Connected",
    "opencode": r"duetime.*connected",
}
"""How each says that it is connected. Codex starts no server for its list: see the test of its conversation below."""


def connected(name: str, folder: Path) -> tuple[Path, Path]:
    """Return the home of a user whose client is connected, and another folder."""
    home, project = folder / "home", folder / "project"
    home.mkdir()
    project.mkdir()
    own = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    process = start("connect", name, "--yes", "--json", folder=folder, env=own)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["file"].startswith(str(home))
    return home, project


@pytest.mark.parametrize("name", SHOWN)
def test_the_list_of_servers_shows_it_connected(name: str, node: Node, tmp_path: Path) -> None:
    home, project = connected(name, tmp_path)
    own = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    env = {key: value for key, value in environment().items() if not key.startswith(("PYTHONPATH", "XDG_"))}
    quiet = {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1,localhost", "NO_COLOR": "1"}
    keys = {"GEMINI_API_KEY": "made-up", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    done = subprocess.run(
        [*command_of(name, node), "mcp", "list"],
        cwd=project, env=env | own | quiet | keys | {"PATH": node.path},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    said = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", done.stdout + done.stderr)
    assert re.search(SHOWN[name], said), said


def test_claude_code_accepts_the_plugin_and_its_marketplace(node: Node, tmp_path: Path) -> None:
    for folder in (ROOT, ROOT / "packages" / "claude-code"):
        done = subprocess.run(
            [*command_of("claude-code", node), "plugin", "validate", str(folder)],
            cwd=tmp_path, env=environment() | {"HOME": str(tmp_path), "HTTPS_PROXY": NOWHERE, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert done.returncode == 0 and "Validation passed" in done.stdout, done.stdout + done.stderr


def test_codex_offers_the_tools_to_its_model(node: Node, tmp_path: Path) -> None:
    require("codex", node)
    home, project = connected("codex", tmp_path)
    with ModelServer([say("Nothing to do.")]) as model:
        made = MADE["codex"](node, home, model)
        # Codex ends with an error if it cannot connect to a server that is required.
        flags = [
            "-c",
            "mcp_servers.duetime.required=true",
            "-c",
            "features.tool_search=false",
            "--skip-git-repo-check",
            "--ephemeral",
            "-s",
            "read-only",
            "-m",
            made.model,
        ]
        done = subprocess.run(
            [*made.command, "exec", *flags, "Look at what is scheduled."],
            cwd=project, env=isolated(node, home, model),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "list_upcoming" in model.conversation[0].tools, done.stderr
