"""The events that arrived, with the runs that they started."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from duetime.engine.model import EventRow, Run
from duetime.engine.value_class import dataclass
from duetime.service.operations.declaration import Answer, Field, OperationRequest
from duetime.service.services import Call

_MAX_RUNS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentEvents(OperationRequest):
    """Events, the latest first."""

    before: Annotated[int | None, Field("Only older ones than this number.")] = None
    name: Annotated[str | None, Field("Only those with this name.", max_length=100)] = None
    limit: Annotated[int, Field("Maximum number of events.", minimum=1, maximum=100)] = 30


class CausingEvent(NamedTuple):
    event: EventRow
    runs: list[Run]
    """Runs that it started."""


def recent_events(call: Call, request: RecentEvents) -> Answer[list[CausingEvent]]:
    store, owner = call.scheduler.store, None if call.caller.operator else call.caller.owner
    events = store.events_of(owner, request.limit, request.before, request.name)
    return Answer([CausingEvent(event, store.runs_of_event(event, _MAX_RUNS)) for event in events])
