"""Who calls where nobody is asked: over stdio, and over HTTP without tokens, whoever sits at this machine."""

from __future__ import annotations

from duetime.engine.kind import LOCAL, Caller
from duetime.mcp.tool import Call
from duetime.service.services import Services


def as_local(desk: Services) -> Call:
    """No operator: an agent sees what belongs to its user, and asks the command line for more."""
    return Call(desk, Caller(LOCAL), desk.zone)
