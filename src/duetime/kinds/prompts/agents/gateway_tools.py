"""The gateway's own tools: run an allowed command, read a web page, read a skill."""

from __future__ import annotations

import shlex
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio.to_thread

from duetime.engine.clock import SystemClock
from duetime.engine.kind import STOPPED, StopReason
from duetime.kinds.prompts.agent import AgentRequest
from duetime.kinds.prompts.agents.environment import visible
from duetime.kinds.prompts.agents.gateway import GatewayTool, NotAllowed, ToolGateway, problem, reply
from duetime.kinds.prompts.allowance import Allowance
from duetime.net.client import CallFailed, Http, HttpCall
from duetime.net.ssrf_guard import Guard
from duetime.processes.child import ProcessSpec, StopRequest
from duetime.processes.output import OutputBuffer
from duetime.processes.supervisor import LIMITS, ChildLease, GuardedCommand
from duetime.security.redaction import Secrets
from duetime.settings import McpServerSettings

if TYPE_CHECKING:
    import mcp_types as types

LONGEST_COMMAND = 600.0
"""Seconds for one command; a run that ends sooner ends its commands with it."""
_END = 10.0
"""Maximum number of seconds that a run waits for its commands to end; each is killed at once."""
_RUN_OVER = "the run is over"
_MOST_OUTPUT = 64 * 1024
_MOST_READ = 128 * 1024
SKILL = "SKILL.md"
_clock = SystemClock()


class ToolSources(NamedTuple):
    """The sources of an agent's tools."""

    servers: Mapping[str, McpServerSettings] = {}
    """The user's MCP servers, by name."""
    skills: Sequence[str] = ()
    """Folders of skills."""
    allowed_hosts: tuple[str, ...] = ()
    """Private hosts that the web tool may reach nevertheless."""


def gateway_for(
    request: AgentRequest, allowance: Allowance, sources: ToolSources, environment: Mapping[str, str], *, web: bool
) -> ToolGateway | None:
    """Return the gateway for a run, or None if the run may use nothing that needs one. `web`: whether the agent needs
    the gateway's web tool, because it has none of its own."""
    paths = (Path(each).expanduser() for each in sources.skills)
    folders = {path.name: path for path in paths if path.name in allowance.skills}
    own: list[GatewayTool] = []
    commands = Commands(request, allowance.folder, visible(environment, allowance.env))
    if allowance.commands:
        own.append(_command_tool(commands, allowance))
    if allowance.web and web:
        own.append(_web_tool(sources.allowed_hosts))
    if folders:
        own.append(_skill_tool(folders))
    if not own and not allowance.tools:
        return None
    return ToolGateway(allowance, sources.servers, own, environment, commands.end)


def _tool(name: str, description: str, **arguments: str) -> types.Tool:
    import mcp_types as types

    properties = {each: {"type": "string", "description": about} for each, about in arguments.items()}
    required = [each for each, about in arguments.items() if not about.startswith("Optional")]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return types.Tool(name=name, description=description, input_schema=schema)


# -- commands ---------------------------------------------------------------------------------------------------------


class Commands:
    """The commands of one run, which end with it."""

    def __init__(self, request: AgentRequest, folder: str, env: Mapping[str, str]) -> None:
        self._request, self._folder, self._env = request, folder, env
        self._changed = threading.Condition()
        self._running, self._over = 0, False

    def run(self, words: Sequence[str]) -> types.CallToolResult:
        with self._changed:
            if self._over:
                return problem(_RUN_OVER)
            self._running += 1
        try:
            return self._execute(words)
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _execute(self, words: Sequence[str]) -> types.CallToolResult:
        env = self._env
        program = shutil.which(words[0], path=env.get("PATH", ""))
        if program is None:
            return problem(f"there is no program {words[0][:200]}")
        output = OutputBuffer(_MOST_OUTPUT // 2, _MOST_OUTPUT // 2)
        deadline = _clock.monotonic() + LONGEST_COMMAND

        def stop() -> StopRequest | None:
            if self._request.stop.is_set():
                return StopRequest("the run was stopped")
            if self._over:
                return StopRequest(_RUN_OVER)
            return None if _clock.monotonic() < deadline else StopRequest("it took too long", LIMITS.grace)

        with tempfile.TemporaryDirectory(prefix="duetime-command-", ignore_cleanup_errors=True) as private:
            argv = (str(Path(program).absolute()), *words[1:])
            spec = ProcessSpec(argv, stdout=output.add, env={**env, "TMPDIR": private}, folder=self._folder or private)
            try:
                process = GuardedCommand(spec, ChildLease(self._request.lease, LIMITS.patience), private)
            except OSError as error:
                return problem(f"it cannot be started: {(error.strerror or 'no reason given').lower()}")
            try:
                why = process.watch(stop)
            finally:
                process.close()
        text = Secrets(self._request.access.token, env).without(output.text())
        if why is None and process.expired:
            why = STOPPED[StopReason.LEASE]
        if why is not None:
            return problem(f"{text}\n[{why}]")
        code = process.exit_status.code
        return reply(text or "(no output)") if code == 0 else problem(f"{text}\n[exit code {code}]")

    def end(self) -> None:
        """Stop the commands in progress, and wait until they have ended, because a retry may use the same folder."""
        with self._changed:
            self._over = True
            self._changed.wait_for(lambda: not self._running, _END)


def _command_tool(commands: Commands, allowance: Allowance) -> GatewayTool:
    definition = _tool(
        "run_command",
        f"Run a command without a shell and return its output. Allowed: {', '.join(allowance.commands)}",
        command="The command and its arguments, such as: git log -5",
    )

    async def answer(arguments: dict[str, Any]) -> types.CallToolResult:
        try:
            words = shlex.split(str(arguments.get("command", "")))
        except ValueError as error:
            return problem(f"command cannot be read ({error}); quote it as for a shell")
        if not allowance.allows_command(words):
            raise NotAllowed(f"the command {' '.join(words)[:200]}")
        return await anyio.to_thread.run_sync(partial(commands.run, words))

    return GatewayTool(definition, answer)


# -- the web ----------------------------------------------------------------------------------------------------------


def _web_tool(allowed_hosts: tuple[str, ...]) -> GatewayTool:
    definition = _tool("fetch_page", "Read a web page or file by HTTP GET.", url="Such as https://example.org/page")

    def fetch(url: str) -> types.CallToolResult:
        http = Http(_clock, Guard(allowed_hosts), connections=1, largest=_MOST_READ)
        try:
            page = http.send(HttpCall("GET", url, {"Accept": "text/*, application/json"}, patience=30.0))
        except CallFailed as failed:
            return problem(failed.reason)
        finally:
            http.close()
        text = page.body.decode("utf-8", "replace")
        cut = "\n[the rest is left out]" if page.cut else ""
        location = f"\nlocation: {page.headers['location']}" if "location" in page.headers else ""
        return (reply if page.status < 400 else problem)(f"status {page.status}{location}\n\n{text}{cut}")

    async def answer(arguments: dict[str, Any]) -> types.CallToolResult:
        return await anyio.to_thread.run_sync(partial(fetch, str(arguments.get("url", ""))))

    return GatewayTool(definition, answer)


# -- skills -----------------------------------------------------------------------------------------------------------


def _skill_tool(folders: Mapping[str, Path]) -> GatewayTool:
    listed = "; ".join(f"{name}: {_description(folder)}" for name, folder in folders.items())
    definition = _tool(
        "read_skill",
        f"Read a skill, instructions for a certain sort of work, before doing such work. Skills: {listed}",
        skill="Its name.",
        file=f"Optional: another file of the skill than {SKILL}.",
    )

    async def answer(arguments: dict[str, Any]) -> types.CallToolResult:
        folder = folders.get(str(arguments.get("skill")))
        if folder is None:
            return problem(f"there is no such skill; choose from {', '.join(folders)}")
        path = folder / str(arguments.get("file") or SKILL)
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
            return problem("the skill has no such file")
        text = path.read_bytes()[:_MOST_READ].decode("utf-8", "replace")
        files = sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())[:100]
        return reply(f"{text}\n\nFiles of this skill, in {folder}: {', '.join(files)}")

    return GatewayTool(definition, answer)


def _description(folder: Path) -> str:
    """Return the description in the front matter of a skill; empty if there is none."""
    try:
        text = (folder / SKILL).read_bytes()[:4096].decode("utf-8", "replace")
    except OSError:
        return "it cannot be read"
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "description":
            return value.strip().strip("\"'")[:300]
    return ""
