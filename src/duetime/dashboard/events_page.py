"""The events that arrived, with what they started."""

from __future__ import annotations

from starlette.responses import Response

from duetime.dashboard.request import PageRequest
from duetime.service.masking import masked
from duetime.service.operations.emit import RecentEvents, recent_events
from duetime.service.presenters import View, instant_view
from duetime.service.text import whole_number
from duetime.service.vocabulary import ENDED, EventRow, Run, json_object

_SHOWN = 300
"""Maximum number of characters of an event's data in the list."""


def events_page(request: PageRequest) -> Response:
    name, before = request.parameter("name") or None, whole_number(request.parameter("before"), 18)
    query = RecentEvents(before=before, name=name)
    rows = [_view(request, *each) for each in recent_events(request.reader, query).value]
    return request.render("events.html", rows=rows, name=name, more=len(rows) == query.limit)


def _view(request: PageRequest, event: EventRow, runs: list[Run]) -> View:
    text, about = masked(event.data), json_object(event.data) or {}
    end = f"end of {masked(str(about.get('name')))}, which {about.get('status')}"
    return {
        "id": event.id,
        "name": event.name,
        "end": end if event.name.startswith(ENDED) else None,
        "owner": event.owner,
        "at": instant_view(event.at, request.zone),
        "data": f"{text[:_SHOWN]}…" if len(text) > _SHOWN else text,
        "runs": [{"id": run.id, "name": masked(run.name), "status": run.status} for run in runs],
        "waits": event.reached is not None,
    }
