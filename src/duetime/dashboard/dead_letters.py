"""The page of dead letters: one entry for each problem, with actions on one, on some and on all that match."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from secrets import token_hex
from threading import Lock
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from duetime.dashboard.request import Form, Notice, PageRequest, notice_of
from duetime.dashboard.undo import RESTORE
from duetime.service.dead_letters import (
    MOST,
    Action,
    DeadLetterQuery,
    Dealt,
    Group,
    change_dead,
    ended_at,
    find_dead,
    group,
)
from duetime.service.errors import refuse, unwrap
from duetime.service.presenters import View, instant_view, run_shapes
from duetime.service.text import plural, whole_number

PLACE: Final = ("kind", "text", "show", "page")
DISMISSED: Final = "dismissed"
GROUPS: Final = 50
"""Problems on one page."""
RUNS: Final = 25
"""Runs of a problem that are listed one by one."""
_DONE: Final[dict[Action, str]] = {"retry": "requeued", "dismiss": "dismissed", "restore": "restored"}


class Refusals:
    """Why runs were refused, kept in this process for the page after the change: an address holds no text. Another
    process tells only their number."""

    most: Final = 200

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[str, tuple[str, ...]]] = OrderedDict()
        self._lock = Lock()

    def keep(self, session: str, reasons: Sequence[str]) -> str:
        key = token_hex(8)
        with self._lock:
            self._kept[key] = session, tuple(reasons)
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
        return key

    def find(self, session: str, key: str) -> tuple[str, ...]:
        whose, reasons = self._kept.get(key, ("", ()))
        return reasons if whose == session else ()


REFUSALS: Final = Refusals()


class Problem(NamedTuple):
    """A group of dead letters as the page shows it."""

    key: str
    latest: View
    number: int
    first: str | None
    last: str | None
    runs: list[View]


def dead_letters_page(request: PageRequest) -> Response:
    """Render what failed for good or was lost, until somebody retries or dismisses it; or what was dismissed."""
    specs, asked = request.call.services.specs, _asked(request)
    found = find_dead(request.call.services, request.caller, asked)
    groups = group(found)
    page = whole_number(request.parameter("page"), 6) or 1
    here = groups[(page - 1) * GROUPS : page * GROUPS]
    filters = request.encode_parameters("kind", "text", "show")
    return request.render(
        "dead_letters.html",
        problems=[_problem(request, each) for each in here],
        first_page=f"?{filters}" if page > 1 else None,
        next_page=f"?{filters}&page={page + 1}" if len(groups) > page * GROUPS else None,
        number=len(found),
        total=f"{len(found):,}" if len(found) < MOST else f"{MOST:,}+",
        dismissed=asked.dismissed,
        problem_number=len(groups),
        kind_asked=asked.kind or "",
        text=asked.text,
        kinds={name: spec.plural for name, spec in specs.items()},
        back=request.encode_parameters(*PLACE),
        notice=request.with_undo(_notice(request) or notice_of(request.http)),
    )


def _asked(request: PageRequest) -> DeadLetterQuery:
    kind = request.parameter("kind")
    return DeadLetterQuery(
        kind=kind if kind in request.call.services.specs else None,
        text=request.parameter("text"),
        dismissed=request.parameter("show") == DISMISSED,
    )


def _problem(request: PageRequest, each: Group) -> Problem:
    shapes = run_shapes(request.scheduler, each.runs[:RUNS], request.zone, brief=True)
    first, last = ended_at(each.runs[-1]), ended_at(each.latest)
    views = instant_view(first, request.zone), instant_view(last, request.zone)
    return Problem(each.key, shapes[0], len(each.runs), *views, shapes)


def change_dead_letters(request: PageRequest, form: Form) -> Response:
    """Retry, dismiss or restore: one problem (`one`), all that match (`all`), or what was selected (`action`)."""
    back = form.back(*PLACE)
    asked = DeadLetterQuery(kind=back.get("kind") or None, text=back.get("text", ""))
    one, _, key = form.get("one").partition(":")
    action = _action(one or form.get("all") or form.get("action"))
    groups = [key] if key else form.all("group")
    numbers = (whole_number(text, 18) for text in form.all("run"))
    ids = [id for id in dict.fromkeys(numbers) if id is not None]
    everything = bool(key or form.get("all"))
    if not (everything or groups or ids):
        return request.redirect("/dead-letters", **back, did="nothing")
    dealt = Dealt([], [], set())
    if everything or groups:
        dismissed = back.get("show") == DISMISSED
        asked = replace(asked, groups=[] if form.get("all") else groups, dismissed=dismissed)
        dealt = unwrap(change_dead(request.call.services, request.caller, asked, action))
    known = set(dealt.done)
    if single := [] if everything else [id for id in ids if id not in known]:
        more = unwrap(change_dead(request.call.services, request.caller, DeadLetterQuery(ids=single), action))
        dealt = Dealt(dealt.done + more.done, dealt.refused + more.refused, dealt.kinds | more.kinds)
    can_undo = action == "dismiss" and len(dealt.done) <= MOST
    undo = request.offer_undo(*((str(id), RESTORE) for id in dealt.done if can_undo))
    return request.redirect("/dead-letters", **back, **_result(request, action, dealt), **undo)


def _action(text: str) -> Action:
    for action in _DONE:
        if text == action:
            return action
    raise refuse("invalid", "choose what to do: retry, dismiss or restore")


def _result(request: PageRequest, action: Action, dealt: Dealt) -> dict[str, Any]:
    """Return the parameters that describe a result: known words, numbers and a key, never text."""
    result: dict[str, Any] = {"did": _DONE[action], "number": len(dealt.done)}
    if dealt.refused:
        reasons = REFUSALS.keep(request.session or "", dealt.reasons())
        result |= {"refused": len(dealt.refused), "reasons": reasons}
    return result


def _notice(request: PageRequest) -> Notice | None:
    """Return the notice about the last change: what was done, and one line for what was refused with the reason."""
    word, number = request.parameter("did"), whole_number(request.parameter("number"), 6)
    if word not in _DONE.values() or number is None:
        return None
    said = f"{plural(number, 'run')} {word}." if number else f"Nothing was {word}."
    refused = whole_number(request.parameter("refused"), 6)
    if not refused:
        return Notice(said)
    reasons = REFUSALS.find(request.session or "", request.parameter("reasons"))
    return Notice(f"{said} Not {word}: {', '.join(reasons) or plural(refused, 'run')}.", partly=True)
