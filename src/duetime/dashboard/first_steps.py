"""First steps that a page offers somebody who has no schedule yet."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from duetime.dashboard.kind_forms import may_create
from duetime.dashboard.request import PageRequest
from duetime.engine.store import ScheduleQuery
from duetime.service.client_configs import CLIENTS, Reach
from duetime.service.errors import unwrap
from duetime.settings.sections import INBOX


class FirstSteps(NamedTuple):
    kinds: list[tuple[str, str]]
    """Name and title of each kind that can be created in the dashboard."""
    connect: str
    """The command that connects an agent's client on this machine; empty where it cannot be known."""
    trial: str
    """What a test message is requested with; empty if no kind has one."""


def first_steps(request: PageRequest) -> FirstSteps | None:
    """Return the first steps for a caller without any schedule; None if there is one."""
    query = ScheduleQuery(owner=request.caller.owner, limit=1, count_to=0)
    if unwrap(request.scheduler.search(request.caller, query)).items:
        return None
    services, command = request.call.services, request.context.commands.stdio
    kinds = [(name, spec.title or name) for name, spec in services.specs.items() if may_create(spec)]
    connect = next(iter(CLIENTS.values())).stdio(Reach("", None, command)) if request.sees_workers and command else ""
    owner = request.caller.owner
    trials = (f"{kind}:{INBOX}" for kind in services.kinds if services.hooks(kind).trial(INBOX, owner) is not None)
    return FirstSteps(kinds, connect or shlex.join(["duetime", "connect", "claude-code"]), next(trials, ""))
