"""What both a message and a schedule begin with: the request that is to be sent."""

from __future__ import annotations

import re
from collections.abc import Mapping

from duetime.core.kind import Caller
from duetime.core.requesting import KIND
from duetime.core.scheduler import Scheduler
from duetime.faces.http.qstash.reading import Request, read_request
from duetime.faces.http.qstash.refusing import Refused, not_offered

_GROUP = re.compile(r"[-._A-Za-z0-9]+", re.ASCII)
"""The form of a URL group's name: whatever has it, QStash takes for one."""


def request_of(
    scheduler: Scheduler, caller: Caller, destination: str, headers: Mapping[str, str], body: bytes
) -> Request:
    limit = scheduler.limits.payload_bytes
    if len(body) > limit:
        raise Refused(413, f"the body has {len(body)} bytes, and the limit is {limit}; send a reference to it instead")
    if _GROUP.fullmatch(destination):
        raise not_offered("a destination without https:// is a URL group, and URL groups are")
    if "://" not in destination:
        raise Refused(400, "destination: must be a URL such as https://hooks.example.org/path")
    kind = scheduler.kinds[KIND]
    return read_request(
        destination, headers, body, lambda payload: kind.prepare(payload, caller).payload, kind.defaults
    )
