"""Finds a schedule by its id, by a unique prefix of its id, or by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from duetime.engine.model import Schedule, ScheduleState
from duetime.engine.queries import could_be_an_id
from duetime.engine.result import Err
from duetime.engine.store import ScheduleQuery
from duetime.engine.store_interfaces import Remote, RemoteKind
from duetime.kinds.notifications.remote import PLACE
from duetime.kinds.notifications.service import KIND as NOTIFICATION
from duetime.service.calls import LOCAL, Refused, taken
from duetime.terminal.context import again
from duetime.terminal.schedules.kind_view import Words

if TYPE_CHECKING:
    from duetime.app import App

PAGE = 1000
MOST_NAMED = 5
_BEGINNING = re.compile(r"(msg|scd)_[0-9a-f]{4,31}")
_OVER = frozenset({ScheduleState.ENDED, ScheduleState.CANCELLED})


def found_here(room: App, words: Words, given: str) -> Schedule:
    """Find a schedule in this store. For one that is kept externally, raise an error that names the usable commands."""
    remote = kept_elsewhere(room, words, given)
    if remote is None:
        return found(room, words, given)
    recurs = remote.kind == RemoteKind.SCHEDULE
    possible = ("list", "pause", "resume", "delete") if recurs else ("list", "delete")
    can = f"{', '.join(possible[:-1])} and {possible[-1]}"
    raise Refused(Err("not_possible", f"{given} is kept at {PLACE}, and so is its history; {can} work there"))


def kept_elsewhere(room: App, words: Words, given: str) -> Remote | None:
    may_be = room.remote is not None and words.kind == NOTIFICATION and could_be_an_id(given)
    return room.store.remote(given) if may_be else None


def found(room: App, words: Words, given: str) -> Schedule:
    schedule = room.scheduler.find(LOCAL, given, words.kind)
    if schedule is not None:
        return schedule
    matching = list(_matching(room, words, given)) if could_be_an_id(given) else []
    living = [each for each in matching if each.progress.state not in _OVER]
    matching = living or matching
    if len(matching) == 1:
        return matching[0]
    shown = given if len(given) <= 60 else given[:60] + "..."
    if not matching:
        how = again(room, words.room, "list")
        raise Refused(Err("not_found", f"there is no {words.noun} {shown!r}; {how} shows those there are"))
    ids = ", ".join(each.definition.public_id for each in matching[:MOST_NAMED])
    more = " and others" if len(matching) > MOST_NAMED else ""
    raise Refused(Err("invalid", f"{shown!r} could mean several {words.plural}; give the id: {ids}{more}"))


def _matching(room: App, words: Words, given: str) -> Iterator[Schedule]:
    if _BEGINNING.fullmatch(given):
        every = ScheduleQuery(kind=words.kind, limit=PAGE, count_to=0)
        yield from _searched(room, every, lambda each: each.definition.public_id.startswith(given))
    elif given.strip():
        named = ScheduleQuery(kind=words.kind, text=given, limit=PAGE, count_to=0)
        yield from _searched(room, named, lambda each: each.definition.name == given)


def _searched(room: App, query: ScheduleQuery, wanted: Callable[[Schedule], bool]) -> Iterator[Schedule]:
    while True:
        page = taken(room.scheduler.search(LOCAL, query))
        yield from filter(wanted, page.items)
        if page.cursor is None:
            return
        query = replace(query, cursor=page.cursor)
