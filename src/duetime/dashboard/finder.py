"""What the command palette finds: schedules by name, id and short id, runs by number, schedules by number, tags, and
messages about runs last."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import JSONResponse, Response

from duetime.dashboard.filters import visible
from duetime.dashboard.request import PageRequest, at
from duetime.engine.errors import DuetimeError
from duetime.service import lookup
from duetime.service.operations.history import ShowRun, run_views, show_run
from duetime.service.operations.schedules import ListSchedules, list_schedules, pages_of_schedules, schedule_views
from duetime.service.presenters import View, is_report
from duetime.service.vocabulary import Schedule, tags_of

MOST: Final = 8
"""Schedules that are answered, and messages."""
READ: Final = 40
"""Matching schedules among which those whose name begins with the text come first."""
PAGES_READ: Final = 2
"""Pages of 500 schedules, the newest, among which tags and similar names are looked for."""
SHORTEST: Final = 3
"""Letters of a word that may be misspelled."""
_RUN: Final = re.compile(r"(?:run\s*|#)?([0-9]{1,18})", re.IGNORECASE)
_WORDS: Final = re.compile(r"[^\W_]+")


def find(request: PageRequest) -> Response:
    """Answer what a text can mean, the best first. Each has a rank: `exact`, `similar` to a misspelled name, or `late`
    for a message about a run, which is rarely meant."""
    text = request.parameter("text")
    return JSONResponse({"results": _results(request, text) if text else []}, headers={"Cache-Control": "no-store"})


def _results(request: PageRequest, text: str) -> list[View]:
    living, all_ = _named(request, text, "living"), _named(request, text)
    start = text.lower()
    named = [sorted(group, key=lambda each: _distance(each.definition.name.lower(), start)) for group in (living, all_)]
    by_id, runs = _by_id(request, text), _runs(request, text)
    schedules = [*named[0], *(each for each in named[1] if not is_report(each.definition))]
    schedules = schedules if runs else [*by_id, *schedules]  # a number is rarely that of a schedule
    exact = list({each.definition.public_id: each for each in schedules}.values())[:MOST]
    numbered = [each for each in by_id if each not in exact]
    words, known = _WORDS.findall(text.lower()), {each.definition.id for each in (*exact, *numbered)}
    newest = _newest(request)
    others = (each for each in newest if each.definition.id not in known and not is_report(each.definition))
    similar = list(islice((each for each in others if is_similar(words, each.definition.name)), MOST - len(exact)))
    late = [each for each in all_ if is_report(each.definition)][:MOST]
    groups = (("exact", exact), ("exact", numbered), ("similar", similar), ("late", late))
    ranked = [(each, rank) for rank, group in groups for each in group]
    views = schedule_views(request.reader, [each for each, _ in ranked], brief=True)
    rows = [_schedule(view, each, rank) for view, (each, rank) in zip(views, ranked, strict=True)]
    return [*rows[: len(exact)], *runs, *rows[len(exact) :], *_tags(words, newest)]


def _distance(name: str, start: str) -> tuple[bool, bool]:
    """Return a key that sorts the name itself first, and then those that begin with it."""
    return name != start, not name.startswith(start)


def _named(request: PageRequest, text: str, status: str | None = None) -> list[Schedule]:
    query = ListSchedules(text=text[:200], status=status, limit=READ, count_to=0)
    return list(list_schedules(request.call, query).value.items)


def _by_id(request: PageRequest, text: str) -> list[Schedule]:
    """Return the schedule with this id, short id, number or name."""
    with suppress(DuetimeError):
        schedule = lookup.find(request.call, text)
        return [] if is_report(schedule.definition) and schedule.definition.name.lower() == text.lower() else [schedule]
    return []


def _newest(request: PageRequest) -> list[Schedule]:
    pages = pages_of_schedules(request.call, ListSchedules(follow_ups=False, limit=500, count_to=0))
    return [each for page in islice(pages, PAGES_READ) for each in page.items]


def _tags(words: Sequence[str], schedules: Sequence[Schedule]) -> list[View]:
    tags = {tag for each in schedules for tag in tags_of(each.definition.policy) if is_similar(words, tag)}
    address = "/schedules?view=all&tagged="
    return [_result(f"Tag {tag}", "", address + quote(tag, safe=""), "exact") for tag in sorted(tags)[:MOST]]


def is_similar(words: Sequence[str], name: str) -> bool:
    """Return whether every word is, or begins, a word of a name, with at most one letter wrong, missing or too many, or
    two letters exchanged."""
    parts = _WORDS.findall(name.lower())
    return bool(words) and all(any(_is_near(word, part) for part in parts) for word in words)


def _is_near(word: str, part: str) -> bool:
    if part.startswith(word):
        return True
    lengths = range(len(word) - 1, len(word) + 2)
    return len(word) >= SHORTEST and any(_has_one_mistake(word, part[:length]) for length in lengths)


def _has_one_mistake(word: str, part: str) -> bool:
    shorter = min(len(word), len(part))
    start = next((at for at in range(shorter) if word[at] != part[at]), shorter)
    end = next((at for at in range(shorter - start) if word[-1 - at] != part[-1 - at]), shorter - start)
    one, other = word[start : len(word) - end], part[start : len(part) - end]
    return max(len(one), len(other)) <= 1 or (len(one) == 2 and one == other[::-1])


def _schedule(view: View, schedule: Schedule, rank: str) -> View:
    detail = f"{schedule.definition.short_id} · {view['kind']} · {view['reads_as']}"
    return _result(view["name"], detail, at(view["id"]), rank)


def _runs(request: PageRequest, text: str) -> list[View]:
    match = _RUN.fullmatch(text)
    if match is None:
        return []
    with suppress(DuetimeError):
        number = int(match[1])
        [view] = run_views(request.reader, [show_run(request.call, ShowRun(run=number)).value], brief=True)
        return [_result(f"Run {number}", f"{view['status']} · {view['name']}", f"/runs/{number}", "exact")]
    return []


def _result(label: str, detail: str, address: str, rank: str) -> dict[str, Any]:
    return {"label": visible(label), "detail": visible(detail), "address": address, "rank": rank}
