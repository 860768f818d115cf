"""Events: one is sent, and every schedule of the owner that listens to it runs; those that arrived are listed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

from duetime.engine.encoding import encode_whole
from duetime.engine.errors import DuetimeError
from duetime.engine.model import (
    ENDED,
    MAX_EVENT_NAME_LENGTH,
    EventRow,
    Run,
    RunStatus,
    Schedule,
    ScheduleId,
    ScheduleState,
)
from duetime.engine.value_class import dataclass
from duetime.service import MOST_SECONDS
from duetime.service.lookup import name_of
from duetime.service.masking import masked
from duetime.service.operations.declaration import Answer, Field, OperationRequest
from duetime.service.operations.waiting import waited_for, why_not_started
from duetime.service.services import Call
from duetime.service.warnings import declare, warning

_MAX_RUNS = 10
declare(no_listener='No schedule listens to {event} yet; create one with when "on {event}".')
_MAX_ROWS = 20
_MAX_RUNS_WAITED_FOR = 1_000
is_over = attrgetter("value.ended")
"""Returns whether what an event started has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitEvent(OperationRequest):
    """Something that happened."""

    event: Annotated[str, Field("Such as deploy.done; a run sends only agent.*.", max_length=MAX_EVENT_NAME_LENGTH)]
    data: Annotated[Any, Field("Any JSON, at most 256 KiB, for the runs that it starts.")] = None
    idempotency_key: Annotated[str | None, Field("A name is sent once per key.", max_length=200)] = None
    wait_seconds: Annotated[float, Field("Wait until its runs end; default 0.", minimum=0, maximum=MOST_SECONDS)] = 0


class EventEffect(NamedTuple):
    event_id: int
    duplicate: bool
    """Whether an event with its key was sent before, which has this number."""
    runs: Sequence[Run] = ()
    """At most 20 of the runs that it caused, those that failed first, if the sender waited for them."""
    ended: bool = False
    """Whether all of them have ended, and none is still to come."""
    reason: str | None = None
    """Why not."""


def emit(call: Call, request: EmitEvent) -> Answer[EventEffect]:
    """Store an event. From then on, it is not lost: workers start a run of every schedule that listens to it. Notes say
    which these are. Interfaces wait for the runs with `look_at_runs`."""
    sent = call.scheduler.emit(call.caller, request.event, request.data, request.idempotency_key)
    effect = EventEffect(*sent)
    with suppress(DuetimeError):  # it is stored, whether or not the store can be reached at this moment
        listeners = call.scheduler.store.listeners_of(call.caller.owner, request.event, _MAX_ROWS)
        if not listeners:
            return Answer(effect._replace(ended=not effect.duplicate), [warning("no_listener", event=request.event)])
        return Answer(effect, notes=() if effect.duplicate else [_name_starts(call, listeners, request.data)])
    return Answer(effect)


def _name_starts(call: Call, listeners: Sequence[Schedule], data: Any) -> str:
    from duetime.engine.triggers.build import readable
    from duetime.engine.triggers.event import EventTrigger, values_of

    look_up, names = values_of(json.loads(encode_whole(data))), []
    for definition, progress in listeners:
        trigger = readable(definition.trigger) if progress.state == ScheduleState.ACTIVE else None
        if isinstance(trigger, EventTrigger) and trigger.matches(look_up) and call.sees(definition):
            names.append(masked(name_of(definition)))
    names += ["others that listen"] if len(listeners) == _MAX_ROWS else []
    if not names:
        return "It starts nothing: what listens is paused, or its conditions do not hold."
    return f"It starts: {', '.join(names)}."


def look_at_runs(call: Call, sent: Answer[EventEffect]) -> Answer[EventEffect]:
    """Return an event with the runs that it has caused until now."""
    with suppress(DuetimeError):
        event = call.scheduler.store.event(sent.value.event_id)
        runs = [] if event is None else call.scheduler.store.runs_of_event(event, _MAX_RUNS_WAITED_FOR + 1)
        reason: str | None
        if event is not None and event.reached is not None:
            reason = why_not_started(call)
        elif len(runs) > _MAX_RUNS_WAITED_FOR:
            reason = f"it started more than {_MAX_RUNS_WAITED_FOR:,} runs, which are too many to wait for"
        else:
            reason = next(filter(None, (waited_for(call, run)["reason"] for run in runs)), None)
        seen = sorted(filter(call.sees, runs), key=lambda run: run.status not in (RunStatus.FAILED, RunStatus.LOST))
        return sent._replace(value=sent.value._replace(runs=seen[:_MAX_ROWS], ended=reason is None, reason=reason))
    return sent


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentEvents(OperationRequest):
    """Events, the latest first."""

    before: Annotated[int | None, Field("Only older ones than this number.")] = None
    name: Annotated[str | None, Field("Only those with this name.", max_length=MAX_EVENT_NAME_LENGTH)] = None
    limit: Annotated[int, Field("Maximum number of events.", minimum=1, maximum=100)] = 30


def recent_events(call: Call, request: RecentEvents) -> Answer[list[tuple[EventRow, list[Run]]]]:
    """Return events, each with the first runs that it started. The ends of runs that the caller may not read are left
    out, because their results are in them."""
    store, owner = call.scheduler.store, None if call.caller.operator else call.caller.owner
    events = store.events_of(owner, request.limit, request.before or 0, request.name)
    if call.caller.scopes or call.kinds:
        events = [event for event in events if _may_read(call, event)]
    return Answer([(event, list(filter(call.sees, store.runs_of_event(event, _MAX_RUNS)))) for event in events])


def _may_read(call: Call, event: EventRow) -> bool:
    ended = event.name.removeprefix(ENDED)
    schedule = None if ended == event.name else call.scheduler.store.get(ScheduleId(int(ended)))
    return ended == event.name or (schedule is not None and call.sees(schedule.definition))
