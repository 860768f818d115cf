"""The page of dead letters: one entry for each problem, with actions on one, on some and on all that match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from starlette.responses import Response

from duetime.dashboard.request import Form, PageRequest
from duetime.dashboard.undo import REOPEN
from duetime.service.errors import refuse
from duetime.service.operations.dead_letters import (
    MAX_NAMED,
    Action,
    ChangeDeadLetters,
    DeadLetterGroup,
    Dealt,
    ListDeadLetters,
    PlannedRetry,
    change_dead,
    ended_at,
    find_dead,
    group,
    plan_retry,
)
from duetime.service.operations.history import run_views
from duetime.service.presenters import View, instant_view
from duetime.service.text import whole_number

PLACE: Final = ("kind", "text", "show", "page")
DISMISSED: Final = "dismissed"
GROUPS: Final = 50
"""Problems on one page."""
RUNS: Final = 25
"""Runs of a problem that are listed one by one."""
_DONE: Final[dict[Action, str]] = {
    "retry": "retried", "resolve": "resolved", "reopen": "reopened", "dismiss": "resolved", "restore": "reopened",
}  # fmt: skip


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
    specs, query = request.call.services.specs, _filter(request)
    runs = find_dead(request.reader, query)
    groups = group(runs)
    page = whole_number(request.parameter("page"), 6) or 1
    here = groups[(page - 1) * GROUPS : page * GROUPS]
    filters = request.encode_parameters("kind", "text", "show")
    return request.render(
        "dead_letters.html",
        problems=[_problem(request, each) for each in here],
        first_page=f"?{filters}" if page > 1 else None,
        next_page=f"?{filters}&page={page + 1}" if len(groups) > page * GROUPS else None,
        number=len(runs),
        total=f"{len(runs):,}" if len(runs) < MAX_NAMED else f"{MAX_NAMED:,}+",
        dismissed=query.dismissed,
        problem_number=len(groups),
        chosen_kind=query.kind or "",
        text=query.text,
        kinds={name: spec.plural for name, spec in specs.items()},
        back=request.encode_parameters(*PLACE),
    )


def _filter(request: PageRequest) -> ListDeadLetters:
    kind = request.parameter("kind")
    return ListDeadLetters(
        kind=kind if kind in request.call.services.specs else None,
        text=request.parameter("text"),
        dismissed=request.parameter("show") == DISMISSED,
    )


def _problem(request: PageRequest, each: DeadLetterGroup) -> DeadLetterProblem:
    shapes = run_views(request.reader, each.runs[:RUNS], brief=True)
    first, last = ended_at(each.runs[-1]), ended_at(each.latest)
    views = instant_view(first, request.zone), instant_view(last, request.zone)
    return DeadLetterProblem(each.key, shapes[0], len(each.runs), *views, shapes)


def change_dead_letters(request: PageRequest, form: Form) -> Response:
    """Retry, resolve or reopen: one problem (`one`), all that match (`all`), or what was selected (`action`). A retry
    of several runs at once is confirmed first."""
    back = form.back(*PLACE)
    one, _, key = form.get("one").partition(":")
    action = _action(one or form.get("all") or form.get("action"))
    change = ChangeDeadLetters(action=action, kind=back.get("kind") or None, text=back.get("text", ""))
    groups = [key] if key else form.all("group")
    numbers = (whole_number(text, 18) for text in form.all("run"))
    ids = [id for id in dict.fromkeys(numbers) if id is not None]
    everything = bool(key or form.get("all"))
    if not (everything or groups or ids):
        return request.redirect("/dead-letters", **back, did="nothing")
    dealt = Dealt([], [], set())
    if everything or groups:
        dismissed = back.get("show") == DISMISSED
        change = replace(change, groups=[] if form.get("all") else groups, dismissed=dismissed)
        planned = plan_retry(request.call, change) if action == "retry" else []
        number = sum(each.number for each in planned)
        if number > 1 and form.get("sure") != str(number):  # by now, others may match
            return _confirm(request, form, planned)
        dealt = change_dead(request.call, replace(change, every_run=bool(form.get("every_run")))).value
    known = set(dealt.done)
    if single := [] if everything else [id for id in ids if id not in known]:
        more = change_dead(request.call, ChangeDeadLetters(action=action, ids=single)).value
        dealt = Dealt(dealt.done + more.done, dealt.refused + more.refused, dealt.kinds | more.kinds)
    can_undo = _DONE[action] == "resolved" and len(dealt.done) <= MAX_NAMED
    undo = request.offer_undo(*((str(id), REOPEN) for id in dealt.done if can_undo))
    result = request.outcome(_DONE[action], len(dealt.done), len(dealt.refused), dealt.reasons())
    return request.redirect("/dead-letters", **back, **result, **undo)


def _confirm(request: PageRequest, form: Form, planned: Sequence[PlannedRetry]) -> Response:
    """Ask whether to retry these dead letters, with a list by schedule."""
    runs = [each.newest for each in planned[:GROUPS]]
    return request.render(
        "confirm_retry.html",
        action="retry",
        list="/dead-letters",
        planned=planned,
        rows=run_views(request.reader, runs, brief=True),
        chosen=[(name, value) for name in ("one", "all", "action", "group", "run") for value in form.all(name)],
        back=form.get("back"),
    )


def _action(text: str) -> Action:
    for action in _DONE:
        if text == action:
            return action
    raise refuse("invalid", "choose what to do: retry, resolve or reopen")
