"""Sends an event: every schedule of the owner that listens to it runs."""

from __future__ import annotations

from typing import Annotated, Any

from duetime.engine.model import MAX_EVENT_NAME_LENGTH
from duetime.engine.store_interfaces import SentEvent
from duetime.engine.value_class import dataclass
from duetime.service.operations.declaration import Answer, Field, OperationRequest
from duetime.service.services import Call
from duetime.service.warnings import declare, warning

declare(no_listener='No schedule listens to {event} yet; create one with when "on {event}".')


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitEvent(OperationRequest):
    """Something that happened."""

    event: Annotated[
        str,
        Field(
            "Its name, such as deploy.done.",
            brief="Its name, such as agent.done; a run may send only agent.*.",
            max_length=MAX_EVENT_NAME_LENGTH,
        ),
    ]
    data: Annotated[Any, Field("Any JSON, at most 256 KiB, for the runs that it starts.")] = None
    idempotency_key: Annotated[
        str | None,
        Field("An event of the same name with this key is sent once.", brief="Sent once per key.", max_length=200),
    ] = None


def emit(call: Call, request: EmitEvent) -> Answer[SentEvent]:
    """Store an event. From then on, it is not lost: workers start a run of every schedule that listens to it."""
    name = request.event
    event = call.scheduler.emit(call.caller, name, request.data, request.idempotency_key)
    is_heard = call.scheduler.store.has_listeners(call.caller.owner, name)
    return Answer(event, () if is_heard else [warning("no_listener", event=name)])
