"""`jobs://{job_id}`: one job, to read and to watch."""

from __future__ import annotations

from typing import Any

from duetime.faces.mcp.jobs import FAMILY, job_status
from duetime.faces.mcp.resource import Resource
from duetime.faces.mcp.tool import Call


def _read(call: Call, job_id: str) -> dict[str, Any] | None:
    if call.scheduler.find(call.caller, job_id, "job") is None:
        return None
    return dict(job_status(call, {"job_id": job_id}).structured)


def _digest(call: Call, job_id: str) -> object:
    found = call.scheduler.find(call.caller, job_id, "job")
    return None if found is None else (found.definition.version, found.progress)


RESOURCES = [
    Resource(
        uri="jobs://{job_id}",
        family=FAMILY,
        title="A job",
        description="One job with its latest runs, as job_status shows it. Subscribe to hear of every change and run.",
        read=_read,
        digest=_digest,
    )
]
