"""How the command line names a kind of schedule, displays its schedules and finds one of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from duetime.engine.model import Definition, Schedule, ScheduleState
from duetime.engine.queries import could_be_an_id
from duetime.engine.store import ScheduleQuery
from duetime.service.errors import refuse
from duetime.service.services import OPERATOR, pages_of
from duetime.terminal.application import Application
from duetime.terminal.context import again

Payload = Mapping[str, Any]
Facts = Sequence[tuple[str, object]]


class KindView(NamedTuple):
    kind: str
    """Name in the engine."""
    command: str
    """Name of the command group, as it is typed."""
    plural: str
    headings: Sequence[str]
    cells: Callable[[Definition, Payload], Sequence[object]]
    """Return the cells under these headings in a list."""
    facts: Callable[[Definition, Payload], Facts]
    """Return what to show of a single schedule."""

    @property
    def noun(self) -> str:
        return self.kind


_HEADLINE = 60


def one_line(text: str) -> str:
    return " ".join(text[: 20 * _HEADLINE].split())


def headline(text: str) -> str:
    """Return the name that lists show for a text without a name of its own."""
    line = one_line(text)
    return line if len(line) <= _HEADLINE else f"{line[:_HEADLINE]}..."


def filled(payload: Payload, *names: str) -> Facts:
    """Return the fields that are not empty, texts and integers unchanged, others as JSON."""
    given = [(name, payload[name]) for name in names if payload.get(name) not in (None, [], {}, "")]
    return [
        (name, value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False))
        for name, value in given
    ]


PAGE = 1000
MOST_NAMED = 5
_BEGINNING = re.compile(r"(msg|scd)_[0-9a-f]{4,31}")
_OVER = frozenset({ScheduleState.ENDED, ScheduleState.CANCELLED})


def found_here(app: Application, view: KindView, given: str) -> Schedule:
    """Find a schedule in this store. For one that is kept externally, raise an error that names the usable commands."""
    external = app.services.hooks(view.kind).external()
    possible = () if external is None else external.actions(given)
    if external is None or not possible:
        return found(app, view, given)
    can = f"{', '.join(('list', *possible[:-1]))} and {possible[-1]}"
    raise refuse("not_possible", f"{given} is kept at {external.place}, and so is its history; {can} work there")


def found(app: Application, view: KindView, given: str) -> Schedule:
    """Find a schedule by its id, by a unique prefix of its id, or by its name."""
    schedule = app.scheduler.find(OPERATOR, given, view.kind)
    if schedule is not None:
        return schedule
    matching = list(_matching(app, view, given)) if could_be_an_id(given) else []
    living = [each for each in matching if each.progress.state not in _OVER]
    matching = living or matching
    if len(matching) == 1:
        return matching[0]
    shown = given if len(given) <= 60 else given[:60] + "..."
    if not matching:
        how = again(app, view.command, "list")
        raise refuse("not_found", f"there is no {view.noun} {shown!r}; {how} shows those there are")
    ids = ", ".join(each.definition.public_id for each in matching[:MOST_NAMED])
    more = " and others" if len(matching) > MOST_NAMED else ""
    raise refuse("invalid", f"{shown!r} could mean several {view.plural}; give the id: {ids}{more}")


def _matching(app: Application, view: KindView, given: str) -> Iterator[Schedule]:
    query = ScheduleQuery(kind=view.kind, limit=PAGE, count_to=0)
    by_id = _BEGINNING.fullmatch(given) is not None
    if not by_id and not given.strip():
        return
    for page in pages_of(app.scheduler.search, OPERATOR, query if by_id else replace(query, text=given)):
        for each in page.items:
            if each.definition.public_id.startswith(given) if by_id else each.definition.name == given:
                yield each
