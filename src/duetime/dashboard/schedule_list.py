"""The list of schedules: tabs with counts, filters, columns to sort by, pages, and actions on many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.kind_forms import form_of
from duetime.dashboard.notices import reasons_of
from duetime.dashboard.queries import first_steps
from duetime.dashboard.request import Form, PageRequest
from duetime.dashboard.timeline.charts import SPARKS, sparks
from duetime.dashboard.undo import reverse_of
from duetime.service.errors import refuse
from duetime.service.operations.change import ACTIONS
from duetime.service.operations.change_many import MAX_CHANGED, ChangeMany, change_many
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
from duetime.service.vocabulary import Schedule, ScheduleState

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
ORDERS: Final = ("next", "name", "-name", "last", "-last", "newest", "oldest")
MOST_CHOSEN: Final = 200
BUSY: Final = 20
"""Schedules that are shown above those that fire next, because a run of them is under way or they cannot fire."""
MOST_BUSY: Final = 500
"""Running schedules that are read in search of those."""
FILTERS: Final = ("view", "text", "kind", "status", "tagged", "owner", "order", "deliveries")
PLACE: Final = (*FILTERS, "cursor", "trail")
"""Parameters that lead back to the same list after a change."""
MOST_BACK: Final = 12
"""Pages that one can go back by; the first page can always be reached."""
BULK: Final = ("pause", "resume", "cancel")


class ListOptions(NamedTuple):
    """Options of the list as they were requested, with the defaults filled in."""

    parameters: dict[str, str]
    view: str
    order: str

    @property
    def filtered(self) -> bool:
        return any(self.parameters.get(name) for name in ("text", "kind", "status", "tagged", "owner"))

    def address(self, **changed: str | None) -> str:
        """Return the address of the list with other parameters; None leaves one out."""
        pairs = {**self.parameters, **changed}
        query = urlencode({name: value for name, value in pairs.items() if value})
        return f"/schedules?{query}" if query else "/schedules"


def options_of(request: PageRequest, parameters: Mapping[str, str]) -> ListOptions:
    known = {name: parameters.get(name, "") for name in FILTERS}
    known["owner"] = known["owner"] if request.caller.operator else ""  # only an operator sees those of others
    view = known["view"] if known["view"] in VIEWS else "all" if known["status"] else "active"
    usual = "next" if view == "active" and not known["status"] else "newest"
    order = known["order"] if known["order"] in ORDERS else usual
    if order == "next":  # only what is active fires next
        order = usual
    return ListOptions(known, view, order)


def query_of(options: ListOptions, view: str | None = None) -> ListSchedules:
    """Return the list of a tab, without order and place."""
    parameters = options.parameters
    return ListSchedules(
        owner=parameters["owner"] or None,
        kind=parameters["kind"] or None,
        status=parameters["status"] or VIEWS[view or options.view],
        text=parameters["text"] or None,
        tagged=parameters["tagged"].strip().lower() or None,
        follow_ups=bool(parameters["deliveries"]),
        limit=PAGE,
        count_to=COUNTED,
    )


def schedules_page(request: PageRequest) -> Response:
    options = options_of(request, {name: request.parameter(name) for name in FILTERS})
    cursor, trail = request.parameter("cursor"), request.parameter("trail")
    query = replace(query_of(options), order=options.order, cursor=cursor or None, count_to=0)
    page, _, notes = list_schedules(request.call, query)
    busy, is_cut = list[Schedule](), False
    if not cursor and options.order == "next":
        busy, is_cut = busy_schedules(request.call, query_of(options), BUSY, MOST_BUSY).value
    items = [*busy, *page.items]
    return request.render(
        "schedules.html",
        rows=_rows(request, items),
        more_busy=options.address(status="running", view=None, order=None) if is_cut else None,
        first_steps=None if items or options.filtered else first_steps(request),
        options=options,
        tabs=_tabs(request, options),
        total=_count(request, options, options.view),
        notes=notes,
        kinds=list(request.call.services.specs),
        statuses=STATUSES,
        columns=_columns(options),
        back=request.encode_parameters(*PLACE),
        **page_links(options.address, page.cursor, cursor, trail),
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


def _count(request: PageRequest, options: ListOptions, view: str) -> Count:
    page = list_schedules(request.call, replace(query_of(options, view), order="oldest", limit=1)).value
    return Count(page.total, page.total_exact)


def _tabs(request: PageRequest, options: ListOptions) -> list[View]:
    """Return the tabs with their counts. A status is a filter within all, so there it takes the place of the tabs."""
    if options.parameters["status"]:
        return []
    labels = {"active": "Active", "paused": "Paused", "done": "Done", "all": "All"}
    return [
        {
            "label": labels[view],
            "count": _count(request, options, view),
            "address": options.address(view="" if view == "active" else view, order=None),
            "current": view == options.view,
        }
        for view in VIEWS
    ]


def _columns(options: ListOptions) -> list[View]:
    """Return the headers; one that can be sorted by leads to that order, or to its reverse."""

    def column(label: str, first: str, second: str = "", *, wide: bool = False) -> View:
        target = second if options.order == first and second else first
        sorted_by = {first: "ascending", second: "descending"}.get(options.order) if first else None
        if first in ("last", "newest") and sorted_by:
            sorted_by = {"ascending": "descending", "descending": "ascending"}[sorted_by]
        address = options.address(order=target, cursor=None) if first else None
        return {"label": label, "address": address, "sorted": sorted_by, "wide": wide}

    next_order = "next" if options.view == "active" and not options.parameters["status"] else ""
    return [
        column("Name", "name", "-name"),
        column("Status", ""),
        column("Next", next_order),
        column("Last run", "last", "-last", wide=True),
        column("Last 30 runs", "", wide=True),
        column("Created", "newest", "oldest", wide=True),
    ]


def page_links(address: Callable[..., str], following: str | None, cursor: str, trail: str) -> dict[str, Any]:
    """Return the addresses of the pages of a list before and after this one. `address` returns that of the list with
    other parameters, and `trail` holds the cursors that led here."""
    before = [each for each in trail.split(".") if each]
    further = ".".join([*before, cursor][-MOST_BACK:]) if cursor else ""
    return {
        "next_page": None if following is None else address(cursor=following, trail=further or None),
        "previous_page": address(cursor=before[-1] if before else None, trail=".".join(before[:-1]))
        if cursor
        else None,
        "first_page": address() if len(before) > 1 else None,
        "page_number": len(before) + 2 if cursor else 1,
    }


def bulk(request: PageRequest, form: Form) -> Response:
    """Change the chosen schedules, or all that match the filter. Cancelling ends them, so it is confirmed first."""
    action, back = form.get("action"), form.back(*PLACE)
    if action not in BULK:
        raise refuse("invalid", "choose what to do: pause, resume or cancel")
    matching = bool(form.get("matching"))
    chosen = list(dict.fromkeys(form.all("id")))[:MOST_CHOSEN]
    ids = _matching(request, options_of(request, back)) if matching else chosen
    if not ids:
        return request.redirect("/schedules", **back, did="nothing")
    sure = form.get("sure")
    confirmed = sure == str(len(ids)) if matching else sure  # by now, others may match
    if action == "cancel" and not confirmed:
        schedules = [each for id in ids[:MOST_CHOSEN] if (each := find_exact(request.call, id)) is not None]
        rows = [schedule_shape(each, request.zone, brief=True) for each in schedules]
        number = len(ids) if matching else len(rows)
        return request.render("confirm_many.html", rows=rows, number=number, matching=matching, back=urlencode(back))
    before = {id: find_exact(request.call, id) for id in ids}
    if action == "pause":  # once more would take away the end and the note of the earlier pause
        ids = [id for id in ids if not _is_paused(before[id])]
        if not ids:
            return request.redirect("/schedules", **back, did="unchanged")
    changed = change_many(request.call, ChangeMany(action=action, ids=ids, is_confirmed=True)).value
    reverse = {each.definition.public_id: reverse_of(action, each) for each in before.values() if each}
    undo = request.offer_undo(*((id, reverse.get(id)) for id in _changed_ids(changed.matched, changed.failed)))
    result = request.outcome(ACTIONS[action], changed.changed, len(changed.failed), reasons_of(changed.failed))
    return request.redirect("/schedules", **back, **result, **undo)


def _matching(request: PageRequest, options: ListOptions) -> list[str]:
    """Return the ids of all schedules of a list, however many pages it has."""
    ids: list[str] = []
    for page in pages_of_schedules(request.call, replace(query_of(options), order="oldest", limit=500, count_to=0)):
        ids += [each.definition.public_id for each in page.items]
        if len(ids) > MAX_CHANGED:
            text = f"more than {MAX_CHANGED:,} match, and that many can be changed at once; narrow the list down first"
            raise refuse("invalid", text)
    return ids


def _is_paused(schedule: Schedule | None) -> bool:
    return schedule is not None and schedule.progress.state == ScheduleState.PAUSED


def _changed_ids(matched: Any, failed: Any) -> list[str]:
    refused = {str(each["id"]) for each in failed}
    return [str(each["id"]) for each in matched if str(each["id"]) not in refused]
