"""The caller where there is no authentication (stdio, HTTP without tokens): the user of this machine."""

from __future__ import annotations

from duetime.engine.kind import LOCAL, Caller
from duetime.mcp.tool import Call
from duetime.service.services import Services


def as_local(desk: Services) -> Call:
    """Return a call by the local owner. It is not an operator: an agent sees only what belongs to its user."""
    return Call(desk, Caller(LOCAL), desk.zone)
