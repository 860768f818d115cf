"""The list of runs: tabs by status with counts, filters that live in the address, and actions on all that match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.request import Form, PageRequest
from duetime.dashboard.run_page import RETRIED
from duetime.dashboard.schedule_list import page_links
from duetime.dashboard.undo import REOPEN
from duetime.engine.errors import DuetimeError
from duetime.service.errors import STORE_ERRORS, refuse
from duetime.service.operations.change_runs import ChangeRuns, RunAction, change_runs, plan_runs
from duetime.service.operations.dead_letters import MAX_NAMED, PlannedRetry
from duetime.service.operations.declaration import Answer
from duetime.service.operations.history import (
    History,
    chosen_statuses,
    history_with_counts,
    run_views,
    sum_counts,
)
from duetime.service.presenters import View
from duetime.service.text import Count, whole_number
from duetime.service.vocabulary import DISMISSABLE, LIVE, Page, Run

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
FILTERS: Final = ("schedule", "kind", "task", "tagged", "owner", "error", "from", "to", "longer_than", "shorter_than")
PLACE: Final = ("status", *FILTERS, "cursor", "trail")
"""Parameters that lead back to the same list after a change."""
_ATTRIBUTES: Final = {"from": "since", "to": "until"}
_DONE: Final[dict[RunAction, str]] = {"retry": "retried", "stop": "stopped", "resolve": "resolved"}
_NAMED: Final = 50
"""Schedules that a confirmation names."""


class RunFilter(NamedTuple):
    """The status and the filters of the list as they were requested."""

    parameters: dict[str, str]

    @property
    def is_narrow(self) -> bool:
        return any(self.parameters[name] for name in FILTERS)

    def address(self, **changed: str | None) -> str:
        """Return the address of the list with other parameters; None leaves one out."""
        pairs = {**self.parameters, **changed}
        query = urlencode({name: value for name, value in pairs.items() if value})
        return f"/runs?{query}" if query else "/runs"

    def fields(self) -> dict[str, Any]:
        """Return the fields of the request for these runs."""
        return {_ATTRIBUTES.get(name, name): value for name, value in self.parameters.items() if value}


def filter_of(request: PageRequest, parameters: Mapping[str, str]) -> RunFilter:
    known = {name: parameters.get(name, "") for name in ("status", *FILTERS)}
    known["owner"] = known["owner"] if request.caller.operator else ""  # only an operator sees those of others
    return RunFilter(known)


def runs_page(request: PageRequest) -> Response:
    chosen = filter_of(request, {name: request.parameter(name) for name in PLACE})
    cursor, trail = request.parameter("cursor"), request.parameter("trail")
    answer, problem, counts = Answer(Page[Run]([], None, 0)), "", dict[str, Count]()
    try:
        query = History(**chosen.fields(), limit=PAGE, cursor=cursor or None, count_to=0)
        answer, counts = history_with_counts(request.reader, query)
        within = chosen_statuses(query) or counts.keys()
    except DuetimeError as error:
        if error.code in STORE_ERRORS:
            raise
        problem, within = error.message, frozenset()
    numbers = {status: counts[status].number for status in within if status in counts}
    return request.render(
        "runs.html",
        rows=_rows(request, answer.value.items),
        chosen=chosen,
        filters=chosen.parameters,
        tabs=_tabs(chosen, counts),
        total=sum_counts(counts[status] for status in numbers),
        problem=problem,
        notes=answer.notes,
        actions=_actions(numbers, chosen.parameters["status"]),
        kinds=list(request.call.services.specs),
        api=f"/api/v1{chosen.address()}",
        back=request.encode_parameters(*PLACE),
        **page_links(chosen.address, answer.value.cursor, cursor, trail),
    )


_CHANGED: Final[dict[RunAction, Sequence[str]]] = {"retry": RETRIED, "stop": [*LIVE], "resolve": [*DISMISSABLE]}
"""The statuses of the runs that each action concerns."""


def _actions(numbers: Mapping[str, int], status: str) -> list[RunAction]:
    """Return what can be done to all that match. Among all runs, those that somebody cancelled are not retried."""
    present = {each for each, number in numbers.items() if number and (status or each != "cancelled")}
    return [action for action, statuses in _CHANGED.items() if not present.isdisjoint(statuses)]


def _rows(request: PageRequest, runs: Sequence[Run]) -> list[View]:
    shapes = run_views(request.reader, runs, brief=True)
    for run, shape in zip(runs, shapes, strict=True):
        is_marked = run.status in DISMISSABLE and bool(run.stop)
        shape["resolved"] = is_marked
        shape["may"] = [
            name
            for name, is_possible in (
                ("retry", run.status in RETRIED),
                ("cancel", run.status in LIVE and not run.stop),
                ("resolve", run.status in DISMISSABLE and not run.stop),
                ("reopen", is_marked),
            )
            if is_possible
        ]
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
    back = form.back(*PLACE)
    everything = form.get("all")
    action = _action(everything or form.get("action"))
    matching = bool(everything or form.get("matching"))
    numbers = (whole_number(text, 18) for text in form.all("run"))
    ids = [id for id in dict.fromkeys(numbers) if id is not None]
    if not (matching or ids):
        return request.redirect("/runs", **back, did="nothing")
    fields = filter_of(request, back).fields() if matching else {}
    every_run = bool(form.get("every_run"))
    change = ChangeRuns(**fields, action=action, ids=None if matching else ids, every_run=every_run)
    planned = plan_runs(request.reader, change)
    number = sum(each.number for each in planned)
    if matching and not number:
        return request.redirect("/runs", **back, did="none")
    is_asked = matching or (number > 1 and action != "resolve")
    if is_asked and form.get("sure") != str(number):  # by now, others may match
        return _confirm(request, form, action, planned)
    dealt = change_runs(request.reader, change).value
    can_undo = action == "resolve" and len(dealt.done) <= MAX_NAMED
    undo = request.offer_undo(*((str(id), REOPEN) for id in dealt.done if can_undo))
    result = request.outcome(_DONE[action], len(dealt.done), len(dealt.refused), dealt.reasons())
    return request.redirect("/runs", **back, **result, **undo)


def _confirm(request: PageRequest, form: Form, action: RunAction, planned: Sequence[PlannedRetry]) -> Response:
    return request.render(
        "confirm_retry.html",
        action=action,
        list="/runs",
        planned=planned,
        rows=run_views(request.reader, [each.newest for each in planned[:_NAMED]], brief=True),
        chosen=[(name, value) for name in ("all", "action", "matching", "run") for value in form.all(name)],
        back=form.get("back"),
    )


def _action(text: str) -> RunAction:
    for action in _DONE:
        if text == action:
            return action
    raise refuse("invalid", "choose what to do: retry, stop or resolve")
