"""Checks of agents: whether each could be woken from here, and whether prompts name one that does not exist. No agent
is woken and no model is called; known programs are asked for their version, and the hosts of webhooks are contacted."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from duetime.engine.clock import Clock
from duetime.engine.errors import InvalidInput
from duetime.engine.model import is_open_to
from duetime.engine.store import ScheduleQuery
from duetime.engine.urls import BadAddress, read_url
from duetime.kinds.prompts.agent import NamedAgent
from duetime.kinds.prompts.agents.gateway_tools import SKILL
from duetime.kinds.prompts.agents.user_servers import VARIABLE
from duetime.kinds.prompts.build import BUILTIN, roster_of, woken_agents
from duetime.kinds.prompts.kind import KIND, REMINDERS
from duetime.net.client import CallFailed, Http, HttpCall
from duetime.service.checks import Check, Checks, Installation
from duetime.service.services import OPERATOR
from duetime.settings import AgentSettings, Settings, data_folder
from duetime.terminal.output import clean

SUBJECT = "agents"
_PATIENCE = 10.0
MAX_PROMPTS = 1000
"""Number of prompts whose agents are looked up: enough to detect a missing one, and still fast."""


def _agents(settings: Settings, clock: Clock) -> Iterator[Check]:
    """Check all agents. The worker may have another environment, so a program or key that is missing in this one is a
    warning."""
    woken = woken_agents(settings)
    with closing(Http(clock, None)) as http:
        yield from (_agent(name, agent, settings, http) for name, agent in woken.items())
    if not woken:
        yield Check("ok", SUBJECT, "none is set up: due prompts wait in the inbox until an agent takes them")
    for name, agent in settings.agents.items():
        if agent.preset == "codex" and agent.folder:
            reason = (
                f"agents.{clean(name)}: Codex in a folder reads every file of its user, also {clean(data_folder())}"
            )
            yield Check("warn", SUBJECT, f"{reason}; run its worker as a user of its own, or leave `folder` out")
    yield from _tools(settings)
    if settings.heartbeat.every:
        yield _heartbeat(settings)


def _tools(settings: Settings) -> Iterator[Check]:
    """Check what the agents are given besides Duetime's tools. Servers are not called."""
    for name, server in settings.mcp_servers.items():
        used = [*server.headers.values(), *server.env.values(), server.url]
        unset = sorted({variable for text in used for variable in VARIABLE.findall(text) if variable not in os.environ})
        if unset:
            yield Check("warn", SUBJECT, f"mcp_servers.{clean(name)}: set the environment variable {clean(unset[0])}")
        if server.command and shutil.which(server.command[0]) is None:
            program = clean(server.command[0])
            yield Check("warn", SUBJECT, f"mcp_servers.{clean(name)}: there is no program {program} on this PATH")
    for name, agent in settings.agents.items():
        for skill in agent.skills:
            if not (Path(skill).expanduser() / SKILL).is_file():
                yield Check("warn", SUBJECT, f"agents.{clean(name)}: there is no {SKILL} in {clean(skill)}")


def _agent(name: str, agent: AgentSettings, settings: Settings, http: Http) -> Check:
    """Check one agent. Settings from which no agent can be built were refused before this."""
    who = f"agents.{clean(name)}"
    if agent.folder and not Path(agent.folder).expanduser().is_dir():
        return Check("fail", SUBJECT, f"{who}: there is no folder {clean(agent.folder)}; make it, or name another")
    if agent.type == BUILTIN:
        return _model(who, agent.model or settings.model)
    program = agent.command[0] if agent.command else agent.preset
    if not program:
        return _webhook(who, agent.url, http)
    path = shutil.which(program)
    if path is None:
        advice = "install it where the worker finds it, or give its path as `command`"
        return Check("warn", SUBJECT, f"{who}: there is no program {clean(program)} on this PATH; {advice}")
    return _program(who, path) if agent.preset and not agent.command else Check("ok", SUBJECT, f"{who}: {clean(path)}")


def _program(who: str, path: str) -> Check:
    """Ask a known program for its version, because a program that cannot report it could not be woken either."""
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return Check("warn", SUBJECT, f"{who}: {clean(path)} --version fails; start it yourself to see why")
    version = done.stdout.strip().partition("\n")[0][:60]
    return Check("ok", SUBJECT, f"{who}: {clean(path)}" + (f", {clean(version)}" if version else ""))


def _webhook(who: str, url: str, http: Http) -> Check:
    """Check whether the host of a webhook, without its path, answers at all."""
    try:
        origin = read_url(url).origin
        http.send(HttpCall("GET", f"{origin}/", {}, patience=5.0))
    except BadAddress as error:
        return Check("fail", SUBJECT, f"{who}: {clean(error)}")
    except CallFailed as error:
        return Check("warn", SUBJECT, f"{who}: its webhook does not answer: {clean(error.reason)}")
    return Check("ok", SUBJECT, f"{who}: a webhook at {clean(origin)}, which answers")


def _model(who: str, model: str) -> Check:
    from duetime.kinds.prompts.agents.models import model_named

    try:
        model_named(model)
    except InvalidInput as error:
        return Check("warn", SUBJECT, f"{who}: {clean(error.message)}")
    return Check("info", SUBJECT, f"{who}: {clean(model)}, and its key is there; the model was not called")


def _heartbeat(settings: Settings) -> Check:
    from duetime.kinds.prompts.agents.heartbeat import read_standing

    path = Path(settings.heartbeat.instructions).expanduser()
    try:
        read_standing(path)
    except InvalidInput as error:
        return Check("fail", "heartbeat", clean(error.message))
    return Check("ok", "heartbeat", f"every {clean(settings.heartbeat.every)}, by {clean(path.resolve())}")


def _unknown_agents(installation: Installation) -> Iterator[Check]:
    """Check the agents of prompts that may still fire, because a prompt without its agent would wait forever."""
    agents = roster_of(installation.settings).agents
    query = ScheduleQuery(kind=KIND, status="living", limit=MAX_PROMPTS, count_to=0)
    living = installation.services.scheduler.search(OPERATOR, query).items
    named = Counter((item.definition.subject, item.definition.owner) for item in living)
    yield from _closed(named, agents)
    absent = Counter(item.definition.subject for item in living)
    missing = ", ".join(f"{clean(name)} ({absent[name]})" for name in sorted(absent.keys() - {REMINDERS, *agents})[:5])
    if missing:
        advice = "name them under [agents], or give the prompts another agent (`prompt edit`, the tool schedule_edit)"
        yield Check("warn", SUBJECT, f"prompts ask for agents that the settings do not name: {missing}; {advice}")


def _closed(named: Mapping[tuple[str, str], int], agents: Mapping[str, NamedAgent]) -> Iterator[Check]:
    """Warn of agents that exist but are not open to the owner of a prompt."""
    closed = [
        f"{clean(agent)} ({clean(owner)}: {number})"
        for (agent, owner), number in sorted(named.items())
        if agent in agents and not is_open_to(agents[agent].owners, owner)
    ]
    if closed:
        advice = "add these owners to `owners` of the agent, or have them choose another"
        reason = f"prompts wait for agents that are not open to their owners: {', '.join(closed[:5])}"
        yield Check("warn", SUBJECT, f"{reason}; {advice}")


CHECKS = Checks(_agents, _unknown_agents)
