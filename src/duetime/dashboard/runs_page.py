"""The list of runs: tabs by status with counts, filters that live in the address, and actions on all that match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.responses import Response

from duetime.dashboard.lists import ListFilter, choice_of
from duetime.dashboard.request import Form, PageRequest
from duetime.dashboard.run_page import actions_of
from duetime.engine.errors import DuetimeError
from duetime.service.errors import STORE_ERRORS
from duetime.service.operations.change_runs import CHANGEABLE, ChangeRuns, RunAction, change_runs, notes_of, plan_runs
from duetime.service.operations.declaration import Answer
from duetime.service.operations.history import (
    History,
    chosen_statuses,
    history_with_counts,
    run_views,
    sum_counts,
)
from duetime.service.presenters import View
from duetime.service.text import Count
from duetime.service.vocabulary import Page, Run

PAGE: Final = 50
TABS: Final = {
    "": "All",
    "running": "Running",
    "pending,queued,waiting": "Waiting",
    "completed": "Completed",
    "failed": "Failed",
    "missed": "Missed",
    "skipped": "Skipped",
    "cancelled": "Cancelled",
}
"""The statuses behind each tab, and its label. `failed` includes lost runs."""
_ATTRIBUTES: Final = {"from": "since", "to": "until"}


class RunFilter(ListFilter):
    path = "/runs"
    narrowing = ("schedule", "kind", "task", "tagged", "owner", "error", "from", "to", "longer_than", "shorter_than")
    names = ("status", *narrowing)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the request for these runs."""
        return {_ATTRIBUTES.get(name, name): value for name, value in self.parameters.items() if value}


def runs_page(request: PageRequest) -> Response:
    chosen = RunFilter(request)
    answer, problem, counts = Answer(Page[Run]([], None, 0)), "", dict[str, Count]()
    try:
        query = History(**chosen.fields(), limit=PAGE, cursor=chosen.cursor, count_to=0)
        answer, counts = history_with_counts(request.reader, query)
        within = chosen_statuses(query) or counts.keys()
    except DuetimeError as error:
        if error.code in STORE_ERRORS:
            raise
        problem, within = error.message, ()
    numbers = {status: counts[status].number for status in within if status in counts}
    return chosen.render(
        request,
        "runs.html",
        answer.value.cursor,
        rows=_rows(request, answer.value.items),
        tabs=_tabs(chosen, counts),
        total=sum_counts(counts[status] for status in numbers),
        problem=problem,
        notes=answer.notes,
        actions=_actions(numbers, chosen.parameters["status"]),
        api=f"/api/v1{chosen.address()}",
    )


def _actions(numbers: Mapping[str, int], status: str) -> list[RunAction]:
    """Return what can be done to all that match. Among all runs, those that somebody cancelled are not retried."""
    present = {each for each, number in numbers.items() if number and (status or each != "cancelled")}
    return [action for action, statuses in CHANGEABLE.items() if not present.isdisjoint(statuses)]


def _rows(request: PageRequest, runs: Sequence[Run]) -> list[View]:
    shapes = run_views(request.reader, runs, brief=True)
    for run, shape in zip(runs, shapes, strict=True):
        shape["may"] = [each for each in actions_of(run) if each != "retry" or not shape["schedule_deleted"]]
    return shapes


def _tabs(chosen: RunFilter, counts: Mapping[str, Count]) -> list[View]:
    return [
        {
            "label": label,
            "count": sum_counts(counts[each] for each in chosen_statuses(History(status=status or None)) or counts)
            if counts
            else "",
            "address": chosen.address(status=status),
            "current": status == chosen.parameters["status"],
        }
        for status, label in TABS.items()
    ]


def change_matching(request: PageRequest, form: Form) -> Response:
    """Retry, stop or resolve the selected runs, or all that match. Whatever cannot be undone is confirmed first, with a
    list by schedule."""
    chosen = RunFilter(request, form)
    back = chosen.back
    everything = form.get("all")
    action = choice_of(everything or form.get("action"), CHANGEABLE)
    matching = bool(everything or form.get("matching"))
    ids = form.numbers("run")
    if not (matching or ids):
        return request.redirect("/runs", **back, did="nothing")
    fields = {**chosen.fields(), "everything": True} if matching else {"ids": ids}
    change = ChangeRuns(**fields, action=action, every_run=bool(form.get("every_run")))
    planned = plan_runs(request.reader, change)
    number = sum(each.number for each in planned)
    if matching and not number:
        return request.redirect("/runs", **back, did="none")
    is_asked = matching or (number > 1 and action != "resolve")
    if is_asked and form.get("sure") != str(number):  # by now, others may match
        return chosen.confirm(request, form, action, planned, notes_of(request.reader, change))
    return chosen.redirect(request, action, change_runs(request.reader, change).value)
