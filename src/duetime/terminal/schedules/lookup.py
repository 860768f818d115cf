"""Finds a schedule by its id, by a unique prefix of its id, or by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from duetime.engine.model import Schedule, ScheduleState
from duetime.engine.queries import could_be_an_id
from duetime.engine.store import ScheduleQuery
from duetime.service.errors import refuse, unwrap
from duetime.service.services import OPERATOR
from duetime.terminal.application import Application
from duetime.terminal.context import again
from duetime.terminal.schedules.kind_view import KindView

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
    if _BEGINNING.fullmatch(given):
        every = ScheduleQuery(kind=view.kind, limit=PAGE, count_to=0)
        yield from _searched(app, every, lambda each: each.definition.public_id.startswith(given))
    elif given.strip():
        named = ScheduleQuery(kind=view.kind, text=given, limit=PAGE, count_to=0)
        yield from _searched(app, named, lambda each: each.definition.name == given)


def _searched(app: Application, query: ScheduleQuery, wanted: Callable[[Schedule], bool]) -> Iterator[Schedule]:
    while True:
        page = unwrap(app.scheduler.search(OPERATOR, query))
        yield from filter(wanted, page.items)
        if page.cursor is None:
            return
        query = replace(query, cursor=page.cursor)
