"""Builds the agents that the settings name, each with its limits, and the prompt kind that wakes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from duetime.engine.clock import Clock
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import LOCAL
from duetime.engine.model import EVERYBODY, MICRO, NOTHING, ONLY_LOCAL, Used
from duetime.kinds.prompts.access import RunAccess
from duetime.kinds.prompts.agent import Agent, NamedAgent, Roster, common_owners, read_roster
from duetime.kinds.prompts.allowance import Allowance
from duetime.kinds.prompts.inbox import ReleasingAgent, RunCheckout, SchedulerOf
from duetime.kinds.prompts.kind import PromptKind
from duetime.kinds.prompts.runner import Waker, Waking
from duetime.service.kind_spec import BuildContext
from duetime.settings import AgentSettings, Settings
from duetime.settings.sections import HEARTBEAT, INBOX

if TYPE_CHECKING:
    from duetime.kinds.prompts.agents.gateway_tools import ToolSources

BUILTIN = "builtin"


def build(context: BuildContext) -> PromptKind:
    """Build the prompt kind. If no agent is named, none is imported: every due prompt waits in the inbox."""
    settings, clock, zone, scheduler_of = context.settings, context.clock, context.zone, context.scheduler
    access = RunAccess(settings, clock, zone, context.store)
    inboxes = {name: _limit(each) for name, each in settings.agents.items() if each.type == INBOX}
    plain = {
        name: Waker(
            _agent(name, each, settings, clock, zone), each.timeout, _limit(each), allowance=Allowance.of_agent(each)
        )
        for name, each in woken_agents(settings).items()
    }
    wakers = {
        name: replace(each, agent=ReleasingAgent(each.agent, RunCheckout(scheduler_of, name)))
        for name, each in plain.items()
    }
    if settings.heartbeat.every:
        wakers[HEARTBEAT] = _heartbeat(settings, plain, zone, scheduler_of)
    known = (INBOX, *inboxes, *wakers)
    if settings.agent not in known:
        raise InvalidInput(
            field="agent", problem=f"the settings name no {settings.agent!r}; choose from {', '.join(known)}"
        )
    own = roster_of(settings)
    server = read_roster(context.published.get(PromptKind.name, {}))
    roster = server or own
    inboxes = dict.fromkeys(roster.inboxes(), NOTHING) | inboxes
    waking = Waking(wakers, context.store, clock, zone, access, settings.prompts_per_day, inboxes)
    return PromptKind(
        waking,
        roster,
        _owners(own, roster),
        scheduler=scheduler_of,
        access=access,
        differing=own.differing(roster),
    )


def roster_of(settings: Settings) -> Roster:
    """Return the agents that prompts can name by these settings. The inbox always exists and is open to everybody. The
    heartbeat has the standing instructions of its owner, so it is woken for nobody else."""
    named = {
        name: NamedAgent(type_of(each) or "unknown", each.owners)
        for name, each in {**settings.agents, **woken_agents(settings)}.items()
        if name != INBOX
    }
    beat = {HEARTBEAT: NamedAgent(HEARTBEAT, ONLY_LOCAL)} if settings.heartbeat.every else {}
    return Roster(settings.agent, {INBOX: NamedAgent(INBOX, (EVERYBODY,))} | named | beat)


def type_of(agent: AgentSettings) -> str:
    """Return the type of an agent; a preset names a known program, so its type is `command`."""
    return agent.type or ("command" if agent.preset or agent.command else "")


def _owners(own: Roster, roster: Roster) -> dict[str, tuple[str, ...]]:
    """Return who may use which agent. An agent of this process is closed to everybody to whom its own settings close
    it."""
    known = {name: each.owners for name, each in (*own.agents.items(), *roster.agents.items())}
    both = own.agents.keys() & roster.agents.keys()
    return known | {name: common_owners(own.agents[name].owners, roster.agents[name].owners) for name in both}


def woken_agents(settings: Settings) -> Mapping[str, AgentSettings]:
    """Return the agents that can be woken. A built-in agent that is needed is added even without a table of its own."""
    named = {name: each for name, each in settings.agents.items() if each.type != INBOX}
    if settings.model or (settings.heartbeat.every and not settings.heartbeat.agent) or settings.agent == BUILTIN:
        named.setdefault(BUILTIN, AgentSettings(type=BUILTIN))
    return named


def _limit(agent: AgentSettings) -> Used:
    return Used(agent.runs_per_day, agent.tokens_per_day, round(agent.dollars_per_day * MICRO))


def _agent(name: str, agent: AgentSettings, settings: Settings, clock: Clock, zone: str) -> Agent:
    type_ = type_of(agent)
    if type_ == "command":
        from duetime.kinds.prompts.agents.command import CommandAgent

        return CommandAgent(name, agent, sources=_sources(agent, settings))
    if type_ == BUILTIN:
        from duetime.kinds.prompts.agents.builtin import BuiltinAgent

        return BuiltinAgent(
            agent.model or settings.model,
            clock,
            zone,
            instructions=agent.instructions,
            allowance=Allowance.of_agent(agent),
            sources=_sources(agent, settings),
        )
    if type_ == "webhook":
        from duetime.kinds.prompts.agents.webhook import WebhookAgent
        from duetime.net.client import Http

        return WebhookAgent(name, agent.url, agent.secret, Http(clock, None, connections=settings.threads), clock)
    types = f"command, {BUILTIN}, webhook or {INBOX}"
    raise InvalidInput(f"agents.{name}: type must be {types}; or name a preset", field="agents")


def _sources(agent: AgentSettings, settings: Settings) -> ToolSources:
    from duetime.kinds.prompts.agents.gateway_tools import ToolSources

    return ToolSources(settings.mcp_servers, agent.skills, settings.allowed_hosts)


def _heartbeat(settings: Settings, wakers: Mapping[str, Waker], zone: str, scheduler_of: SchedulerOf) -> Waker:
    from duetime.kinds.prompts.agents.heartbeat import HeartbeatAgent

    beat = settings.heartbeat
    name = beat.agent or BUILTIN
    if name not in wakers:
        raise InvalidInput(f"heartbeat.agent: the settings name no agent {name!r} that can be woken", field="heartbeat")
    inner = wakers[name]
    instructions = Path(beat.instructions).expanduser()
    agent = HeartbeatAgent(inner.agent, instructions, LOCAL, zone, RunCheckout(scheduler_of, HEARTBEAT))
    return Waker(
        agent, inner.patience, Used(runs=beat.runs_per_day), {name: inner.limit}, inner.allowance, failures_count=False
    )
