"""Reads from the scheduler that several pages share, each with few and bounded queries."""

from __future__ import annotations

from typing import NamedTuple

from duetime.dashboard.kind_forms import may_create
from duetime.dashboard.request import PageRequest
from duetime.service.client_configs import CLIENTS, Reach
from duetime.service.errors import refuse
from duetime.service.operations.schedules import ListSchedules, find_exact, list_schedules
from duetime.service.vocabulary import Schedule
from duetime.settings.sections import INBOX


def schedule_at(request: PageRequest, *, deleted: bool = False) -> Schedule:
    """Return the schedule of the page; with `deleted`, even if it was deleted: its history stays with its owner."""
    schedule = find_exact(request.call, request.http.path_params["id"], deleted=deleted)
    if schedule is None:
        raise refuse("not_found", f"There is no such schedule{'.' if deleted else '; it may have been deleted.'}")
    return schedule


# First steps that a page offers to somebody who has no schedule yet.


class FirstSteps(NamedTuple):
    kinds: list[tuple[str, str]]
    """Name and title of each kind that can be created in the dashboard."""
    connect: str
    """The command that connects an agent's client on this machine; empty if it cannot be known."""
    trial: str
    """The form value that requests a test message; empty if no kind has one."""


def first_steps(request: PageRequest) -> FirstSteps | None:
    """Return the first steps for a caller without any schedule; None if there is one."""
    first = ListSchedules(owner=request.caller.owner, order="oldest", limit=1, count_to=0)
    if list_schedules(request.call, first).value.items:
        return None
    services, command = request.call.services, request.context.commands.stdio
    kinds = [(name, spec.title or name) for name, spec in services.specs.items() if may_create(spec)]
    connect = next(iter(CLIENTS.values())).stdio(Reach("", None, command)) if request.sees_workers and command else ""
    owner = request.caller.owner
    trials = (f"{kind}:{INBOX}" for kind in services.kinds if services.hooks(kind).trial(INBOX, owner) is not None)
    return FirstSteps(kinds, connect or request.command("connect", "claude-code"), next(trials, ""))
