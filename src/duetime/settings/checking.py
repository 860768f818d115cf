"""What fits by its type and would still do nothing, or nothing but harm, to every run of an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duetime.core.errors import InvalidInput
from duetime.core.kind import LOCAL
from duetime.core.waking import HEARTBEAT, INBOX
from duetime.settings.fitting import Source
from duetime.settings.sections import AgentSettings, ChannelSettings, HeartbeatSettings

_LONGEST = 365 * 86_400
"""Seconds."""
_SEES_THE_DISK = "codex"
"""In a folder it has a shell that reads every file of its user: the store, and the secret that signs tokens."""
_NOT_FOR_OTHERS = (
    ".owners: codex in a folder can read every file of this user, also the secret that signs tokens, so that it is for"
    f" {LOCAL} alone; leave out `folder`, or choose another preset"
)
_NOBODY = '.owners: name at least one owner, such as ["local"], or ["*"] for all'
_PER_DAY = ("runs_per_day", "tokens_per_day", "dollars_per_day")
_OF_PROGRAMS = ("preset", "command", "url", "model")


def refuse_what_nobody_may_use(channels: Mapping[str, ChannelSettings], source: Source) -> None:
    for name, channel in channels.items():
        if not channel.owners:
            raise InvalidInput(f"{source}: channels.{name}{_NOBODY}", field="channels")


def refuse_what_cannot_wake(agents: Mapping[str, AgentSettings], heartbeat: HeartbeatSettings, source: Source) -> None:
    for name, agent in agents.items():
        problem = _problem(name, agent)
        if problem:
            raise InvalidInput(f"{source}: agents.{name}{problem}", field="agents")
    if heartbeat.runs_per_day < 0:
        raise InvalidInput(f"{source}: heartbeat{_negative('runs_per_day')}", field="heartbeat")


def refuse_unknown_proxies(proxies: Sequence[str], source: Source) -> None:
    import ipaddress

    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy, strict=False)
        except ValueError:
            message = f"trusted_proxies: {proxy!r} is no address or network; write one such as 10.0.0.5 or 10.0.0.0/24"
            raise InvalidInput(f"{source}: {message}", field="trusted_proxies") from None


def _problem(name: str, agent: AgentSettings) -> str:
    if name == HEARTBEAT:
        return " is the name of the heartbeat itself; call it otherwise, and name it with `agent` under [heartbeat]"
    if name == INBOX and agent.type != INBOX:
        return ": what is meant for the inbox waits there until it is taken; give an agent that is woken another name"
    if not agent.owners:
        return _NOBODY
    if agent.preset == _SEES_THE_DISK and agent.folder and set(agent.owners) != {LOCAL}:
        return _NOT_FOR_OTHERS
    for part in _OF_PROGRAMS:
        if agent.type == INBOX and getattr(agent, part):
            return f".{part}: an inbox wakes nobody; leave it out, or choose another type"
    for part in _PER_DAY:
        if not 0 <= getattr(agent, part) < float("inf"):
            return _negative(part)
    if not 0 < agent.timeout <= _LONGEST:
        return f".timeout must be more than 0 seconds and at most {_LONGEST}, a year; without it, it is 900"
    return ""


def _negative(part: str) -> str:
    return f".{part} must be 0 or more; 0 means no limit"
