"""Presets for known programs: how each is started without a person, connected to Duetime's tools, and parsed.

The programs are offered Duetime's tools, the gateway's tools if the settings allow anything that it serves, and the web
if they allow that. They are offered nothing else, whatever the operator's own configuration contains, because a prompt
was stored by somebody who may have fewer permissions than the operator. If the settings name a working folder, they may
read there too (Codex through a shell in its read-only sandbox, which sees the whole disk). What each program offers its
model was examined, and is checked by tests/agents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from duetime.engine.errors import InvalidInput
from duetime.kinds.prompts.agent import Access
from duetime.kinds.prompts.agents import event_parsers
from duetime.kinds.prompts.agents.environment import (
    MCP_CONFIG,
    SERVER,
    TOKEN_VARIABLE,
    headers,
    server_config,
    standard_config,
    write_private,
)
from duetime.kinds.prompts.agents.transcript import Read


class PresetInput(NamedTuple):
    """The input of a preset, or of a program without one, for one run."""

    text: str
    servers: Mapping[str, Access]
    """The MCP servers that it may use: Duetime's own, and the gateway if there is one."""
    private: Path
    """A folder for files that only this run may read."""
    model: str
    has_folder: bool
    """Whether the operator named a folder to work in."""
    env: Mapping[str, str]
    """Variables of our environment that the program sees."""
    web: bool = False
    """Whether it may search and read the web."""
    dollars: float | None = None
    """What the run may cost; None if unlimited. Only some programs accept such a limit."""


@dataclass(frozen=True, slots=True)
class Invocation:
    flags: tuple[str, ...]
    stdin: str
    """Standard input of the program."""
    env: Mapping[str, str] = field(default_factory=dict)


class Preset(NamedTuple):
    title: str
    prepare: Callable[[PresetInput], Invocation]
    read: Read
    env: tuple[str, ...]
    """Variables that it may see in addition to those of every program: keys, addresses, the location of its
    settings."""
    has_web: bool = True
    """Whether it has tools of its own for the web; otherwise the gateway has one."""


def preset_named(name: str) -> Preset:
    try:
        return PRESETS[name]
    except KeyError:
        known = ", ".join(sorted(PRESETS))
        raise InvalidInput(field="preset", problem=f"there is no {name!r}; choose from {known}") from None


def _claude(inputs: PresetInput) -> Invocation:
    """With a key, start in bare mode with a separate configuration folder; a login is only found in the operator's.
    Settings are not read, because their hooks and permissions are not meant for this. In bare mode, it has no web
    tools."""
    has_key = "ANTHROPIC_API_KEY" in inputs.env
    web = ("WebFetch", "WebSearch") if inputs.web else ()
    reads = ("Read", "Glob", "Grep") if inputs.has_folder else ()
    flags = (
        "--print",
        *(("--bare",) if has_key and not inputs.web else ()),
        "--setting-sources=",
        f"--tools={','.join((*reads, *web))}",
        f"--mcp-config={write_private(inputs.private / MCP_CONFIG, standard_config(inputs.servers))}",
        "--strict-mcp-config",
        f"--allowedTools={','.join((*(f'mcp__{name}__*' for name in inputs.servers), *web))}",
        "--permission-mode=dontAsk",
        "--no-session-persistence",
        "--output-format=stream-json",
        "--verbose",
        *((f"--model={inputs.model}",) if inputs.model else ()),
        *((f"--max-budget-usd={inputs.dollars:.6f}",) if inputs.dollars is not None else ()),
    )
    env = {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ENABLE_TOOL_SEARCH": "false",  # all tools are listed at once
        "XDG_CACHE_HOME": str(inputs.private / "cache"),  # it writes a log there for each working folder
        **({"CLAUDE_CONFIG_DIR": str(inputs.private / "claude")} if has_key else {}),
    }
    return Invocation(flags, inputs.text, env)


_CODEX_OFF = (
    *("apps", "browser_use", "computer_use", "goals", "hooks", "image_generation", "memories", "multi_agent"),
    *("plugins", "tool_suggest", "view_image"),
)
"""Features of Codex that add tools, or connect to other services of its user."""


def _codex_server(name: str, access: Access) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the configuration of a server, and the environment variables that it refers to."""
    if access.url is not None:
        variable = TOKEN_VARIABLE if name == SERVER else f"{TOKEN_VARIABLE}_{name.upper()}"
        server: dict[str, Any] = {"url": access.url, "bearer_token_env_var": variable}
        env = {variable: access.token}
    else:
        program, *arguments = access.command
        server = {"command": program, "args": arguments, "env_vars": sorted(access.env)}
        env = dict(access.env)
    return {**server, "default_tools_approval_mode": "approve", "required": True}, env


def _codex(inputs: PresetInput) -> Invocation:
    """Configure Codex with flags, so the token is in an environment variable that they name. Codex ignores unknown
    features in `--config` but exits on an unknown one in `--disable`, so the latter is used for the shell, which must
    be off."""
    settings: list[str] = []
    env: dict[str, str] = {}
    for server, access in inputs.servers.items():
        config, own = _codex_server(server, access)
        # Strings, lists and booleans are written in TOML as in JSON.
        settings += [
            f"--config=mcp_servers.{server}.{name}={json.dumps(value, ensure_ascii=False)}"
            for name, value in config.items()
        ]
        env |= own
    settings += [f"--config=features.{name}=false" for name in _CODEX_OFF]
    web = "live" if inputs.web else "disabled"
    settings += [f'--config=web_search="{web}"', "--config=tools.experimental_request_user_input.enabled=false"]
    flags = (
        "exec",
        "--json",
        "--skip-git-repo-check",
        "--ephemeral",
        "--ignore-user-config",
        "--ignore-rules",
        "--sandbox=read-only",
        *(() if inputs.has_folder else ("--disable=shell_tool",)),
        *settings,
        *((f"--model={inputs.model}",) if inputs.model else ()),
        "-",
    )
    return Invocation(flags, inputs.text, env)


_GEMINI_READS = ("read_file", "list_directory", "glob", "grep_search")
_GEMINI_WEB = ("google_web_search", "web_fetch")


def _gemini(inputs: PresetInput) -> Invocation:
    """Give Gemini CLI a home folder for its settings, because it reads no settings file below a folder such as /tmp.
    Tools that need a confirmation are not offered, because nobody can be asked; of the others, only those that `core`
    names are."""
    servers = {name: server_config(access, url="httpUrl") for name, access in inputs.servers.items()}
    reads = _GEMINI_READS if inputs.has_folder else ()
    web = _GEMINI_WEB if inputs.web else ()
    uses_key = "GEMINI_API_KEY" in inputs.env
    settings: dict[str, Any] = {
        "mcpServers": {name: {**server, "trust": True} for name, server in servers.items()},
        "tools": {"core": [*(f"mcp_{name}_*" for name in servers), *reads, *web], **({"allowed": web} if web else {})},
        "security": {"auth": {"selectedType": "gemini-api-key" if uses_key else "vertex-ai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    home = inputs.private / "gemini"
    write_private(home / ".gemini" / "settings.json", settings)
    flags = (
        "--skip-trust",
        *(f"--allowed-mcp-server-names={name}" for name in servers),
        "--output-format=stream-json",
        *((f"--model={inputs.model}",) if inputs.model else ()),
    )
    return Invocation(flags, inputs.text, {"GEMINI_CLI_HOME": str(home)})


def _opencode_server(access: Access) -> dict[str, Any]:
    if access.url is not None:
        return {"type": "remote", "url": access.url, "headers": headers(access), "oauth": False}
    return {"type": "local", "command": list(access.command), "environment": dict(access.env)}


def _opencode(inputs: PresetInput) -> Invocation:
    """Configure opencode with the environment, which overrides every file, including those in the folder. Its read
    permission also covers resources of other MCP servers that the operator may have, so these are denied."""
    web = {"webfetch": "allow", "websearch": "allow"} if inputs.web else {}
    files = {"*": "allow", "mcp:*": "deny", f"mcp:{SERVER}:*": "allow"}
    reading = {"read": files, "glob": "allow", "grep": "allow", "list": "allow"} if inputs.has_folder else {}
    settings = {
        "mcp": {name: _opencode_server(access) for name, access in inputs.servers.items()},
        "permission": {"*": "deny", **reading, **web, **{f"{name}_*": "allow" for name in inputs.servers}},
        "share": "disabled",
        "autoupdate": False,
    }
    flags = ("run", "--pure", "--format=json", *((f"--model={inputs.model}",) if inputs.model else ()))
    return Invocation(flags, inputs.text, {"OPENCODE_CONFIG_CONTENT": json.dumps(settings)})


def _goose(inputs: PresetInput) -> Invocation:
    """Write a recipe for goose, which names the only extensions. It is a template, so braces in the prompt are
    escaped."""
    extensions = [
        {
            "type": "stdio" if access.url is None else "streamable_http",
            **server_config(access, url="uri", command="cmd", env="envs"),
            "name": name,
            "description": "Duetime",
            "timeout": 300,
        }
        for name, access in inputs.servers.items()
    ]
    recipe: dict[str, Any] = {
        "version": "1.0.0",
        "title": "Duetime",
        "description": "A prompt that was scheduled",
        "extensions": extensions,
    }
    document = json.dumps(recipe, indent=1)
    prompt = json.dumps(inputs.text).replace("{", "{{ '{' }}")
    written = write_private(inputs.private / "recipe.json", f'{document[:-2]},\n "prompt": {prompt}\n}}')
    flags = (
        "run",
        f"--recipe={written}",
        "--no-session",
        "--quiet",
        "--output-format=stream-json",
        *((f"--model={inputs.model}",) if inputs.model else ()),
    )
    return Invocation(flags, "", {"GOOSE_MODE": "auto", "GOOSE_TELEMETRY_ENABLED": "false"})


_ANTHROPIC = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_GOOGLE = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL")
_VERTEX = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")
_HOMES = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")

PRESETS: Mapping[str, Preset] = {
    "claude": Preset(
        "Claude Code",
        _claude,
        event_parsers.read_claude,
        (*_ANTHROPIC, "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"),
    ),
    "codex": Preset("Codex", _codex, event_parsers.read_codex, (*_OPENAI, "CODEX_API_KEY", "CODEX_HOME")),
    "gemini": Preset(
        "Gemini CLI", _gemini, event_parsers.read_gemini, (*_GOOGLE, *_VERTEX, "GOOGLE_APPLICATION_CREDENTIALS")
    ),
    "goose": Preset(
        "goose",
        _goose,
        event_parsers.read_goose,
        ("GOOSE_PROVIDER", "GOOSE_MODEL", "OPENAI_HOST", "GOOGLE_API_KEY", *_ANTHROPIC, *_OPENAI, *_HOMES),
        has_web=False,
    ),
    "opencode": Preset("opencode", _opencode, event_parsers.read_opencode, (*_ANTHROPIC, *_OPENAI, *_GOOGLE, *_HOMES)),
}
