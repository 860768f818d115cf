"""The agents that npm installs: how each is called here, and pointed at a model on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from duetime.kinds.prompts.agent import Access
from duetime.kinds.prompts.agents.command import CommandAgent
from tests.support.model_server import ModelServer
from tests.support.node import Node
from tests.support.programs import command_agent

NOWHERE = "http://127.0.0.1:9"
"""A proxy that does not exist: whatever is not on this machine cannot be reached."""


GIVEN = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "GOOSE_DISABLE_KEYRING")
"""Variables that an operator would name in the settings."""


class Installed(NamedTuple):
    command: list[str]
    model: str = ""


def agent_named(name: str, node: Node, home: Path, model: ModelServer, **more: Any) -> CommandAgent:
    require(name, node)
    made = MADE[name](node, home, model)
    around = environment(node, home, model)
    given = {"command": made.command, "model": made.model, "env": GIVEN, "environment": around, **more}
    return command_agent(name, preset=name, **given)


def settings(node: Node, home: Path, model: ModelServer) -> str:
    """The same for all that are installed, as an operator writes it."""
    tables = []
    for name in available(node):
        made = MADE[name](node, home, model)
        values = {"preset": name, "command": made.command, "model": made.model, "env": GIVEN, "timeout": 90.0}
        tables.append(f"[agents.{name}]")
        tables += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(tables)


def environment(node: Node, home: Path, model: ModelServer) -> dict[str, str]:
    return {
        "PATH": node.path,
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "HTTP_PROXY": NOWHERE,
        "HTTPS_PROXY": NOWHERE,
        "NO_PROXY": "127.0.0.1,localhost",
        "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_PROVIDER": "openai",
        "OPENAI_HOST": model.url,
        **model.environment,
    }


def _claude(node: Node, home: Path, model: ModelServer) -> Installed:
    return Installed([native(node, PROGRAMS["claude"])])


def _codex(node: Node, home: Path, model: ModelServer) -> Installed:
    """Told of a maker of models with flags of its own, which stand before those of the preset."""
    provider = f'{{name="here",base_url="{model.url}/v1",wire_api="responses",env_key="OPENAI_API_KEY"}}'
    own = ["-c", f"model_providers.here={provider}", "-c", 'model_provider="here"']
    return Installed([*script(node, "@openai/codex/bin/codex.js"), *own], "gpt-5.1")


def _gemini(node: Node, home: Path, model: ModelServer) -> Installed:
    return Installed(script(node, "@google/gemini-cli/bundle/gemini.js"), "gemini-2.5-pro")


def _goose(node: Node, home: Path, model: ModelServer) -> Installed:
    return Installed(script(node, "@aaif/goose-acp/bin/goose.mjs"), "gpt-4o")


def _opencode(node: Node, home: Path, model: ModelServer) -> Installed:
    """Told of a maker of models in the operator's own settings."""
    options = {"baseURL": f"{model.url}/v1", "apiKey": "made-up"}
    known = {"name": "model", "tool_call": True}
    here = {"npm": "@ai-sdk/openai-compatible", "name": "here", "options": options, "models": {"model": known}}
    path = _opencode_settings(home)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"provider": {"here": here}}))
    return Installed([native(node, PROGRAMS["opencode"])], "here/model")


def add_server(home: Path, name: str, access: Access) -> None:
    """An MCP server of the operator's own, in the settings of opencode."""
    path = _opencode_settings(home)
    server = {"type": "local", "command": list(access.command), "environment": dict(access.env)}
    path.write_text(json.dumps({**json.loads(path.read_text()), "mcp": {name: server}}))


def _opencode_settings(home: Path) -> Path:
    return home / ".config" / "opencode" / "opencode.json"


MADE: dict[str, Callable[[Node, Path, ModelServer], Installed]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "goose": _goose,
    "opencode": _opencode,
}


PROGRAMS = {
    "claude": "@anthropic-ai/claude-code-*/claude",
    "codex": "@openai/codex-*/package.json",
    "gemini": "@google/gemini-cli/bundle/gemini.js",
    "goose": "@aaif/goose-binary-*/bin/goose*",
    "opencode": "opencode-*/bin/opencode",
}
"""What each needs for this very machine. npm counts such packages as optional, and not every registry offers all."""


def available(node: Node) -> list[str]:
    """Return the agents that can run here."""
    return [name for name, pattern in PROGRAMS.items() if any((node.folder / "node_modules").glob(pattern))]


def require(name: str, node: Node) -> None:
    """Skip the test if npm could not install the agent's program."""
    if name not in available(node):
        pytest.skip(f"npm could not install {PROGRAMS[name].partition('/bin')[0]}, which {name} needs on this machine")


def script(node: Node, path: str) -> list[str]:
    return [node.program, str(node.folder / "node_modules" / path)]


def native(node: Node, pattern: str) -> str:
    """The shortest name is the usual one; others are for older processors."""
    found = sorted((node.folder / "node_modules").glob(pattern), key=lambda path: len(str(path)))
    assert found and os.access(found[0], os.X_OK), f"npm has no {pattern} for this machine"
    return str(found[0])
