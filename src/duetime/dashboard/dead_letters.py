"""The page of dead letters: one entry for each problem, with actions on one, on some and on all that match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple, get_args
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.lists import ListFilter, choice_of
from duetime.dashboard.request import Form, PageRequest
from duetime.service.operations.dead_letters import (
    MAX_NAMED,
    Action,
    ChangeDeadLetters,
    DeadLetterGroup,
    Dealt,
    ListDeadLetters,
    change_dead,
    ended_at,
    find_dead,
    group,
    plan_retry,
)
from duetime.service.operations.history import run_views
from duetime.service.presenters import View, instant_view
from duetime.service.text import Count, whole_number

DISMISSED: Final = "dismissed"
GROUPS: Final = 50
"""Problems on one page."""
RUNS: Final = 25
"""Runs of a problem that are listed one by one."""


class DeadLetterFilter(ListFilter):
    path = "/dead-letters"
    narrowing = ("kind", "text")
    names = (*narrowing, "show", "page")


class DeadLetterProblem(NamedTuple):
    """A group of dead letters as the page shows it."""

    key: str
    latest: View
    number: int
    first: str | None
    last: str | None
    runs: list[View]


def dead_letters_page(request: PageRequest) -> Response:
    """Render what failed for good or was lost, until somebody retries or resolves it; or what was resolved."""
    specs, chosen = request.call.services.specs, DeadLetterFilter(request)
    kind, dismissed = chosen.parameters["kind"], chosen.parameters["show"] == DISMISSED
    query = ListDeadLetters(kind=kind if kind in specs else None, text=chosen.parameters["text"], dismissed=dismissed)
    runs = find_dead(request.reader, query)
    groups = group(runs)
    page = whole_number(chosen.parameters["page"], 6) or 1
    return request.render(
        "dead_letters.html",
        problems=_problems(request, groups[(page - 1) * GROUPS : page * GROUPS]),
        first_page=chosen.address(page=None) if page > 1 else None,
        next_page=chosen.address(page=str(page + 1)) if len(groups) > page * GROUPS else None,
        total=Count(len(runs), len(runs) < MAX_NAMED),
        dismissed=dismissed,
        problem_number=len(groups),
        chosen=chosen,
        chosen_kind=query.kind or "",
        text=query.text,
        kinds={name: spec.plural for name, spec in specs.items()},
        back=urlencode(chosen.back),
    )


def _problems(request: PageRequest, groups: Sequence[DeadLetterGroup]) -> Iterator[DeadLetterProblem]:
    shapes = iter(run_views(request.reader, [run for each in groups for run in each.runs[:RUNS]], brief=True))
    for each in groups:
        first, last = ended_at(each.runs[-1]), ended_at(each.latest)
        views = instant_view(first, request.zone), instant_view(last, request.zone)
        rows = list(islice(shapes, len(each.runs[:RUNS])))
        yield DeadLetterProblem(each.key, rows[0], len(each.runs), *views, rows)


def change_dead_letters(request: PageRequest, form: Form) -> Response:
    """Retry, resolve or reopen: one problem (`one`), all that match (`all`), or what was selected (`action`). A retry
    of several runs at once is confirmed first."""
    chosen = DeadLetterFilter(request, form)
    back = chosen.back
    one, _, key = form.get("one").partition(":")
    action = choice_of(one or form.get("all") or form.get("action"), get_args(Action))
    change = ChangeDeadLetters(action=action, kind=back.get("kind") or None, text=back.get("text", ""))
    groups = [key] if key else form.all("group")
    ids = form.numbers("run")
    everything = bool(key or form.get("all"))
    if not (everything or groups or ids):
        return request.redirect("/dead-letters", **back, did="nothing")
    dealt = Dealt([], [])
    if everything or groups:
        dismissed = back.get("show") == DISMISSED
        change = replace(change, groups=[] if form.get("all") else groups, dismissed=dismissed)
        planned = plan_retry(request.call, change) if action == "retry" else []
        number = sum(each.number for each in planned)
        if number > 1 and form.get("sure") != str(number):  # by now, others may match
            return chosen.confirm(request, form, action, planned)
        dealt = change_dead(request.call, replace(change, every_run=bool(form.get("every_run")))).value
    known = set(dealt.done)
    if single := [] if everything else [id for id in ids if id not in known]:
        more = change_dead(request.call, ChangeDeadLetters(action=action, ids=single)).value
        dealt = Dealt(dealt.done + more.done, dealt.refused + more.refused)
    return chosen.redirect(request, action, dealt)
