"""The list of schedules: tabs with counts, filters, columns to sort by, pages, and actions on many."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.kind_forms import form_of
from duetime.dashboard.lists import ListFilter, choice_of
from duetime.dashboard.notices import reasons_of
from duetime.dashboard.queries import first_steps
from duetime.dashboard.request import Form, PageRequest
from duetime.dashboard.timeline.charts import SPARKS, sparks
from duetime.dashboard.undo import reverse_of
from duetime.engine.errors import InvalidInput
from duetime.service.errors import refuse
from duetime.service.operations.change import ACTIONS, describe_end
from duetime.service.operations.change_many import MAX_CHANGED, ChangeMany, change_many
from duetime.service.operations.declaration import Answer
from duetime.service.operations.overview import busy_schedules, latest_traces
from duetime.service.operations.schedules import (
    ListSchedules,
    find_exact,
    list_schedules,
    pages_of_schedules,
    schedule_views,
)
from duetime.service.presenters import View, schedule_shape
from duetime.service.text import COUNTED, Count
from duetime.service.vocabulary import Page, Schedule, ScheduleState

PAGE: Final = 50
STATUSES: Final = {
    "pending": "scheduled",
    "running": "running",
    "paused": "paused",
    "failed": "failing or failed",
    "completed": "completed",
    "cancelled": "cancelled",
    "broken": "broken",
}
"""The statuses that can be asked for, in the words for people: a healthy schedule is not "pending" to them."""
VIEWS: Final = {"active": "active", "paused": "resting", "done": "over", "all": None}
"""The tabs, and the status of the query behind each."""
ORDERS: Final = ("name", "-name", "last", "-last", "newest", "oldest")
MOST_CHOSEN: Final = 200
BUSY: Final = 20
"""Schedules that are shown above those that fire next, because a run of them is under way or they cannot fire."""
MOST_BUSY: Final = 500
"""Running schedules that are read in search of those."""
BULK: Final = ("pause", "resume", "cancel")


class ScheduleFilter(ListFilter):
    """Options of the list as they were requested, with the defaults filled in."""

    path = "/schedules"
    narrowing = ("text", "kind", "status", "tagged", "owner")
    names = ("view", *narrowing, "order", "deliveries")

    @cached_property
    def view(self) -> str:
        view = self.parameters["view"]
        return view if view in VIEWS else "all" if self.parameters["status"] else "active"

    @cached_property
    def order(self) -> str:
        order, usual = self.parameters["order"], "next" if self.fires else "newest"
        return order if order in ORDERS else usual

    @property
    def fires(self) -> bool:
        """Whether it is a list of what is active, which alone fires next."""
        return self.view == "active" and not self.parameters["status"]


def query_of(chosen: ScheduleFilter, view: str | None = None) -> ListSchedules:
    """Return the list of a tab, without order and place."""
    parameters = chosen.parameters
    return ListSchedules(
        owner=parameters["owner"] or None,
        kind=parameters["kind"] or None,
        status=parameters["status"] or VIEWS[view or chosen.view],
        text=parameters["text"] or None,
        tagged=parameters["tagged"].strip().lower() or None,
        follow_ups=bool(parameters["deliveries"]),
        limit=PAGE,
        count_to=COUNTED,
    )


def schedules_page(request: PageRequest) -> Response:
    chosen = ScheduleFilter(request)
    query = replace(query_of(chosen), order=chosen.order, cursor=chosen.cursor, count_to=0)
    answer, tabs, problem = Answer(Page[Schedule]([], None, 0)), list[View](), ""
    busy, is_cut, total = list[Schedule](), False, Count(0)
    try:
        answer = list_schedules(request.call, query)
        if not chosen.cursor and chosen.order == "next":
            busy, is_cut = busy_schedules(request.call, query_of(chosen), BUSY, MOST_BUSY).value
        tabs = _tabs(request, chosen)
        counted = [tab["count"] for tab in tabs if tab["current"]]
        total = counted[0] if counted else _count(request, chosen, chosen.view)
    except InvalidInput as error:
        if error.field != "tagged":  # nothing else is typed that can be wrong
            raise
        problem = error.message
    items = [*busy, *answer.value.items]
    return chosen.render(
        request,
        "schedules.html",
        answer.value.cursor,
        rows=_rows(request, items),
        more_busy=chosen.address(status="running", view=None, order=None) if is_cut else None,
        first_steps=None if items or chosen.narrowed_by else first_steps(request),
        tabs=tabs,
        total=total,
        problem=problem,
        notes=answer.notes,
        statuses=STATUSES,
        columns=_columns(chosen),
    )


def _rows(request: PageRequest, items: list[Schedule]) -> list[tuple[View, Any]]:
    shapes = schedule_views(request.reader, items, brief=True)
    for item, shape in zip(items, shapes, strict=True):
        shape["paused"] = _is_paused(item)
        payload = shape["payload"] if isinstance(shape["payload"], dict) else {}
        shape["title"] = form_of(shape["kind"]).title_of(shape["name"], payload)
    traces = latest_traces(request.call, items, SPARKS)  # of all schedules, with one query
    drawn = (sparks(traces[each.definition.id], request.now, request.zone) for each in items)
    return list(zip(shapes, drawn, strict=True))


def _count(request: PageRequest, chosen: ScheduleFilter, view: str) -> Count:
    page = list_schedules(request.call, replace(query_of(chosen, view), order="oldest", limit=1)).value
    return Count(page.total, page.total_exact)


def _tabs(request: PageRequest, chosen: ScheduleFilter) -> list[View]:
    """Return the tabs with their counts. A status is a filter within all, so there it takes the place of the tabs."""
    if chosen.parameters["status"]:
        return []
    return [
        {
            "label": view.capitalize(),
            "count": _count(request, chosen, view),
            "address": chosen.address(view="" if view == "active" else view, order=None),
            "current": view == chosen.view,
        }
        for view in VIEWS
    ]


def _columns(chosen: ScheduleFilter) -> list[View]:
    """Return the headers; one that can be sorted by leads to that order, or to its reverse."""

    def column(label: str, first: str, second: str = "", *, wide: bool = False) -> View:
        target = second if chosen.order == first and second else first
        sorted_by = {first: "ascending", second: "descending"}.get(chosen.order) if first else None
        if first in ("last", "newest") and sorted_by:
            sorted_by = {"ascending": "descending", "descending": "ascending"}[sorted_by]
        address = chosen.address(order=target, cursor=None) if first else None
        return {"label": label, "address": address, "sorted": sorted_by, "wide": wide}

    return [
        column("Name", "name", "-name"),
        column("Status", ""),
        column("Next", "next" if chosen.fires else ""),
        column("Last run", "last", "-last", wide=True),
        column("Last 30 runs", "", wide=True),
        column("Created", "newest", "oldest", wide=True),
    ]


def bulk(request: PageRequest, form: Form) -> Response:
    """Change the chosen schedules, or all that match the filter. Cancelling ends them, so it is confirmed first."""
    action, chosen = choice_of(form.get("action"), BULK), ScheduleFilter(request, form)
    back = chosen.back
    matching = bool(form.get("matching"))
    ids = _matching(request, chosen) if matching else list(dict.fromkeys(form.all("id")))[:MOST_CHOSEN]
    if not ids:
        return request.redirect("/schedules", **back, did="nothing")
    sure = form.get("sure")
    confirmed = sure == str(len(ids)) if matching else sure  # by now, others may match
    if action == "cancel" and not confirmed:
        schedules = [each for id in ids[:MOST_CHOSEN] if (each := find_exact(request.call, id)) is not None]
        shape = partial(schedule_shape, zone=request.zone, brief=True)
        rows = [shape(each) | describe_end(request.reader, each, action) for each in schedules]
        number = len(ids) if matching else len(rows)
        return request.render("confirm_many.html", rows=rows, number=number, matching=matching, back=urlencode(back))
    before = {id: find_exact(request.call, id) for id in ids}
    if action == "pause":  # once more would take away the end and the note of the earlier pause
        ids = [id for id in ids if not _is_paused(before[id])]
        if not ids:
            return request.redirect("/schedules", **back, did="unchanged")
    changed = change_many(request.call, ChangeMany(action=action, ids=ids, is_confirmed=True)).value
    reverse = {each.definition.public_id: reverse_of(action, each) for each in before.values() if each}
    refused = {str(each["id"]) for each in changed.failed}
    ids = [id for each in changed.matched if (id := str(each["id"])) not in refused]
    undo = request.offer_undo(*((id, reverse.get(id)) for id in ids))
    result = request.outcome(ACTIONS[action], changed.changed, len(changed.failed), reasons_of(changed.failed))
    return request.redirect("/schedules", **back, **result, **undo)


def _matching(request: PageRequest, chosen: ScheduleFilter) -> list[str]:
    """Return the ids of all schedules of a list, however many pages it has."""
    ids: list[str] = []
    for page in pages_of_schedules(request.call, replace(query_of(chosen), order="oldest", limit=500, count_to=0)):
        ids += [each.definition.public_id for each in page.items]
        if len(ids) > MAX_CHANGED:
            text = f"more than {MAX_CHANGED:,} match, and that many can be changed at once; narrow the list down first"
            raise refuse("invalid", text)
    return ids


def _is_paused(schedule: Schedule | None) -> bool:
    return schedule is not None and schedule.progress.state == ScheduleState.PAUSED
